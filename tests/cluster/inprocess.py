"""Nodes in one event loop, over loopback and unix sockets, with disks that a test holds, fills and breaks.

Nothing sleeps for a time: `until` looks for a condition again and again, and says what it waited for in vain.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import ClusterConfig, Layout, parse_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.data import open_data
from braidcast.cluster.local import free_ports
from braidcast.cluster.log import Disk
from braidcast.cluster.node import Node
from braidcast.cluster.replica import Replica
from braidcast.cluster.status import status_of
from braidcast.core.client import MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.topology import Group, Pid
from braidcast.wire.codec import Codec, Item, Undecodable
from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.handshake import HANDSHAKE, ClientHello, Hello
from braidcast.wire.service import FROM_CLIENTS, TO_CLIENTS

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop  # type: ignore[assignment]  # uvloop is not on every platform

PATIENCE_S = 20
LOOK_S = 0.001
CLIENT = 1 << 62
STEADY: dict[str, str | int] = {"suspect_ticks": 3_600_000_000}
"""Who leads goes on leading, whoever is away and however busy the machine is: clients of these tests ask once."""
T = TypeVar("T")
ANY = ConnectionLimits(1 << 26, 1 << 30)


class NodeDisk(Disk):
    """The disk of a node's log. Nothing here outlives the machine, so a sync costs nothing unless it is held."""

    def __init__(self) -> None:
        self.full = False
        self.lacks_files = False
        self.broken = False
        self.syncs = 0
        """How many were begun."""
        self._open = threading.Event()
        self._open.set()

    def hold(self) -> None:
        """No sync returns until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Let syncs return."""
        self._open.set()

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(fd, data, at)

    def create(self, path: Path) -> int:
        if self.lacks_files:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().create(path)

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        assert self._open.wait(PATIENCE_S), "whoever holds a disk releases it"
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def sync_directory(self, fd: int) -> None:
        pass


class Nodes:
    """The nodes of one configuration, those that run."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.running: dict[str, Node] = {}
        self.disks = {name: NodeDisk() for name in config.nodes}

    def __getitem__(self, name: str) -> Node:
        return self.running[name]

    async def start(self, *names: str, rejoin: bool = False) -> None:
        """Start these; all by default."""
        for name in names or self.config.nodes:
            identity, wal = open_data(self.config, name, rejoin=rejoin, disk=self.disks[name])
            self.running[name] = Node(self.config, identity, wal)
            await self.running[name].start()

    async def stop(self, *names: str) -> None:
        """Stop these; all by default."""
        for name in names or list(self.running):
            self.disks[name].release()
            await self.running.pop(name).stop()

    def replicas(self, group: Group) -> Iterator[Replica]:
        """Those of a group, of the nodes that run."""
        for node in self.running.values():
            if group in node.by_group:
                yield node.by_group[group]

    def leader(self, group: Group) -> Replica | None:
        """The replica that leads, if exactly one says so."""
        leaders = [replica for replica in self.replicas(group) if replica.process.role == "leader"]
        return leaders[0] if len(leaders) == 1 else None

    def node_of(self, replica: Replica) -> Node:
        """The node that runs it."""
        return self.running[self.config.node_of(replica.pid)]

    async def led(self, group: Group) -> Replica:
        """The leader of a group, as soon as it has one."""
        return await until(lambda: self.leader(group), f"a leader of group {group}")

    async def connected(self) -> None:
        """All that run have sessions with one another."""
        def everybody() -> bool:
            return all(node.peers.all[other].connected for name, node in self.running.items()
                       for other in self.running if other != name)  # fmt: skip

        await until(everybody, "sessions between all nodes")

    def delivered(self, group: Group) -> list[list[bytes]]:
        """What each replica of a group has delivered, as far as its journal keeps it."""
        return [[entry.payload for entry in replica.journal.read(replica.journal.after, 1 << 30)]
                for replica in self.replicas(group)]  # fmt: skip

    async def delivered_everywhere(self, group: Group, count: int) -> list[bytes]:
        """The deliveries of a group, when all replicas that run have so many of them; they agree."""
        await until(lambda: all(r.journal.next > count for r in self.replicas(group)), f"{count} deliveries everywhere")
        first, *others = self.delivered(group)
        assert all(other == first for other in others)
        return first

    def status(self, name: str) -> dict[str, Any]:
        """What that node would say of itself."""
        return status_of(self.running[name])


def config_in(
    folder: Path,
    *,
    groups: int = 1,
    replicas: int = 3,
    layout: Layout = "colocated",
    unix: bool = False,
    protocol: str = "whitebox",
    cluster: dict[str, str | int] | None = None,
    options: dict[str, str | int] | None = None,
    limits: dict[str, str | int] | None = None,
    timing: dict[str, str | int] | None = None,
) -> ClusterConfig:
    """A cluster in a folder."""
    count = groups * replicas if layout == "spread" else replicas
    text = render_local(
        protocol, free_ports(count), groups=groups, replicas=replicas, layout=layout, unix=unix,
        settings={
            "cluster": cluster or {}, "cluster.options": options or {}, "limits": limits or {}, "timing": timing or {},
        },
    )  # fmt: skip
    return parse_config(text, folder / "cluster.toml", protocol_named)


@asynccontextmanager
async def nodes_of(config: ClusterConfig, *names: str) -> AsyncIterator[Nodes]:
    """The nodes of a configuration, started; stopped in the end, whatever happened."""
    nodes = Nodes(config)
    try:
        await nodes.start(*names)
        await nodes.connected()
        yield nodes
    finally:
        await nodes.stop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test in the kind of loop in which nodes run; an error that only the loop sees fails it, too."""
    unheard: list[Any] = []
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: unheard.append(context))
        result = runner.run(work)
    assert not unheard
    return result


async def until(condition: Callable[[], T | None], what: str) -> T:
    """What `condition` gives, as soon as that is true or something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await turn(LOOK_S)
    return result


async def turn(seconds: float = 0) -> None:
    """Come back in another turn of the loop."""
    loop = asyncio.get_running_loop()
    later = loop.create_future()
    loop.call_later(seconds, later.set_result, None)
    await later


async def turns(count: int = 100) -> None:
    """Let the loop turn so often: what must not happen would have done so."""
    for _ in range(count):
        await turn()


class Line:
    """One end of a connection to a node, on which a test says what it likes."""

    SPEAKS = Codec((Multicast, *FROM_CLIENTS))
    HEARS = Codec((Reply, Redirect, Refused, *TO_CLIENTS))

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        """What came after the handshake."""
        self.answer: Any = None
        self.connection = Connection(ANY, self._on_body, lambda connection, why: None)

    def _on_body(self, _: Connection, body: bytes) -> None:
        if self.answer is None:
            self.answer = HANDSHAKE.decode_one(body)
        else:
            self.bodies.append(body)

    @classmethod
    async def to(cls, nodes: Nodes, name: str, hello: Hello | ClientHello | None = None) -> Line:
        """Connect and say hello, by default as a client; returns when there is an answer, or an end."""
        line = cls()
        here = nodes.config.nodes[name]
        loop = asyncio.get_running_loop()
        if here.unix is not None:
            await loop.create_unix_connection(lambda: line.connection, str(here.unix))
        else:
            await loop.create_connection(lambda: line.connection, here.host, here.port)
        line.connection.send(HANDSHAKE.encode(hello or ClientHello("", CLIENT)))
        await until(lambda: line.answer is not None or not line.connection.alive, "the handshake")
        return line

    @property
    def ended(self) -> bool:
        return not self.connection.alive

    def say(self, items: Sequence[Item], codec: Codec = SPEAKS) -> None:
        """One frame."""
        self.connection.send(codec.encode(items))

    def submit(self, to: Sequence[Pid], *messages: Multicast) -> None:
        """One frame with these."""
        self.say([(CLIENT, tuple(to), message) for message in messages])

    def heard(self, kind: type[T]) -> list[T]:
        """What was said of that kind."""
        found: list[T] = []
        for body in self.bodies:
            try:
                found += [message for _, _, message in self.HEARS.decode(body) if isinstance(message, kind)]
            except Undecodable:
                continue
        return found

    async def hears(self, kind: type[T], count: int = 1) -> list[T]:
        """What was said of that kind, when it is so much."""
        await until(lambda: len(self.heard(kind)) >= count, f"{count} {kind.__name__}")
        return self.heard(kind)

    def pause(self) -> None:
        """Read nothing of what the node says."""
        self.connection.set_reading(False)

    def resume(self) -> None:
        """Read again."""
        self.connection.set_reading(True)

    def end(self) -> None:
        self.connection.end("the test is over")


def message(number: int, dest: tuple[Group, ...] = (0,), size: int = 1, client: Pid = CLIENT) -> Multicast:
    """The how many-th of its client."""
    return Multicast(MessageId(client, 1, number), dest, f"{number}".encode().ljust(size, b"."))
