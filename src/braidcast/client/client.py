"""Sending: `Client` multicasts, and tells of every message what became of it.

    async with Client.connect("cluster.toml") as client:
        receipt = await client.multicast(b"...", to={"accounts", "stock"})

1. Every multicast ends in a `Receipt` or in a `NotDelivered`. A message that was sent is sent again until the cluster
   has answered, whoever waits for it, and is delivered once at most.
2. Messages of one client to the same set of groups are delivered in the order of the calls. They travel one after the
   other; what comes while one is under way waits, and leaves as one batch. Nothing waits for a batch to fill.
3. A call waits while `under_way_max` messages have no end yet.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING

from braidcast.client.errors import ClientClosed, PayloadTooLarge, StateUnusable, TimedOut
from braidcast.client.lanes import Lane, LaneOptions, Message
from braidcast.client.link import Link
from braidcast.client.places import Cluster, Identity, client_name, link_to, place_of
from braidcast.client.sender import Receipt, Sender
from braidcast.client.state import ClientState
from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError, OptionError
from braidcast.core.topology import Dest

if TYPE_CHECKING:
    from braidcast.client.sync import SyncClient

CLOSED = "the client was closed"
BATCH_MESSAGES_MAX = 1 << 20
"""More in a batch are refused by every node."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """What `Client.connect` takes."""

    timeout: float | None
    linger_ms: float
    batch_messages_max: int
    batch_bytes_max: int
    pipeline: int
    under_way_max: int
    state: str | os.PathLike[str] | None
    connect_timeout: float
    identity: Identity = None

    def check(self) -> None:
        """Fail unless every option is possible."""
        for name, least in (("batch_messages_max", 1), ("batch_bytes_max", 1), ("pipeline", 1), ("under_way_max", 1),
                            ("linger_ms", 0), ("connect_timeout", 0)):  # fmt: skip
            if getattr(self, name) < least:
                raise OptionError(f"{name} is {getattr(self, name)}: use {least} or more")
        if self.batch_messages_max > BATCH_MESSAGES_MAX:
            raise OptionError(f"batch_messages_max is {self.batch_messages_max}: use at most {BATCH_MESSAGES_MAX}")


class _Parts:
    """What a client consists of while it is open."""

    def __init__(self, link: Link, state: ClientState, options: ClientOptions) -> None:
        assert link.welcome is not None, "an open link was welcomed"
        self.link, self.state = link, state
        self.payload_bytes_max = link.welcome.payload_bytes_max
        self.sender = Sender(link, state.next_session(), state.next_session)
        self._named: Sender | None = None
        self.lanes: dict[Dest, Lane] = {}
        self.lane_options = LaneOptions(
            options.linger_ms / 1000, options.batch_messages_max,
            min(options.batch_bytes_max, self.payload_bytes_max), options.pipeline,
        )  # fmt: skip
        self.room = asyncio.Semaphore(options.under_way_max)
        self.pending: set[asyncio.Future[Receipt]] = set()

    @property
    def named(self) -> Sender:
        """For messages that have names before they leave. One that never comes costs those without a name nothing,
        because these have another session."""
        if self._named is None:
            self._named = Sender(self.link, self.state.next_session(), self.state.next_session)
        return self._named

    def lane(self, dest: Dest) -> Lane:
        """Where messages to these groups go."""
        lane = self.lanes.get(dest)
        if lane is None:
            lane = self.lanes[dest] = Lane(self.sender, dest, self.lane_options)
        return lane

    async def close(self) -> None:
        """End everything."""
        for lane in self.lanes.values():
            lane.close(CLOSED)
        for sender in (self.sender, self._named):
            if sender is not None:
                await sender.close(CLOSED)
        await self.link.close()
        self.state.close()


class Client:
    """Multicasts to a cluster. Made by `connect`, used in an `async with` block, by one event loop."""

    def __init__(self, cluster: Cluster, options: ClientOptions) -> None:
        self.cluster, self.options = cluster, options
        self._parts: _Parts | None = None

    @classmethod
    def connect(
        cls, cluster: Cluster, *, timeout: float | None = 30.0, linger_ms: float = 0.0,
        batch_messages_max: int = 1024, batch_bytes_max: int = 256 << 10, pipeline: int = 1,
        under_way_max: int = 10_000, state: str | os.PathLike[str] | None = None, connect_timeout: float = 5.0,
        identity: Identity = None,
    ) -> Client:  # fmt: skip
        """A client of the cluster that a configuration, the directory of `braidcast up`, or addresses name.

        `timeout`: seconds after which a multicast ends with `TimedOut`; None for never.
        `linger_ms`: how long a message may wait for others that go to the same groups.
        `batch_messages_max`, `batch_bytes_max`: how large a batch may be.
        `pipeline`: how many units to one set of groups may be under way. With more than one, messages keep their order
        only while nothing fails.
        `under_way_max`: with so many messages under way, another one waits.
        `state`: a file that keeps the id of this client over restarts.
        `connect_timeout`: for how long to look for a node that answers.
        `identity`: which client this is, with TLS: a name in the configuration, or `Credentials`.
        """
        options = ClientOptions(
            timeout, linger_ms, batch_messages_max, batch_bytes_max, pipeline, under_way_max, state, connect_timeout,
            identity,
        )  # fmt: skip
        options.check()
        return cls(cluster, options)

    def sync(self) -> SyncClient:
        """The same client for code without an event loop: `with Client.connect(...).sync() as client:`."""
        from braidcast.client.sync import SyncClient  # it needs threads, which few do

        return SyncClient(self)

    async def __aenter__(self) -> Client:
        if self._parts is not None:
            raise BraidcastError("this client is open already: connect another one")
        place = place_of(self.cluster, self.options.identity)
        state = ClientState(self.options.state)
        state.open(client_name(place.certificates))
        link: Link | None = None
        try:
            link = await link_to(place, self.options.connect_timeout, state.client)
            assert link.welcome is not None, "an open link was welcomed"
            state.use(link.welcome.cluster)
            self._parts = _Parts(link, state, self.options)
        except BaseException:
            state.close()
            if link is not None:
                await link.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        """Leaving waits for what is under way; leaving with an exception does not."""
        parts = self._open()
        try:
            if kind is None:
                await self.drain()
        finally:
            self._parts = None
            await parts.close()

    def _open(self) -> _Parts:
        if self._parts is None:
            raise BraidcastError("this client is not open: use it inside `async with Client.connect(...) as client:`")
        return self._parts

    @property
    def id(self) -> int:
        """What the cluster knows this client by."""
        return self._open().link.client

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the cluster."""
        return tuple(self._open().link.groups)

    @property
    def under_way(self) -> int:
        """How many messages have no end yet."""
        return len(self._open().pending)

    def new_id(self) -> MessageId:
        """The id of a message to come, for `multicast(..., id=...)`."""
        return self._open().named.name()

    async def multicast(
        self, payload: bytes, to: str | Iterable[str], *, timeout: float | EllipsisType | None = ...,
        id: MessageId | str | None = None,
    ) -> Receipt:  # fmt: skip
        """Send to these groups, and wait until each of them has delivered it.

        Raises `NotDelivered` otherwise: `TimedOut` after `timeout` seconds (by default those of `connect`). A caller
        that is cancelled waits no longer; the message may still be delivered.
        With an `id`, this message is delivered once at most, however often and by however many lives of this client it
        is multicast with the same payload to the same groups.
        """
        return await (await self.submit(payload, to, timeout=timeout, id=id))

    async def submit(
        self, payload: bytes, to: str | Iterable[str], *, timeout: float | EllipsisType | None = ...,
        id: MessageId | str | None = None,
    ) -> asyncio.Future[Receipt]:  # fmt: skip
        """As `multicast`, but returns as soon as there is room; the future ends as `multicast` would."""
        parts = self._open()
        if not isinstance(payload, bytes):
            raise TypeError(f"a payload is bytes, not {type(payload).__name__}")
        dest = parts.sender.dest([to] if isinstance(to, str) else to)
        if not dest:
            raise BraidcastError("a message needs at least one group to go to")
        if len(payload) > parts.payload_bytes_max:
            why = f"too large: {len(payload):,} bytes, at most {parts.payload_bytes_max:,}"
            raise PayloadTooLarge(None, why, may_be_delivered=False)
        if id is not None:
            id = self._own(id)
        seconds = self.options.timeout if timeout is ... else timeout
        deadline = asyncio.get_running_loop().time() + seconds if seconds is not None else None
        await self._wait_for_room(parts, deadline)
        lane = parts.lane(dest) if id is None else None
        message = Message(payload, deadline, partial(self._left, parts, lane))
        parts.pending.add(message.done)
        message.done.add_done_callback(parts.pending.discard)
        if lane is not None:
            lane.put(message)
        else:
            message.id = id
            unit = parts.named.submit(dest, payload, id=id)
            unit.add_done_callback(lambda unit: message.end(unit, 0))
        return message.done

    async def drain(self) -> None:
        """Wait until everything that was submitted has come to its end."""
        if pending := self._open().pending:
            await asyncio.wait(pending)

    def _own(self, id: MessageId | str) -> MessageId:
        id = MessageId.parse(id) if isinstance(id, str) else id
        if id.client != self.id:
            why = f"message {id} is not of this client, {self.id}: connect with the state file that it was named with"
            raise StateUnusable(why)
        return id

    async def _wait_for_room(self, parts: _Parts, deadline: float | None) -> None:
        if not parts.room.locked():
            await parts.room.acquire()
            return
        try:
            async with asyncio.timeout_at(deadline):
                await parts.room.acquire()
        except TimeoutError:
            raise TimedOut(None, "not sent in time: too much is under way", may_be_delivered=False) from None
        if self._parts is not parts:
            parts.room.release()
            raise ClientClosed(None, CLOSED, may_be_delivered=False)

    def _left(self, parts: _Parts, lane: Lane | None, message: Message) -> None:
        parts.room.release()
        if lane is not None and message.id is None:
            lane.drop()
