"""What is kept of one message: one ACCEPT per group, of the highest ballot (B6)."""

from __future__ import annotations

from tests.protocols.whitebox.harness import ts

from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId
from braidcast.protocols.whitebox.entry import ACCEPTED, START, Entry
from braidcast.protocols.whitebox.messages import Accept

ID = MessageId(100, 1, 1)


def accept(group: int, b: int, lts: int) -> Accept:
    return Accept(ID, (0, 1), group, b, lts, None)


def test_bound_is_the_highest_timestamp_held() -> None:
    entry = Entry(ID, (0, 1), 4, 0)
    assert entry.hold(accept(0, ballot(0, 0), ts(3)))
    assert (entry.bound, entry.missing) == (ts(3), 1)
    assert entry.hold(accept(1, ballot(0, 3), ts(2, 1)))
    assert (entry.bound, entry.missing) == (ts(3), 0)


def test_higher_ballot_replaces_a_lower_one_and_the_bound_may_fall() -> None:
    """A deposed leader's timestamp no longer counts."""
    entry = Entry(ID, (0, 1), 4, 0)
    entry.hold(accept(0, ballot(0, 0), ts(3)))
    entry.hold(accept(1, ballot(0, 3), ts(9, 1)))
    assert entry.hold(accept(1, ballot(1, 4), ts(5, 1)))
    assert (entry.bound, entry.missing) == (ts(5, 1), 0)


def test_lower_ballot_is_turned_away_and_changes_nothing() -> None:
    entry = Entry(ID, (0, 1), 4, 0)
    newer = accept(1, ballot(1, 4), ts(5, 1))
    entry.hold(newer)
    assert not entry.hold(accept(1, ballot(0, 3), ts(9, 1)))
    assert (entry.accepts, entry.bound, entry.missing) == ({1: newer}, ts(5, 1), 1)


def test_same_accept_again_changes_nothing() -> None:
    entry = Entry(ID, (0, 1), 4, 0)
    for _ in range(2):
        assert entry.hold(accept(0, ballot(0, 0), ts(3)))
    assert (entry.bound, entry.missing) == (ts(3), 1)


def test_unproposed_entry_is_as_if_new() -> None:
    entry = Entry(ID, (0,), 2, 0)
    entry.phase, entry.lts = ACCEPTED, ts(3)
    entry.unpropose()
    assert (entry.phase, entry.lts) == (START, 0)


def test_forgotten_acknowledgements_do_not_count_any_more() -> None:
    entry = Entry(ID, (0,), 2, 0)
    entry.vector, entry.acks, entry.issued = (5,), {(5,): 7}, 3
    entry.forget_acks()
    assert not entry.vector
    assert not entry.acks
    assert not entry.issued
