"""Ballots: the pair (number, leader) packed in one int that compares like the pair.

A ballot names a period during which one process leads its group (paper 001, section IV).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from braidcast.core.message import between

BALLOT_MAX = 1 << 62
Ballot = Annotated[int, between(0, BALLOT_MAX)]
Vector = tuple[Ballot, ...]
"""One ballot per destination group, in the order of the destinations."""

PID_BITS = 16
PIDS_MAX = 1 << PID_BITS
PID_MASK = PIDS_MAX - 1


def ballot(number: int, leader: int) -> Ballot:
    """The pair (number, leader)."""
    return number << PID_BITS | leader


def number_of(b: Ballot) -> int:
    """The number of a ballot, without its leader."""
    return b >> PID_BITS


def leader_of(b: Ballot) -> int:
    """The paper's leader(b)."""
    return b & PID_MASK


@lru_cache(maxsize=65536)
def leaders_of(vector: Vector) -> tuple[int, ...]:
    """The leaders of a ballot vector; remembered, because few vectors are alive at a time."""
    return tuple([b & PID_MASK for b in vector])


def show_ballot(b: Ballot) -> str:
    """`3@7` for number 3 led by process 7."""
    return f"{number_of(b)}@{leader_of(b)}"
