"""Random traffic on a real cluster, with a memory of what was acknowledged.

Several clients multicast to random sets of groups at a steady rate, whatever happens to the nodes. Now and then a
client dies in the middle of what it is doing, and another one comes. What clients submit and are told is recorded as
events of the history, before it leaves, so that the properties can judge the replies as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

from braidcast import __version__
from braidcast.client.errors import ClusterUnreachable, NotDelivered
from braidcast.client.link import Line, Link
from braidcast.client.places import link_to, place_of
from braidcast.client.sender import Receipt, Sender
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.recorder import manifest_of
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Pid
from braidcast.history.event import MULTICAST, REPLY, Event
from braidcast.history.raw import RawWriter
from braidcast.wire.clocks import monotonic_us, wall_us

STEP_S = 0.01
UNDER_WAY_MAX = 2_000
"""Of one client; beyond it a client waits, as an application would."""
BATCH_SHARE, BATCH_MESSAGES = 0.1, 4
PAYLOAD_BYTES_MAX = 200
OPEN_S = 30.0


class Client:
    """One client of the traffic."""

    def __init__(self, traffic: Traffic, link: Link, sender: Sender) -> None:
        self.traffic, self.link, self.sender = traffic, link, sender
        link.listen(Reply, self._on_reply)

    def submit(self, dest: Dest, payload: bytes, batch_messages: int) -> None:
        """Multicast, and remember what comes of it."""
        done = self.sender.submit(dest, payload, batch_messages)
        multicast = next(reversed(self.sender.units.values())).multicast
        self.traffic.record(Event(monotonic_us(), wall_us(), self.link.client, 0, MULTICAST, None, multicast))
        self.traffic.sent += 1
        done.add_done_callback(lambda done: self.traffic.ended(multicast, done))

    def _on_reply(self, line: Line, sender: Pid, reply: Reply) -> None:
        self.traffic.record(Event(monotonic_us(), wall_us(), self.link.client, 0, REPLY, sender, reply))

    async def die(self) -> None:
        """End without a word; what is under way may or may not be delivered."""
        for line in self.link.lines.values():
            if line.connection is not None:
                line.connection.end("this client dies")
        await self.sender.close("the client died")
        await self.link.close()


class Traffic:
    """The clients, and what they know."""

    def __init__(self, config: ClusterConfig, random: Random, *, clients: int = 3, rate_per_s: float = 200.0) -> None:
        self.config, self.random, self.count, self.rate_per_s = config, random, clients, rate_per_s
        self.clients: list[Client] = []
        self.sent = 0
        self.acknowledged: dict[MessageId, tuple[Dest, Timestamp]] = {}
        self.refused: list[NotDelivered] = []
        """What a living client was told will not, or may not, be delivered."""
        self.dead: list[Pid] = []
        """Clients that died."""
        self.is_over = False
        self.when_ended: Callable[[Multicast, float], None] | None = None
        """Called with what was acknowledged, and when (of `time.monotonic`)."""
        self.writer: RawWriter | None = None
        if config.history is not None:
            self.writer = RawWriter(config.history, "clients", manifest_of(config, __version__))
        self._flow: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and begin."""
        for _ in range(self.count):
            self.clients.append(await self._client())
        self._flow = asyncio.get_running_loop().create_task(self._run())

    async def _client(self) -> Client:
        addresses = [node.address for node in self.config.nodes.values()]
        self.random.shuffle(addresses)
        link = await link_to(replace(place_of(self.config.path), addresses=tuple(addresses)), OPEN_S)
        return Client(self, link, Sender(link))

    @property
    def under_way(self) -> int:
        """Messages that nobody has answered yet."""
        return sum(len(client.sender.units) for client in self.clients)

    async def replace_a_client(self) -> None:
        """One client dies, and another one comes when it finds a node."""
        client = self.random.choice(self.clients)
        self.clients.remove(client)
        self.dead.append(client.link.client)
        await client.die()
        with suppress(ClusterUnreachable):
            self.clients.append(await self._client())

    async def finish(self, patience_s: float) -> int:
        """Submit no more, and wait for what is under way; how much of it was not answered in time."""
        if self._flow is not None:
            self._flow.cancel()
        await within(patience_s, lambda: not self.under_way)
        unanswered = self.under_way
        self.is_over = True
        for client in self.clients:
            await client.sender.close("the trial is over")
            await client.link.close()
        if self.writer is not None:
            self.writer.close()
        return unanswered

    # -- what happens ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        began, submitted = loop.time(), 0
        while True:
            await asyncio.sleep(STEP_S)
            due = int((loop.time() - began) * self.rate_per_s)
            for _ in range(due - submitted):
                self._submit_one()
            submitted = due
            if self.writer is not None:
                self.writer.write()

    def _submit_one(self) -> None:
        random = self.random
        ready = [client for client in self.clients if len(client.sender.units) < UNDER_WAY_MAX]
        if not ready:
            return
        client = random.choice(ready)
        groups = len(self.config.groups)
        dest = tuple(sorted(random.sample(range(groups), random.randint(1, min(groups, 3)))))
        payload = random.randbytes(random.randint(8, PAYLOAD_BYTES_MAX))
        client.submit(dest, payload, BATCH_MESSAGES if random.random() < BATCH_SHARE else 0)

    def record(self, event: Event) -> None:
        """Something that a client did or heard."""
        if self.writer is not None:
            self.writer.append(event)

    def ended(self, multicast: Multicast, done: asyncio.Future[Receipt]) -> None:
        """What became of a message."""
        error = done.exception()
        if error is None:
            self.acknowledged[multicast.id] = multicast.dest, done.result().timestamp
            if self.when_ended is not None:
                self.when_ended(multicast, time.monotonic())
        elif isinstance(error, NotDelivered) and not self.is_over and multicast.id.client not in self.dead:
            self.refused.append(error)


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(STEP_S)
    return True
