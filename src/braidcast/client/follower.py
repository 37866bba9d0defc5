"""Following what a group delivers, exactly once after a checkpoint, through failures of the replicas that tell it.

Every replica of a group keeps the same journal. A follower reads from one of them and goes on with another where it
stopped when that one is gone or no longer keeps what is needed. The timestamp of the last entry is the checkpoint.
A follower that is not asked for more reads no more from the network: then that line waits, for whoever else uses it.
"""

from __future__ import annotations

import asyncio

from braidcast.client.errors import NoLongerKept, NotPermitted, UnknownGroup
from braidcast.client.link import Line, Link
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Group, Pid
from braidcast.wire.service import NOT_PERMITTED, Deliveries, JournalEntry, Subscribe, SubscriptionEnded

AHEAD_BYTES_MAX = 4 << 20
ENTRY_BYTES = 64
"""What an entry takes besides its payload, roughly."""


class Follower:
    """The deliveries of one group, entry after entry, for ever."""

    def __init__(self, link: Link, group: str, after: Timestamp = 0) -> None:
        if group not in link.groups:
            raise UnknownGroup(f"there is no group {group!r} in this cluster: it has {', '.join(link.groups)}")
        self.link, self.name, self.after = link, group, after
        self.group: Group = link.groups[group]
        members = set(link.members[self.group])
        self.hosts = [line for line in link.lines.values() if not members.isdisjoint(line.node.pids)]
        self.line: Line | None = None
        """The one over which it subscribed."""
        self.given_up: set[str] = set()
        """Nodes that no longer keep what is needed."""
        self._arrived: asyncio.Queue[JournalEntry | None] = asyncio.Queue()
        """None: there is nothing more to come."""
        self._has_begun = self._has_ended = False
        self._not_permitted = ""
        self._ahead_bytes = 0
        self._newest = after
        link.listen(Deliveries, self._on_deliveries)
        link.listen(SubscriptionEnded, self._on_ended)
        link.on_connected.append(self._on_connected)
        link.on_lost.append(self._on_lost)

    @property
    def has_more(self) -> bool:
        """Whether the next one is at hand."""
        return self._arrived.qsize() > self._has_ended

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> JournalEntry:
        if not self._has_begun:
            self._has_begun = True
            self._subscribe()
        entry = await self._arrived.get()
        if entry is None:
            self._arrived.put_nowait(None)  # for whoever asks again
            if self._not_permitted:
                raise NotPermitted(self._not_permitted)
            raise NoLongerKept(
                f"no replica of group {self.name} keeps what follows the timestamp {self._newest}: begin anew from a "
                f"snapshot of what you build from it"
            )
        self.after = entry.gts
        self._ahead_bytes -= len(entry.payload) + ENTRY_BYTES
        self._set_reading()
        return entry

    def _subscribe(self) -> None:
        if len(self.given_up) == len(self.hosts):
            self._has_ended = True
            return self._arrived.put_nowait(None)
        ready = [line for line in self.hosts if line.connection is not None and line.node.name not in self.given_up]
        self.line = ready[0] if ready else None
        if self.line is not None:
            self.link.say(self.line, Subscribe(self.group, self._newest))
            self._set_reading()

    def _set_reading(self) -> None:
        if self.line is not None and self.line.connection is not None:
            self.line.connection.set_reading(self._ahead_bytes < AHEAD_BYTES_MAX)

    def _on_connected(self, line: Line) -> None:
        if self._has_begun and self.line is None and line in self.hosts:
            self._subscribe()

    def _on_lost(self, line: Line) -> None:
        if line is self.line:
            self._subscribe()

    def _on_deliveries(self, line: Line, sender: Pid, deliveries: Deliveries) -> None:
        if line is not self.line or deliveries.group != self.group:
            return
        for entry in deliveries.entries:
            if entry.gts > self._newest:
                self._newest = entry.gts
                self._ahead_bytes += len(entry.payload) + ENTRY_BYTES
                self._arrived.put_nowait(entry)
        self._set_reading()

    def _on_ended(self, line: Line, sender: Pid, ended: SubscriptionEnded) -> None:
        if line is self.line and ended.group == self.group:
            self.given_up.add(line.node.name)
            self.line = None
            if ended.why.startswith(NOT_PERMITTED):  # the others have the same rights for it
                self._not_permitted = ended.why
                self.given_up.update(host.node.name for host in self.hosts)
            if line.connection is not None:
                line.connection.set_reading(True)
            self._subscribe()
