"""Timestamps: the pair (clock, group) packed in one int that compares like the pair.

They order messages (paper 001, section III). Zero is below every timestamp that was ever issued, because clocks
start at 1.
"""

from __future__ import annotations

from typing import Annotated

from braidcast.core.message import between

GROUP_BITS = 10
GROUPS_MAX = 1 << GROUP_BITS
CLOCK_MAX = 1 << 52
"""A clock that ticks every microsecond gets there in a century."""
Clock = Annotated[int, between(0, CLOCK_MAX)]
Timestamp = Annotated[int, between(0, CLOCK_MAX << GROUP_BITS)]


def timestamp(clock: int, group: int) -> Timestamp:
    """The pair (clock, group)."""
    return clock << GROUP_BITS | group


def clock_of(ts: Timestamp) -> int:
    """The paper's time(ts)."""
    return ts >> GROUP_BITS


def group_of(ts: Timestamp) -> int:
    """The group that issued `ts`."""
    return ts & GROUPS_MAX - 1


def show_timestamp(ts: Timestamp) -> str:
    """`17.2` for clock 17 of group 2, `-` for none."""
    return f"{clock_of(ts)}.{group_of(ts)}" if ts else "-"
