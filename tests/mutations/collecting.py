"""Mutants of garbage collection and of the dedup table."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.mutant import COLLECTION, INSIDE, LIVENESS, ORDER, InCampaign, InScenario, Mutant
from tests.mutations.recovering import NOT_STICKY

from braidcast.protocols.parts.dedup import DedupTable
from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.collection import Collection
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.ordering import Ordering
from braidcast.protocols.whitebox.process import WhiteBox
from braidcast.protocols.whitebox.recovery import Recovery
from braidcast.protocols.whitebox.state import State

NO_FLOOR = Edit(Collection.collect, "floor = min(floor, self.durably_applied())", "floor = self.durably_applied()")
NO_RULE_B = Edit(Collection.collect, "min([floor, *(self.stable.get(g, 0) for g in dest if g != self.group)])", "floor")
NO_TOMBSTONE = Edit(
    Collection.trim, "        del self.entries[entry.id]\n",
    "        del self.entries[entry.id]\n"
    "        self.dedup.sessions[entry.id[:2]].delivered.pop(entry.id[2], None)\n",
)  # fmt: skip
NO_SNAPSHOT = Edit(CatchingUp.resend_after, "if gts < self.collected:", "if False:")

COLLECTING = [
    Mutant(
        "1.3-told",
        "durable_before_it_is",
        "A process says how far its deliveries are durable without waiting for their marks.",
        (Edit(Collection.tell_applied, "self.persist(Told(gts))", "pass"),),
        killer=InCampaign("crashes", 0),
        violates=INSIDE,
    ),
    Mutant(
        "1.3-own",
        "counts_itself_before_it_is",
        "A leader counts its own deliveries as durable without waiting for their marks.",
        (Edit(Collection.collect_as_leader, "self.tell_applied()", "self.durably_applied()"),),
        killer=InCampaign("crashes", 0),
        violates=INSIDE,
    ),
    Mutant(
        "1.3-ack",
        "acknowledged_before_it_is_recorded",
        "An ACCEPT_ACK is put out before the record that it rests on, so that it does not wait for it.",
        (
            Edit(
                Ordering.acknowledge,
                "    behind = self.clock < entry.bound >> GROUP_BITS\n",
                "    self.send(leaders_of(vector), AcceptAck(entry.id, self.group, vector))\n"
                "    behind = self.clock < entry.bound >> GROUP_BITS\n",
            ),
        ),
        killer=InCampaign("crashes", 0),
        violates=INSIDE,
    ),
    Mutant(
        "18-local",
        "local_without_tombstones",
        "Each process forgets what its own application has, the id too.",
        (NO_FLOOR, NO_RULE_B, NO_TOMBSTONE),
        killer=InCampaign("calm", 1),
        violates=COLLECTION,
    ),
    Mutant(
        "18-local-tombstones",
        "local_with_tombstones",
        "Each process collects what its own application has; ids stay.",
        (NO_FLOOR, NO_RULE_B),
        killer=InCampaign("calm", 1),
        violates=COLLECTION,
    ),
    Mutant(
        "18-own-group",
        "own_group_only",
        "Rule (b) is left out: what all of the own group have is collected.",
        (NO_RULE_B,),
        killer=InCampaign("calm", 2),
        violates=COLLECTION,
    ),
    Mutant(
        "18-own-quorum",
        "own_quorum_without_snapshot",
        "Rule (a) is a quorum of the own group, and who lacks what is collected gets no snapshot.",
        (
            Edit(
                Collection.collect_as_leader,
                "if self.retains_too_much():",
                "if True:",
            ),
            NO_SNAPSHOT,
        ),
        killer=InCampaign("crashes", 0),
        violates=LIVENESS,
    ),
    Mutant(
        "18-bytes",
        "laggard_bytes_ignored",
        "Only the number of messages that wait for a slow member counts, however large they are.",
        (Edit(Collection.retains_too_much, " or self.retained_bytes > options.laggard_bytes", ""),),
        killer=InScenario("large_messages_for_a_laggard"),
    ),
    Mutant(
        "18-bytes-down",
        "collected_bytes_still_count",
        "What was collected still counts as waiting for a slow member.",
        (Edit(Collection.trim, "        self.retained_bytes -= len(entry.body.payload)\n", ""),),
        killer=InScenario("large_messages_before_a_laggard"),
    ),
    Mutant(
        "18-bytes-anew",
        "replaced_bytes_still_count",
        "What a snapshot replaced still counts as waiting for a slow member.",
        (
            Edit(
                CatchingUp.redo_transferred, "self.log_dead, self.retained_bytes = [], {}, 0, 0",
                "self.log_dead = [], {}, 0",
            ),
        ),
        killer=InScenario("large_messages_before_a_snapshot"),
    ),
    Mutant(
        "18-b2",
        "collection_without_b2",
        "Collection is as it should be, but COMMITTED is not sticky (B2).",
        (NOT_STICKY, Edit(Recovery.merge_votes, "known.phase == COMMITTED or ", "")),
        killer=InScenario("committed_is_sticky"),
    ),
    Mutant(
        "18-floor",
        "floor_ignored",
        "Rule (a) is left out: laggards are not waited for, whatever the limit.",
        (NO_FLOOR,),
        killer=InCampaign("losses", 24),
        violates=LIVENESS,
    ),
    Mutant(
        "18-durable",
        "own_effects_ignored",
        "A process collects what its own application has not made durable.",
        (
            Edit(
                Collection.collect,
                "floor = min(floor, self.durably_applied())",
                "floor = min(floor, self.max_delivered_gts)",
            ),
        ),
        killer=InScenario("collected_before_durable"),
    ),
    Mutant(
        "18-report",
        "report_before_durable",
        "A process reports what it delivered, durable or not.",
        (
            Edit(
                Collection.durably_applied,
                "return min(applied, self.max_delivered_gts)",
                "return self.max_delivered_gts",
            ),
        ),
        killer=InCampaign("crashes", 0),
        violates=COLLECTION,
    ),
    Mutant(
        "18-stable",
        "stable_by_one",
        "What one process has durably is called stable.",
        (Edit(Collection.collect_as_leader, "min(marks[self.quorum - 1], self.applied[self.me])", "marks[0]"),),
        killer=InCampaign("crashes", 2),
        violates=COLLECTION,
    ),
    Mutant(
        "18-stable-leader",
        "stable_beyond_the_leader",
        "What a quorum has is stable, although the leader lacks it.",
        (
            Edit(
                Collection.collect_as_leader,
                "min(marks[self.quorum - 1], self.applied[self.me])",
                "marks[self.quorum - 1]",
            ),
        ),
        killer=InScenario("stable_beyond_the_leader"),
    ),
    Mutant(
        "18-stable-back",
        "stable_goes_back",
        "A later and lower STABLE replaces the one before.",
        (Edit(State.learn_stable, "if gts > self.stable.get(group, 0):", "if True:"),),
        survives="A lower STABLE was true as well: a late retry would have to come right behind one that is late, too.",
    ),
    Mutant(
        "18-stable-stranger",
        "stable_from_a_stranger",
        "STABLE counts from a process of another group.",
        (
            Edit(
                Collection.on_stable,
                "if self.home.get(sender) != s.group or leader_of(s.ballot) != sender:",
                "if False:",
            ),
        ),
        redundant=True,
        survives="Processes speak only for their own group; the guard is against strangers.",
    ),
    Mutant(
        "18-answer",
        "stable_unanswered",
        "A leader does not answer who asks what is stable.",
        (Edit(Collection.on_stable, "if s.asks and self.status is LEADER:", "if False:"),),
        killer=InScenario("stable_is_answered"),
    ),
    Mutant(
        "18-asks-all",
        "stable_to_everybody",
        "STABLE goes to groups with which nothing is shared.",
        (
            Edit(
                Collection.ask_for_stability,
                "{g for dest, retained in self.retained.items() if retained for g in dest if g != self.group}",
                "{g for g in range(len(self.topology.groups)) if g != self.group}",
            ),
        ),
        killer=InScenario("disjoint_groups"),
    ),
    Mutant(
        "18-applied-lost",
        "marks_survive_leading",
        "A new leader counts marks that it was told in an earlier ballot.",
        (Edit(Election.begin_to_beat, "    self.applied = {}\n", ""),),
        redundant=True,
        survives="Durable marks never go back, so old ones are true, only lower.",
    ),
    Mutant(
        "18-order",
        "collects_out_of_order",
        "More than the limit allows is collected.",
        (Edit(Collection.trim, "retained[count].gts <= limit", "retained[count].gts <= limit + (3 << 10)"),),
        killer=InCampaign("elections", 0),
        violates=COLLECTION,
    ),
    Mutant(
        "18-collected",
        "collected_not_noted",
        "A process does not know up to where its log is collected.",
        (Edit(Collection.trim, "    self.collected = max(self.collected, entry.gts)\n", "    pass\n"),),
        killer=InCampaign("laggards", 0),
        violates=ORDER,
    ),
    Mutant(
        "18-vote",
        "vote_for_who_lacks_the_collected",
        "A candidate that lacks what the voter has collected gets the vote.",
        (
            Edit(Recovery.on_new_leader, " or n.gts < self.collected", ""),
            Edit(Election.on_pre_vote, "p.gts >= self.collected and ", ""),
        ),
        killer=InCampaign("relays", 1),
        violates=ORDER,
    ),
    Mutant(
        "22",
        "duplicates_are_new",
        "The dedup table is not consulted: a duplicate of what is collected is ordered again.",
        (Edit(Ordering.may_propose, "if delivered_at is not None and", "if False and"),),
        killer=InScenario("duplicate_after_collection"),
    ),
    Mutant(
        "22-mark",
        "complete_below_ignored",
        "The client's word that all below is complete is taken for `never seen`.",
        (Edit(DedupTable.delivered_at, "found = session.find(id[2])", "found = session.delivered.get(id[2])"),),
        killer=InCampaign("laggards", 0),
        violates=ORDER,
    ),
    Mutant(
        "22-checkpoint",
        "checkpoint_without_dedup",
        "A checkpoint forgets the dedup table.",
        (Edit(WhiteBox.redo_checkpoint, "    self.dedup.load(r.dedup)\n", ""),),
        killer=InCampaign("relays", 6),
        violates=ORDER,
    ),
    Mutant(
        "22-leader",
        "leader_is_refused_as_a_client",
        "The leader of another group is refused because the client's session is expired here.",
        (Edit(Ordering.may_propose, "if is_asked is None and self.dedup", "if self.dedup"),),
        killer=InScenario("session_expires_in_one_group"),
    ),
    Mutant(
        "22-everywhere",
        "expires_without_laggards",
        "The table of an expired session goes although a member that is behind may hold something of it as ACCEPTED.",
        (Edit(Collection.on_sweep, "self.dedup.bury(self.everywhere)", "self.dedup.bury(1 << 62)"),),
        killer=InScenario("expired_tombstone_in_a_vote"),
    ),
    Mutant(
        "22-late",
        "late_retry_is_believed",
        "A leader of another group is believed whatever it says, and however late.",
        (Edit(Ordering.on_retry, "is_asked=not self.is_late(group, r.ballot, r.lts)", "is_asked=True"),),
        killer=InScenario("late_retry_of_the_expired"),
    ),
    Mutant(
        "22-late-ballot",
        "late_by_timestamp_only",
        "The retry of a deposed leader is late only if its timestamp is below what is stable.",
        (Edit(State.is_late, "b < self.stable_in.get(group, 0) or ", ""),),
        killer=InScenario("late_retry_above_what_is_stable"),
    ),
    Mutant(
        "22-late-timestamp",
        "late_by_ballot_only",
        "A retry is late only if its leader is deposed.",
        (Edit(State.is_late, " or lts <= self.stable.get(group, 0)", ""),),
        killer=InScenario("late_retry_in_one_ballot"),
    ),
    Mutant(
        "22-late-log",
        "stability_is_not_kept",
        "A restart forgets up to where other groups had delivered what was collected.",
        (Edit(Collection.redo_trimmed, "    self.learn_stable(r.stable)\n", ""),),
        killer=InScenario("late_retry_in_one_ballot"),
    ),
    Mutant(
        "22-late-checkpoint",
        "checkpoint_without_stability",
        "A checkpoint forgets up to where other groups had delivered what was collected.",
        (Edit(WhiteBox.redo_checkpoint, "    self.learn_stable(r.stable)\n", ""),),
        killer=InScenario("late_retry_after_a_checkpoint"),
    ),
]
