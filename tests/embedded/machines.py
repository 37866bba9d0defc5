"""State machines that show what was done to them, and replicas that host them in one event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.cluster.inprocess import until

from braidcast.client.subscriber import Checkpoint, Delivery
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import free_ports
from braidcast.embedded.machine import StateMachine
from braidcast.embedded.replica import Replica
from braidcast.settings import CLUSTER_FILE


class Tape:
    """Keeps every message, in order, and answers with how many there are."""

    def __init__(self) -> None:
        self.tape: list[bytes] = []
        self.applied = 0
        """In this life."""
        self.restored = 0
        self.breaks: Exception | None = None
        """Raised in place of the next effect."""

    def apply(self, delivery: Delivery) -> Any:
        if self.breaks is not None:
            raise self.breaks
        self.applied += 1
        self.tape.append(delivery.payload)
        if delivery.payload.startswith(b"raise"):
            raise KeyError(delivery.payload.decode())
        return len(self.tape)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.tape)

    def restore(self, state: bytes) -> None:
        self.restored += 1
        self.tape = msgspec.msgpack.decode(state, type=list[bytes])


class Store:
    """Keeps every message in a database of its own, in one transaction with the checkpoint."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("create table if not exists tape (payload blob)")
        self.db.execute("create table if not exists progress (checkpoint text)")
        self.applied = 0

    @property
    def checkpoint(self) -> Checkpoint:
        (text,) = self.db.execute("select coalesce(max(checkpoint), '') from progress").fetchone()
        return Checkpoint.parse(text)

    @property
    def tape(self) -> list[bytes]:
        return [payload for (payload,) in self.db.execute("select payload from tape order by rowid")]

    def apply(self, delivery: Delivery) -> int:
        self.applied += 1
        self._write([delivery.payload], str(delivery.checkpoint))
        return len(self.tape)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((self.tape, str(self.checkpoint)))

    def restore(self, state: bytes) -> None:
        tape, checkpoint = msgspec.msgpack.decode(state, type=tuple[list[bytes], str])
        self.db.execute("delete from tape")
        self._write(tape, checkpoint)

    def _write(self, payloads: list[bytes], checkpoint: str) -> None:
        self.db.execute("begin")
        self.db.executemany("insert into tape values (?)", [(payload,) for payload in payloads])
        self.db.execute("delete from progress")
        self.db.execute("insert into progress values (?)", (checkpoint,))
        self.db.execute("commit")


def cluster_in(folder: Path, *, groups: int = 1, replicas: int = 3, **settings: dict[str, str | int]) -> Path:
    """The configuration of a cluster, in a file."""
    text = render_local(
        "whitebox", free_ports(replicas), groups=groups, replicas=replicas, layout="colocated",
        settings={name.replace("_", ".", 1) if name == "cluster_options" else name: each
                  for name, each in settings.items()},
    )  # fmt: skip
    file = folder / CLUSTER_FILE
    file.write_text(text, encoding="utf-8")
    return file


def state_file(config: ClusterConfig, node: str, group: str = "g0") -> Path:
    """Where the state of a group is kept."""
    return config.node(node).data / "state" / group


class Lives:
    """Replicas of one cluster, each with new state machines in each of its lives."""

    def __init__(self, file: Path, groups: tuple[str, ...], **options: Any) -> None:
        self.file, self.groups, self.options = file, groups, options
        self.replicas: dict[str, Replica] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """Each replica has a task of its own, which ends when its node fails."""
        self.over: dict[str, asyncio.Event] = {}

    def __getitem__(self, name: str) -> Replica:
        return self.replicas[name]

    def machines(self) -> Mapping[str, StateMachine]:
        """For one life of a node."""
        return {group: Tape() for group in self.groups}

    def tape(self, name: str, group: str = "g0") -> Tape:
        """A state machine of a node that runs."""
        found = self.replicas[name].read(group)
        assert isinstance(found, Tape)
        return found

    async def start(self, *names: str, machines: Mapping[str, StateMachine] | None = None, **options: Any) -> None:
        """Begin a life of each of these nodes."""
        for name in names:
            applications = self.machines() if machines is None else machines
            replica = Replica(self.file, node=name, applications=applications, **{**self.options, **options})
            opened = asyncio.Event()
            self.over[name] = asyncio.Event()
            task = asyncio.create_task(self._live(replica, opened, self.over[name]))
            await asyncio.wait((task, waits := asyncio.create_task(opened.wait())), return_when="FIRST_COMPLETED")
            if task.done():
                waits.cancel()
                return task.result()
            self.replicas[name], self.tasks[name] = replica, task

    async def _live(self, replica: Replica, opened: asyncio.Event, over: asyncio.Event) -> None:
        async with replica:
            opened.set()
            await over.wait()

    async def stop(self, *names: str) -> None:
        """End the lives of these, in order."""
        for name in names or list(self.replicas):
            self.over[name].set()
            await self.ended(name)

    async def ended(self, name: str) -> None:
        """Wait for the end of a life, and raise what it ended with."""
        del self.replicas[name]
        await self.tasks.pop(name)

    def die(self, name: str) -> None:
        """What a machine leaves that stops dead: no state is written in the end. `stop` follows."""
        for hosted in self.replicas[name].hosted.values():
            hosted.whole = False

    async def same(self, count: int, group: str = "g0", *names: str) -> list[bytes]:
        """The tape of a group when all that run have so many messages; they agree."""
        tapes = [self.tape(name, group) for name in names or self.replicas]
        await until(lambda: all(len(tape.tape) >= count for tape in tapes), f"{count} effects everywhere")
        assert all(tape.tape == tapes[0].tape for tape in tapes)
        return tapes[0].tape


@asynccontextmanager
async def replicas_of(
    file: Path, *names: str, groups: tuple[str, ...] = ("g0",), **options: Any
) -> AsyncIterator[Lives]:
    """The replicas of these nodes; stopped in the end, whatever happened."""
    lives = Lives(file, groups, **options)
    try:
        await lives.start(*names)
        yield lives
    finally:
        await lives.stop()
