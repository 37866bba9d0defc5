"""How far the application of each process was, at any position of a history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Pid, Pids

Move = tuple[int, Pid, Timestamp]
"""At this position, the application of this process came to this gts."""


class Marks:
    """Deliveries and snapshots move a mark up, a restart that lost effects moves it down."""

    def __init__(self, pids: Iterable[Pid], moves: Iterable[Move], resumed: Iterable[Move]) -> None:
        self.places: dict[Pid, list[int]] = {p: [] for p in pids}
        self.marks: dict[Pid, list[Timestamp]] = {p: [] for p in self.places}
        for position, node, gts in sorted({*moves, *resumed}):
            self.places[node].append(position)
            self.marks[node].append(gts)

    def mark(self, node: Pid, before: int) -> Timestamp:
        """How far `node` was just before a position."""
        place = bisect_left(self.places[node], before)
        return self.marks[node][place - 1] if place else 0

    def final(self, node: Pid) -> Timestamp:
        """How far `node` was in the end."""
        return self.marks[node][-1] if self.marks[node] else 0

    def quorum_has(self, members: Pids, gts: Timestamp, before: int) -> bool:
        """Whether a majority was there just before a position."""
        return sum(self.mark(p, before) >= gts for p in members) > len(members) // 2
