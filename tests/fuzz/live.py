"""Real nodes on real sockets, and mutated frames said to them: by strangers, by clients, and in the place of a node.

Two of three nodes run; the place of the third, n1, is taken. A node that is taken for a peer is trusted to follow the
protocol (nodes crash, they do not lie), so what is said in its place is broken below the messages or said in another's
name. All the while a well-behaved client is served. A `liar`, last, says mutated messages in its own name: nodes must
survive it, but need not order anything any more.

Every connection ends with a frame that no node may take. So each of them must be ended by the node, and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
from tests.fuzz.mutate import mutate_script
from tests.fuzz.script import Do, Step, pack, unpack
from tests.fuzz.seeds import tape_of
from tests.fuzz.stage import CLIENTS, FAILURES, flipped, too_long
from tests.fuzz.targets import handshake_seeds

from braidcast.cli.registry import protocol_named
from braidcast.client.client import Client
from braidcast.client.errors import ClusterUnreachable
from braidcast.client.sender import Receipt
from braidcast.client.status import NodeStatus, groups_with_leader, statuses
from braidcast.client.subscriber import Subscriber
from braidcast.cluster.config import ClusterConfig, load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, free_ports
from braidcast.settings import CLUSTER_FILE
from braidcast.wire.frames import frame
from braidcast.wire.handshake import HANDSHAKE, ClientHello, Hello

AWAY, *THERE = ("n1", "n2", "n3")
GROUPS = ("g0", "g1")
FRAME_BYTES_MAX = 1 << 16
STEPS_EACH = 30
RUNS_EACH = 300
"""Scripts in one round of a long run."""
PATIENCE_S = 30.0
ANSWER_S = 0.2
GROWTH_MB_MAX = 48
"""What a node may take more in the end than after the first round, in which caches fill."""
OF_MESSAGES = ("message ", "more receivers", "passed on", "client: ")
"""How reasons begin for which a node passes over a message, and reads on."""
LOAD_S = 0.02
"""Between one message of the well-behaved client and the next."""
GOOD, END = b"good ", b"the end"
"""How payloads of the well-behaved client begin, and what follows the last of them."""


@dataclass
class Said:
    """What one round was."""

    connections: Counter[str] = field(default_factory=Counter)
    """How many there were, by node."""
    frames: int = 0


class Attack:
    """Mutated scripts, said in one role."""

    def __init__(self, config: ClusterConfig, random: Random) -> None:
        self.config, self.random = config, random
        self.sessions = 0
        tape = tape_of("leader")
        heard = tape.at_node["n2.1"]
        of_peer = [step for step in heard if step.on == 0 and step.do is Do.FRAME and b"TurnedAway" not in step.body]
        of_client = [step for step in tape.at_node["n1.1"] if step.on == 2 and step.do is Do.FRAME]
        self.seeds = {
            "stranger": [pack(0, [Step(Do.FRAME, 0, body)]) for body in handshake_seeds()],
            "client": pieces(of_client),
            "peer": pieces(of_peer),
            "liar": pieces(of_peer),
        }

    async def round(self, role: str, runs: int) -> Said:
        """So many scripts, each on a connection of its own."""
        found = Said()
        seeds = self.seeds[role]
        for number in range(runs):
            data = mutate_script(seeds[number % len(seeds)], self.random, seeds)
            name = THERE[number % len(THERE)]
            found.connections[name] += 1
            found.frames += await self.say(role, name, unpack(data)[1])
        return found

    async def say(self, role: str, name: str, steps: list[Step]) -> int:
        """One script to one node, which ends the connection; how many frames there were."""
        node = self.config.nodes[name]
        reader, writer = await asyncio.open_connection(node.host, node.port)
        read = asyncio.create_task(until_the_end(reader))  # who is not read from must not wait, either
        said = [*self.hello(role, name), *[self.step_of(role, step) for step in steps if step.do is not Do.WAIT]]
        number, last = 0, b""
        with suppress(ConnectionError):
            for step in said:
                data = bytes_of(step, number, last)
                if step.do is Do.FRAME:
                    number, last = number + 1, data
                writer.write(data)
                await writer.drain()
            # Whatever it waits for comes, and is wrong.
            writer.write(too_long(number) + bytes(2 * FRAME_BYTES_MAX))
            await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            await read
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return len(said) + 1

    def hello(self, role: str, name: str) -> list[Step]:
        """What is said first: good, so that what follows is listened to."""
        if role == "client":
            return [Step(Do.FRAME, 0, HANDSHAKE.encode(ClientHello("", CLIENTS[0])))]
        if role in ("peer", "liar"):
            self.sessions += 1
            config = self.config
            hello = Hello(config.name, config.fingerprint, AWAY, "taken", 1, self.sessions, False, name)
            return [Step(Do.FRAME, 0, HANDSHAKE.encode(hello))]
        return []

    def step_of(self, role: str, step: Step) -> Step:
        """As this role may say it."""
        if role != "peer":
            return step
        try:
            tree = msgspec.msgpack.decode(step.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return step
        strangers = [pid for name in THERE for pid in self.config.pids_of(name)]
        for item in tree if isinstance(tree, list) else ():
            if isinstance(item, list) and item and isinstance(item[0], int):
                item[0] = self.random.choice([*strangers, CLIENTS[0]])
        return step._replace(body=msgspec.msgpack.encode(tree))


def pieces(steps: list[Step]) -> list[bytes]:
    """As scripts of a size that can be repeated often."""
    return [pack(0, steps[at : at + STEPS_EACH]) for at in range(0, len(steps), STEPS_EACH)]


def bytes_of(step: Step, number: int, last: bytes) -> bytes:
    """What a step puts into the stream."""
    match step.do:
        case Do.RAW:
            return step.body
        case Do.AGAIN:
            return last
        case Do.SKIP:
            return frame(number + 1, step.body)
        case Do.CUT:
            whole = frame(number, step.body)
            return whole[: len(whole) // 2]
        case Do.LONG:
            return too_long(number)
        case Do.FLIP:
            return flipped(frame(number, step.body), step.body[:2])
        case _:
            return frame(number, step.body)


async def until_the_end(reader: asyncio.StreamReader) -> None:
    """Read what a node says until it ends the connection."""
    with suppress(ConnectionError):
        while await reader.read(1 << 16):
            pass


class Live:
    """Two nodes of three, as processes."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config, self.cluster = config, LocalCluster(config)
        self.addresses = [config.nodes[name].address for name in THERE]

    async def statuses(self) -> list[NodeStatus]:
        """What they say; the one that is away never answers."""
        try:
            return await statuses(self.addresses, wait_s=ANSWER_S)
        except ClusterUnreachable:
            return []

    async def ended(self) -> Counter[str]:
        """How many connections each node has ended because of what came."""
        found: Counter[str] = Counter()

        async def have_answered() -> bool:
            for each in await self.statuses():
                if each.answer is not None:
                    ends = [n for why, n in each.answer["refused"].items() if not why.startswith(OF_MESSAGES)]
                    found[each.name] = sum(ends)
            return found.keys() == set(THERE)

        await wait_for(have_answered, "an answer of each node")
        return found

    async def wait_led(self) -> None:
        """Until both groups have a leader."""

        async def are_led() -> bool:
            return groups_with_leader(await self.statuses()).keys() == set(GROUPS)

        await wait_for(are_led, "leaders of both groups")

    def memory_mb(self) -> dict[str, int]:
        """What each process takes."""
        found = {}
        for name, pid in self.cluster.running().items():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found[name] = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) >> 10
        return found

    async def check(self, found: Said, before: Counter[str]) -> None:
        """Everybody lives, and counted every connection that it ended."""
        assert set(self.cluster.running()) == set(THERE), [self.cluster.last_words(name) for name in THERE]

        async def is_counted() -> bool:
            now = await self.ended()
            return all(now[name] - before[name] >= count for name, count in found.connections.items())

        await wait_for(is_counted, f"{found.connections} to be counted")


async def wait_for(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look again and again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while not await condition():
        assert loop.time() < deadline, f"waited in vain for {what}"


@asynccontextmanager
async def live(folder: Path) -> AsyncIterator[Live]:
    """A cluster of which one node never comes."""
    text = render_local(
        "whitebox", free_ports(3), groups=2, replicas=3, layout="colocated",
        settings={"limits": {"frame_bytes_max": FRAME_BYTES_MAX, "payload_bytes_max": 1024}},
    )  # fmt: skip
    (folder / CLUSTER_FILE).write_text(text, encoding="utf-8")
    made = Live(load_config(folder / CLUSTER_FILE, protocol_named))
    try:
        for name in THERE:
            made.cluster.start(name)
        await made.wait_led()
        yield made
    finally:
        await asyncio.to_thread(made.cluster.stop_all)


class GoodClient:
    """Somebody who has nothing to do with it."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.futures: list[asyncio.Future[Receipt]] = []
        self.over = asyncio.Event()

    async def work(self) -> None:
        """Messages to one group and to both, until it is told to end; each is delivered."""
        async with Client.connect(self.live.addresses, timeout=PATIENCE_S) as client:
            while not self.over.is_set():
                number = len(self.futures)
                to = (GROUPS, GROUPS[:1], GROUPS[1:])[number % 3]
                self.futures.append(await client.submit(GOOD + b"%d" % number, to=to))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.over.wait(), LOAD_S)
            await asyncio.gather(*self.futures)

    async def check(self) -> None:
        """Each group delivered what it was sent, once, and both had one order."""
        first, second = [await self.delivered(group) for group in GROUPS]
        numbers = range(len(self.futures))
        for place, found in enumerate((first, second)):
            assert sorted(found) == [number for number in numbers if number % 3 in (0, place + 1)]
        assert [number for number in first if number % 3 == 0] == [number for number in second if number % 3 == 0]

    async def delivered(self, group: str) -> list[int]:
        """The numbers of the messages that a group has, in its order; more than there should be, if there are more."""
        found: list[int] = []
        async with Client.connect(self.live.addresses, timeout=PATIENCE_S) as client:
            await client.multicast(END, to={group})
        async with asyncio.timeout(PATIENCE_S), Subscriber.connect(self.live.addresses, group=group) as deliveries:
            while (payload := (await anext(deliveries)).payload) != END:
                if payload.startswith(GOOD):
                    found.append(int(payload.removeprefix(GOOD)))
        return found


async def attack(folder: Path, seed: int, runs: int, seconds: float, say: Callable[[str], None]) -> None:
    """Rounds of `runs` scripts in every role, for so long or at least twice; asserts what must hold."""
    async with live(folder) as cluster:
        attacker = Attack(cluster.config, Random(seed))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        client = GoodClient(cluster)
        working = asyncio.create_task(client.work())
        memory: dict[str, int] = {}
        rounds = 0
        while rounds < 2 or loop.time() < deadline:
            for role in ("stranger", "client", "peer"):
                before = await cluster.ended()
                found = await attacker.round(role, runs)
                await cluster.check(found, before)
                say(f"{role:10} {found.connections.total():>6} connections {found.frames:>7} frames, "
                    f"{sum(cluster.memory_mb().values())} MB, {len(client.futures)} well-behaved messages")  # fmt: skip
            memory = memory or cluster.memory_mb()
            rounds += 1
        check_growth(memory, cluster.memory_mb())
        client.over.set()
        await working
        await client.check()
        with suppress(ConnectionError):  # nobody listens any more
            found = await attacker.round("liar", runs)
            say(f"{'liar':10} {found.connections.total():>6} connections {found.frames:>7} frames")
        for name in THERE:
            check_words(cluster, name)
        check_growth(memory, cluster.memory_mb())


def check_growth(before: dict[str, int], after: dict[str, int]) -> None:
    """No node keeps what it refused."""
    grown = {name: size - before[name] for name, size in after.items()}
    assert max(grown.values(), default=0) <= GROWTH_MB_MAX, grown


def check_words(cluster: Live, name: str) -> None:
    """It runs, or said in words why it cannot go on."""
    said = cluster.cluster.nodes[name].output.read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in said, said
    if cluster.cluster.nodes[name].pid is None:
        assert any(words in cluster.cluster.last_words(name) for words in FAILURES), said
