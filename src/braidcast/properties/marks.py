"""How far the application of each process was, at any position of a history.

A disk that is lost takes a mark back that had been durable. What a quorum had delivered then remains delivered: the
others restore the process to it before it counts again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable
from itertools import chain

from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Pid, Pids

Move = tuple[int, Pid, Timestamp]
"""At this position, the application of this process came to this gts."""


class Marks:
    """Deliveries and snapshots move a mark up, a restart that lost effects moves it down."""

    def __init__(
        self, pids: Iterable[Pid], moves: Iterable[Move], resumed: Iterable[Move], disk_losses: Container[int] = ()
    ) -> None:
        self.places: dict[Pid, list[int]] = {p: [] for p in pids}
        self.marks: dict[Pid, list[Timestamp]] = {p: [] for p in self.places}
        self.lost: dict[Pid, list[Timestamp]] = {p: [] for p in self.places}
        """Beside each mark, the highest that was lost with a disk before it."""
        # By position, because a log that was lost and the one that goes on share their beginning.
        found = {position: (node, gts) for position, node, gts in chain(moves, resumed)}
        for position in sorted(found):
            node, gts = found[position]
            lost = self.lost[node][-1] if self.lost[node] else 0
            if position in disk_losses and self.marks[node]:
                lost = max(lost, self.marks[node][-1])
            self.places[node].append(position)
            self.marks[node].append(gts)
            self.lost[node].append(lost)

    def mark(self, node: Pid, before: int) -> Timestamp:
        """How far `node` was just before a position."""
        place = bisect_left(self.places[node], before)
        return self.marks[node][place - 1] if place else 0

    def final(self, node: Pid) -> Timestamp:
        """How far `node` was in the end."""
        return self.marks[node][-1] if self.marks[node] else 0

    def quorum_has(self, members: Pids, gts: Timestamp, before: int) -> bool:
        """Whether a majority was there just before a position, or had been when a disk was lost."""
        return sum(self._has_had(p, gts, before) for p in members) > len(members) // 2

    def _has_had(self, node: Pid, gts: Timestamp, before: int) -> bool:
        place = bisect_left(self.places[node], before)
        return bool(place) and max(self.marks[node][place - 1], self.lost[node][place - 1]) >= gts
