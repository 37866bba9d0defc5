"""A live node, and the connections on which a script is said to it.

Connections 0 and 1 are the two other nodes, 2 and 3 clients, 4 to 7 strangers; the first four have done their
handshake when their first step comes. One that has ended is made anew.
"""

from __future__ import annotations

import asyncio
import struct
from zlib import crc32

from tests.fuzz.cluster import FRAME_BYTES_MAX, make_node
from tests.fuzz.script import Do, Step
from tests.virtual_loop import VirtualLoop, VirtualTransport

from braidcast.client.link import TO_NODE
from braidcast.cluster.config import ClusterConfig
from braidcast.wire.connection import Connection
from braidcast.wire.frames import HEADER_BYTES, frame
from braidcast.wire.handshake import HANDSHAKE, ClientHello, Hello

CLIENTS = (1 << 62 | 1, 1 << 62 | 2)
WAIT_S_MAX = 8.0
WAITS_PER_S = 10_000
"""In one script: a node that beats for hours teaches nothing."""
NOT_REFUSED = ("a newer session", "this node stops", "turned away by the other side")
"""Why a node may end a connection without refusing anything."""
FAILURES = ("a snapshot that cannot be read", "turned away: ")
"""Why a node may stop: it says so, and does not crash."""


class Far(asyncio.Protocol):
    """The end of a connection that a node has dialled."""

    def __init__(self) -> None:
        self.transport: VirtualTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, VirtualTransport)
        self.transport = transport


class Near:
    """A connection as the node has it, and the number of the frame that it expects."""

    def __init__(self, transport: VirtualTransport) -> None:
        self.transport = transport
        assert isinstance(transport.protocol, Connection)
        self.connection = transport.protocol
        self.number = 0
        self.last = b""

    def say(self, body: bytes) -> None:
        """A good frame."""
        self.last = frame(self.number, body)
        self.number += 1
        self.transport.take(self.last)


class NodeStage:
    """The node, on its loop."""

    def __init__(self, loop: VirtualLoop, config: ClusterConfig, name: str, *, rejoins: bool = False) -> None:
        self.loop, self.config, self.name = loop, config, name
        self.node = make_node(config, name, 2 if rejoins else 1, rejoins=rejoins)
        self.others = [other for other in config.nodes if other != name]
        self.dialled: dict[str, list[Far]] = {}
        self.near: dict[int, Near] = {}
        self.all: list[Connection] = []
        self.transports: list[VirtualTransport] = []
        self.sessions = 0
        self.waited_s = 0.0
        for other in self.others:
            self._listen_as(other)
        loop.run(self.node.start())

    def _listen_as(self, other: str) -> None:
        def accept() -> Far:
            far = Far()
            self.dialled.setdefault(other, []).append(far)
            return far

        there = self.config.nodes[other]
        self.loop.listeners[there.host, there.port] = accept

    # -- connections -------------------------------------------------------------------------------------------------

    def near_of(self, place: int) -> Near | None:
        """The connection of that number; None if there is none to be had."""
        near = self.near.get(place)
        if near is not None and near.transport.ended is None:
            return near
        near = self._dialled_by_node(place) if place < 2 and self.others[place] > self.name else self._dial_node()
        if near is None:
            return None
        self.near[place] = near
        self.all.append(near.connection)
        self.transports.append(near.transport)
        if place < 2:
            self.sessions += 1
            other = self.others[place]
            disk = f"disk of {other}"
            config = self.config
            hello = Hello(config.name, config.fingerprint, other, disk, 1, self.sessions, False)
            near.say(HANDSHAKE.encode(hello))
        elif place < 4:
            near.say(HANDSHAKE.encode(ClientHello("", CLIENTS[place - 2])))
        self.loop.settle()
        return near

    def _dial_node(self) -> Near:
        me = self.config.nodes[self.name]
        transport = VirtualTransport(self.loop, self.loop.listeners[me.host, me.port]())
        transport.protocol.connection_made(transport)
        return Near(transport)

    def _dialled_by_node(self, place: int) -> Near | None:
        self.loop.advance(0.05)
        fars = self.dialled.get(self.others[place], [])
        while fars:
            there = fars.pop().transport
            if there is not None and there.ended is None and there.other is not None:
                return Near(there.other)
        return None

    # -- steps -------------------------------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """One step of a script."""
        if step.do is Do.WAIT:
            seconds = seconds_of(step, WAIT_S_MAX - self.waited_s)
            self.waited_s += seconds
            return self.loop.advance(seconds)
        near = self.near_of(step.on % 8)
        if near is None:
            return
        match step.do:
            case Do.FRAME:
                near.say(step.body)
            case Do.RAW:
                near.transport.take(step.body)
            case Do.AGAIN:
                near.transport.take(near.last)
            case Do.SKIP:
                near.transport.take(frame(near.number + 1, step.body))
            case Do.CUT:
                whole = frame(near.number, step.body)
                near.transport.take(whole[: len(whole) // 2])
            case Do.LONG:
                near.transport.take(too_long(near.number))
            case Do.FLIP:
                near.transport.take(flipped(frame(near.number, step.body), step.body[:2]))
            case _:
                near.transport.lose()
        self.loop.settle()

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing was raised, every refusal is counted, and nothing is kept of connections that are gone."""
        node, loop = self.node, self.loop
        loop.calm()
        for connection in self.all:
            assert len(connection.reader.buffer) <= HEADER_BYTES + FRAME_BYTES_MAX, "a buffer beyond one frame"
        ends = [
            t.protocol.why for t in self.transports
            if t.ended in ("close", "abort") and isinstance(t.protocol, Connection)
        ]  # fmt: skip
        refused_ends = [why for why in ends if why not in NOT_REFUSED]
        assert sum(node.refused.values()) >= len(refused_ends), f"not counted: {refused_ends}, only {node.refused}"
        assert node.failure is not None
        if node.failure.done():
            assert node.failure.result().startswith(FAILURES), node.failure.result()
        for transport in self.transports:
            transport.lose()
        loop.settle()
        loop.calm()
        assert not node.door.strangers
        assert not node.clients.sessions
        assert not node.clients.following
        assert not node.clients.unsent
        loop.run(node.stop())
        loop.calm()
        assert all(peer.connection is None and not peer.outgoing for peer in node.peers.all.values())

    @property
    def refused(self) -> int:
        """How much the node and its processes refused."""
        protocol = sum(sum(replica.out.refused.values()) for replica in self.node.replicas.values())
        return sum(self.node.refused.values()) + protocol


def seconds_of(step: Step, left_s: float) -> float:
    """How long a step waits."""
    return max(0.0, min(int.from_bytes(step.body[:2], "little") / WAITS_PER_S, left_s))


def too_long(number: int) -> bytes:
    """The head of a frame of 2 GiB."""
    head = struct.pack("<2sBxII", b"bc", 1, 1 << 31, number)
    return head + crc32(head).to_bytes(4, "little")


def flipped(whole: bytes, where: bytes) -> bytes:
    """With one bit changed."""
    bit = int.from_bytes(where, "little") % (8 * len(whole))
    changed = bytearray(whole)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def items(*said: tuple[int, tuple[int, ...], object]) -> bytes:
    """The body of a frame of these items."""
    return TO_NODE.encode(list(said))
