"""Mutants of what travels in pieces: votes, bodies, states, snapshots with their tables."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.mutant import INSIDE, ORDER, InCampaign, InScenario, Mutant

from braidcast.protocols.parts.dedup import DedupTable
from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.pieces import Pieces
from braidcast.protocols.whitebox.recovery import Recovery

PIECES_STAY = Edit(
    Recovery.promise, "self.votes, self.vote_pieces, self.synced = {}, {}, {}", "self.votes, self.synced = {}, {}"
)
OF_ANY_VOTE = Edit(Recovery.completes_vote, ".add((*header, vote.parts), vote)", ".add((vote.parts,), vote)")
LAST_ROWS = "_load(tuple({(row.client, row.session): row for row in state.sessions}.values()))"

CUTTING = [
    Mutant(
        "cut-vote",
        "vote_counts_with_a_piece_missing",
        "A vote counts as soon as one of its pieces has come.",
        (Edit(Recovery.completes_vote, "if not pieces:", "pieces = pieces or [vote]\n    if not pieces:"),),
        killer=InCampaign("torn_votes"),
        violates=ORDER,
    ),
    Mutant(
        "cut-votes",
        "pieces_of_two_votes",
        "Pieces of votes in two ballots are put together.",
        (PIECES_STAY, OF_ANY_VOTE),
        killer=InScenario("pieces_of_two_votes"),
    ),
    Mutant(
        "cut-votes-promise",
        "pieces_of_votes_outlive_their_ballot",
        "Pieces of an older vote are kept.",
        (PIECES_STAY,),
        redundant=True,
        survives="Those of a newer one take their place, being of another ballot; without both it dies (cut-votes).",
    ),
    Mutant(
        "cut-votes-header",
        "votes_are_not_told_apart",
        "Pieces of votes are put together whatever they say of themselves.",
        (OF_ANY_VOTE,),
        redundant=True,
        survives="Within a ballot a voter has one vote; without both this and a clean beginning it dies (cut-votes).",
    ),
    Mutant(
        "cut-transfers",
        "pieces_of_two_transfers",
        "Pieces of two states, or of two snapshots, are put together.",
        (Edit(Pieces.add, "if transfer != self.transfer:", "if not self.held:"),),
        killer=InCampaign("torn_transfers", 8),
    ),
    Mutant(
        "cut-impossible",
        "pieces_that_cannot_be",
        "A piece counts that is not one of its transfer.",
        (
            Edit(Recovery.on_new_leader_ack, "if not can_be(vote):", "if False:"),
            Edit(Recovery.on_new_state, "not can_be(s) or ", ""),
            Edit(CatchingUp.on_snapshot_chunk, "or not can_be(c) ", ""),
        ),
        redundant=True,
        survives="Only strangers send such pieces.",
    ),
    Mutant(
        "cut-bodies",
        "bodies_asked_for_once",
        "A candidate does not ask for the bodies that did not fit into the first answer.",
        (Edit(Recovery.on_bodies, "elif len(self.missing) < before and sender in self.votes:", "elif False:"),),
        killer=InScenario("bodies_in_pieces"),
    ),
    Mutant(
        "cut-bodies-none",
        "bodies_asked_for_in_vain",
        "A candidate asks again a voter that has nothing of what it was asked for.",
        (Edit(Recovery.on_bodies, "elif len(self.missing) < before and ", "elif "),),
        redundant=True,
        survives="A voter has the bodies of all that it reported.",
    ),
    Mutant(
        "cut-table",
        "table_of_one_piece",
        "Of the dedup table of a snapshot, only the rows in its last piece count.",
        (
            Edit(
                CatchingUp.on_snapshot_chunk, "joined_tables([piece.dedup for piece in pieces])", "pieces[-1].dedup"
            ),
        ),
        killer=InCampaign("relays"),
        violates=ORDER,
    ),
    Mutant(
        "cut-rows",
        "last_row_of_a_session",
        "Of the rows of a session in a snapshot's dedup table, only the last one counts.",
        (Edit(DedupTable.load, "_load(state.sessions)", LAST_ROWS),),
        killer=InCampaign("relays"),
    ),
    Mutant(
        "cut-intervals",
        "last_intervals_of_a_session",
        "Of the rows of intervals of a session in a snapshot's dedup table, only the last one counts.",
        (
            Edit(
                DedupTable.load,
                "self.batched.setdefault((client, session), []).extend(edges)",
                "self.batched[client, session] = list(edges)",
            ),
        ),
        killer=InCampaign("relays"),
        violates=ORDER,
    ),
    Mutant(
        "cut-dropped",
        "drops_of_one_piece",
        "Of what a state drops, only that in its first piece is dropped.",
        (Edit(Recovery.on_new_state, 'joined(pieces, "dropped")', "pieces[0].dropped"),),
        killer=InCampaign("relays", 5),
        violates=INSIDE,
    ),
    Mutant(
        "cut-proposed",
        "proposals_of_one_piece",
        "Of the numbers that a state lacks, only those in its first piece are known to be missing.",
        (Edit(Recovery.on_new_state, 'joined(pieces, "proposed")', "pieces[0].proposed"),),
        killer=InScenario("proposed_in_a_later_piece"),
    ),
    Mutant(
        "cut-undelivered",
        "undelivered_of_one_piece",
        "Of the numbers that a snapshot lacks, only those in its first piece are known to be missing.",
        (Edit(CatchingUp.on_snapshot_chunk, 'joined(pieces, "undelivered")', "pieces[0].undelivered"),),
        killer=InCampaign("relays", 40),
        violates=ORDER,
    ),
    Mutant(
        "cut-progress",
        "state_asked_for_while_it_comes",
        "A late vote is sent again although pieces of the state have come since the last heartbeat.",
        (Edit(Election.join, "elif len(self.arriving) != self.arrived:", "elif False:"),),
        redundant=True,
        survives="Whoever asks too often gets the same state once more; it costs traffic, and on a slow link time.",
    ),
]
