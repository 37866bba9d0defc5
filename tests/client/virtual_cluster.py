"""A cluster in virtual time, two groups of three on three nodes, and clients of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.fuzz.cluster import config_of, make_node, virtual
from tests.virtual_loop import VirtualLoop

from braidcast.client.client import Client
from braidcast.client.subscriber import Checkpoint, Delivery, Subscriber
from braidcast.cluster.node import Node

READY_S = 1.0


class VirtualCluster:
    """The nodes, which have no disks: one that was stopped comes back as one that lost its disk."""

    def __init__(self, loop: VirtualLoop, **changed: Any) -> None:
        small = config_of("leader")
        limits = replace(small.limits, journal_bytes_max=1 << 20)
        self.loop, self.config = loop, replace(small, limits=limits, **changed)
        self.addresses = [node.address for node in self.config.nodes.values()]
        self.nodes: dict[str, Node] = {}
        self.lives = dict.fromkeys(self.config.nodes, 0)

    def start(self, *names: str) -> None:
        """Start these, all by default."""
        for name in names or self.config.nodes:
            self.lives[name] += 1
            self.nodes[name] = make_node(self.config, name, self.lives[name], rejoins=self.lives[name] > 1)
            self.loop.run(self.nodes[name].start())
        self.loop.advance(READY_S)

    def stop(self, *names: str) -> None:
        """A node goes down."""
        for name in names:
            self.loop.run(self.take_down(name))

    async def take_down(self, name: str) -> None:
        """The same, from inside."""
        await self.nodes.pop(name).stop()

    def leader(self, group: int = 0) -> str:
        """The node that leads a group."""
        return next(name for name, node in self.nodes.items() if node.by_group[group].process.role == "leader")

    def client(self, **options: Any) -> Client:
        """Not open yet."""
        return Client.connect(self.addresses, **options)

    async def read(self, group: str, count: int, after: Checkpoint | str = "") -> list[Delivery]:
        """The next deliveries of a group."""
        async with Subscriber.connect(self.addresses, group=group, after=after) as deliveries:
            return [await anext(deliveries) for _ in range(count)]

    def run(self, work: Any, seconds: float = 60.0) -> Any:
        """Until this coroutine is done; nothing may be left unhandled."""
        result = self.loop.run(work, seconds)
        self.loop.calm()
        return result


@contextmanager
def virtual_cluster(**changed: Any) -> Iterator[VirtualCluster]:
    """All nodes up; stopped in the end, with nothing left that nobody handled."""
    loop = VirtualLoop()
    with virtual(loop), loop.running():
        cluster = VirtualCluster(loop, **changed)
        cluster.start()
        yield cluster
        cluster.stop(*cluster.nodes.copy())
        loop.advance(1)
        loop.calm()


def lines_of(client: Client) -> Any:
    """The lines of an open client, to be cut."""
    assert client._parts is not None
    return client._parts.link.lines


def cut(client: Client, name: str) -> None:
    """The connection of a client to a node ends; it will be made again."""
    connection = lines_of(client)[name].connection
    if connection is not None:
        connection.end("the test cuts it")


async def pause(seconds: float) -> None:
    """Let virtual time pass."""
    loop = asyncio.get_running_loop()
    later = loop.create_future()
    loop.call_later(seconds, later.set_result, None)
    await later
