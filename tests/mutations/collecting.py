"""Mutants of garbage collection, catch-up, snapshots, dedup and redelivery."""

from __future__ import annotations

from braidcast.protocols.parts.dedup import DedupTable
from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.collection import Collection
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.ordering import Ordering
from braidcast.protocols.whitebox.process import WhiteBox
from braidcast.protocols.whitebox.recovery import Recovery
from tests.mutations.edits import Edit
from tests.mutations.explorations import ONE_ELECTION
from tests.mutations.mutant import InCampaign, InScenario, Mutant
from tests.mutations.recovering import NOT_STICKY

NO_FLOOR = Edit(Collection.collect, "floor = min(floor, self.durably_applied())", "floor = self.durably_applied()")
NO_RULE_B = Edit(
    Collection.collect, "min([floor, *(self.stable.get(g, 0) for g in dest if g != self.group)])", "floor"
)
NO_TOMBSTONE = Edit(
    Collection.trim, "        del self.entries[entry.id]\n",
    "        del self.entries[entry.id]\n"
    "        self.dedup.sessions[entry.id[:2]].delivered.pop(entry.id[2], None)\n",
)  # fmt: skip
NO_SNAPSHOT = Edit(CatchingUp.resend_after, "if gts < self.collected:", "if False:")
TABLE_NOW = Edit(
    CatchingUp.on_snapshot, "gts, known, dedup, collected = self.snapshot_base",
    "gts, known, dedup, collected = self.snapshot_base; dedup = self.dedup.export()",
)  # fmt: skip

COLLECTING = [
    Mutant(
        "18-local", "local_without_tombstones", "Each process forgets what its own application has, the id too.",
        (NO_FLOOR, NO_RULE_B, NO_TOMBSTONE),
        killer=InCampaign("calm", 0),
        violates=("collected_here_is_stable_elsewhere",),
    ),
    Mutant(
        "18-local-tombstones", "local_with_tombstones", "Each process collects what its own application has; ids stay.",
        (NO_FLOOR, NO_RULE_B),
        killer=InCampaign("calm", 0),
        violates=("collected_here_is_stable_elsewhere",),
    ),
    Mutant(
        "18-own-group", "own_group_only", "Rule (b) is left out: what all of the own group have is collected.",
        (NO_RULE_B,),
        killer=InCampaign("calm", 0),
        violates=("collected_here_is_stable_elsewhere",),
    ),
    Mutant(
        "18-own-quorum", "own_quorum_without_snapshot",
        "Rule (a) is a quorum of the own group, and who lacks what is collected gets no snapshot.",
        (
            Edit(Collection.collect_as_leader, "if len(self.delivered_log) - self.log_dead > self.options.laggard_entries:", "if True:"),
            NO_SNAPSHOT,
        ),
        killer=InCampaign("crashes", 0),
        violates=("termination",),
    ),
    Mutant(
        "18-b2", "collection_without_b2", "Collection is as it should be, but COMMITTED is not sticky (B2).",
        (NOT_STICKY, Edit(Recovery.merge_votes, "known.phase == COMMITTED or ", "")),
        killer=InCampaign("storms", 1),
        violates=("no_duplicates", "gts_increases", "one_order",),
    ),
    Mutant(
        "18-floor", "floor_ignored", "Rule (a) is left out: laggards are not waited for, whatever the limit.",
        (NO_FLOOR,),
    ),
    Mutant(
        "18-durable", "own_effects_ignored", "A process collects what its own application has not made durable.",
        (Edit(Collection.collect, "floor = min(floor, self.durably_applied())", "floor = min(floor, self.max_delivered_gts)"),),
    ),
    Mutant(
        "18-report", "report_before_durable", "A process reports what it delivered, durable or not.",
        (Edit(Collection.durably_applied, "return min(applied, self.max_delivered_gts)", "return self.max_delivered_gts"),),
        killer=InCampaign("crashes", 0),
        violates=("durable_reports_are_true",),
    ),
    Mutant(
        "18-stable", "stable_by_one", "What one process has durably is called stable.",
        (Edit(Collection.collect_as_leader, "min(marks[self.quorum - 1], self.applied[self.me])", "marks[0]"),),
        killer=InCampaign("crashes", 0),
        violates=("stable_reports_are_true",),
    ),
    Mutant(
        "18-stable-leader", "stable_beyond_the_leader", "What a quorum has is stable, although the leader lacks it.",
        (Edit(Collection.collect_as_leader, "min(marks[self.quorum - 1], self.applied[self.me])", "marks[self.quorum - 1]"),),
    ),
    Mutant(
        "18-stable-back", "stable_goes_back", "A later and lower STABLE replaces the one before.",
        (Edit(Collection.on_stable, "if s.gts > self.stable.get(s.group, 0):", "if True:"),),
    ),
    Mutant(
        "18-stable-stranger", "stable_from_a_stranger", "STABLE counts from a process of another group.",
        (Edit(Collection.on_stable, "if self.home.get(sender) != s.group:", "if False:"),),
        redundant=True, survives="Processes speak only for their own group; the guard is against strangers.",
    ),
    Mutant(
        "18-answer", "stable_unanswered", "A leader does not answer who asks what is stable.",
        (Edit(Collection.on_stable, "if s.asks and self.status is LEADER:", "if False:"),),
    ),
    Mutant(
        "18-asks-all", "stable_to_everybody", "STABLE goes to groups with which nothing is shared.",
        (
            Edit(
                Collection.ask_for_stability,
                "{g for dest, retained in self.retained.items() if retained for g in dest if g != self.group}",
                "{g for g in range(len(self.topology.groups)) if g != self.group}",
            ),
        ),
    ),
    Mutant(
        "18-applied-lost", "marks_survive_leading", "A new leader counts marks that it was told in an earlier ballot.",
        (Edit(Election.begin_to_beat, "    self.applied = {}\n", ""),),
        redundant=True, survives="Durable marks never go back, so old ones are true, only lower.",
    ),
    Mutant(
        "18-order", "collects_out_of_order", "More than the limit allows is collected.",
        (Edit(Collection.trim, "retained[count].gts <= limit", "retained[count].gts <= limit + (3 << 10)"),),
        killer=InCampaign("elections", 0),
        violates=("collected_here_is_stable_elsewhere",),
    ),
    Mutant(
        "18-collected", "collected_not_noted", "A process does not know up to where its log is collected.",
        (Edit(Collection.trim, "    self.collected = max(self.collected, entry.gts)\n", "    pass\n"),),
        killer=InCampaign("laggards", 0),
        violates=("group_logs_are_prefixes", "no_gaps", "agreement",),
    ),
    Mutant(
        "18-vote", "vote_for_who_lacks_the_collected", "A candidate that lacks what the voter has collected gets the vote.",
        (
            Edit(Recovery.on_new_leader, " or n.gts < self.collected", ""),
            Edit(Election.on_pre_vote, "p.gts >= self.collected and ", ""),
        ),
        killer=InCampaign("collecting", 20),
        violates=("group_logs_are_prefixes", "no_gaps", "agreement",),
    ),
    Mutant(
        "22", "duplicates_are_new", "The dedup table is not consulted: a duplicate of what is collected is ordered again.",
        (Edit(Ordering.may_propose, "if delivered_at is not None:", "if False:"),),
        killer=InScenario("duplicate_after_collection"),
        violates=("termination",),
    ),
    Mutant(
        "22-mark", "complete_below_ignored", "The client's word that all below is complete is taken for `never seen`.",
        (Edit(DedupTable.delivered_at, "if id[2] < session.complete_below:", "if False:"),),
        killer=InCampaign("laggards", 0),
        violates=("no_duplicates", "replies_are_true", "one_gts_per_message",),
    ),
    Mutant(
        "22-checkpoint", "checkpoint_without_dedup", "A checkpoint forgets the dedup table.",
        (Edit(WhiteBox.redo_checkpoint, "    self.dedup.load(r.dedup, self.out.now)\n", ""),),
        killer=InCampaign("laggards", 2),
        violates=("batch_messages_once",),
    ),
    Mutant(
        "22-expiry", "live_session_expires", "A session is expired although something of it is in the works.",
        (Edit(Collection.on_sweep, "if not self.has_entry_of(client, session):", "if True:"),),
    ),
    Mutant(
        "23", "no_delivery_again", "After a restart nothing is delivered again, although the application lost it.",
        (Edit(WhiteBox.start, "return self.deliver_again(applied)", "return None"),),
        killer=InScenario("crash_between_effect_and_mark"),
        violates=("termination",),
    ),
    Mutant(
        "23-all", "everything_again", "After a restart everything is delivered again, although the application has it.",
        (Edit(Delivery.deliver_again, "entry.gts > applied and ", ""),),
        killer=InCampaign("crashes", 0),
        violates=("no_duplicates", "gts_increases", "one_order",),
    ),
    Mutant(
        "23-restored", "snapshot_lost", "After a restart an installed snapshot that was not applied is not applied.",
        (Edit(Delivery.deliver_again, "if self.snapshot is not None and applied < self.snapshot.gts:", "if False:"),),
    ),
    Mutant(
        "23-batches", "repeated_lost", "A checkpoint forgets which messages of a batch were delivered before.",
        (Edit(WhiteBox.redo_checkpoint, "entry.repeated = repeated.get(entry.id, ())", "pass"),),
    ),
    Mutant(
        "24", "no_snapshot", "Who lacks what is collected gets only what is left in the log.",
        (NO_SNAPSHOT,),
        killer=InScenario("follower_past_the_mark"),
        violates=("group_logs_are_prefixes", "no_gaps", "agreement",),
    ),
    Mutant(
        "24-never", "snapshot_never_sent", "Who lacks what is collected gets nothing.",
        (Edit(CatchingUp.resend_after, "return self.want_snapshot_for(follower)", "return None"),),
        killer=InCampaign("laggards", 0),
        violates=("termination",),
    ),
    Mutant(
        "24-table", "table_of_the_answer", "The dedup table of a snapshot is that of when the application answered.",
        (TABLE_NOW,),
        killer=InCampaign("laggards", 23),
        violates=("batch_messages_once",),
    ),
    Mutant(
        "24-no-table", "snapshot_without_table", "A snapshot comes without the dedup table.",
        (Edit(CatchingUp.redo_transferred, "    self.dedup.load(r.dedup, self.out.now)\n", ""),),
        killer=InCampaign("laggards", 8),
        violates=("batch_messages_once",),
    ),
    Mutant(
        "24-known", "snapshot_without_the_uncollected", "A snapshot comes without what is delivered and not collected.",
        (Edit(CatchingUp.redo_transferred, "for known in r.known:", "for known in ():"),),
    ),
    Mutant(
        "24-collected", "snapshot_without_its_collected", "A snapshot does not tell up to where the log is collected.",
        (Edit(CatchingUp.redo_transferred, "    self.collected = max(self.collected, r.collected)\n", ""),),
    ),
    Mutant(
        "24-entries", "snapshot_leaves_the_delivered", "A snapshot leaves as ACCEPTED what it says is delivered.",
        (Edit(CatchingUp.redo_transferred, "if self.dedup.delivered_at(id) is not None]", "if False]"),),
    ),
    Mutant(
        "24-clock", "snapshot_leaves_the_clock", "A snapshot does not raise the clock.",
        (Edit(CatchingUp.redo_transferred, "    self.raise_clock(clock_of(r.gts))\n", ""),),
    ),
    Mutant(
        "24-old", "old_snapshot", "A snapshot that is behind is installed all the same.",
        (Edit(CatchingUp.on_snapshot_chunk, "c.gts <= self.max_delivered_gts or ", ""),),
        killer=InCampaign("laggards", 11),
        violates=("no_duplicates", "batch_messages_once", "gts_increases",),
    ),
    Mutant(
        "24-ballot", "snapshot_of_another_ballot", "A snapshot of another ballot, or while recovering, is installed.",
        (Edit(CatchingUp.on_snapshot_chunk, "self.status is RECOVERING or c.ballot != self.cballot or ", ""),),
    ),
    Mutant(
        "24-serial", "pieces_of_two_snapshots", "Pieces of two snapshots are put together.",
        (Edit(CatchingUp.on_snapshot_chunk, "if any((held.ballot, held.serial, held.parts) != transfer for held in self.chunks.values()):", "if False:"),),
    ),
    Mutant(
        "24-pieces", "snapshot_piece_by_piece", "The first piece of a snapshot is installed without the others.",
        (Edit(CatchingUp.on_snapshot_chunk, "if len(self.chunks) < c.parts:", "if c.part:\n        return None\n    if False:"),
         Edit(CatchingUp.on_snapshot_chunk, "for part in range(c.parts)]", "for part in range(1)]")),
        killer=InCampaign("laggards", 0),
        violates=("no_exception",),
    ),
    Mutant(
        "24-record", "snapshot_not_recorded", "An installed snapshot leaves no record.",
        (Edit(CatchingUp.on_snapshot_chunk, "    self.persist(record)\n", ""),),
        killer=InCampaign("laggards", 0),
        violates=("persist_precedes_delivery",),
    ),
    Mutant(
        "24-asked", "answer_to_another_question", "An application's state is sent as that of another point.",
        (Edit(CatchingUp.on_snapshot, " or self.snapshot_base[0] != s.gts", ""),),
    ),
    Mutant(
        "24-leads", "snapshot_after_leading", "A process that no longer leads sends the snapshot that it asked for.",
        (Edit(CatchingUp.on_snapshot, "if self.status is not LEADER:", "if False:"),),
    ),
    Mutant(
        "31-ballot", "resend_of_another_ballot", "A resend of another ballot, or while recovering, is taken.",
        (Edit(CatchingUp.on_resend, "self.status is RECOVERING or r.ballot != self.cballot or ", ""),),
    ),
    Mutant(
        "31-leader", "catch_up_from_anybody", "Who does not lead, or not in that ballot, answers a catch-up.",
        (Edit(CatchingUp.on_catch_up, "self.status is not LEADER or c.ballot != self.cballot or ", ""),),
    ),
    Mutant(
        "31-gap", "resend_with_a_gap", "A resend that begins above the mark is applied all the same.",
        (Edit(CatchingUp.on_resend, "if r.prev_gts > self.max_delivered_gts:", "if False:"),),
    ),
    Mutant(
        "31-twice", "resend_twice", "A resend delivers again what was delivered.",
        (Edit(CatchingUp.on_resend, "if known.gts <= self.max_delivered_gts:", "if False:"),),
        killer=ONE_ELECTION,
        violates=("delivery order",),
    ),
    Mutant(
        "31-more", "resend_once", "A follower does not ask for the next piece.",
        (Edit(CatchingUp.on_resend, "if before < self.max_delivered_gts < r.upto:", "if False:"),),
    ),
    Mutant(
        "31-heartbeat", "heartbeat_shows_no_gap", "A follower does not ask when a heartbeat shows that it is behind.",
        (Edit(Election.on_heartbeat, "if h.gts > self.max_delivered_gts:", "if False:"),),
        killer=InCampaign("storms", 0),
        violates=("termination",),
    ),
    Mutant(
        "31-body", "resend_without_body", "A resend does not bring the body.",
        (Edit(CatchingUp.on_resend, "entry.body = known.body", "pass"),),
        killer=InCampaign("crashes", 0),
    ),
]  # fmt: skip
