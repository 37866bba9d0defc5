"""What is fuzzed: plain functions from bytes to how much was refused. Whatever they raise is a finding."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
from tests.fuzz.cluster import DELIVERY, FRAME_BYTES_MAX, config_of, make_node, virtual
from tests.fuzz.follower_stage import ClientStage, welcome_of
from tests.fuzz.mutate import Raw, mutate_body, mutate_bytes, mutate_script
from tests.fuzz.script import Do, Step, pack, unpack
from tests.fuzz.seeds import scripts, tape_of, trouble
from tests.fuzz.stage import NodeStage
from tests.fuzz.tls import mutate_tls, tls_run, tls_seeds
from tests.virtual_loop import VirtualLoop

from braidcast.client.link import TO_CLIENT, TO_NODE
from braidcast.client.subscriber import Checkpoint, Delivery
from braidcast.cluster.backup import (
    MAGIC,
    BackedUp,
    BackupDamaged,
    BackupEntries,
    BackupHead,
    BackupReader,
    backup_frame,
)
from braidcast.cluster.durability import RecordCodec
from braidcast.cluster.journal import Journal, SnapshotState
from braidcast.cluster.journal_segments import JournalError
from braidcast.cluster.segments import LogCorrupt, LogForeign, Segment, head
from braidcast.cluster.segments import frame as log_frame
from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.errors import BraidcastError
from braidcast.embedded.errors import StateMachineFailed
from braidcast.embedded.hosting import Hosted, Surroundings
from braidcast.embedded.replicated import Replicated, replicated
from braidcast.embedded.results import Results
from braidcast.wire.codec import Codec, Undecodable
from braidcast.wire.frames import HEADER_BYTES, FrameError, FrameReader, frame
from braidcast.wire.handshake import HANDSHAKE, ClientHello, Hello, TurnedAway
from braidcast.wire.service import JournalEntry

Mutate = Callable[[bytes, Random, "list[bytes]", "Raw | None"], bytes]


@dataclass(frozen=True)
class Target:
    """One thing to fuzz."""

    name: str
    run: Callable[[bytes], int]
    seeds: Callable[[], list[bytes]]
    mutate: Mutate


# -- frames and the codec ---------------------------------------------------------------------------------------------


BACKUP = Codec((BackupHead, BackupEntries))
BACKUP_HEAD = BACKUP.encode(
    BackupHead("c", "whitebox", ("g0", "g1"), (BackedUp("g0", 0, 1, 0, 5 << 10), BackedUp("g1", 1, 1, 0, 0)),
               9 << 10, 1, "")
)  # fmt: skip


def read_stream(data: bytes, codecs: list[Codec]) -> int:
    """A stream, cut as its first byte says, into frames, and each body as each side would read it."""
    reader = FrameReader(FRAME_BYTES_MAX)
    stride = 1 + data[0] if data else 1
    refused = 0
    for at in range(1, len(data), stride):
        try:
            bodies = reader.feed(data[at : at + stride])
        except FrameError:
            return refused + 1
        assert len(reader.buffer) <= HEADER_BYTES + FRAME_BYTES_MAX, "a buffer beyond one frame"
        for body, codec in itertools.product(bodies, codecs):
            try:
                codec.encode(codec.decode(body))
            except Undecodable:
                refused += 1
    return refused


def stream_of(bodies: list[bytes]) -> bytes:
    """Bodies as a stream."""
    return b"\x3f" + b"".join([frame(number, body) for number, body in enumerate(bodies)])


def decoder_run() -> Callable[[bytes], int]:
    """As a node and as a client sees it."""
    node = make_node(config_of("leader"), "n1")
    codecs = [node.from_peers, node.door.from_clients, TO_CLIENT, TO_NODE]
    return lambda data: read_stream(data, codecs)


def decoder_seeds() -> list[bytes]:
    """Streams as they were heard."""
    tape = tape_of("leader")
    bodies = [[step.body for step in steps] for steps in [*tape.at_node.values(), tape.at_client]]
    return [stream_of(some[at : at + 20]) for some in bodies for at in range(0, len(some), 40)]


def mutate_stream(data: bytes, random: Random, others: list[bytes], raw: Raw | None) -> bytes:
    """Another stream; of good frames, more often than not."""
    if not random.randrange(4):
        return (raw or mutate_bytes)(data, random)
    try:
        bodies = FrameReader(FRAME_BYTES_MAX).feed(data[1:])
    except FrameError:
        return random.choice(others) if others else data
    steps = unpack(b"")[1]
    if bodies:
        at = random.randrange(len(bodies))
        bodies[at] = mutate_body(bodies[at], random, steps, raw)
    return data[:1] + stream_of(bodies)[1:]


def handshake_run(body: bytes) -> int:
    """Whoever dials."""
    try:
        said = HANDSHAKE.decode_one(body)
    except Undecodable:
        return 1
    assert HANDSHAKE.decode_one(HANDSHAKE.encode(said)) == said
    return 0


def handshake_seeds() -> list[bytes]:
    """One of each."""
    config = config_of("leader")
    said = (
        Hello(config.name, config.fingerprint, "n1", "disk", 1, 1, False), ClientHello("", 1), ClientHello("local", 0),
        TurnedAway("no", True), welcome_of(config, "n1"),
    )  # fmt: skip
    return [HANDSHAKE.encode(one) for one in said]


def mutate_one(data: bytes, random: Random, others: list[bytes], raw: Raw | None) -> bytes:
    """Another body."""
    return mutate_body(data, random, [], raw)


# -- what is on disk, or comes as a snapshot --------------------------------------------------------------------------


def records_run() -> Callable[[bytes], int]:
    """The body of a commit, and the commit itself."""
    node = make_node(config_of("leader"), "n1")
    codec = RecordCodec(next(iter(node.replicas.values())).process.replays)

    def run(data: bytes) -> int:
        refused = 0
        try:
            codec.encode(list(codec.decode(data)))
        except BraidcastError:
            refused += 1
        try:
            segment = Segment.parse(Path("seg"), data)
            ends = [len(head(0, 0)), *[end for end, _ in segment.frames()]]
            segment.torn_bytes(ends[-1], segment.first + len(ends) - 1, is_last=True)
        except (LogCorrupt, LogForeign):
            refused += 1
        return refused

    return run


def records_seeds() -> list[bytes]:
    """Records of a node that has worked, alone and in a segment."""
    loop = VirtualLoop()
    config = config_of("leader")
    with virtual(loop), loop.running():
        stage = NodeStage(loop, config, "n1")
        for step in tape_of("leader").at_node["n1.1"][:100]:
            stage.do(step)
        replicas = stage.node.replicas
        kinds = next(iter(replicas.values())).process.replays
        checkpoints = [(pid, list(replica.process.checkpoint())) for pid, replica in replicas.items()]
        loop.run(stage.node.stop())
    body = RecordCodec(kinds).encode(checkpoints)
    return [body, head(1, 0) + log_frame(1, body) + log_frame(2, body), head(1, 0) + log_frame(1, b"") + bytes(600)]


LAST_GTS = 5 << 38


def snapshot_run(data: bytes) -> int:
    """A journal that takes over another one's state."""
    journal = Journal(None, 4096)
    try:
        journal.restore(LAST_GTS, data)
    except JournalError:
        return 1
    journal.read(journal.after, 10)
    msgspec.msgpack.decode(journal.state(1 << 20), type=SnapshotState)
    return 0


def snapshot_seeds() -> list[bytes]:
    """A journal with a few entries."""
    journal = Journal(None, 1 << 20)
    for number in range(1, 6):
        journal.append(Delivered(Multicast(MessageId(9, 1, number), (0, 1), b"m" * number), number << 38))
    return [journal.state(1 << 20)]


# -- state machines --------------------------------------------------------------------------------------------------


class Counts(Replicated):
    """A state machine that never refuses by itself."""

    count: dict[str, int]

    def __init__(self) -> None:
        self.count = {}

    @replicated(to=lambda self, name, by=1: "g0")
    def add(self, name: str, by: int = 1) -> int:
        self.count[name] = by
        return by


def call_run(data: bytes) -> int:
    """A message to a state machine, from whoever may send to its group."""
    counts = Counts()
    try:
        counts.apply(Delivery(data, 1, 0, "g0", frozenset({"g0"}), 1, MessageId(9, 1, 1), Checkpoint(1)))
    except BraidcastError:
        return 1
    Counts().restore(counts.snapshot())
    return 0


def call_seeds() -> list[bytes]:
    """Calls."""
    return [Counts.add.payload(Counts(), "chair", 3), Counts.add.payload(Counts(), "")]


def hosted() -> Hosted:
    """A state machine on a journal in memory."""
    around = Surroundings({0: "g0", 1: "g1"}, Results(1), ThreadPoolExecutor(1), lambda why: None, 1 << 40)
    return Hosted("g0", Counts(), Journal(None, 4096), None, around)


def hosted_run(data: bytes) -> int:
    """A state machine that takes over another one's state."""
    made = hosted()
    try:
        made.restore(LAST_GTS, data)
    except (JournalError, StateMachineFailed):
        return 1
    hosted().restore(LAST_GTS, made.state(1 << 20))
    return 0


def hosted_seeds() -> list[bytes]:
    """A state machine and its journal."""
    made = hosted()
    for number in range(1, 6):
        payload = Counts.add.payload(Counts(), f"chair{number}", number)
        made.append(Delivered(Multicast(MessageId(9, 1, number), (0, 1), payload), number << 38))
    return [made.state(1 << 20)]


# -- backups -----------------------------------------------------------------------------------------------------------


def backup_run(data: bytes) -> int:
    """A backup whose checksums are right: a head, or entries behind a head that is good."""
    with NamedTemporaryFile() as file:
        path = Path(file.name)
        for bodies in ([data], [BACKUP_HEAD, data]):
            path.write_bytes(MAGIC + b"".join([backup_frame(body) for body in bodies]))
            try:
                BackupReader(path).check()
            except BackupDamaged:
                continue
            raise AssertionError("a backup without an end")
    return 1


def backup_seeds() -> list[bytes]:
    """Its head and some entries."""
    entries = tuple([JournalEntry(n, n << 10, MessageId(9, 1, n), (0, 1), b"m" * n) for n in range(1, 6)])
    return [BACKUP_HEAD, BACKUP.encode(BackupEntries(0, entries)), BACKUP.encode(BackupEntries(7, ()))]


# -- live -------------------------------------------------------------------------------------------------------------

SIDES = tuple([(life, delivery) for delivery in DELIVERY for life in ("n1.1", "n2.1", "n3.1", "n1.2")])
"""n1 begins as the leader and dials the others; n3 follows and is dialled; n1's second life begins without its disk."""


def node_run(data: bytes) -> int:
    """A node that hears a script."""
    choice, steps = unpack(data)
    life, delivery = SIDES[choice % len(SIDES)]
    name, _, start = life.partition(".")
    loop = VirtualLoop()
    with virtual(loop), loop.running():
        stage = NodeStage(loop, config_of(delivery), name, rejoins=start == "2")
        for step in steps:
            stage.do(step)
        refused = stage.refused
        stage.check()
    return refused


def node_seeds() -> list[bytes]:
    """What nodes heard, and one of everything that is wrong."""
    strangers = [Step(Do.FRAME, 4 + n % 4, body) for n, body in enumerate(handshake_seeds() * 3)]
    found = [trouble(choice) for choice in range(len(SIDES))]
    found += [pack(choice, strangers) for choice in range(len(SIDES))]
    for choice, (life, delivery) in enumerate(SIDES):
        found += scripts(tape_of(delivery).at_node[life], choice)
    return found


def client_run(data: bytes) -> int:
    """A client whose nodes say a script."""
    _, steps = unpack(data)
    loop = VirtualLoop()
    with virtual(loop), loop.running():
        stage = ClientStage(loop, config_of("leader"))
        for step in steps:
            stage.do(step)
        refused = stage.refused
        stage.check()
    return refused


def client_seeds() -> list[bytes]:
    """What a client heard, and what it would rather not hear."""
    id = MessageId(1 << 62 | 1, 1, 2)
    answers: list[Any] = [Reply(id, 1, 7 << 10), Redirect(id, 1, 1 << 16 | 4), Refused(id, 0, "no")]
    said = [Step(Do.FRAME, n % 3, TO_CLIENT.encode([(0, (), answer)])) for n, answer in enumerate(answers)]
    return [trouble(0), *scripts(said, 0), *scripts(tape_of("leader").at_client, 0)]


TARGETS: dict[str, Callable[[], Target]] = {
    "decoder": lambda: Target("decoder", decoder_run(), decoder_seeds, mutate_stream),
    "handshake": lambda: Target("handshake", handshake_run, handshake_seeds, mutate_one),
    "records": lambda: Target("records", records_run(), records_seeds, mutate_one),
    "snapshot": lambda: Target("snapshot", snapshot_run, snapshot_seeds, mutate_one),
    "backup": lambda: Target("backup", backup_run, backup_seeds, mutate_one),
    "call": lambda: Target("call", call_run, call_seeds, mutate_one),
    "hosted": lambda: Target("hosted", hosted_run, hosted_seeds, mutate_one),
    "tls": lambda: Target("tls", tls_run(), tls_seeds, mutate_tls),
    "client": lambda: Target("client", client_run, client_seeds, mutate_script),
    "node": lambda: Target("node", node_run, node_seeds, mutate_script),
}
"""By name; made when it is asked for, so that a fuzzer can instrument what it imports."""
