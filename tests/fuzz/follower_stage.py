"""A live client, with nodes that say whatever a script says."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fuzz.cluster import FRAME_BYTES_MAX
from tests.fuzz.script import Do, Step
from tests.fuzz.stage import CLIENTS, WAIT_S_MAX, Far, Near, flipped, seconds_of, too_long
from tests.virtual_loop import VirtualLoop

from braidcast.client.errors import NoLongerKept
from braidcast.client.follower import Follower
from braidcast.client.link import Link
from braidcast.client.sender import Sender
from braidcast.cluster.config import ClusterConfig
from braidcast.wire.batches import messages_of
from braidcast.wire.handshake import HANDSHAKE, GroupInfo, NodeInfo, Welcome

DESTS = ((0,), (0, 1), (1,), (0, 1))


def welcome_of(config: ClusterConfig, name: str) -> Welcome:
    """As a node of that name says it."""
    return Welcome(
        config.name, config.fingerprint, name,
        tuple([GroupInfo(g.name, number, g.pids) for number, g in enumerate(config.groups)]),
        tuple([NodeInfo(n.name, n.address, config.pids_of(n.name)) for n in config.nodes.values()]),
        FRAME_BYTES_MAX, 1024,
    )  # fmt: skip


class ClientStage:
    """The client, on its loop."""

    def __init__(self, loop: VirtualLoop, config: ClusterConfig) -> None:
        self.loop, self.config = loop, config
        self.names = list(config.nodes)
        self.fars: dict[str, Far] = {}
        self.near: dict[str, Near] = {}
        self.waited_s = 0.0
        self.entries: list[Any] = []
        for name in self.names:
            self._listen_as(name)
        self.link = Link([node.address for node in config.nodes.values()], CLIENTS[0])
        loop.run(self._open())
        loop.settle()

    def _listen_as(self, name: str) -> None:
        def accept() -> Far:
            far = self.fars[name] = Far()
            self.loop.call_soon(self._welcome, name, far)
            return far

        there = self.config.nodes[name]
        self.loop.listeners[there.host, there.port] = accept

    def _welcome(self, name: str, far: Far) -> None:
        if far.transport is None or far.transport.other is None:
            return
        near = self.near[name] = Near(far.transport.other)
        near.say(HANDSHAKE.encode(welcome_of(self.config, name)))

    async def _open(self) -> None:
        await self.link.open()
        self.sender = Sender(self.link, 1)
        self.futures = [self.sender.submit(dest, b"m") for dest in DESTS * 5]
        self.follower = Follower(self.link, self.config.group_name(0))
        self.following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        try:
            async for entry in self.follower:
                assert not self.entries or entry.gts > self.entries[-1].gts, "an entry twice, or out of order"
                self.entries.append(entry)
                parts = [part for part, _ in messages_of(entry)]
                assert parts == sorted(set(parts)), "a message twice, or out of order"
        except NoLongerKept:
            return

    def do(self, step: Step) -> None:
        """One step of a script."""
        if step.do is Do.WAIT:
            seconds = seconds_of(step, WAIT_S_MAX - self.waited_s)
            self.waited_s += seconds
            return self.loop.advance(seconds)
        near = self.near.get(self.names[step.on % len(self.names)])
        if near is None or near.transport.ended is not None:
            return self.loop.advance(0.02)
        match step.do:
            case Do.FRAME:
                near.say(step.body)
            case Do.RAW:
                near.transport.take(step.body)
            case Do.AGAIN:
                near.transport.take(near.last)
            case Do.LONG:
                near.transport.take(too_long(near.number))
            case Do.FLIP:
                near.transport.take(flipped(near.last, step.body[:2]))
            case _:
                near.transport.lose()
        self.loop.settle()

    def check(self) -> None:
        """Nothing was raised, and every future ends."""
        self.loop.calm()
        if self.following.done():
            self.following.result()
        self.following.cancel()
        self.loop.run(self._close())
        self.loop.calm()
        assert all(future.done() for future in self.futures)
        for future in self.futures:
            future.exception()

    async def _close(self) -> None:
        await self.sender.close()
        await self.link.close()

    @property
    def refused(self) -> int:
        """How many connections the client ended, or lost, for what came over them."""
        return sum(bool(line.trouble) for line in self.link.lines.values())
