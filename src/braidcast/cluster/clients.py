"""Clients of a node: what they submit, what they are told, and the journals that they follow.

1. A client speaks only for itself: a message under another client's id is refused and counted.
2. A client that does not read is sent no more of a journal until it does; one that does not even take its answers
   loses its connection.
3. While a replica here has too much undelivered, nothing more is read from clients: they wait in the network. What
   they have submitted goes on, with whatever leader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from braidcast.cluster.journal import Compacted, Journal
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Group, Pid
from braidcast.wire.codec import Item
from braidcast.wire.connection import Connection
from braidcast.wire.service import Deliveries, SubscriptionEnded

log = logging.getLogger(__name__)

ENTRIES_PER_FRAME = 512
BYTES_PER_FRAME = 1 << 20
UNREAD_BYTES_MAX = 1 << 20
"""A subscriber with so much unread waits."""


class ClientSession:
    """One connection of one client."""

    def __init__(self, connection: Connection, pid: Pid, encode: Callable[[list[Item]], bytes]) -> None:
        self.connection, self.pid, self.encode = connection, pid, encode
        self.outgoing: list[Item] = []
        self.following: dict[Group, Timestamp] = {}
        """Up to where each journal was sent."""

    def follow(self, journals: dict[Group, Journal]) -> bool:
        """Send what the journals have that this client has not seen; whether there is more."""
        more = False
        for group, after in list(self.following.items()):
            while self.connection.alive and after < journals[group].last_gts:
                if self.connection.unread_bytes > UNREAD_BYTES_MAX:
                    more = True
                    break
                try:
                    entries = journals[group].read(after, ENTRIES_PER_FRAME)
                except Compacted as error:
                    self.outgoing.append((0, (), SubscriptionEnded(group, str(error))))
                    del self.following[group]
                    self.flush()
                    break
                if not entries:
                    break
                size, count = 0, 0
                while count < len(entries) and size < BYTES_PER_FRAME:
                    size += len(entries[count].payload)
                    count += 1
                self.outgoing.append((0, (), Deliveries(group, tuple(entries[:count]))))
                after = self.following[group] = entries[count - 1].gts
                self.flush()
        return more

    def flush(self) -> None:
        """Send what this tick has for it."""
        if self.outgoing:
            self.connection.send(self.encode(self.outgoing))
            self.outgoing.clear()


class Clients:
    """All clients that are connected to this node."""

    def __init__(self) -> None:
        self.sessions: dict[Pid, list[ClientSession]] = {}
        """A client may have several connections."""
        self.reading = True
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
        if not self.reading:
            self._read(session, False)

    def remove(self, session: ClientSession) -> None:
        """Its connection ended."""
        sessions = self.sessions.get(session.pid, [])
        if session in sessions:
            sessions.remove(session)
        if not sessions:
            self.sessions.pop(session.pid, None)
        self.following.pop(session, None)
        self.unsent.pop(session, None)

    def tell(self, pid: Pid, sender: Pid, message: Any) -> bool:
        """Something for a client; False if it is not connected here."""
        sessions = self.sessions.get(pid)
        if not sessions:
            return False
        for session in sessions:
            session.outgoing.append((sender, (pid,), message))
            self.unsent[session] = None
        return True

    def set_reading(self, reading: bool) -> None:
        """Read from clients, or leave what they send in the network."""
        if reading == self.reading:
            return
        self.reading = reading
        for session in self.all():
            self._read(session, reading)

    def _read(self, session: ClientSession, reading: bool) -> None:
        transport = session.connection.transport
        if transport is None or not session.connection.alive:
            return
        if reading:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def flush(self, journals: dict[Group, Journal]) -> bool:
        """Send what this tick has for clients; whether a subscriber has to be looked at again."""
        more = False
        for session in list(self.following):
            more |= session.follow(journals)
        unsent, self.unsent = self.unsent, {}
        for session in unsent:
            session.flush()
        return more
