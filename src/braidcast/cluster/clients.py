"""Clients of a node: what they submit, what they are told, and the journals that they follow.

1. A client speaks only for itself: a message under another client's id is refused and counted.
2. A client that does not read is sent no more of a journal until it does; one that does not even take its answers
   loses its connection.
3. While there is no room for more messages (`admits`), a client that sends one is not read any further: it waits in
   the network. What was submitted goes on, with whatever leader. Others can follow, and ask how the node is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from braidcast.cluster.config import FRAME_MARGIN_BYTES
from braidcast.cluster.journal import ENTRY_BYTES, Compacted, Journal
from braidcast.cluster.journal_segments import JournalError
from braidcast.cluster.lacking import FILES, lack_of
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Group, Pid, Pids
from braidcast.wire.codec import Item
from braidcast.wire.connection import Connection
from braidcast.wire.service import Deliveries, JournalEntry, SubscriptionEnded

ENTRIES_PER_FRAME = 512
BYTES_PER_FRAME = 1 << 20
UNREAD_BYTES_MAX = 1 << 20
"""A subscriber with so much unread waits."""
GROUP_BYTES = 3
"""What each destination of an entry takes at most."""
LATEST = 1 << 63
"""Above every timestamp."""


class ClientSession:
    """One connection of one client."""

    def __init__(
        self, connection: Connection, pid: Pid, bodies: Callable[[Sequence[Item], int], Iterable[bytes]]
    ) -> None:
        self.connection, self.pid, self.bodies = connection, pid, bodies
        self.outgoing: list[Item] = []
        self.following: dict[Group, Timestamp] = {}
        """Up to where each journal was sent."""
        self.waiting: deque[tuple[Pids, Any]] = deque()
        """Messages that were read when there was no room: never more than one read of the network brings."""

    def follow(self, journals: dict[Group, Journal]) -> bool:
        """Send what the journals have that this client has not seen; whether there is more."""
        limits = self.connection.limits
        unread_max = min(UNREAD_BYTES_MAX, limits.buffer_bytes_max - limits.frame_bytes_max)
        for group in list(self.following):
            while self.connection.alive and self.following.get(group, LATEST) < journals[group].last_gts:
                if self.connection.unread_bytes > unread_max:
                    return True
                try:
                    self._send_piece(group, journals[group])
                except OSError as error:
                    if lack_of(error) != FILES:
                        raise
                    return True  # what it asks for is in a file, and none can be opened at the moment
        return False

    def _send_piece(self, group: Group, journal: Journal) -> None:
        try:
            entries = journal.read(self.following[group], ENTRIES_PER_FRAME)
        except (Compacted, JournalError) as error:
            self.outgoing.append((0, (), SubscriptionEnded(group, str(error))))
            del self.following[group]
            return self.flush()
        bytes_max = min(BYTES_PER_FRAME, self.connection.limits.frame_bytes_max - FRAME_MARGIN_BYTES)
        count, size = 1, _size(entries[0])
        while count < len(entries) and (size := size + _size(entries[count])) <= bytes_max:
            count += 1
        self.outgoing.append((0, (), Deliveries(group, tuple(entries[:count]))))
        self.following[group] = entries[count - 1].gts
        self.flush()

    def answer(self, message: Any) -> None:
        """Something of the node itself, at once: a node that lets nothing go for want of room says so all the same."""
        for body in self.bodies([(0, (self.pid,), message)], self.connection.limits.frame_bytes_max):
            self.connection.send(body)

    def flush(self) -> None:
        """Send what this tick has for it."""
        if self.outgoing:
            outgoing, self.outgoing = self.outgoing, []
            for body in self.bodies(outgoing, self.connection.limits.frame_bytes_max):
                self.connection.send(body)


class Clients:
    """All clients that are connected to this node."""

    def __init__(self) -> None:
        self.sessions: dict[Pid, list[ClientSession]] = {}
        """A client may have several connections."""
        self.admits = True
        """Whether there is room for more messages."""
        self.held: dict[ClientSession, None] = {}
        """Those that are not read because there was none."""
        self.following: dict[ClientSession, None] = {}
        self.unsent: dict[ClientSession, None] = {}
        """Those for whom this tick has something."""

    def __len__(self) -> int:
        return sum(len(sessions) for sessions in self.sessions.values())

    def all(self) -> list[ClientSession]:
        """Every connection."""
        return [session for sessions in self.sessions.values() for session in sessions]

    def add(self, session: ClientSession) -> None:
        """A client has connected."""
        self.sessions.setdefault(session.pid, []).append(session)

    def remove(self, session: ClientSession) -> None:
        """Its connection ended."""
        sessions = self.sessions.get(session.pid, [])
        if session in sessions:
            sessions.remove(session)
        if not sessions:
            self.sessions.pop(session.pid, None)
        self.following.pop(session, None)
        self.unsent.pop(session, None)
        self.held.pop(session, None)

    def tell(self, pid: Pid, sender: Pid, message: Any) -> bool:
        """Something for a client; False if it is not connected here."""
        sessions = self.sessions.get(pid)
        if not sessions:
            return False
        for session in sessions:
            session.outgoing.append((sender, (pid,), message))
            self.unsent[session] = None
        return True

    def hold(self, session: ClientSession, to: Pids, message: Any) -> None:
        """There is no room for this: it waits, and so does what its client sends after it."""
        session.waiting.append((to, message))
        session.connection.set_reading(False)
        self.held[session] = None

    def released(self) -> Iterator[tuple[ClientSession, Pids, Any]]:
        """What waited, client by client, as long as there is room; who has nothing left is read again."""
        for session in list(self.held):
            while session.waiting:
                if not self.admits:
                    return
                yield session, *session.waiting.popleft()
            self.held.pop(session, None)
            session.connection.set_reading(True)

    def flush(self, journals: dict[Group, Journal]) -> bool:
        """Send what this tick has for clients; whether a subscriber has to be looked at again."""
        more = False
        for session in list(self.following):
            more |= session.follow(journals)
        unsent, self.unsent = self.unsent, {}
        for session in unsent:
            session.flush()
        return more


def _size(entry: JournalEntry) -> int:
    return len(entry.payload) + ENTRY_BYTES + GROUP_BYTES * len(entry.dest)
