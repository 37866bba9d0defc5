"""Seeds: what a cluster really says, recorded at one of its nodes while it works, loses its leader and recovers."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.fuzz.cluster import config_of, make_node, virtual
from tests.fuzz.script import Do, Step, pack
from tests.fuzz.stage import CLIENTS, WAITS_PER_S
from tests.virtual_loop import VirtualLoop

from braidcast.client.follower import Follower
from braidcast.client.link import Link
from braidcast.client.sender import Sender
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.node import Node
from braidcast.wire.service import StatusWanted

STEPS_EACH = 60
BODY_BYTES_MAX = 4096


class Tape:
    """What arrives at the nodes, and at the client."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.at_node: dict[str, list[Step]] = {}
        """By name and life: `n1.2` is n1 after it lost its disk."""
        self.at_client: list[Step] = []
        self.last: dict[int, float] = {}
        """Per list, when its last step was."""

    def node(self, node: Node) -> None:
        """Record what this one hears."""
        steps = self.at_node.setdefault(f"{node.name}.{node.identity.incarnation}", [])
        self.last[id(steps)] = self.loop.now
        others = [name for name in node.config.nodes if name != node.name]
        on_items, on_client = node.peers.on_items, node.door._on_client_body

        def from_peer(peer: Any, body: bytes, *more: Any) -> None:
            self._add(steps, others.index(peer.name), body)
            on_items(peer, body, *more)

        def from_client(session: Any, body: bytes) -> None:
            self._add(steps, 2, body)
            on_client(session, body)

        node.peers.on_items = from_peer
        node.door._on_client_body = from_client  # type: ignore[method-assign]

    def client(self, link: Link) -> None:
        """Record what this one hears."""
        on_body = link._on_body

        def from_node(line: Any, body: bytes, *more: Any) -> None:
            self._add(self.at_client, list(link.lines).index(line.node.name), body)
            on_body(line, body, *more)

        link._on_body = from_node  # type: ignore[method-assign]

    def _add(self, steps: list[Step], on: int, body: bytes) -> None:
        if len(body) <= BODY_BYTES_MAX:
            now = self.loop.now
            ticks = round((now - self.last.get(id(steps), now)) * WAITS_PER_S)
            self.last[id(steps)] = now
            if ticks:  # what a node does by itself, it does in between
                steps.append(Step(Do.WAIT, 0, min(ticks, 0xFFFF).to_bytes(2, "little")))
            steps.append(Step(Do.FRAME, on, body))


class Cluster:
    """Three nodes and a client in virtual time."""

    def __init__(self, loop: VirtualLoop, config: ClusterConfig, tape: Tape) -> None:
        self.loop, self.config, self.tape = loop, config, tape
        self.nodes: dict[str, Node] = {}
        self.starts: dict[str, int] = {}

    def start(self, name: str, *, rejoins: bool = False) -> None:
        """A node comes up."""
        self.starts[name] = self.starts.get(name, 0) + 1
        self.nodes[name] = make_node(self.config, name, self.starts[name], rejoins=rejoins)
        self.tape.node(self.nodes[name])
        self.loop.run(self.nodes[name].start())

    def stop(self, name: str) -> None:
        """A node goes down."""
        self.loop.run(self.nodes.pop(name).stop())


async def client_of(config: ClusterConfig, tape: Tape) -> tuple[Link, Sender]:
    """A client that is connected to everybody."""
    link = Link([node.address for node in config.nodes.values()], CLIENTS[0])
    tape.client(link)
    await link.open()
    return link, Sender(link, 1)


async def work(sender: Sender, follower: Follower, link: Link, count: int) -> None:
    """Messages to one group and to both, and what else clients ask for."""
    for name in link.lines:
        link.say(link.lines[name], StatusWanted())
    for number in range(count):
        dest = ((0,), (0, 1), (1,), (0, 1))[number % 4]
        await sender.submit(dest, b"message %d" % number, 2 if number % 3 == 0 else 0)
        if 0 in dest:
            await anext(follower)


@cache
def tape_of(delivery: str) -> Tape:
    """A cluster's life: work, the leader dies, work, it comes back without what it knew, work."""
    loop = VirtualLoop()
    config = config_of(delivery)
    tape = Tape(loop)
    with virtual(loop), loop.running():
        cluster = Cluster(loop, config, tape)
        for name in config.nodes:
            cluster.start(name)
        loop.advance(0.5)
        link, sender = loop.run(client_of(config, tape))
        follower = Follower(link, config.group_name(0))
        loop.run(work(sender, follower, link, 10))
        cluster.stop("n1")
        loop.run(work(sender, follower, link, 10))
        cluster.start("n1", rejoins=True)
        loop.advance(3)
        loop.run(work(sender, follower, link, 10))
        loop.run(close(sender, link))
        for name in list(cluster.nodes):
            cluster.stop(name)
        loop.calm()
    return tape


async def close(sender: Sender, link: Link) -> None:
    """The client goes."""
    await sender.close()
    await link.close()


def scripts(steps: list[Step], choice: int) -> list[bytes]:
    """A tape, whole, and in pieces that begin like it: ballots and transfers make sense only after what led to them."""
    found = [pack(choice, steps), pack(choice, steps[:STEPS_EACH])]
    for begin in range(STEPS_EACH, len(steps), STEPS_EACH):
        found.append(pack(choice, [*steps[:6], *steps[begin : begin + STEPS_EACH]]))
    return found


def trouble(choice: int) -> bytes:
    """One of everything that is wrong below the bodies."""
    return pack(choice, [Step(do, on, b"\x93" * on) for do in Do for on in range(8)])
