"""Timestamps compare like the pairs they pack."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from braidcast.core.timestamps import GROUPS_MAX, clock_of, group_of, show_timestamp, timestamp

pairs = st.tuples(st.integers(0, 1 << 50), st.integers(0, GROUPS_MAX - 1))


@given(pairs, pairs)
def test_order_is_that_of_the_pairs(one: tuple[int, int], two: tuple[int, int]) -> None:
    assert (timestamp(*one) < timestamp(*two)) == (one < two)
    assert (timestamp(*one) == timestamp(*two)) == (one == two)


@given(pairs)
def test_pair_comes_back(pair: tuple[int, int]) -> None:
    ts = timestamp(*pair)
    assert (clock_of(ts), group_of(ts)) == pair


@given(st.integers(1, 1 << 50), st.integers(0, GROUPS_MAX - 1))
def test_zero_is_below_every_timestamp_ever_issued(clock: int, group: int) -> None:
    """Clocks start at 1."""
    assert timestamp(clock, group) > 0


@given(pairs)
def test_packed_timestamps_fit_a_signed_64_bit_column(pair: tuple[int, int]) -> None:
    assert timestamp(*pair) < 1 << 63


def test_show() -> None:
    assert show_timestamp(timestamp(17, 2)) == "17.2"
    assert show_timestamp(0) == "-"
