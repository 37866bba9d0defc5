"""A state machine on top of a journal: every effect once, whatever is lost in a crash. No network, and no node."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cluster.inprocess import run, turns, until
from tests.cluster.journals import BYTES_MAX, delivery, gts_of
from tests.embedded.machines import Store, Tape

from braidcast.client.subscriber import Checkpoint
from braidcast.cluster.journal import Journal
from braidcast.cluster.journal_segments import JournalError
from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast
from braidcast.embedded import hosting
from braidcast.embedded.errors import StateLost, StateMachineFailed
from braidcast.embedded.hosting import Both, Hosted, Surroundings
from braidcast.embedded.machine import StateMachine
from braidcast.embedded.results import Results
from braidcast.embedded.state_file import Kept, write_state
from braidcast.wire.batches import packed

CLIENT = 1 << 62


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

    def __init__(self, folder: Path, *, bytes_min: int = 1 << 40, name: str = "n1") -> None:
        self.folder, self.bytes_min = folder / name, bytes_min
        self.disk = Disk()
        self.results = Results(100)
        self.failures: list[str] = []

    @property
    def path(self) -> Path:
        return self.folder / "state" / "g0"

    def life(self, machine: StateMachine | None = None) -> Hosted:
        """Open what the life before has left."""
        journal = Journal(self.folder / "journal", BYTES_MAX)
        around = Surroundings({0: "g0", 1: "g1"}, self.results, self.disk, self.failures.append, self.bytes_min)
        hosted = Hosted("g0", Tape() if machine is None else machine, journal, self.path, around)
        hosted.open()
        return hosted


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


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
    return Delivered(Multicast(MessageId(CLIENT, 1, index), (0,), packed(payloads), batch_count=len(payloads)),
                     gts_of(index))  # fmt: skip


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No room for a state until the patch is undone."""
    def full(path: Path, kept: Kept) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(hosting, "write_state", full)
        yield patched


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


# -- another replica's state -----------------------------------------------------------------------------------------


def test_state_of_another_replica_replaces_what_is_here_and_survives(tmp_path: Path, bench: Bench) -> None:
    leader, laggard = Bench(tmp_path, name="n2").life(), bench.life()
    fill(leader, 1, 30)
    fill(laggard, 1, 4)
    laggard.restore(gts_of(30), leader.state(1 << 20))
    assert (tape(laggard), applied(laggard)) == (list(range(1, 31)), 4)
    fill(laggard, 31, 32)
    die(laggard)
    again = bench.life()
    assert (tape(again), applied(again)) == (list(range(1, 33)), 2)
    assert again.journal.next == 33


def test_without_room_for_anothers_state_everything_waits_and_nothing_of_it_is_on_disk(
    tmp_path: Path, bench: Bench, no_room: pytest.MonkeyPatch
) -> None:
    leader, laggard = Bench(tmp_path, name="n2").life(), bench.life()
    fill(leader, 1, 30)
    fill(laggard, 1, 4)
    laggard.restore(gts_of(30), leader.state(1 << 20))
    assert laggard.lack
    laggard.append(delivery(31))
    laggard.write()
    assert laggard.lack
    died = Journal(bench.folder / "journal", BYTES_MAX)
    assert died.next == 5, "the journal must not be ahead of the state"
    died.close()
    no_room.undo()
    laggard.write()
    assert not laggard.lack
    die(laggard)
    assert tape(bench.life()) == list(range(1, 32))


def test_crash_between_anothers_state_and_its_journal_takes_both_again(tmp_path: Path, bench: Bench) -> None:
    leader, laggard = Bench(tmp_path, name="n2").life(), bench.life()
    fill(leader, 1, 30)
    fill(laggard, 1, 4)
    die(laggard)
    write_state(bench.path, Kept(gts_of(30), leader.machine.snapshot()))  # and then it died
    again = bench.life()
    assert (again.done.timestamp, again.journal.next) == (gts_of(30), 5)
    again.restore(gts_of(30), leader.state(1 << 20))
    assert isinstance(again.machine, Tape)
    assert (tape(again), again.machine.restored, again.journal.next) == (list(range(1, 31)), 1, 31)


def test_snapshot_of_a_plain_node_is_refused(tmp_path: Path, bench: Bench) -> None:
    plain = Journal(tmp_path / "plain", BYTES_MAX)
    plain.append(delivery(1))
    with pytest.raises(JournalError, match="all nodes of group g0 must host the same one"):
        bench.life().restore(gts_of(1), plain.state(1 << 20))


def test_plain_node_refuses_the_snapshot_of_a_state_machine(tmp_path: Path, bench: Bench) -> None:
    hosted = bench.life()
    fill(hosted, 1, 3)
    with pytest.raises(JournalError, match="cannot be read"):
        Journal(tmp_path / "plain", BYTES_MAX).restore(gts_of(3), hosted.state(1 << 20))


def test_state_that_no_peer_buffer_holds_is_said(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    hosted = bench.life()
    fill(hosted, 1, 3, size=1000)
    hosted.state(1 << 20)
    assert not caplog.records
    hosted.state(1000)
    assert "peer_buffer_bytes_max" in caplog.text


# -- state machines with a store of their own ------------------------------------------------------------------------


def test_own_store_is_not_written_twice_and_gets_what_follows_its_checkpoint(tmp_path: Path, bench: Bench) -> None:
    hosted = bench.life(Store(tmp_path / "store"))
    fill(hosted, 1, 5)
    hosted.close()
    assert not bench.path.exists()
    again = bench.life(Store(tmp_path / "store"))
    assert (tape(again), applied(again)) == ([1, 2, 3, 4, 5], 0)
    again.append(delivery(6))
    die(again)  # the store has it, the journal does not
    third = bench.life(Store(tmp_path / "store"))
    assert third.append(delivery(6))
    fill(third, 7, 7)
    assert (tape(third), applied(third)) == ([1, 2, 3, 4, 5, 6, 7], 1)


def test_own_store_that_died_within_a_batch_gets_the_rest_of_it(tmp_path: Path, bench: Bench) -> None:
    hosted = bench.life(Store(tmp_path / "store"))
    fill(hosted, 1, 1)
    hosted.append(batch(2, b"2", b"3", b"4"))
    hosted.write()
    die(hosted)
    store = Store(tmp_path / "store")
    store.db.execute("delete from tape where rowid > 2")
    store.db.execute("update progress set checkpoint = ?", (str(Checkpoint(gts_of(1), 1)),))
    again = bench.life(store)
    assert (tape(again), applied(again)) == ([1, 2, 3, 4], 2)
    assert store.checkpoint == Checkpoint(gts_of(2))


def test_own_store_restored_up_to_a_barrier_needs_nothing_below_it(tmp_path: Path, bench: Bench) -> None:
    leader = Bench(tmp_path, name="n2").life(Store(tmp_path / "leader"))
    fill(leader, 1, 5)
    barriers = Journal(None, 1)
    for index in range(1, 12):
        barriers.append(Delivered(Multicast(MessageId(CLIENT, 1, index), (0,), b""), gts_of(index)))
    laggard = bench.life(Store(tmp_path / "laggard"))
    laggard.restore(gts_of(11), msgspec.msgpack.encode(Both(leader.machine.snapshot(), barriers.state(1))))
    assert laggard.journal.after > gts_of(5), "the case at hand: its journal begins above its checkpoint"
    die(laggard)
    again = bench.life(Store(tmp_path / "laggard"))
    fill(again, 12, 12)
    assert tape(again) == [1, 2, 3, 4, 5, 12]
    die(again)
    (tmp_path / "laggard").unlink()
    with pytest.raises(StateLost):
        bench.life(Store(tmp_path / "laggard"))


def test_journal_of_an_own_store_keeps_what_is_above_its_checkpoint(tmp_path: Path) -> None:
    bench = Bench(tmp_path, bytes_min=1)
    hosted = bench.life(Store(tmp_path / "store"))
    fill(hosted, 1, 3)
    assert hosted.journal.wanted_after == gts_of(3)
