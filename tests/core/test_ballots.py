"""Ballots compare like the pairs they pack."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from braidcast.core.ballots import PIDS_MAX, ballot, leader_of, leaders_of, number_of, show_ballot

pairs = st.tuples(st.integers(0, 1 << 40), st.integers(0, PIDS_MAX - 1))


@given(pairs, pairs)
def test_order_is_that_of_the_pairs(one: tuple[int, int], two: tuple[int, int]) -> None:
    assert (ballot(*one) < ballot(*two)) == (one < two)
    assert (ballot(*one) == ballot(*two)) == (one == two)


@given(pairs)
def test_pair_comes_back(pair: tuple[int, int]) -> None:
    b = ballot(*pair)
    assert (number_of(b), leader_of(b)) == pair


@given(st.lists(pairs, max_size=4))
def test_leaders_of_a_vector(vector: list[tuple[int, int]]) -> None:
    packed = tuple(ballot(*pair) for pair in vector)
    assert leaders_of(packed) == tuple(leader for _, leader in vector)
    assert leaders_of(packed) is leaders_of(packed)


def test_show() -> None:
    assert show_ballot(ballot(3, 7)) == "3@7"
