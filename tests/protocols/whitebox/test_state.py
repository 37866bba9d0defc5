"""The helpers that everything else is written in."""

from __future__ import annotations

from tests.protocols.whitebox.harness import Bench, ts, unit

from braidcast.core.ballots import ballot
from braidcast.protocols.whitebox.entry import ACCEPTED, COMMITTED, PROPOSED
from braidcast.protocols.whitebox.messages import Known


def test_clock_only_rises() -> None:
    process = Bench(3)[1]
    process.raise_clock(5)
    process.raise_clock(3)
    assert process.clock == 5


def test_known_entries_are_in_order_of_their_ids_and_not_of_arrival() -> None:
    """Rule 5 of the contract: what goes out must not depend on chance."""
    process = Bench(3)[1]
    for seq in (3, 1, 2):
        process.adopt_known(Known(unit(seq, 0).id, (0,), ACCEPTED, ts(seq), 0, unit(seq, 0)))
    assert [known.id.seq for known in process.known_entries(with_bodies=False)] == [1, 2, 3]
    assert [known.body for known in process.known_entries(with_bodies=False)] == [None] * 3
    assert all(known.body for known in process.known_entries(with_bodies=True))


def test_adopted_commit_does_not_go_back_B2() -> None:
    process, m = Bench(3)[1], unit(1, 0)
    process.adopt_known(Known(m.id, (0,), COMMITTED, ts(1), ts(4), m))
    entry = process.adopt_known(Known(m.id, (0,), ACCEPTED, ts(1), 0))
    assert (entry.phase, entry.gts, entry.body) == (COMMITTED, ts(4), m)


def test_rebuilt_heap_holds_what_is_not_delivered() -> None:
    process = Bench(3)[1]
    process.max_delivered_gts = ts(2)
    for seq, phase, gts in ((1, COMMITTED, ts(2)), (2, COMMITTED, ts(5)), (3, ACCEPTED, 0), (4, PROPOSED, 0)):
        process.adopt_known(Known(unit(seq, 0).id, (0,), phase, ts(seq), gts))
    process.rebuild_pending()
    assert [entry.id.seq for entry in process.pending.in_order()] == [3, 4, 2]


def test_ballot_belongs_to_its_leader_and_its_group() -> None:
    process = Bench(3, 3)[0]
    assert process.comes_from_its_leader(1, ballot(7, 1))
    assert not process.comes_from_its_leader(2, ballot(7, 1))
    assert not process.comes_from_its_leader(3, ballot(7, 3)), "another group's"
    assert not process.comes_from_its_leader(100, ballot(7, 100)), "a client's"


def test_what_others_know_must_concern_this_group() -> None:
    process = Bench(3, 3)[0]
    made = [Known(unit(1).id, dest, ACCEPTED, ts(1), 0) for dest in ((0,), (0, 1), (1,), (0, 9), ())]
    assert [process.concerns([known]) for known in made] == [True, True, False, False, False]
    assert process.concerns([])
