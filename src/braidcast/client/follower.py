"""Following what a group delivers, exactly once after a checkpoint, through failures of the replicas that tell it.

Every replica of a group keeps the same journal. A follower reads from one of them and goes on with another where it
stopped when that one is gone or no longer keeps what is needed. The timestamp of the last entry is the checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from braidcast.client.errors import NoLongerKept
from braidcast.client.link import Line, Link
from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Group, Pid
from braidcast.wire.connection import Connection
from braidcast.wire.service import Deliveries, JournalEntry, Subscribe, SubscriptionEnded

LOOK_S = 0.5


class Follower:
    """The deliveries of one group."""

    def __init__(self, link: Link, group: str, after: Timestamp = 0) -> None:
        if group not in link.groups:
            raise BraidcastError(f"there is no group {group!r} in this cluster: it has {', '.join(link.groups)}")
        self.link, self.name, self.after = link, group, after
        self.group: Group = link.groups[group]
        members = set(link.members[self.group])
        self.hosts = [line for line in link.lines.values() if not members.isdisjoint(line.node.pids)]
        self.line: Line | None = None
        self._connection: Connection | None = None
        """The one over which it subscribed: the line may have another one by now, whose node knows of nothing."""
        self.given_up: set[str] = set()
        """Nodes that no longer keep what is needed."""
        self._arrived: asyncio.Queue[JournalEntry] = asyncio.Queue()
        self._newest = after
        link.listen(Deliveries, self._on_deliveries)
        link.listen(SubscriptionEnded, self._on_ended)

    async def __aiter__(self) -> AsyncIterator[JournalEntry]:
        """Entry after entry, for ever."""
        while True:
            if self.line is None or self._connection is None or self.line.connection is not self._connection:
                self._subscribe()
            try:
                async with asyncio.timeout(LOOK_S):
                    entry = await self._arrived.get()
            except TimeoutError:
                continue
            self.after = entry.gts
            yield entry

    def _subscribe(self) -> None:
        ready = [line for line in self.hosts if line.connection is not None and line.node.name not in self.given_up]
        if len(self.given_up) == len(self.hosts):
            raise NoLongerKept(
                f"no replica of group {self.name} keeps what follows the timestamp {self._newest}: begin anew from a "
                f"snapshot of what you build from it"
            )
        self.line = ready[0] if ready else None
        self._connection = None
        if self.line is not None:
            self._connection = self.line.connection
            self.link.say(self.line, Subscribe(self.group, self._newest))

    def _on_deliveries(self, line: Line, sender: Pid, deliveries: Deliveries) -> None:
        if line is not self.line or deliveries.group != self.group:
            return
        for entry in deliveries.entries:
            if entry.gts > self._newest:
                self._newest = entry.gts
                self._arrived.put_nowait(entry)

    def _on_ended(self, line: Line, sender: Pid, ended: SubscriptionEnded) -> None:
        if line is self.line and ended.group == self.group:
            self.given_up.add(line.node.name)
            self.line = None
