"""The dedup table: what was delivered, remembered for longer than the messages themselves.

Per client session it holds a low-water mark, which comes from the client ("all my units below are complete
everywhere"), and the units delivered above it. It is changed by deliveries only, so replicas that delivered the same
have the same table. Messages inside client-formed batches are numbered apart and remembered as intervals.

An expired session is refused, never treated as new: forgetting it leaves a floor per client.
"""

from __future__ import annotations

from bisect import bisect_right

from braidcast.core.client import MessageId, Multicast
from braidcast.core.message import message
from braidcast.core.process import Ticks
from braidcast.core.timestamps import Timestamp


@message
class SessionState:
    """One session as it travels in snapshots and checkpoints."""

    client: int
    session: int
    complete_below: int
    delivered: tuple[tuple[int, Timestamp], ...]
    batched: tuple[int, ...]
    newest: Timestamp = 0


@message
class DedupState:
    """The whole table as it travels in snapshots and checkpoints."""

    sessions: tuple[SessionState, ...] = ()
    floors: tuple[tuple[int, int], ...] = ()


class Session:
    """What is remembered of one client session."""

    __slots__ = ("batched", "complete_below", "delivered", "newest", "used_at")

    def __init__(self) -> None:
        self.complete_below = 1
        self.delivered: dict[int, Timestamp] = {}
        self.batched: list[int] = []
        """Messages of batches that were delivered: starts and ends of disjoint intervals, ascending."""
        self.newest: Timestamp = 0
        """Its last delivery here."""
        self.used_at: Ticks = 0


class DedupTable:
    """Delivered units by client session."""

    __slots__ = ("floors", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[tuple[int, int], Session] = {}
        self.floors: dict[int, int] = {}
        """Per client the lowest session that is not expired."""

    def delivered_at(self, id: MessageId) -> Timestamp | None:
        """None if `id` was not delivered here; else its timestamp, or 0 if that is no longer remembered."""
        session = self.sessions.get(id[:2])
        if session is None:
            return None
        if id[2] < session.complete_below:
            return 0
        return session.delivered.get(id[2])

    def is_expired(self, id: MessageId) -> bool:
        """Whether nothing is remembered of the session of `id` any more."""
        return id[1] < self.floors.get(id[0], 0)

    def touch(self, id: MessageId, now: Ticks) -> None:
        """The session of `id` is in use."""
        session = self.sessions.get(id[:2])
        if session is not None:
            session.used_at = now

    def add(self, unit: Multicast, gts: Timestamp, now: Ticks) -> tuple[int, ...]:
        """Remember a delivery; the offsets in its batch of what an earlier batch had already delivered."""
        id = unit.id
        session = self.sessions.get(id[:2])
        if session is None:
            session = self.sessions[id[:2]] = Session()
        session.delivered[id[2]] = session.newest = gts
        session.used_at = now
        if unit.complete_below > session.complete_below:
            _forget_below(session, unit.complete_below)
        return _add_batch(session.batched, unit.batch_first, unit.batch_count) if unit.batch_count else ()

    def idle_since(self, before: Ticks, upto: Timestamp) -> list[tuple[int, int]]:
        """Sessions unused since `before` with no delivery above `upto`, oldest session of a client first."""
        return sorted(key for key, s in self.sessions.items() if s.used_at < before and s.newest <= upto)

    def expire(self, client: int, session: int) -> None:
        """Forget a session, and refuse it and all older ones of that client from now on."""
        for key in [key for key in self.sessions if key[0] == client and key[1] <= session]:
            del self.sessions[key]
        self.floors[client] = max(self.floors.get(client, 0), session + 1)

    def export(self) -> DedupState:
        """The table as plain data."""
        return DedupState(
            tuple(
                SessionState(*key, s.complete_below, tuple(sorted(s.delivered.items())), tuple(s.batched), s.newest)
                for key, s in sorted(self.sessions.items())
            ),
            tuple(sorted(self.floors.items())),
        )

    def load(self, state: DedupState, now: Ticks) -> None:
        """Replace the table by an exported one."""
        self.floors = dict(state.floors)
        self.sessions = {}
        for exported in state.sessions:
            session = self.sessions[exported.client, exported.session] = Session()
            session.complete_below = exported.complete_below
            session.delivered = dict(exported.delivered)
            session.batched = list(exported.batched)
            session.newest = exported.newest
            session.used_at = now


def _forget_below(session: Session, seq: int) -> None:
    delivered = session.delivered
    if seq - session.complete_below <= len(delivered):
        for old in range(session.complete_below, seq):
            delivered.pop(old, None)
    else:
        session.delivered = {kept: gts for kept, gts in delivered.items() if kept >= seq}
    session.complete_below = seq


def _add_batch(intervals: list[int], first: int, count: int) -> tuple[int, ...]:
    """Add [first, first + count) to the intervals; the offsets that were in them before."""
    after = first + count
    left, right = bisect_right(intervals, first), bisect_right(intervals, after)
    if left == right and left % 2 == 0 and (not left or intervals[left - 1] < first):
        intervals[left:left] = [first, after]  # touches nothing: the common case of the first batch
        return ()
    if left and left % 2 == 0 and intervals[left - 1] == first and left == right:
        intervals[left - 1] = after  # continues the interval before: the common case of every later batch
        return ()
    covered = set[int]()
    starts_ends = list(zip(intervals[::2], intervals[1::2], strict=True))
    for start, end in starts_ends:
        covered.update(range(max(start, first), min(end, after)))
    merged: list[int] = []
    for start, end in sorted([*starts_ends, (first, after)]):
        if merged and start <= merged[-1]:
            merged[-1] = max(merged[-1], end)
        else:
            merged += [start, end]
    intervals[:] = merged
    return tuple(sorted(seq - first for seq in covered))
