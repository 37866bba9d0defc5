"""Connections of one client to all nodes of a cluster.

A client needs one address to begin with: the first node that answers tells it of all the others. One that hangs costs
no more than the head start that each has on the next. A connection that ends is made again, with growing pauses; what
was in flight on it is the business of those who use the link.
"""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Callable, Sequence
from random import random
from typing import Any

from braidcast.client.errors import ClusterUnreachable
from braidcast.core.client import Multicast, Redirect, Refused, Reply
from braidcast.core.errors import BraidcastError
from braidcast.core.topology import Group, Pid
from braidcast.settings.toml_lines import host_and_port, parse_address
from braidcast.wire.codec import Codec, Item, Undecodable
from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.handshake import (
    HANDSHAKE,
    HANDSHAKE_BYTES_MAX,
    ClientHello,
    NodeInfo,
    TurnedAway,
    Welcome,
)
from braidcast.wire.service import FROM_CLIENTS, TO_CLIENTS

TO_CLIENT = Codec((Reply, Redirect, Refused, *TO_CLIENTS))
TO_NODE = Codec((Multicast, *FROM_CLIENTS))
CONNECT_S = 5.0
HEAD_START_S = 0.25
"""How long one node may take to answer before the next is asked, too."""
PAUSE_S_MIN, PAUSE_S_MAX = 0.02, 1.0
PULSE_S = 1.0
SILENT_PULSES_MAX = 5
BUFFER_BYTES_MAX = 256 << 20


class Line:
    """The connection to one node."""

    def __init__(self, node: NodeInfo) -> None:
        self.node = node
        self.connection: Connection | None = None
        self.outgoing: list[Item] = []
        self.trouble = ""
        """Why there is no connection."""
        self.ended = asyncio.Event()


Listener = Callable[[Line, Pid, Any], None]
"""Called with the line, the sender (a process, or 0 for the node itself), and the message."""


class Link:
    """A client's way to the nodes."""

    def __init__(self, addresses: Sequence[str], client: Pid, cluster: str = "") -> None:
        self.addresses, self.client, self.cluster = list(addresses), client, cluster
        self.lines: dict[str, Line] = {}
        self.line_of: dict[Pid, Line] = {}
        self.groups: dict[str, Group] = {}
        self.members: list[tuple[Pid, ...]] = []
        self.welcome: Welcome | None = None
        self._listeners: dict[type, list[Listener]] = {}
        self.on_connected: list[Callable[[Line], None]] = []
        self.on_lost: list[Callable[[Line], None]] = []
        """Called with the line whose connection has ended."""
        self._tasks: list[asyncio.Task[None]] = []
        self._dirty: dict[Line, None] = {}

    async def open(self) -> None:
        """Find the cluster, and begin to keep connections to all of its nodes."""
        welcome, connection = await self._first_welcome()
        self._use(connection, self.lines[welcome.node])
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(line)) for line in self.lines.values()]
        self._tasks.append(loop.create_task(self._pulse()))

    async def _first_welcome(self) -> tuple[Welcome, Connection]:
        """Of the first node that welcomes this client and describes a cluster; the next is tried when one has failed,
        and besides it when it takes long."""
        loop = asyncio.get_running_loop()
        waiting = deque(self.addresses)
        tried: dict[asyncio.Task[tuple[Welcome, Connection]], str] = {}
        troubles: dict[str, Exception] = {}
        try:
            while waiting or tried:
                if waiting:
                    address = waiting.popleft()
                    tried[loop.create_task(self._connect(Line(NodeInfo("", address, ()))))] = address
                await asyncio.wait(tried, timeout=HEAD_START_S if waiting else None, return_when=FIRST_COMPLETED)
                for task in [task for task in tried if task.done()]:
                    try:
                        welcome, _ = task.result()
                        self._learn(welcome)
                    except (OSError, TimeoutError, BraidcastError) as error:
                        troubles[tried[task]] = error
                        _abandon(task)
                        del tried[task]
                    else:
                        del tried[task]
                        return task.result()
        finally:
            for task in tried:
                _abandon(task)
            await asyncio.gather(*tried, return_exceptions=True)
        said = [f"{address}: {str(troubles[address]) or 'no answer in time'}" for address in self.addresses]
        why = f"no node answers ({'; '.join(said)}): are the nodes running?"
        finals = [isinstance(error, ClusterUnreachable) and error.is_final for error in troubles.values()]
        raise ClusterUnreachable(why, is_final=all(finals))

    async def open_within(self, seconds: float) -> None:
        """As `open`, again and again while the nodes are still starting."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                return await self.open()
            except ClusterUnreachable as error:
                if error.is_final or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(PAUSE_S_MIN)

    def _learn(self, welcome: Welcome) -> None:
        hosted = {pid for node in welcome.nodes for pid in node.pids}
        numbers = [group.number for group in welcome.groups]
        if (
            welcome.node not in [node.name for node in welcome.nodes]
            or numbers != list(range(len(numbers)))
            or not all(group.pids and hosted.issuperset(group.pids) for group in welcome.groups)
        ):
            raise ClusterUnreachable("what answers describes a cluster that cannot be")
        self.welcome = welcome
        self.lines = {node.name: Line(node) for node in welcome.nodes}
        self.line_of = {pid: line for line in self.lines.values() for pid in line.node.pids}
        self.groups = {group.name: group.number for group in welcome.groups}
        self.members = [group.pids for group in welcome.groups]

    async def close(self) -> None:
        """End all connections."""
        self.on_lost.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for line in self.lines.values():
            if line.connection is not None:
                line.connection.end("closed", flush=True)

    def listen(self, kind: type, hear: Listener) -> None:
        """Call `hear` with every message of that kind."""
        self._listeners.setdefault(kind, []).append(hear)

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(self, to: tuple[Pid, ...], message: Any) -> bool:
        """To processes; those whose node is not connected do not get it: whether all are.

        Leaves with the next turn of the loop.
        """
        if len(to) == 1:
            return self._put(self.line_of[to[0]], to, message)
        by_line: dict[Line, list[Pid]] = {}
        for pid in to:
            by_line.setdefault(self.line_of[pid], []).append(pid)
        reached = [self._put(line, tuple(pids), message) for line, pids in by_line.items()]
        return all(reached)

    def say(self, line: Line, message: Any) -> None:
        """To a node itself."""
        self._put(line, (), message)

    def _put(self, line: Line, to: tuple[Pid, ...], message: Any) -> bool:
        if line.connection is None:
            return False
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._flush)
        line.outgoing.append((self.client, to, message))
        self._dirty[line] = None
        return True

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for line in dirty:
            if line.outgoing:
                self._send(line, line.outgoing)
            line.outgoing.clear()

    def _send(self, line: Line, items: list[Item]) -> None:
        """One frame, or as many as it takes; a message that is too large for any would end the connection each time."""
        if line.connection is None or self.welcome is None:
            return
        body = TO_NODE.encode(items)
        if len(body) <= self.welcome.frame_bytes_max:
            line.connection.send(body)
        elif len(items) > 1:
            half = len(items) // 2
            self._send(line, items[:half])
            self._send(line, items[half:])

    # -- connections -------------------------------------------------------------------------------------------------

    async def _keep(self, line: Line) -> None:
        pause = PAUSE_S_MIN
        while True:
            if line.connection is None:
                try:
                    _, connection = await self._connect(line)
                    line.trouble, pause = "", PAUSE_S_MIN
                    self._use(connection, line)
                except (OSError, TimeoutError, BraidcastError) as error:
                    line.trouble = str(error) or "no answer in time"
                    await asyncio.sleep(pause * (0.5 + random()))
                    pause = min(2 * pause, PAUSE_S_MAX)
                    continue
            await line.ended.wait()
            await asyncio.sleep(pause * (0.5 + random()))

    async def _connect(self, line: Line) -> tuple[Welcome, Connection]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()

        def on_body(_: Connection, body: bytes) -> None:
            if not answer.done():
                answer.set_result(body)

        def on_end(_: Connection, why: str) -> None:
            if not answer.done():
                answer.set_exception(ConnectionError(why))

        limits = ConnectionLimits(HANDSHAKE_BYTES_MAX, BUFFER_BYTES_MAX)
        connection = Connection(limits, on_body, on_end)
        host, port = _host_and_port(line.node.address)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: connection, host, port)
                connection.send(HANDSHAKE.encode(ClientHello(self.cluster, self.client)))
                said = HANDSHAKE.decode_one(await answer)
        except UnicodeError:
            connection.end("no such host")
            raise ClusterUnreachable(f"{host!r} is not the name of a host") from None
        except BaseException:  # cancelled, too: nobody else knows of this connection
            answer.cancel()
            connection.end("no handshake")
            raise
        if isinstance(said, Welcome):
            if self.welcome is not None and (said.fingerprint, said.node) != (self.welcome.fingerprint, line.node.name):
                connection.end("another node")
                raise ClusterUnreachable(f"node {said.node} of cluster {said.cluster} answers in its place")
            connection.reader.body_bytes_max = said.frame_bytes_max
            return said, connection
        connection.end("turned away")
        if isinstance(said, TurnedAway):
            raise ClusterUnreachable(said.why, is_final=said.final)
        raise ClusterUnreachable("what answers is no node of braidcast")

    def _use(self, connection: Connection, line: Line) -> None:
        line.connection = connection
        line.ended.clear()
        connection.on_body = lambda _, body: self._on_body(line, body)
        connection.on_end = lambda ended, why: self._on_end(line, ended, why)
        for hear in self.on_connected:
            hear(line)

    def _on_end(self, line: Line, connection: Connection, why: str) -> None:
        if line.connection is connection:
            line.connection = None
            line.trouble = why
            line.outgoing.clear()
            line.ended.set()
            for hear in self.on_lost:
                hear(line)

    def _on_body(self, line: Line, body: bytes) -> None:
        try:
            items = TO_CLIENT.decode(body)
        except Undecodable as error:
            if line.connection is not None:
                line.connection.end(str(error))
            return
        listeners = self._listeners
        for sender, _, message in items:
            for hear in listeners.get(type(message), ()):
                hear(line, sender, message)

    async def _pulse(self) -> None:
        while True:
            await asyncio.sleep(PULSE_S)
            for line in self.lines.values():
                if line.connection is not None:
                    line.connection.pulse(SILENT_PULSES_MAX)


def _abandon(task: asyncio.Task[tuple[Welcome, Connection]]) -> None:
    """End the attempt, or the connection that came of it."""
    if not task.cancel() and not task.cancelled() and task.exception() is None:
        task.result()[1].end("another node is used")


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        return host_and_port(parse_address(address))
    except ValueError as error:
        why = str(error) or f"{address!r} is not an address: write host:port"
        raise ClusterUnreachable(why, is_final=True) from None
