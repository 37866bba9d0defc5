"""Receiving: `Subscriber` reads what a group delivers, message after message.

    async with Subscriber.connect("cluster.toml", group="accounts", after=checkpoint) as deliveries:
        async for delivery in deliveries: ...

Every message comes exactly once after `after`, through failures of replicas and of the subscriber itself: who keeps
`delivery.checkpoint` together with what the delivery did, in one transaction, does everything exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from braidcast.client.errors import UnknownGroup
from braidcast.client.follower import Follower
from braidcast.client.places import Cluster, Identity, link_to, place_of
from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Group, Pid
from braidcast.wire.batches import messages_of
from braidcast.wire.service import JournalEntry

if TYPE_CHECKING:
    from braidcast.client.sync import SyncSubscriber

DIGITS_MAX = 20


class Checkpoint(NamedTuple):
    """How far a subscriber has come: everything up to `timestamp`, and so many messages of the batch that follows.

    Later ones are larger. `str` makes a text of it, which `after` takes, too.
    """

    timestamp: Timestamp = 0
    messages: int = 0

    def __str__(self) -> str:
        return f"{self.timestamp}+{self.messages}" if self.messages else f"{self.timestamp}"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """What `str` made of one; nothing means the beginning."""
        parts = text.split("+") if text else []
        if len(parts) > 2 or not all(p.isascii() and p.isdecimal() and len(p) < DIGITS_MAX for p in parts):
            raise BraidcastError(f"{text!r} is not a checkpoint: use what a delivery said")
        return cls(*map(int, parts))


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that a group has delivered."""

    payload: bytes
    timestamp: Timestamp
    """Orders it among all messages of the cluster."""
    part: int
    """Its place in the batch in which it travelled, with one timestamp for all."""
    group: str
    destinations: frozenset[str]
    index: int
    """The how many-th unit of its group, from 1; a batch is one."""
    id: MessageId
    """Of its unit: who sent it, in which session, and the how many-th."""
    checkpoint: Checkpoint
    """What to give as `after` to go on behind it."""

    @property
    def sender(self) -> Pid:
        """The id of the client that sent it."""
        return self.id.client

    @property
    def order(self) -> tuple[Timestamp, int]:
        """Its place in the one order of all messages."""
        return self.timestamp, self.part


class Subscriber:
    """The deliveries of one group, for ever. Made by `connect`, used in an `async with` block."""

    def __init__(
        self, cluster: Cluster, group: str, after: Checkpoint, connect_timeout: float, identity: Identity = None
    ) -> None:
        self.cluster, self.group, self.checkpoint = cluster, group, after
        """`checkpoint` is that of the last delivery."""
        self.connect_timeout, self.identity = connect_timeout, identity
        self._follower: Follower | None = None
        self._names: dict[int, str] = {}
        self._ready: deque[Delivery] = deque()
        self._read = after

    @classmethod
    def connect(
        cls, cluster: Cluster, *, group: str, after: Checkpoint | str | Timestamp = "", connect_timeout: float = 5.0,
        identity: Identity = None,
    ) -> Subscriber:  # fmt: skip
        """Read a group of the cluster that a configuration, the directory of `braidcast up`, or addresses name.

        `after`: the checkpoint of the last delivery that was dealt with, or its text; or a timestamp.
        `identity`: which client this is, with TLS: a name in the configuration, or `Credentials`.
        """
        if isinstance(after, str):
            after = Checkpoint.parse(after)
        after = after if isinstance(after, Checkpoint) else Checkpoint(after)
        return cls(cluster, group, after, connect_timeout, identity)

    def sync(self) -> SyncSubscriber:
        """The same for code without an event loop: `with Subscriber.connect(...).sync() as deliveries:`."""
        from braidcast.client.sync import SyncSubscriber  # it needs threads, which few do

        return SyncSubscriber(self)

    async def __aenter__(self) -> Subscriber:
        if self._follower is not None:
            raise BraidcastError("this subscriber is open already: connect another one")
        link = await link_to(place_of(self.cluster, self.identity), self.connect_timeout)
        try:
            self._follower = Follower(link, self.group, self.checkpoint.timestamp)
        except UnknownGroup:
            await link.close()
            raise
        self._names = {number: name for name, number in link.groups.items()}
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._follower is not None:
            link, self._follower = self._follower.link, None
            await link.close()

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Delivery:
        while not self._ready:
            if self._follower is None:
                raise BraidcastError(
                    "this subscriber is not open: use it inside `async with Subscriber.connect(...) as deliveries:`"
                )
            self._unpack(await anext(self._follower))
        delivery = self._ready.popleft()
        self.checkpoint = delivery.checkpoint
        return delivery

    async def take(self, count_max: int = 1000) -> list[Delivery]:
        """The next ones: one at least, and no more than are at hand."""
        found = [await anext(self)]
        while len(found) < count_max and (self._ready or (self._follower is not None and self._follower.has_more)):
            found.append(await anext(self))
        return found

    def _unpack(self, entry: JournalEntry) -> None:
        begun, self._read = self._read, Checkpoint(entry.gts)
        self._ready += deliveries_of(entry, begun, self.group, self._names)


def deliveries_of(entry: JournalEntry, after: Checkpoint, group: str, names: Mapping[Group, str]) -> list[Delivery]:
    """The messages of the entry that follows a checkpoint, or of the one that it is in the middle of."""
    messages = [(part, payload) for part, payload in messages_of(entry) if part >= after.messages]
    destinations = frozenset([names[number] for number in entry.dest])
    return [
        Delivery(
            payload, entry.gts, part, group, destinations, entry.index, entry.id,
            Checkpoint(entry.gts) if part == messages[-1][0] else Checkpoint(after.timestamp, part + 1),
        )
        for part, payload in messages
    ]  # fmt: skip
