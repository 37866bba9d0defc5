"""A state machine on top of a journal: every effect once, whatever is lost in a crash. No network, and no node."""

from __future__ import annotations

import concurrent.futures
import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.inprocess import PATIENCE_S, run, turns, until
from tests.cluster.journals import BYTES_MAX, delivery, full_disk, gts_of
from tests.embedded.bench import Bench, applied, die, fill, tape
from tests.embedded.machines import Tape

from braidcast.cluster.journal import Journal
from braidcast.embedded import hosting
from braidcast.embedded.errors import StateLost, StateMachineFailed
from braidcast.embedded.state_file import Kept, read_state, write_state

# -- restarts --------------------------------------------------------------------------------------------------------


def test_killed_before_any_state_was_written_everything_is_applied_again_from_the_journal(bench: Bench) -> None:
    hosted = bench.life()
    fill(hosted, 1, 7)
    die(hosted)
    again = bench.life()
    assert (tape(again), applied(again)) == ([1, 2, 3, 4, 5, 6, 7], 7)
    assert not again.append(delivery(7)), "the process delivers again what it does not know to be durable"
    fill(again, 8, 8)
    assert tape(again) == list(range(1, 9))


def test_killed_after_a_state_was_written_only_what_follows_is_applied_again(bench: Bench) -> None:
    async def work() -> None:
        hosted = bench.life()
        fill(hosted, 1, 4)
        hosted.around = replace(hosted.around, state_bytes_min=1)
        fill(hosted, 5, 5)
        await until(lambda: hosted.mark == gts_of(5), "the state")
        bench.disk.held = []
        fill(hosted, 6, 9)
        die(hosted)

    run(work())
    again = bench.life()
    assert (tape(again), applied(again)) == (list(range(1, 10)), 4)


def test_closed_it_writes_its_state_and_applies_nothing_again(bench: Bench) -> None:
    hosted = bench.life()
    fill(hosted, 1, 5)
    hosted.close()
    again = bench.life()
    assert (tape(again), applied(again), again.mark) == ([1, 2, 3, 4, 5], 0, gts_of(5))


def test_journal_that_lost_its_end_is_behind_the_state_and_what_comes_again_has_no_second_effect(bench: Bench) -> None:
    """The crash between effect and mark: the state is durable, what the journal wrote last is not."""
    hosted = bench.life()
    fill(hosted, 1, 8)
    hosted.close()
    (segment,) = (bench.folder / "journal").iterdir()
    os.truncate(segment, segment.stat().st_size // 2)
    again = bench.life()
    lost = again.journal.next
    assert lost < 8
    assert again.append(delivery(lost)), "it is new to the journal"
    fill(again, lost + 1, 9)
    assert (tape(again), applied(again)) == (list(range(1, 10)), 1)


def test_state_is_written_again_only_when_the_journal_has_outgrown_it(tmp_path: Path) -> None:
    async def work() -> None:
        bench = Bench(tmp_path, bytes_min=1000)
        hosted = bench.life()
        marks = []
        for index in range(1, 200):
            fill(hosted, index, index, size=100)
            await turns(3)
            if hosted.mark not in marks:
                marks.append(hosted.mark)
        sizes = [after - before for before, after in pairwise(marks)]
        assert len(sizes) > 3
        assert sizes == sorted(sizes), "the larger the state, the rarer"
        assert sizes[-1] > 5 * sizes[0]
        assert hosted.journal.wanted_after == hosted.mark

    run(work())


# -- what is lost or damaged -----------------------------------------------------------------------------------------


def test_state_that_was_deleted_is_made_again_from_a_whole_journal_and_missed_otherwise(bench: Bench) -> None:
    hosted = bench.life()
    fill(hosted, 1, 5)
    hosted.close()
    bench.path.unlink()
    again = bench.life()
    assert (tape(again), applied(again)) == ([1, 2, 3, 4, 5], 5)
    die(again)
    journal = Journal(bench.folder / "journal", BYTES_MAX)
    for index in range(6, 40):
        journal.append(delivery(index, 60_000))
        journal.write()
    assert journal.oldest > 5
    journal.close()
    with pytest.raises(StateLost, match=r"g0 on disk ends at the timestamp 0, and the journal begins after .* rejoin"):
        bench.life()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"x" + data[1:]])
def test_damaged_state_is_refused_and_left_as_it_is(bench: Bench, damage: Callable[[bytes], bytes]) -> None:
    hosted = bench.life()
    fill(hosted, 1, 5)
    hosted.close()
    data = damage(bench.path.read_bytes())
    bench.path.write_bytes(data)
    with pytest.raises(StateLost, match=rf"{bench.path} is damaged"):
        bench.life()
    assert bench.path.read_bytes() == data


def test_state_that_cannot_be_read_says_why(bench: Bench) -> None:
    bench.path.mkdir(parents=True)
    with pytest.raises(StateLost, match="cannot be read: Is a directory"):
        bench.life()


def test_state_of_another_kind_of_machine_is_an_error_that_names_it(bench: Bench) -> None:
    write_state(bench.path, Kept(gts_of(3), b"\xc1"))
    with pytest.raises(StateMachineFailed, match="Tape of group g0 cannot restore a state"):
        bench.life()


# -- full and broken disks -------------------------------------------------------------------------------------------


def test_without_room_for_a_state_the_journal_keeps_what_a_restart_needs(
    tmp_path: Path, no_room: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        bench = Bench(tmp_path, bytes_min=1)
        hosted = bench.life()
        for index in range(1, 41):
            fill(hosted, index, index, size=60_000)
            await turns(3)
        assert (hosted.journal.oldest, hosted.mark, bench.failures) == (1, 0, [])
        no_room.undo()
        fill(hosted, 41, 41, size=60_000)
        while hosted.mark < gts_of(41):
            await turns(3)
            fill(hosted, hosted.journal.next, hosted.journal.next, size=60_000)
        fill(hosted, hosted.journal.next, hosted.journal.next + 3, size=60_000)
        assert hosted.journal.oldest > 30
        last = hosted.journal.next
        die(hosted)
        assert tape(bench.life()) == list(range(1, last))

    run(work())


def test_disk_that_fails_under_a_state_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, kept: Kept) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def work() -> None:
        bench = Bench(tmp_path, bytes_min=1)
        monkeypatch.setattr(hosting, "write_state", broken)
        fill(bench.life(), 1, 1)
        await until(lambda: bench.failures, "the failure")
        assert "the state of group g0 cannot be made durable: [Errno 5]" in bench.failures[0]

    run(work())


def test_machine_that_failed_in_the_middle_of_a_message_is_not_written(bench: Bench) -> None:
    hosted = bench.life()
    fill(hosted, 1, 3)
    assert isinstance(hosted.machine, Tape)
    hosted.machine.breaks = OSError("its own disk")
    with pytest.raises(StateMachineFailed, match="Tape of group g0 cannot apply a message: OSError: its own disk"):
        hosted.append(delivery(4))
    hosted.machine.tape.append(b"half an effect")
    hosted.close()
    assert not bench.path.exists()
    again = bench.life()
    assert tape(again) == [1, 2, 3], "what the journal did not write yet is delivered again"
    fill(again, 4, 4)
    assert tape(again) == [1, 2, 3, 4]


def test_exceptions_without_end_do_not_fill_the_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hosting, "LOGGED_MAX", 3)
    hosted = bench.life()
    assert isinstance(hosted.machine, Tape)
    hosted.machine.breaks = ValueError("no")
    fill(hosted, 1, 10)
    assert (hosted.raised, len(caplog.records)) == (10, 3)


def test_journal_without_room_is_what_the_node_waits_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = bench.life()
    fill(hosted, 1, 1)
    assert not hosted.lack
    with full_disk(monkeypatch):
        fill(hosted, 2, 2)
        assert hosted.lack
    hosted.write()
    assert not hosted.lack
    assert tape(hosted) == [1, 2]


def test_one_state_at_a_time_is_written_and_half_a_journal_is_enough_for_one(tmp_path: Path) -> None:
    async def work() -> None:
        bench = Bench(tmp_path)  # it asks for a journal that there cannot be
        bench.disk.held = []
        hosted = bench.life()
        fill(hosted, 1, 30, size=60_000)
        assert len(bench.disk.held) == 1
        bench.disk.release()
        await until(lambda: hosted.mark, "the state")

    run(work())


class Slow:
    """Writes of states in a thread; the first waits until somebody waits for it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.waited_for, self.marks = threading.Event(), list[int]()
        self.begun = threading.Event()
        self.wait = concurrent.futures.wait
        patch.setattr(hosting, "write_state", self.write)
        patch.setattr(concurrent.futures, "wait", self.wait_for)

    def write(self, path: Path, kept: Kept) -> None:
        if not self.begun.is_set():
            self.begun.set()
            self.waited_for.wait(PATIENCE_S)
        self.marks.append(kept.mark)
        write_state(path, kept)

    def wait_for(self, some: Any) -> Any:
        self.waited_for.set()
        return self.wait(some)


def test_older_state_that_is_still_being_written_never_replaces_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(*, closes: bool) -> None:
        with monkeypatch.context() as patch:
            slow = Slow(patch)
            bench = Bench(tmp_path, bytes_min=1, name=f"closes {closes}")
            leader = Bench(tmp_path, name=f"leader {closes}").life()
            fill(leader, 1, 9)
            with concurrent.futures.ThreadPoolExecutor(1) as threads:
                bench.disk = threads  # type: ignore[assignment]  # real ones
                hosted = bench.life()
                fill(hosted, 1, 2)
                assert slow.begun.wait(PATIENCE_S)
                if closes:
                    fill(hosted, 3, 9)
                    hosted.close()
                else:
                    hosted.restore(gts_of(9), leader.state(1 << 20))
                    await until(lambda: hosted.saving is None, "the older write to be known")
                    assert hosted.mark == gts_of(9)
        assert slow.marks == [gts_of(1), gts_of(9)]
        kept = read_state(bench.path)
        assert kept is not None
        assert kept.mark == gts_of(9)

    run(work(closes=False))
    run(work(closes=True))


def test_disk_that_fails_under_the_state_of_another_replica_is_an_error(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, kept: Kept) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    leader = Bench(tmp_path, name="n2").life()
    fill(leader, 1, 3)
    monkeypatch.setattr(hosting, "write_state", broken)
    with pytest.raises(OSError, match="Input/output error"):
        bench.life().restore(gts_of(3), leader.state(1 << 20))
