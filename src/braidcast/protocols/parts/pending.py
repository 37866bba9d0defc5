"""The pending heap: which committed message may be delivered next.

A message waits at its local timestamp until it is committed, then at its global timestamp. It may be delivered once
it is committed and lowest, because every other message will end at or above the timestamp at which it waits now
(paper 001, Figure 1 line 17 and Figure 4 line 21). O(log n) a message: nothing scans the others.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, Protocol, TypeVar

from braidcast.core.timestamps import Timestamp


class Committable(Protocol):
    """What can wait here: 0 while its global timestamp is unknown."""

    gts: Timestamp


E = TypeVar("E", bound=Committable)


class PendingHeap(Generic[E]):
    """Entries by the timestamp below which they cannot end.

    Timestamps are unique. If a leader gives one twice all the same, one of the two is no longer waited for: nothing can
    be delivered at a timestamp where something was.
    """

    __slots__ = ("_at", "_timestamps")

    def __init__(self) -> None:
        self._timestamps: list[Timestamp] = []
        self._at: dict[Timestamp, E] = {}

    def __len__(self) -> int:
        return len(self._at)

    def push(self, ts: Timestamp, entry: E) -> None:
        """Let `entry` wait at `ts`."""
        if ts not in self._at:
            heappush(self._timestamps, ts)
        self._at[ts] = entry

    def next_committed(self) -> E | None:
        """The lowest entry if it is committed and nothing can end below it."""
        timestamps, at = self._timestamps, self._at
        while timestamps:
            ts = timestamps[0]
            entry = at[ts]
            gts = entry.gts
            if gts == ts:
                return entry
            if not gts:
                return None
            del at[ts]
            if gts in at:
                heappop(timestamps)
                continue
            at[gts] = entry
            heapreplace(timestamps, gts)
        return None

    def pop(self) -> None:
        """Remove the lowest entry."""
        del self._at[heappop(self._timestamps)]

    def discard(self, ts: Timestamp) -> None:
        """Remove whatever waits at `ts`; O(n), for the rare case that an entry is given up."""
        if self._at.pop(ts, None) is not None:
            self._timestamps.remove(ts)
            heapify(self._timestamps)

    def in_order(self) -> list[E]:
        """Every entry, by the timestamp at which it waits."""
        return [entry for _, entry in sorted(self._at.items())]

    def canonical(self) -> dict[Timestamp, E]:
        """The state without the accident of how the heap is laid out."""
        return self._at
