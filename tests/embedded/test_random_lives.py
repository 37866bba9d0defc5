"""Random lives of a hosted state machine: deaths at any moment, torn journals, full disks, states of others."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.cluster.inprocess import run, turns
from tests.cluster.journals import delivery, gts_of
from tests.embedded.bench import Bench, die, tape
from tests.embedded.machines import Tape

from braidcast.client.subscriber import Delivery
from braidcast.embedded import hosting
from braidcast.embedded.state_file import Kept, write_state

ENTRY_BYTES, JOURNAL_BYTES = 6_000, 1 << 16
STEPS = ("deliver", "save", "die", "tear", "close", "restore", "full", "room")


class Numbers(Tape):
    """Keeps what is short of every message."""

    def apply(self, delivery: Delivery) -> int:
        self.tape.append(delivery.payload.rstrip(b"."))
        return len(self.tape)


class Lives:
    """A replica, the process below it that forgets nothing, and a leader that can give its state."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, bytes_min=200, journal_bytes=JOURNAL_BYTES)
        self.leader = Bench(folder, name="n2").life(Numbers())
        self.full = False
        self.last = 0
        """Up to where the process delivered,"""
        self.snapshot = 0
        """and where the newest state of another replica ends."""
        self.begin()

    def begin(self) -> None:
        """Another life: the process delivers again what is not in the journal."""
        self.bench.disk.held = []
        self.hosted = self.bench.life(Numbers())
        begun = self.hosted.journal.next - 1
        if begun < self.snapshot:
            self.restore(self.snapshot)
            begun = self.snapshot
        self.deliver(begun + 1, self.last)

    def deliver(self, first: int, last: int) -> None:
        for index in range(first, last + 1):
            self.hosted.append(delivery(index, ENTRY_BYTES))
            self.hosted.write()
        self.last = last

    def restore(self, upto: int) -> None:
        self.bench.disk.release()
        if self.leader.journal.next <= upto:
            for index in range(self.leader.journal.next, upto + 1):
                self.leader.append(delivery(index, ENTRY_BYTES))
                self.leader.journal.write()
            self.state = self.leader.state(10 * ENTRY_BYTES)
        self.snapshot, self.last = upto, max(self.last, upto)
        self.hosted.restore(gts_of(upto), self.state)
        self.bench.disk.held = []

    def write_state(self, path: Path, kept: Kept) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_state(path, kept)

    async def step(self, kind: str, value: int) -> None:
        match kind:
            case "deliver":
                self.deliver(self.last + 1, self.last + value)
            case "save":
                self.bench.disk.release()
                await turns(2)
                self.bench.disk.held = []
            case "die" | "tear":
                die(self.hosted)
                if kind == "tear":
                    newest = max((self.bench.folder / "journal").glob("*.journal"), default=None)
                    if newest is not None:
                        os.truncate(newest, max(0, newest.stat().st_size - ENTRY_BYTES // 5 * value))
                self.begin()
            case "close":
                self.bench.disk.release()
                self.hosted.close()
                self.begin()
            case "restore" if self.last + value >= self.leader.journal.next:
                self.restore(self.last + value)
            case "full" | "room":
                self.full = kind == "full"
                self.hosted.write()
        assert tape(self.hosted) == list(range(1, self.last + 1))
        assert self.hosted.journal.next == self.last + 1
        assert bool(self.hosted.lack) <= self.full


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 9)), max_size=25))
@example([("deliver", 9)] * 6 + [("die", 1), ("deliver", 9), ("save", 1), ("tear", 9), ("close", 1)])
@example([("deliver", 3), ("full", 1), ("restore", 9), ("deliver", 2), ("die", 1), ("room", 1), ("tear", 9)])
def test_whatever_happens_every_effect_is_there_once(steps: list[tuple[str, int]]) -> None:
    async def work(folder: Path) -> None:
        lives = Lives(folder)
        with mock.patch.object(hosting, "write_state", lives.write_state):
            for kind, value in steps:
                await lives.step(kind, value)
        die(lives.hosted)
        assert lives.bench.failures == []

    with tempfile.TemporaryDirectory() as folder:
        run(work(Path(folder)))
