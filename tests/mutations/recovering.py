"""Mutants of leader recovery."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.mutant import INSIDE, LIVENESS, ORDER, InCampaign, InScenario, Mutant

from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.recovery import Recovery
from braidcast.protocols.whitebox.state import State

NOT_STICKY = Edit(State.adopt_known, "if entry.phase != COMMITTED:", "if True:")

RECOVERING = [
    Mutant(
        "1",
        "stale_delivered",
        "B1: what this process sent a DELIVER for stays `Delivered`, so a later ballot of its own does not send it.",
        (
            Edit(
                Delivery.deliver_committed,
                "            if leads:\n",
                "            if leads:\n                self.stable[-1, entry.id] = self.cballot\n",
            ),
            Edit(
                CatchingUp.resend_after,
                "islice(self.delivered_log, first, None))",
                "islice(self.delivered_log, first, None)"
                " if self.stable.get((-1, entry.id), self.cballot) == self.cballot)",
            ),
            Edit(Election.on_beat, "self.stability(self.stable)", "()"),
        ),
        killer=InScenario("stale_delivered"),
    ),
    Mutant(
        "3",
        "leads_without_newstate_quorum",
        "Line 63's quorum is left out: a candidate leads once it has the votes.",
        (Edit(Recovery.on_new_state_ack, "if len(self.synced) >= self.quorum:", "if self.synced:"),),
        killer=InScenario("lead_without_newstate_quorum"),
    ),
    Mutant(
        "4",
        "later_votes_count",
        "B3: every vote after the first quorum puts the state together anew.",
        (Edit(Recovery.on_new_leader_ack, "if self.cballot == self.ballot:", "if self.status is LEADER:"),),
        killer=InScenario("third_vote"),
    ),
    Mutant(
        "5",
        "accepted_from_any_voter",
        "Line 45's J is all voters, not those of the newest cballot.",
        (Edit(Recovery.merge_votes, "vote.cballot == newest and ", ""),),
        killer=InCampaign("storms", 20),
        violates=ORDER,
    ),
    Mutant(
        "6",
        "no_reinitialisation",
        "Line 44 is left out: what is ACCEPTED here and not in the new state stays.",
        (Edit(Recovery.install, "if entry is not None and entry.phase == ACCEPTED:", "if False:"),),
        killer=InCampaign("torn_transfers", 2),
        violates=INSIDE,
    ),
    Mutant(
        "6-proposed",
        "proposed_survives",
        "B9: what the deposed leader had PROPOSED stays PROPOSED.",
        (Edit(Recovery.install, "if entry.phase == PROPOSED:", "if False:"),),
        killer=InCampaign("early_storms", 2),
        violates=ORDER,
    ),
    Mutant(
        "6-acks",
        "acks_survive",
        "Acknowledgements of the ballot before still count in the new one.",
        (Edit(Recovery.install, "if not entry.gts:", "if False:"),),
        redundant=True,
        survives=("They are kept by ballot vector, and no vector of the new ballot equals one of the old."),
    ),
    Mutant(
        "13-lower",
        "vote_for_a_lower_ballot",
        "Line 38 is left out: a process joins a ballot below its own.",
        (Edit(Recovery.on_new_leader, "n.ballot <= self.ballot or ", ""),),
        killer=InCampaign("early_storms", 1),
        violates=INSIDE,
    ),
    Mutant(
        "13-equal",
        "vote_twice",
        "Line 38 has ≥ for >: a process votes again in a ballot that it has joined.",
        (Edit(Recovery.on_new_leader, "n.ballot <= self.ballot", "n.ballot < self.ballot"),),
        killer=InCampaign("storms", 11),
        violates=INSIDE,
    ),
    Mutant(
        "14",
        "clock_of_the_candidate_only",
        "Line 54's maximum is left out: the new leader keeps its own clock.",
        (Edit(Recovery.install_merged, "max([vote.clock for vote in self.votes.values()])", "self.clock"),),
        killer=InCampaign("losses", 1),
        violates=ORDER,
    ),
    Mutant(
        "14-follower",
        "state_leaves_the_clock",
        "Line 61's clock is left out.",
        (Edit(Recovery.install, "    self.raise_clock(r.clock)\n", ""),),
        killer=InCampaign("losses", 1),
        violates=ORDER,
    ),
    Mutant(
        "30-votes",
        "one_vote_too_few",
        "A candidate puts the state together from less than a quorum.",
        (Edit(Recovery.on_new_leader_ack, "len(self.votes) >= self.quorum", "len(self.votes) >= self.quorum - 1"),),
        killer=InCampaign("elections", 2),
        violates=(*ORDER, *LIVENESS),
    ),
    Mutant(
        "30-vote-ballot",
        "votes_of_another_ballot",
        "A vote for an older candidacy of this process counts.",
        (Edit(Recovery.on_new_leader_ack, "vote.ballot != self.ballot or ", ""),),
        survives=(
            "The voter must have promised the newer ballot to acknowledge its state; it would take "
            "a vote that is older than what its voter accepted meanwhile in a ballot between the "
            "two."
        ),
    ),
    Mutant(
        "30-merged-twice",
        "merges_while_pulling",
        "A vote that comes while bodies are missing puts the state together anew.",
        (Edit(Recovery.on_new_leader_ack, "self.merged is None and ", ""),),
        redundant=True,
        survives=("Nothing is installed or sent yet, and more votes are as good as a quorum."),
    ),
    Mutant(
        "30-committed",
        "merge_prefers_accepted",
        "Line 47 is left out: what anybody has COMMITTED is taken like the ACCEPTED.",
        (Edit(Recovery.merge_votes, "known.phase == COMMITTED or ", ""),),
        killer=InCampaign("collecting", 4),
        violates=LIVENESS,
    ),
    Mutant(
        "30-committed-j",
        "committed_only_of_the_newest",
        "B8: line 47 looks only at voters with the newest cballot.",
        (
            Edit(
                Recovery.merge_votes,
                "known.phase == COMMITTED or (vote.cballot == newest and known.id not in merged)",
                "vote.cballot == newest and (known.phase == COMMITTED or known.id not in merged)",
            ),
        ),
        redundant=True,
        survives=(
            "What is committed in a ballot is at least ACCEPTED in every later one (Invariant 5), "
            "and commits again at the same timestamp."
        ),
    ),
    Mutant(
        "30-tombstone",
        "tombstone_ignored",
        "What the candidate has collected comes back as ACCEPTED.",
        (
            Edit(Recovery.merge_votes, " if not self.is_collected(known)", ""),
            Edit(Recovery.install, "if not self.is_collected(known):", "if True:"),
        ),
        killer=InScenario("tombstone_in_a_vote"),
    ),
    Mutant(
        "30-tombstone-merge",
        "tombstone_ignored_in_votes",
        "A candidate puts into its state what it has collected.",
        (Edit(Recovery.merge_votes, " if not self.is_collected(known)", ""),),
        redundant=True,
        survives=("Installing looks at the tombstone again; without both it dies (30-tombstone)."),
    ),
    Mutant(
        "30-tombstone-install",
        "tombstone_ignored_in_states",
        "A process takes from a state what it has collected.",
        (Edit(Recovery.install, "if not self.is_collected(known):", "if True:"),),
        redundant=True,
        survives=("Merging has looked at the tombstone already; without both it dies (30-tombstone)."),
    ),
    Mutant(
        "30-pull",
        "no_pull",
        "A candidate installs what it has no bodies of.",
        (Edit(Recovery.pull_bodies, "if not self.missing:", "if True:"),),
        killer=InCampaign("storms", 1),
    ),
    Mutant(
        "30-bodies",
        "some_bodies",
        "A candidate goes on with the first bodies that come.",
        (
            Edit(Recovery.on_bodies, "if not self.missing:", "if True:"),
        ),
        killer=InScenario("bodies_from_two_voters"),
    ),
    Mutant(
        "30-bodies-ballot",
        "bodies_of_another_ballot",
        "Bodies for an older candidacy count.",
        (Edit(Recovery.on_bodies, "b.ballot != self.ballot or ", ""),),
        redundant=True,
        survives="A body is the same in every ballot; it must only be there.",
    ),
    Mutant(
        "30-no-bodies",
        "difference_without_bodies",
        "A state that a follower lacks the bodies of comes without them.",
        (Edit(Recovery.difference_to, "body if had is None else None", "None"),),
        killer=InCampaign("elections", 1),
    ),
    Mutant(
        "30-difference",
        "difference_by_id",
        "What a voter reported is not sent again, even if its timestamps differ.",
        (
            Edit(
                Recovery.difference_to,
                "if had is None or (had.phase, had.lts, had.gts) != (known.phase, known.lts, known.gts):",
                "if had is None:",
            ),
        ),
        killer=InCampaign("collecting", 2),
        violates=INSIDE,
    ),
    Mutant(
        "30-dropped",
        "drops_are_not_told",
        "The state does not say what the follower must drop.",
        (Edit(Recovery.difference_to, "had.phase == ACCEPTED and id not in state", "False"),),
        killer=InCampaign("torn_transfers", 2),
        violates=INSIDE,
    ),
    Mutant(
        "30-state-ballot",
        "state_of_a_lower_ballot",
        "Line 58's `ballot = b` is left out for lower ballots.",
        (Edit(Recovery.on_new_state, "if s.ballot < self.ballot:", "if False:"),),
        killer=InCampaign("crashes", 1),
        violates=INSIDE,
    ),
    Mutant(
        "30-state-vote",
        "state_without_a_vote",
        "Line 58's `status` is left out, and a higher ballot is taken as it comes.",
        (
            Edit(
                Recovery.on_new_state,
                "self.status is not RECOVERING or (s.ballot > self.ballot and not self.life)",
                "False",
            ),
        ),
        redundant=True,
        survives=("A leader sends its state only to who voted in that ballot, and a vote is durable."),
    ),
    Mutant(
        "30-state-again",
        "state_twice",
        "A state that was installed is installed again.",
        (Edit(Recovery.on_new_state, "if self.cballot == s.ballot:", "if False:"),),
        survives=(
            "It would take a state that is duplicated and arrives after its receiver accepted anew "
            "what that state dropped."
        ),
    ),
    Mutant(
        "30-serial-older",
        "older_pieces",
        "Pieces of an older transfer replace those of a newer one.",
        (Edit(Recovery.on_new_state, " or (s.ballot, s.serial) < self.arriving.transfer[:2]", ""),),
        survives=("An older piece must overtake a newer one, which sessions do only when stale ones linger."),
    ),
    Mutant(
        "30-pieces",
        "piece_by_piece",
        "The first piece of a state is installed without the others.",
        (Edit(Recovery.on_new_state, "if not pieces:", "pieces = [s]\n    if False:"),),
        killer=InCampaign("laggards", 7),
        violates=INSIDE,
    ),
    Mutant(
        "30-synced-self",
        "counts_anybody",
        "A candidate counts acknowledgements of who did not vote for it.",
        (Edit(Recovery.on_new_state_ack, " or (sender != self.me and sender not in self.votes)", ""),),
        redundant=True,
        survives=(
            "Only who voted is sent a state, so only voters acknowledge one; a restarted candidate "
            "forgets its votes and is no candidate."
        ),
    ),
    Mutant(
        "30-ack-ballot",
        "state_ack_of_another_ballot",
        "An acknowledgement of an older state counts.",
        (
            Edit(
                Recovery.on_new_state_ack,
                "if not self.ballot == self.cballot == ack.ballot or",
                "if self.ballot != self.cballot or",
            ),
        ),
        survives=(
            "The state of the older ballot, which its sender has, holds all that a group of three "
            "can lose; larger groups were searched at random only."
        ),
    ),
    Mutant(
        "30-ack-status",
        "state_ack_after_stepping_down",
        "An acknowledgement counts although the candidate no longer is one.",
        (Edit(Recovery.on_new_state_ack, "self.status is not RECOVERING or ", ""),),
        redundant=True,
        survives=("A process that is FOLLOWER in its own ballot has restarted and has no votes."),
    ),
    Mutant(
        "30-resend",
        "no_resend_on_leading",
        "Lines 66-68 are left out: a new leader resends nothing to its voters.",
        (Edit(Recovery.lead, "if follower != self.me:", "if False:"),),
        killer=InScenario("resend_when_leading"),
    ),
    Mutant(
        "30-deliver",
        "no_delivery_on_leading",
        "Lines 66-68 are left out: a new leader does not deliver what it finds COMMITTED.",
        (Edit(Recovery.lead, "    self.deliver_committed()\n", ""),),
        killer=InCampaign("early_storms", 2),
        violates=LIVENESS,
    ),
    Mutant(
        "30-pending",
        "nothing_pending_on_leading",
        "A new leader forgets that ACCEPTED messages block others.",
        (Edit(Recovery.lead, "    self.rebuild_pending()\n", ""),),
        killer=InCampaign("storms", 0),
        violates=ORDER,
    ),
    Mutant(
        "30-promise",
        "promise_keeps_following",
        "Line 39 is left out: who votes goes on as before.",
        (Edit(Recovery.promise, "self.status, self.ballot = RECOVERING, b", "self.ballot = b"),),
        killer=InCampaign("storms", 0),
        violates=LIVENESS,
    ),
    Mutant(
        "30-promise-record",
        "promise_not_recorded",
        "Line 40 leaves no record.",
        (Edit(Recovery.promise, "    self.persist(Promised(b))\n", ""),),
        killer=InCampaign("elections", 0),
        violates=INSIDE,
    ),
    Mutant(
        "30-issued",
        "numbers_go_on",
        "A new leader does not number its timestamps from 1.",
        (
            Edit(
                Recovery.install_merged,
                "self.merged, self.bodies, self.issued = None, {}, 0",
                "self.merged, self.bodies = None, {}",
            ),
        ),
        redundant=True,
        survives=("A state says how many timestamps its leader has issued, wherever the count began."),
    ),
    Mutant(
        "30-clock-back",
        "clock_goes_back",
        "B2: a state sets the clock, even back.",
        (Edit(Recovery.install, "    self.raise_clock(r.clock)\n", "    self.clock = r.clock\n"),),
        killer=InCampaign("torn_transfers", 2),
        violates=INSIDE,
    ),
    Mutant(
        "30-sticky",
        "committed_is_not_sticky",
        "B2: a state demotes what is COMMITTED here to ACCEPTED.",
        (NOT_STICKY,),
        killer=InScenario("committed_is_sticky"),
    ),
    Mutant(
        "30-tombstone-gts",
        "committed_below_the_mark_comes_back",
        "What another has COMMITTED and this process has delivered and collected comes back once its id is forgotten.",
        (Edit(Recovery.is_collected, " or 0 < known.gts <= self.max_delivered_gts", ""),),
        redundant=True,
        survives="It is not pending, so it is not delivered again; it costs memory only.",
    ),
]
