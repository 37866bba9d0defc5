"""Mutants of leader recovery, of elections and of restarts."""

from __future__ import annotations

from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.process import WhiteBox
from braidcast.protocols.whitebox.recovery import Recovery
from braidcast.protocols.whitebox.state import State
from tests.mutations.edits import Edit
from tests.mutations.mutant import InCampaign, InScenario, Mutant

NOT_STICKY = Edit(State.adopt_known, "if entry.phase != COMMITTED:", "if True:")

RECOVERING = [
    Mutant(
        "1", "stale_delivered",
        "B1: what this process sent a DELIVER for stays `Delivered`, so a later ballot of its own never sends it again.",
        (
            Edit(
                Delivery.deliver_committed,
                "            self.deliver_next(entry)\n            if self.others:",
                "            self.deliver_next(entry)\n"
                "            self.stable[-1, entry.id] = self.cballot\n"
                "            if self.others:",
            ),
            Edit(
                CatchingUp.resend_after,
                "known = tuple([self.known(entry, with_body=True) for entry in piece])",
                "known = tuple([self.known(entry, with_body=True) for entry in piece"
                " if self.stable.get((-1, entry.id), self.cballot) == self.cballot])",
            ),
            Edit(Election.on_beat, "sorted(self.stable.items())", "sorted([i for i in self.stable.items() if type(i[0]) is int])"),
        ),
        killer=InScenario("stale_delivered"),
        violates=("termination",),
    ),
    Mutant(
        "3", "leads_without_newstate_quorum", "Line 63's quorum is left out: a candidate leads once it has the votes.",
        (Edit(Recovery.on_new_state_ack, "if len(self.synced) >= self.quorum:", "if self.synced:"),),
        killer=InScenario("lead_without_newstate_quorum"),
        violates=("group_logs_are_prefixes", "no_gaps", "agreement",),
    ),
    Mutant(
        "4", "later_votes_count", "B3: every vote after the first quorum puts the state together anew.",
        (Edit(Recovery.on_new_leader_ack, "if self.cballot == self.ballot:", "if self.status is LEADER:"),),
        killer=InScenario("third_vote"),
        violates=("gts_increases", "no_gaps", "termination",),
    ),
    Mutant(
        "5", "accepted_from_any_voter", "Line 45's J is all voters, not those of the newest cballot.",
        (Edit(Recovery.merge_votes, "vote.cballot == newest and ", ""),),
        killer=InCampaign("laggards", 2),
        violates=("one_message_per_lts", "no_exception",),
    ),
    Mutant(
        "6", "no_reinitialisation", "Line 44 is left out: what is ACCEPTED here and not in the new state stays.",
        (Edit(Recovery.install, "if entry is not None and entry.phase == ACCEPTED:", "if False:"),),
        killer=InCampaign("laggards", 2),
        violates=("one_message_per_lts", "persist_precedes_send", "no_exception",),
    ),
    Mutant(
        "6-proposed", "proposed_survives", "B9: what the deposed leader had PROPOSED stays PROPOSED.",
        (Edit(Recovery.install, "if entry.phase == PROPOSED:", "if False:"),),
        killer=InCampaign("storms", 0),
        violates=("no_exception",),
    ),
    Mutant(
        "6-acks", "acks_survive", "Acknowledgements of the ballot before still count in the new one.",
        (Edit(Recovery.install, "if not entry.gts:", "if False:"),),
    ),
    Mutant(
        "13-lower", "vote_for_a_lower_ballot", "Line 38 is left out: a process joins a ballot below its own.",
        (Edit(Recovery.on_new_leader, "n.ballot <= self.ballot or ", ""),),
        killer=InCampaign("early_storms", 0),
        violates=("ballots_rise",),
    ),
    Mutant(
        "13-equal", "vote_twice", "Line 38 has ≥ for >: a process votes again in a ballot that it has joined.",
        (Edit(Recovery.on_new_leader, "n.ballot <= self.ballot", "n.ballot < self.ballot"),),
        killer=InCampaign("elections", 2),
        violates=("ballots_rise",),
    ),
    Mutant(
        "14", "clock_of_the_candidate_only", "Line 54's maximum is left out: the new leader keeps its own clock.",
        (Edit(Recovery.install_merged, "max([vote.clock for vote in self.votes.values()])", "self.clock"),),
        killer=InCampaign("losses", 1),
        violates=("one_message_per_gts", "gts_increases", "group_logs_are_prefixes",),
    ),
    Mutant(
        "14-follower", "state_leaves_the_clock", "Line 61's clock is left out.",
        (Edit(Recovery.install, "    self.raise_clock(r.clock)\n", ""),),
        killer=InCampaign("losses", 1),
        violates=("one_message_per_gts", "gts_increases", "group_logs_are_prefixes",),
    ),
    Mutant(
        "17-accepted", "restart_forgets_accepted", "After a restart nothing is ACCEPTED.",
        (Edit(Delivery.redo_accepted, "if entry.phase == START:", "if False:"),),
        killer=InCampaign("collecting", 11),
        violates=("one_gts_per_message", "one_order", "one_gts_decided",),
    ),
    Mutant(
        "17-ballot", "restart_forgets_the_promise", "After a restart a promised ballot is forgotten.",
        (Edit(Recovery.redo_promised, "self.ballot = r.ballot", "pass"),),
        killer=InCampaign("crashes", 3),
        violates=("ballots_rise",),
    ),
    Mutant(
        "17-leads", "restart_leads_again", "After a restart a leader leads again in its old ballot.",
        (
            Edit(
                Election.resume_following,
                "    self.wait_for_leader()\n",
                "    if self.ballot == self.cballot and leader_of(self.cballot) == self.me:\n"
                "        self.status = LEADER\n"
                "        self.rebuild_pending()\n"
                "        return self.begin_to_beat()\n"
                "    self.wait_for_leader()\n",
            ),
        ),
        killer=InCampaign("early_storms", 2),
        violates=("one_lts_per_ballot", "one_message_per_lts", "persist_precedes_send",),
    ),
    Mutant(
        "17-clock", "restart_forgets_the_clock", "After a restart the clock is that of the deliveries only.",
        (Edit(Delivery.redo_accepted, "    self.raise_clock(r.clock)\n", ""),),
        killer=InCampaign("early_storms", 4),
        violates=("clocks_rise",),
    ),
    Mutant(
        "17-follows", "restart_joins_what_it_promised",
        "After a restart a process that promised a higher ballot follows in its old one.",
        (Edit(Election.resume_following, "FOLLOWER if self.ballot == self.cballot else RECOVERING", "FOLLOWER"),),
        killer=InCampaign("lagging_applications", 15),
        violates=("termination",),
    ),
    Mutant(
        "17-first", "two_first_lives", "The Started record is left out: a crash before any other record makes a second first life.",
        (
            Edit(WhiteBox.start, "    self.persist(Started(self.ballot))", "    pass"),
            # A driver that finds an empty log cannot tell a second life from a first one.
            Edit(
                WhiteBox.start, "if self.recovered:",
                "if self.recovered and (self.entries or self.max_delivered_gts or self.ballot >> 16):",
            ),
        ),
        killer=InScenario("two_first_lives"),
        violates=("no_gaps", "one_lts_per_ballot", "one_message_per_lts",),
    ),
    Mutant(
        "17-installed", "restart_forgets_the_state", "After a restart an installed state is forgotten, not its ballot.",
        (Edit(Recovery.redo_installed, "self.install(r)", "self.ballot = self.cballot = r.ballot"),),
        killer=InCampaign("crashes", 1),
        violates=("no_exception",),
    ),
    Mutant(
        "21-inflated", "higher_ballot_ignored", "B5: a leader does not go above a ballot that a member promised.",
        (Edit(Election.on_heartbeat_ack, "return self.recover_leadership()", "return None"),),
        killer=InScenario("candidate_alone"),
        violates=("termination",),
    ),
    Mutant(
        "21-late", "no_late_join", "B5: a process that missed the election does not join the ballot of a heartbeat.",
        (Edit(Election.on_heartbeat, "return self.join(sender, h.ballot)", "return None"),),
        killer=InCampaign("storms", 0),
        violates=("termination",),
    ),
    Mutant(
        "21-silent", "heartbeat_of_a_lower_ballot", "B5: nobody tells a leader that its ballot is below the promised one.",
        (Edit(Election.on_heartbeat, "return self.send((sender,), HeartbeatAck(self.ballot, 0))", "return None"),),
        killer=InScenario("isolated_with_inflated_ballot"),
        violates=("termination",),
    ),
    Mutant(
        "21-nack", "nack_ignored", "A candidate that is refused does not learn how high the ballots are.",
        (Edit(Recovery.on_nack, "max(self.max_ballot, n.promised)", "self.max_ballot"),),
    ),
    Mutant(
        "21-backoff", "no_backoff", "Attempts do not back off.",
        (Edit(Election.wait_for_leader, " << min(self.attempts, 4)", ""),),
    ),
    Mutant(
        "21-quorum", "never_steps_down", "A leader that hears no quorum goes on leading.",
        (Edit(Election.on_beat, "if not self.hears_quorum():", "if False:"),),
    ),
    Mutant(
        "21-prevote", "prevote_always_granted", "A prevote is granted although there is a leader.",
        (Edit(Election.on_pre_vote, " and not self.has_other_leader(sender)", ""),),
    ),
    Mutant(
        "21-prevote-quorum", "prevote_without_quorum", "One prevote is enough.",
        (Edit(Election.on_pre_vote_ack, "if len(self.prevotes) >= self.quorum:", "if True:"),),
    ),
    Mutant(
        "21-prevote-answer", "prevote_answers_mixed", "Answers to an older prevote count.",
        (Edit(Election.on_pre_vote_ack, "ack.ballot != self.prevote_ballot or ", ""),),
    ),
    Mutant(
        "21-prevote-collected", "prevote_for_who_lacks_the_collected",
        "A prevote is granted to a candidate that lacks what the voter collected.",
        (Edit(Election.on_pre_vote, "p.gts >= self.collected and ", ""),),
    ),
    Mutant(
        "30-votes", "one_vote_too_few", "A candidate puts the state together from less than a quorum.",
        (Edit(Recovery.on_new_leader_ack, "len(self.votes) >= self.quorum", "len(self.votes) >= self.quorum - 1"),),
        killer=InCampaign("elections", 2),
        violates=("no_duplicates", "gts_increases", "one_order",),
    ),
    Mutant(
        "30-vote-ballot", "votes_of_another_ballot", "A vote for an older candidacy of this process counts.",
        (Edit(Recovery.on_new_leader_ack, "vote.ballot != self.ballot or ", ""),),
    ),
    Mutant(
        "30-merged-twice", "merges_while_pulling", "A vote that comes while bodies are missing puts the state together anew.",
        (Edit(Recovery.on_new_leader_ack, "self.merged is None and ", ""),),
    ),
    Mutant(
        "30-committed", "merge_prefers_accepted", "Line 47 is left out: what anybody has COMMITTED is taken like the ACCEPTED.",
        (Edit(Recovery.merge_votes, "known.phase == COMMITTED or ", ""),),
        killer=InCampaign("laggards", 7),
        violates=("termination",),
    ),
    Mutant(
        "30-committed-j", "committed_only_of_the_newest", "B8: line 47 looks only at voters with the newest cballot.",
        (Edit(Recovery.merge_votes, "known.phase == COMMITTED or (vote.cballot == newest and known.id not in merged)",
              "vote.cballot == newest and (known.phase == COMMITTED or known.id not in merged)"),),
    ),
    Mutant(
        "30-tombstone", "tombstone_ignored", "What the candidate has collected comes back as ACCEPTED.",
        (
            Edit(Recovery.merge_votes, " if not self.is_collected(id)", ""),
            Edit(Recovery.install, "if not self.is_collected(known.id):", "if True:"),
        ),
        killer=InScenario("tombstone_in_a_vote"),
        violates=("termination",),
    ),
    Mutant(
        "30-tombstone-merge", "tombstone_ignored_in_votes", "A candidate puts into its state what it has collected.",
        (Edit(Recovery.merge_votes, " if not self.is_collected(id)", ""),),
    ),
    Mutant(
        "30-tombstone-install", "tombstone_ignored_in_states", "A process takes from a state what it has collected.",
        (Edit(Recovery.install, "if not self.is_collected(known.id):", "if True:"),),
    ),
    Mutant(
        "30-pull", "no_pull", "A candidate installs what it has no bodies of.",
        (Edit(Recovery.pull_bodies, "if not missing:", "if True:"),),
        killer=InCampaign("storms", 0),
        violates=("no_exception",),
    ),
    Mutant(
        "30-bodies", "some_bodies", "A candidate goes on with the first bodies that come.",
        (Edit(Recovery.on_bodies, "if all(id in self.bodies or self.has_body(id) for id in self.merged):", "if True:"),),
    ),
    Mutant(
        "30-bodies-ballot", "bodies_of_another_ballot", "Bodies for an older candidacy count.",
        (Edit(Recovery.on_bodies, "b.ballot != self.ballot or ", ""),),
        redundant=True, survives="A body is the same in every ballot; it must only be there.",
    ),
    Mutant(
        "30-no-bodies", "difference_without_bodies", "A state that a follower lacks the bodies of comes without them.",
        (Edit(Recovery.difference_to, "body if had is None else None", "None"),),
        killer=InCampaign("elections", 1),
        violates=("no_exception",),
    ),
    Mutant(
        "30-difference", "difference_by_id", "What a voter reported is not sent again, even if its timestamps differ.",
        (Edit(Recovery.difference_to, "if had is None or (had.phase, had.lts, had.gts) != (known.phase, known.lts, known.gts):", "if had is None:"),),
        killer=InCampaign("collecting", 2),
        violates=("persist_precedes_send", "no_exception",),
    ),
    Mutant(
        "30-dropped", "drops_are_not_told", "The state does not say what the follower must drop.",
        (Edit(Recovery.difference_to, "had.phase == ACCEPTED and id not in state", "False"),),
        killer=InCampaign("laggards", 2),
        violates=("one_message_per_lts", "no_exception",),
    ),
    Mutant(
        "30-state-ballot", "state_of_a_lower_ballot", "Line 58's `ballot = b` is left out for lower ballots.",
        (Edit(Recovery.on_new_state, "if s.ballot < self.ballot:", "if False:"),),
        killer=InCampaign("lagging_applications", 7),
        violates=("ballots_rise",),
    ),
    Mutant(
        "30-state-vote", "state_without_a_vote", "Line 58's `status` is left out, and a higher ballot is taken as it comes.",
        (Edit(Recovery.on_new_state, "if s.ballot > self.ballot or self.status is not RECOVERING:", "if False:"),),
    ),
    Mutant(
        "30-state-again", "state_twice", "A state that was installed is installed again.",
        (Edit(Recovery.on_new_state, "if self.cballot == s.ballot:", "if False:"),),
    ),
    Mutant(
        "30-serial", "pieces_of_two_states", "Pieces of two transfers of one ballot are put together.",
        (Edit(Recovery.on_new_state, "if any((held.serial, held.parts) != (s.serial, s.parts) for held in self.arriving.values()):", "if False:"),),
    ),
    Mutant(
        "30-serial-older", "older_pieces", "Pieces of an older transfer replace those of a newer one.",
        (Edit(Recovery.on_new_state, " or any(held.serial > s.serial for held in self.arriving.values())", ""),),
    ),
    Mutant(
        "30-pieces", "piece_by_piece", "The first piece of a state is installed without the others.",
        (Edit(Recovery.on_new_state, "if len(self.arriving) < s.parts:", "if False:"),
         Edit(Recovery.on_new_state, "for part in range(s.parts)]", "for part in sorted(self.arriving)]")),
        killer=InCampaign("laggards", 7),
        violates=("persist_precedes_send",),
    ),
    Mutant(
        "30-synced-self", "counts_anybody", "A candidate counts acknowledgements of who did not vote for it.",
        (Edit(Recovery.on_new_state_ack, " or (sender != self.me and sender not in self.votes)", ""),),
    ),
    Mutant(
        "30-ack-ballot", "state_ack_of_another_ballot", "An acknowledgement of an older state counts.",
        (Edit(Recovery.on_new_state_ack, "if not self.ballot == self.cballot == ack.ballot or", "if self.ballot != self.cballot or"),),
    ),
    Mutant(
        "30-ack-status", "state_ack_after_stepping_down", "An acknowledgement counts although the candidate no longer is one.",
        (Edit(Recovery.on_new_state_ack, "self.status is not RECOVERING or ", ""),),
    ),
    Mutant(
        "30-resend", "no_resend_on_leading", "Lines 66-68 are left out: a new leader resends nothing to its voters.",
        (Edit(Recovery.lead, "if follower != self.me:", "if False:"),),
    ),
    Mutant(
        "30-deliver", "no_delivery_on_leading", "Lines 66-68 are left out: a new leader does not deliver what it finds COMMITTED.",
        (Edit(Recovery.lead, "    self.deliver_committed()\n", ""),),
        killer=InCampaign("elections", 3),
        violates=("termination",),
    ),
    Mutant(
        "30-pending", "nothing_pending_on_leading", "A new leader forgets that ACCEPTED messages block others.",
        (Edit(Recovery.lead, "    self.rebuild_pending()\n", ""),),
        killer=InCampaign("storms", 0),
        violates=("termination",),
    ),
    Mutant(
        "30-promise", "promise_keeps_following", "Line 39 is left out: who votes goes on as before.",
        (Edit(Recovery.promise, "self.status, self.ballot = RECOVERING, b", "self.ballot = b"),),
        killer=InCampaign("storms", 0),
        violates=("termination",),
    ),
    Mutant(
        "30-promise-record", "promise_not_recorded", "Line 40 leaves no record.",
        (Edit(Recovery.promise, "    self.persist(Promised(b))\n", ""),),
        killer=InCampaign("elections", 0),
        violates=("persist_precedes_send",),
    ),
    Mutant(
        "30-issued", "numbers_go_on", "A new leader does not number its timestamps from 1.",
        (Edit(Recovery.install_merged, "self.merged, self.bodies, self.issued = None, {}, 0", "self.merged, self.bodies = None, {}"),),
    ),
    Mutant(
        "30-clock-back", "clock_goes_back", "B2: a state sets the clock, even back.",
        (Edit(Recovery.install, "    self.raise_clock(r.clock)\n", "    self.clock = r.clock\n"),),
        killer=InCampaign("collecting", 2),
        violates=("clocks_rise",),
    ),
    Mutant(
        "30-sticky", "committed_is_not_sticky", "B2: a state demotes what is COMMITTED here to ACCEPTED.",
        (NOT_STICKY,),
        killer=InCampaign("collecting", 21),
        violates=("termination",),
    ),
]  # fmt: skip
