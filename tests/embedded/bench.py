"""Lives of one hosted state machine without a node, on a disk that a test may hold."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from tests.cluster.journals import BYTES_MAX, CLIENT, delivery, gts_of
from tests.embedded.machines import Store, Tape

from braidcast.cluster.journal import Journal
from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast
from braidcast.embedded.hosting import Hosted, Surroundings
from braidcast.embedded.machine import StateMachine
from braidcast.embedded.results import Results
from braidcast.wire.batches import packed


class Disk(Executor):
    """Does at once what it is given, or keeps it."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] | None = None

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def do() -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except OSError as error:
                future.set_exception(error)

        if self.held is None:
            do()
        else:
            self.held.append(do)
        return future

    def release(self) -> None:
        held, self.held = self.held or [], None
        for do in held:
            do()


class Bench:
    """Lives of one hosted state machine in one folder."""

    def __init__(
        self, folder: Path, *, bytes_min: int = 1 << 40, name: str = "n1", journal_bytes: int = BYTES_MAX
    ) -> None:
        self.folder, self.bytes_min, self.journal_bytes = folder / name, bytes_min, journal_bytes
        self.disk = Disk()
        self.results = Results(100)
        self.failures: list[str] = []

    @property
    def path(self) -> Path:
        return self.folder / "state" / "g0"

    def life(self, machine: StateMachine | None = None) -> Hosted:
        """Open what the life before has left."""
        journal = Journal(self.folder / "journal", self.journal_bytes)
        around = Surroundings({0: "g0", 1: "g1"}, self.results, self.disk, self.failures.append, self.bytes_min)
        hosted = Hosted("g0", Tape() if machine is None else machine, journal, self.path, around)
        hosted.open()
        return hosted


def tape(hosted: Hosted) -> list[int]:
    assert isinstance(hosted.machine, Tape | Store)
    return [int(payload.rstrip(b".")) for payload in hosted.machine.tape]


def applied(hosted: Hosted) -> int:
    assert isinstance(hosted.machine, Tape | Store)
    return hosted.machine.applied


def fill(hosted: Hosted, first: int, last: int, size: int = 10) -> None:
    for index in range(first, last + 1):
        hosted.append(delivery(index, size))
        hosted.write()


def die(hosted: Hosted) -> None:
    """As kill -9 does: what the operating system has stays."""
    hosted.journal.close()


def batch(index: int, *payloads: bytes) -> Delivered:
    """A delivery that brings several messages."""
    return Delivered(Multicast(MessageId(CLIENT, 1, index), (0,), packed(payloads), batch_count=len(payloads)),
                     gts_of(index))  # fmt: skip
