"""The dedup table: what was delivered, remembered for longer than the messages themselves.

Per client session it holds a low-water mark, which comes from the client ("all my units below are complete
everywhere"), and the units delivered above it. Messages inside client-formed batches are numbered apart and
remembered as intervals.

Rule: what answers depend on is changed by deliveries only, in their order, so that replicas which delivered the same
give the same answers. That holds for expiry, too: there is no clock in it. A group remembers so many sessions; when
there are more, it forgets those whose last delivery is longest ago. An expired session is refused, never treated as
new: a floor per client stays, and what was batched, because another group, where the session lives on, may still bring
a batch that overlaps. Of these it keeps `CLIENTS_PER_SESSION` times as many. For clients that are forgotten even so,
one floor for all stays: the highest of theirs, which is safe whatever numbers clients give their sessions, and refuses
nobody who takes them from a clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from braidcast.core.client import MessageId, Multicast
from braidcast.core.message import Count, message
from braidcast.core.timestamps import Timestamp


@message
class SessionState:
    """One session as it travels in snapshots and checkpoints, or some of its units."""

    client: int
    session: Count
    complete_below: Count
    delivered: tuple[tuple[Count, Timestamp], ...]
    newest: Timestamp


@message
class DedupState:
    """The table, or some of its rows, as it travels in snapshots and checkpoints."""

    sessions: tuple[SessionState, ...] = ()
    expired: tuple[SessionState, ...] = ()
    floors: tuple[tuple[int, Count], ...] = ()
    batched: tuple[tuple[int, Count, tuple[Count, ...]], ...] = ()
    """Client, session, and the edges of the intervals."""
    floor_of_forgotten: Count = 0

    @property
    def is_whole(self) -> bool:
        """Whether its intervals are some: disjoint, ascending, each with a start and an end."""
        return all(len(edges) % 2 == 0 and all(a < b for a, b in pairwise(edges)) for _, _, edges in self.batched)


class Session:
    """What is remembered of the units of one client session."""

    __slots__ = ("complete_below", "delivered", "newest")

    def __init__(self) -> None:
        self.complete_below = 1
        self.delivered: dict[int, Timestamp] = {}
        self.newest: Timestamp = 0
        """Its last delivery here."""

    def find(self, seq: int) -> Timestamp | None:
        """When a unit was delivered: None for never, 0 if that is forgotten."""
        return 0 if seq < self.complete_below else self.delivered.get(seq)


CLIENTS_PER_SESSION = 8
"""So many clients with an expired session are remembered for each session that is not."""
Key = tuple[int, int]
"""Client and session."""


class DedupTable:
    """Delivered units by client session."""

    __slots__ = ("batched", "expired", "floor_of_forgotten", "floors", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[Key, Session] = {}
        self.expired: dict[Key, Session] = {}
        """Sessions that are refused, but whose units a slow member may still take for undelivered."""
        self.floors: dict[int, int] = {}
        """Per client the lowest session that is not expired; who expired last is last."""
        self.floor_of_forgotten = 0
        """The same for all clients that are not known here."""
        self.batched: dict[Key, list[int]] = {}
        """Messages of batches that were delivered, by session: starts and ends of disjoint intervals, ascending."""

    def delivered_at(self, id: MessageId) -> Timestamp | None:
        """None if `id` was not delivered here; else its timestamp, or 0 if that is no longer remembered."""
        session = self.sessions.get(id[:2])
        found = session.find(id[2]) if session is not None else None
        if found is None and self.expired and (session := self.expired.get(id[:2])) is not None:
            return session.find(id[2])
        return found

    def is_expired(self, id: MessageId) -> bool:
        """Whether the session of `id` is refused."""
        floor = self.floors.get(id[0])
        if floor is not None:
            return id[1] < floor
        return id[1] < self.floor_of_forgotten and id[:2] not in self.sessions

    def add(self, unit: Multicast, gts: Timestamp) -> tuple[int, ...]:
        """Remember a delivery; the offsets in its batch of what an earlier batch had already delivered."""
        id = unit.id
        session = self.sessions.get(id[:2])
        if session is None:
            session = self.sessions[id[:2]] = Session()
        session.newest = gts
        if id[2] >= session.complete_below:  # or its client's word was false, and still says that it is complete
            session.delivered[id[2]] = gts
        if unit.complete_below > session.complete_below:
            _forget_below(session, unit.complete_below)
        if not unit.batch_count:
            return ()
        batched = self.batched.get(id[:2])
        if batched is None:
            batched = self.batched[id[:2]] = []
        repeated = _add_batch(batched, unit.batch_first, unit.batch_count)
        _merge_below(batched, unit.batch_complete_below)
        return repeated

    def expire_oldest(self, keep: int) -> int:
        """Refuse the sessions whose last delivery is longest ago, until three quarters of `keep` are left; how many.

        With a session go the older ones of its client. Many at once, so that looking for the oldest costs little.
        """
        before = len(self.sessions)
        by_age = sorted(self.sessions, key=lambda key: self.sessions[key].newest)
        for client, number in by_age[: before - max(1, keep * 3 // 4)]:
            self.floors[client] = max(self.floors.pop(client, 0), number + 1)
        for key in [key for key in self.sessions if key[1] < self.floors.get(key[0], 0)]:
            session = self.sessions.pop(key)
            if (earlier := self.expired.get(key)) is not None:  # another group's leader brought something after all
                session.delivered |= earlier.delivered
            self.expired[key] = session
        self._forget_clients(keep * CLIENTS_PER_SESSION)
        return before - len(self.sessions)

    def _forget_clients(self, keep: int) -> None:
        """Beyond so many clients with expired sessions, forget those that expired longest ago, a quarter at once."""
        if len(self.floors) <= keep:
            return
        for client in list(self.floors)[: len(self.floors) - keep * 3 // 4]:
            self.floor_of_forgotten = max(self.floor_of_forgotten, self.floors.pop(client))
        # By deliveries only: what is left of `expired` depends on when this replica heard what others have delivered.
        floors, live = self.floors, self.sessions
        self.batched = {key: edges for key, edges in self.batched.items() if key[0] in floors or key in live}

    def bury(self, upto: Timestamp) -> None:
        """Forget expired sessions without a delivery above `upto`, which every replica has delivered."""
        for key in [key for key, session in self.expired.items() if session.newest <= upto]:
            del self.expired[key]

    def export(self, units_max: int = 1 << 30) -> DedupState:
        """The table as plain data; what a session has more than so many units or intervals of is in further rows."""
        batched = tuple(
            [
                (*key, tuple(edges[at : at + 2 * units_max]))
                for key, edges in sorted(self.batched.items())
                for at in range(0, len(edges), 2 * units_max)
            ]
        )
        sessions, expired = _export(self.sessions, units_max), _export(self.expired, units_max)
        return DedupState(sessions, expired, tuple(self.floors.items()), batched, self.floor_of_forgotten)

    def load(self, state: DedupState) -> None:
        """Replace the table by an exported one."""
        self.sessions, self.expired, self.floors = _load(state.sessions), _load(state.expired), dict(state.floors)
        self.batched = {}
        for client, session, edges in state.batched:
            self.batched.setdefault((client, session), []).extend(edges)
        self.floor_of_forgotten = state.floor_of_forgotten


def joined_tables(tables: Sequence[DedupState]) -> DedupState:
    """One table of the rows of several, in their order."""
    return DedupState(
        tuple([row for table in tables for row in table.sessions]),
        tuple([row for table in tables for row in table.expired]),
        tuple([row for table in tables for row in table.floors]),
        tuple([row for table in tables for row in table.batched]),
        max([table.floor_of_forgotten for table in tables]),
    )


def _export(sessions: dict[Key, Session], units_max: int) -> tuple[SessionState, ...]:
    rows: list[SessionState] = []
    for key, s in sorted(sessions.items()):
        units = tuple(sorted(s.delivered.items()))
        for at in range(0, len(units) or 1, units_max):
            rows.append(SessionState(*key, s.complete_below, units[at : at + units_max], s.newest))
    return tuple(rows)


def _load(states: tuple[SessionState, ...]) -> dict[Key, Session]:
    sessions: dict[Key, Session] = {}
    for state in states:
        session = sessions.setdefault((state.client, state.session), Session())
        session.complete_below = state.complete_below
        session.delivered.update(state.delivered)
        session.newest = state.newest
    return sessions


def _forget_below(session: Session, seq: int) -> None:
    delivered = session.delivered
    if seq - session.complete_below <= len(delivered):
        for old in range(session.complete_below, seq):
            delivered.pop(old, None)
    else:
        session.delivered = {kept: gts for kept, gts in delivered.items() if kept >= seq}
    session.complete_below = seq


def _merge_below(intervals: list[int], number: int) -> None:
    """Everything below `number` is complete: one interval says so, however many batches went to other groups."""
    if number <= 0:
        return
    kept = [bound for bound in zip(intervals[::2], intervals[1::2], strict=True) if bound[1] > number]
    end = kept.pop(0)[1] if kept and kept[0][0] <= number else number
    intervals[:] = [0, end, *[edge for bound in kept for edge in bound]]


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
