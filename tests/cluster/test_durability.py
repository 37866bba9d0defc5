"""Commits: one at a time, in order; a full disk holds everything back; any other failure ends the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cluster.inprocess import NodeDisk, run, turns, until
from tests.cluster.log_disks import FaultyDisk, NarrowDisk

from braidcast.cluster import durability as module
from braidcast.cluster.durability import Durability
from braidcast.cluster.lacking import FILES
from braidcast.cluster.log import Log
from braidcast.core.errors import BraidcastError
from braidcast.core.message import message


@message
class Noted:
    """A record."""

    number: int


@dataclass
class Bench:
    """A durability on a disk that the test holds."""

    folder: Path
    disk: NodeDisk = field(default_factory=NodeDisk)
    failures: list[str] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def open(self, checkpoint_bytes_min: int = 1 << 20) -> Durability:
        wal = Log.open(self.folder / "log", disk=self.disk)
        return Durability(wal, [Noted], checkpoint_bytes_min, self.failures.append)

    def then(self, number: int) -> Callable[[], None]:
        return lambda: self.done.append(number)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    made = Bench(tmp_path)
    yield made
    made.disk.release()


def test_commit_is_done_when_it_is_durable_and_not_before(bench: Bench) -> None:
    async def work() -> None:
        durability = bench.open()
        bench.disk.hold()
        durability.commit([(0, [Noted(1)]), (3, [Noted(2)])], bench.then(1))
        await turns()
        assert durability.busy
        assert bench.done == []
        bench.disk.release()
        await until(lambda: bench.done == [1], "the commit")
        assert not durability.busy
        durability.commit([(0, [Noted(3)])], bench.then(2))
        await until(lambda: bench.done == [1, 2], "the next")
        durability.close()
        again = bench.open()
        assert again.recovered() == {0: [Noted(1), Noted(3)], 3: [Noted(2)]}
        again.close()

    run(work())


def test_full_disk_tries_again_until_there_is_room_and_then_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        durability = bench.open()
        bench.disk.full = True
        durability.commit([(0, [Noted(1)])], bench.then(1))
        await until(lambda: durability.lack, "word of it")
        await turns()
        assert durability.busy
        assert bench.done == []
        assert bench.failures == []
        bench.disk.full = False
        await until(lambda: bench.done == [1], "the commit")
        assert not durability.lack
        durability.close()
        assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"], "said once, however often tried"
        again = bench.open()
        assert again.recovered() == {0: [Noted(1)]}
        again.close()

    run(work())


def test_commit_without_a_file_to_open_is_tried_again_until_there_is_one(bench: Bench) -> None:
    async def work() -> None:
        wal = Log.open(bench.folder / "log", disk=bench.disk, segment_bytes=1)
        durability = Durability(wal, [Noted], 1 << 20, bench.failures.append)
        durability.commit([(0, [Noted(1)])], bench.then(1))
        await until(lambda: bench.done == [1], "the first commit of a segment")
        bench.disk.lacks_files = True
        durability.commit([(0, [Noted(2)])], bench.then(2))
        await until(lambda: durability.lack == FILES, "word of it")
        assert (bench.done, bench.failures) == ([1], [])
        bench.disk.lacks_files = False
        await until(lambda: bench.done == [1, 2], "the commit")
        assert not durability.lack
        durability.close()

    run(work())


def test_who_gives_up_waits_for_room_no_longer(bench: Bench) -> None:
    async def work() -> None:
        durability = bench.open()
        bench.disk.full = True
        durability.commit([(0, [Noted(1)])], bench.then(1))
        await until(lambda: durability.lack, "word of it")
        durability.give_up()
        durability.close()
        bench.disk.full = False
        await turns()
        assert bench.done == []

    run(work())


def test_any_other_failure_ends_the_node_and_nothing_is_done_after_it(bench: Bench) -> None:
    async def work() -> None:
        durability = bench.open()
        bench.disk.broken = True
        durability.commit([(0, [Noted(1)])], bench.then(1))
        await until(lambda: bench.failures, "the failure")
        assert "nobody knows what it holds" in bench.failures[0]
        assert durability.busy, "so that nothing is let go"
        assert bench.done == []
        durability.close()

    run(work())


def test_checkpoint_is_due_when_the_log_has_grown_to_twice_the_last_one(bench: Bench) -> None:
    async def work() -> None:
        durability = bench.open(checkpoint_bytes_min=100)
        assert not durability.wants_checkpoint
        records = [Noted(number) for number in range(200)]
        durability.commit([(0, records)], bench.then(1))
        await until(lambda: bench.done == [1], "the commit")
        assert durability.wants_checkpoint
        durability.checkpoint([(0, records[:10])], [(0, records[:1])], bench.then(2))
        await until(lambda: bench.done == [1, 2], "the checkpoint")
        size = durability.wal.checkpoint_bytes
        assert not durability.wants_checkpoint
        while durability.wal.bytes_since_checkpoint < 2 * size:
            assert not durability.wants_checkpoint
            commits = durability.commits
            durability.commit([(0, records[:5])], bench.then(3))
            await until(lambda: durability.commits > commits, "a commit")  # noqa: B023  (waited for within the round)
        assert durability.wants_checkpoint
        durability.close()
        again = bench.open()
        assert again.recovered()[0][:11] == [*records[:10], records[0]]
        again.close()

    run(work())


def test_checkpoint_without_room_gives_way_to_a_commit_and_is_tried_again_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_RETRY_S", 3600)

    async def work() -> None:
        narrow = NarrowDisk(room=5_000)
        wal = Log.open(bench.folder / "log", disk=narrow)
        durability = Durability(wal, [Noted], 100, bench.failures.append)
        durability.commit([(0, [Noted(number) for number in range(100)])], bench.then(1))
        await until(lambda: bench.done == [1], "the commit")
        assert durability.wants_checkpoint
        large = [Noted(number) for number in range(1000)]
        durability.checkpoint([(0, large)], [(0, [Noted(100)])], bench.then(2))
        await until(lambda: bench.done == [1, 2], "the commit in its place")
        assert durability.checkpoint_waits
        assert not durability.lack
        assert not durability.wants_checkpoint, "not at once"
        durability.commit([(0, [Noted(101)])], bench.then(3))
        await until(lambda: bench.done == [1, 2, 3], "the next")
        narrow.room = 1 << 30
        durability.close()
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        again = bench.open(100)
        assert again.recovered() == {0: [Noted(number) for number in range(102)]}
        again.close()

    run(work())


def test_checkpoint_that_waited_is_made_when_there_is_room(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_RETRY_S", 0)

    async def work() -> None:
        narrow = NarrowDisk(room=4_000)
        durability = Durability(Log.open(bench.folder / "log", disk=narrow), [Noted], 100, bench.failures.append)
        everything = [(0, [Noted(number) for number in range(1000)])]
        durability.checkpoint(everything, [(0, [Noted(1)] * 20)], bench.then(1))
        await until(lambda: bench.done == [1], "the commit in its place")
        assert durability.wants_checkpoint
        narrow.room = 1 << 30
        durability.checkpoint(everything, [(0, [Noted(2)])], bench.then(2))
        await until(lambda: bench.done == [1, 2], "the checkpoint")
        assert not durability.checkpoint_waits
        assert durability.wal.checkpoint_bytes > 4_000
        durability.close()

    run(work())


def test_disk_without_room_for_either_is_not_asked_for_the_checkpoint_again_and_again(bench: Bench) -> None:
    async def work() -> None:
        disk = FaultyDisk(NarrowDisk(room=60))
        durability = Durability(Log.open(bench.folder / "log", disk=disk), [Noted], 100, bench.failures.append)
        disk.done.clear()
        durability.checkpoint([(0, [Noted(number) for number in range(100)])], [(0, [Noted(1)])], bench.then(1))
        await until(lambda: disk.done.count("truncate") > 5, "several tries of the commit")
        assert disk.done.count("create") == 1, "a checkpoint begins with a file"
        durability.give_up()
        durability.close()
        assert bench.failures == []

    run(work())


def test_records_of_another_version_are_an_error(bench: Bench) -> None:
    wal = Log.open(bench.folder / "log", disk=bench.disk)
    wal.append(b"\x91\x92\x00\x91\x91\xa7Unknown")
    wal.close()
    durability = bench.open()
    with pytest.raises(BraidcastError, match="start the version that wrote them"):
        durability.recovered()
    durability.close()
