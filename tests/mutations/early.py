"""Mutants of early delivery: followers that deliver without their leader's word (protocols.md 1.8)."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.lying import ANY_KNOWLEDGE
from tests.mutations.mutant import ORDER, InCampaign, InScenario, Mutant

from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.ordering import Ordering
from braidcast.protocols.whitebox.process import WhiteBox
from braidcast.protocols.whitebox.recovery import Recovery
from braidcast.protocols.whitebox.state import State

EARLY = [
    Mutant(
        "25-proposed",
        "proposals_not_tracked",
        "A follower does not know what its leader proposed.",
        (
            Edit(
                Ordering.note_proposed,
                "        if entry.phase == START:\n"
                "            entry.phase, entry.lts = PROPOSED, a.lts\n"
                "            self.pending.push(a.lts, entry)\n",
                "",
            ),
            Edit(
                Ordering.acknowledge,
                "        entry.phase, entry.lts, entry.body = ACCEPTED, mine.lts, body\n",
                "        entry.phase, entry.lts, entry.body = ACCEPTED, mine.lts, body\n"
                "        if self.delivers_early: self.pending.push(mine.lts, entry)\n",
            ),
        ),
        killer=InCampaign("early_storms", 0),
        violates=ORDER,
    ),
    Mutant(
        "25-leader",
        "leader_need_not_acknowledge",
        "A follower delivers without the acknowledgement of its leader.",
        (
            Edit(
                Ordering.accepted_in_current_ballot,
                "return self.delivers_early and bool(acks >> leader_of(self.cballot) & 1)",
                "return self.delivers_early",
            ),
            Edit(
                Ordering.on_accept_ack,
                "        if vector == entry.vector:\n            self.commit_if_accepted(entry, acks)\n    elif",
                "    if",
            ),
        ),
        killer=InCampaign("elections", 3),
        violates=ORDER,
    ),
    Mutant(
        "25-count",
        "counts_what_it_holds",
        "A follower compares how many ACCEPTs it holds, and not which.",
        (
            Edit(
                Delivery.holds_all_issued_before,
                "entry.issued <= self.held\n        and (not self.gaps or entry.issued < min(self.gaps))",
                "entry.issued <= self.held - len(self.gaps)",
            ),
        ),
        killer=InCampaign("early_storms", 2),
        violates=ORDER,
    ),
    Mutant(
        "25-gaps",
        "gaps_ignored",
        "A follower looks at the highest number that it holds, and not at the gaps below.",
        (Edit(Delivery.holds_all_issued_before, "        and (not self.gaps or entry.issued < min(self.gaps))\n", ""),),
        killer=InCampaign("losses", 2),
        violates=ORDER,
    ),
    Mutant(
        "25-issued",
        "issued_ignored",
        "A follower does not look at what the leader had issued when it acknowledged.",
        (
            Edit(
                Delivery.holds_all_issued_before,
                "        and entry.issued <= self.held\n        and (not self.gaps or entry.issued < min(self.gaps))\n",
                "",
            ),
        ),
        killer=InCampaign("losses", 2),
        violates=ORDER,
    ),
    Mutant(
        "25-issued-held",
        "tail_ignored",
        "A follower looks for gaps, and not for what comes after all it holds.",
        (Edit(Delivery.holds_all_issued_before, "        and entry.issued <= self.held\n", ""),),
        killer=InCampaign("relays", 0),
        violates=ORDER,
    ),
    Mutant(
        "25-begins",
        "state_begins_ignored",
        "After a NEW_STATE that lacks what is collected a follower delivers early.",
        (Edit(Delivery.holds_all_issued_before, "self.max_delivered_gts >= self.state_begins\n        and ", ""),),
        killer=InCampaign("relays", 1),
        violates=ORDER,
    ),
    Mutant(
        "25-restart",
        "counts_after_a_restart",
        "A follower delivers early after a restart in the same ballot.",
        (
            Edit(Recovery.redo_installed, "    self.held = UNCOUNTED\n", ""),
            Edit(WhiteBox.redo_started, "self.held = UNCOUNTED", "pass"),
            Edit(WhiteBox.redo_checkpoint, "    self.held = UNCOUNTED\n", ""),
        ),
        killer=InScenario("early_after_a_restart"),
    ),
    Mutant(
        "25-restart-started",
        "counts_after_a_restart_in_ballot_0",
        "A follower delivers early after a restart in ballot 0.",
        (Edit(WhiteBox.redo_started, "self.held = UNCOUNTED", "pass"),),
        killer=InScenario("early_after_a_restart"),
    ),
    Mutant(
        "25-restart-installed",
        "counts_after_a_restart_later",
        "A follower delivers early after a restart in a later ballot.",
        (Edit(Recovery.redo_installed, "    self.held = UNCOUNTED\n", ""),),
        redundant=True,
        survives=("The log begins with Started or a checkpoint, which have said so before."),
    ),
    Mutant(
        "25-restart-checkpoint",
        "counts_after_a_checkpoint",
        "A follower delivers early after a restart from a checkpoint.",
        (Edit(WhiteBox.redo_checkpoint, "    self.held = UNCOUNTED\n", ""),),
        killer=InScenario("early_after_a_checkpoint"),
    ),
    Mutant(
        "25-state-proposed",
        "state_hides_the_proposed",
        "A state does not say which timestamps it lacks.",
        (
            Edit(
                Recovery.bring_to_state,
                "sorted([entry.number for entry in self.entries.values() if entry.phase == PROPOSED])",
                "()",
            ),
        ),
        killer=InScenario("proposed_before_a_late_join"),
    ),
    Mutant(
        "25-state-issued",
        "state_hides_the_issued",
        "A state says that all was issued before it.",
        (
            Edit(
                Recovery.on_new_state,
                "self.held, self.gaps, self.state_begins = s.issued,",
                "self.held, self.gaps, self.state_begins = s.issued + 3,",
            ),
        ),
        killer=InCampaign("early_storms", 2),
        violates=ORDER,
    ),
    Mutant(
        "25-state-low",
        "state_counts_from_zero",
        "After a state a follower believes to hold no timestamps of its ballot.",
        (
            Edit(
                Recovery.on_new_state,
                "self.held, self.gaps, self.state_begins = s.issued,",
                "self.held, self.gaps, self.state_begins = 0,",
            ),
        ),
        redundant=True,
        survives=("It sees gaps where there are none, and waits for its leader; it costs time only."),
    ),
    Mutant(
        "25-numbers",
        "old_numbers_count",
        "A number of an earlier ballot counts in this one.",
        (Edit(Recovery.install, "entry.number = 0", "pass"),),
        killer=InScenario("numbers_of_an_earlier_ballot"),
    ),
    Mutant(
        "25-ballot",
        "proposals_of_another_ballot",
        "A follower tracks what was proposed in a ballot that it has not joined.",
        (Edit(Ordering.note_proposed, "if a.ballot == self.cballot and self.status is FOLLOWER:", "if True:"),),
        redundant=True,
        survives=("Joining the ballot takes the count from the state and looks at the held ACCEPTs anew."),
    ),
    Mutant(
        "25-recovering",
        "proposals_while_recovering",
        "A process tracks proposals while it is recovering.",
        (Edit(Ordering.note_proposed, " and self.status is FOLLOWER", ""),),
        redundant=True,
        survives=("As 25-ballot."),
    ),
    Mutant(
        "25-look",
        "no_second_look_at_proposals",
        "Proposals held for a ballot are not tracked once it is joined.",
        (Edit(Ordering.look_again, "if self.early:", "if False:"),),
        killer=InCampaign("elections", 12),
        violates=ORDER,
    ),
    Mutant(
        "25-pending",
        "nothing_pending_after_a_state",
        "A follower that takes over a state forgets what is pending.",
        (Edit(Recovery.on_new_state, "        self.rebuild_pending()\n", "        pass\n"),),
        killer=InCampaign("early_storms", 2),
        violates=ORDER,
    ),
    Mutant(
        "25-reported",
        "proposed_is_reported",
        "A follower's PROPOSED is reported like ACCEPTED.",
        (
            Edit(State.known_entries, "if entry.phase >= ACCEPTED", "if entry.phase >= 1 and entry.body is not None"),
            Edit(
                Recovery.merge_votes, "known.phase == COMMITTED or", "known.phase == COMMITTED or known.phase == 1 or"
            ),
            ANY_KNOWLEDGE,
        ),
        killer=InCampaign("collecting", 2),
        violates=ORDER,
    ),
    Mutant(
        "25-mark",
        "early_below_the_mark",
        "A follower delivers early below its mark.",
        (Edit(Delivery.deliver_committed, "if entry.gts > prev_gts:", "if True:"),),
        killer=InCampaign("storms", 0),
        violates=ORDER,
    ),
    Mutant(
        "25-resent",
        "resend_leaves_the_gaps",
        "A resend does not fill the gaps in what a follower holds.",
        (Edit(CatchingUp.on_resend, "        self.hold_number(known.number)\n", ""),),
        redundant=True,
        survives=("It sees gaps where there are none, and waits for its leader; it costs time only."),
    ),
    Mutant(
        "25-ack-after",
        "early_ack_of_the_collected",
        "An acknowledgement of a collected message makes an entry.",
        (Edit(Ordering.on_accept_ack, " or self.dedup.delivered_at(ack.id) is not None", ""),),
        redundant=True,
        survives=("It stays START until it is swept; no ACCEPT comes for what is collected."),
    ),
    Mutant(
        "25-recovering-commit",
        "early_while_recovering",
        "A process delivers early while it is recovering.",
        (Edit(Ordering.accepted_in_current_ballot, "self.delivers_early and", "self.early and"),),
        redundant=True,
        survives=("A vote empties the pending heap, so nothing is delivered; and what it commits has a quorum."),
    ),
]
