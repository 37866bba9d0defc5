"""The log on a disk that crashes, is full, writes in pieces or fails, at every operation; and on one that forgets.

A crash is an exception out of the disk, with no chance to clean up, after which the log is opened anew. What a power
cut leaves is made by `CachingDisk`: of what was not synced any sectors, and any first part of the changes of names.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.cluster.log_disks import CachingDisk, Crashed, FaultyDisk, NarrowDisk, opened, recovered, segments, write

from braidcast.cluster.log import TEMPORARY, DiskFailed, DiskFull, Log
from braidcast.cluster.segments import HEAD_BYTES, frame
from braidcast.core.errors import BraidcastError

OLD = [bytes([n]) * 600 for n in range(1, 6)]
CHECKPOINT = [b"state" * 100, b"", b"more"]
COMMIT = b"commit" * 100
SEGMENT_BYTES = 1500
"""Two of the commits above and not three."""


def begun(directory: Path, disk: FaultyDisk, commits: int) -> Log:
    """A log of some commits, on a disk that has done nothing yet."""
    write(directory, OLD[:commits], segment_bytes=SEGMENT_BYTES)
    log = opened(directory, disk, segment_bytes=SEGMENT_BYTES)
    disk.done.clear()
    disk.moment = 0
    return log


def commit(log: Log) -> None:
    log.append(COMMIT)


def checkpoint(log: Log) -> None:
    log.checkpoint(CHECKPOINT)


CALLS = [
    pytest.param(3, commit, [*OLD[:3], COMMIT], id="a commit"),
    pytest.param(4, commit, [*OLD[:4], COMMIT], id="the first commit of a segment"),
    pytest.param(5, checkpoint, CHECKPOINT, id="a checkpoint"),
    pytest.param(0, checkpoint, CHECKPOINT, id="the first checkpoint"),
]


@pytest.mark.parametrize(("commits", "call", "after"), CALLS)
def test_a_crash_at_any_operation_leaves_the_old_log_or_the_new_one(
    tmp_path: Path, commits: int, call: Callable[[Log], None], after: list[bytes]
) -> None:
    seen = set()
    for moments in count():
        directory, disk = tmp_path / str(moments), FaultyDisk()
        log = begun(directory, disk, commits)
        disk.crash_in(moments)
        with suppress(Crashed):
            call(log)
            break
        log.close()
        disk.work()
        log = opened(directory, disk, segment_bytes=SEGMENT_BYTES)
        found = list(log.recovered)
        log.append(b"goes on")
        log.close()
        assert found in (OLD[:commits], after)
        assert recovered(directory) == [*found, b"goes on"]
        assert not (directory / TEMPORARY).exists()
        seen.add(tuple(found))
    log.close()
    assert moments >= 4
    assert len(seen) == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(("commits", "call", "after"), CALLS)
def test_a_disk_full_at_any_operation_changes_nothing_and_the_call_can_be_made_again(
    tmp_path: Path, commits: int, call: Callable[[Log], None], after: list[bytes], code: int
) -> None:
    outcomes = set()
    for skipping in count():
        directory, disk = tmp_path / str(skipping), FaultyDisk()
        log = begun(directory, disk, commits)
        disk.fail_once(code, skipping=skipping)
        try:
            call(log)
            outcomes.add("done")
        except DiskFull:
            outcomes.add("full")
            assert not (directory / TEMPORARY).exists()
            assert recovered_copy(directory) == OLD[:commits]
            call(log)
        except DiskFailed:
            # A sync for which there is no room is a sync that failed.
            outcomes.add("failed")
            log.close()
            log = opened(directory, disk, segment_bytes=SEGMENT_BYTES)
            if list(log.recovered) != after:
                call(log)
        was_reached = 2 * skipping < disk.moment
        disk.work()
        log.append(b"goes on")
        log.close()
        assert recovered(directory) == [*after, b"goes on"]
        if not was_reached:
            break
    assert outcomes == {"done", "full", "failed"}


OPENING = {"read", "create", "open", "open_directory"}


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize(("commits", "call", "after"), CALLS)
def test_without_a_file_to_open_nothing_is_changed_and_the_call_can_be_made_again(
    tmp_path: Path, commits: int, call: Callable[[Log], None], after: list[bytes], code: int
) -> None:
    disk = FaultyDisk()
    disk.fail_once(code, on="create")
    log = begun(tmp_path / "log", disk, commits)
    with suppress(DiskFull):
        call(log)
        assert not OPENING & {*disk.done}, "it needed no file"
        log.close()
        return
    assert recovered_copy(tmp_path / "log") == OLD[:commits]
    log.append(b"instead")
    disk.fail_once(code, on="create")
    with pytest.raises(DiskFull, match=r"too many open files\): raise its limit .*, nothing is lost"):
        log.checkpoint(CHECKPOINT)
    disk.done.clear()
    log.checkpoint(CHECKPOINT)
    assert OPENING & {*disk.done} == {"create"}, "what else it needs is open before there is anything to lose"
    log.close()
    assert recovered(tmp_path / "log") == CHECKPOINT


@pytest.mark.parametrize("operation", sorted(OPENING))
def test_log_that_cannot_be_opened_for_want_of_files_says_so(tmp_path: Path, operation: str) -> None:
    if operation != "create":
        write(tmp_path, OLD)
    disk = FaultyDisk()
    disk.fail_once(errno.EMFILE, on=operation)
    with pytest.raises(DiskFull, match="too many open files"):
        opened(tmp_path, disk)
    opened(tmp_path, disk).close()
    assert recovered(tmp_path) == ([] if operation == "create" else OLD)


def recovered_copy(directory: Path) -> list[bytes]:
    """What a crash right now would leave."""
    copy = directory.with_name(f"{directory.name}-copy")
    shutil.copytree(directory, copy)
    return recovered(copy)


@pytest.mark.parametrize("fits", [0, 1, 27, 100, 512, 600, 660])
def test_a_commit_that_fits_in_part_is_taken_back(tmp_path: Path, fits: int) -> None:
    narrow = NarrowDisk()
    disk = FaultyDisk(narrow)
    log = begun(tmp_path, disk, 1)
    (path,) = segments(tmp_path)
    size = path.stat().st_size
    narrow.room = size + fits
    for _ in range(2):
        disk.done.clear()
        with pytest.raises(DiskFull, match="the disk is full"):
            log.append(bytes(700))
        assert disk.done[-2:] == ["truncate", "fdatasync"]
        assert path.stat().st_size == size
    assert recovered_copy(tmp_path) == OLD[:1]
    narrow.room = 1 << 30
    log.append(b"another one, and shorter")
    log.close()
    assert recovered(tmp_path) == [*OLD[:1], b"another one, and shorter"]


def test_a_commit_for_which_there_is_room_needs_none_for_zeros(tmp_path: Path) -> None:
    log = begun(tmp_path, FaultyDisk(NarrowDisk(room=HEAD_BYTES + len(frame(1, COMMIT)))), 0)
    log.append(COMMIT)
    with pytest.raises(DiskFull):
        log.append(b"")
    log.close()
    assert recovered(tmp_path) == [COMMIT]


@pytest.mark.parametrize("written_max", [1, 7, 511])
def test_short_writes_are_continued(tmp_path: Path, written_max: int) -> None:
    log = begun(tmp_path, FaultyDisk(NarrowDisk(written_max=written_max)), 1)
    log.append(COMMIT)
    log.checkpoint(CHECKPOINT)
    log.append(COMMIT)
    log.close()
    assert recovered(tmp_path) == [*CHECKPOINT, COMMIT]


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("pwrite", commit),
        ("fdatasync", commit),
        ("pwrite", checkpoint),
        ("fdatasync", checkpoint),
        ("replace", checkpoint),
        ("sync_directory", checkpoint),
        ("unlink", checkpoint),
    ],
)
def test_a_disk_that_failed_is_not_used_again(tmp_path: Path, operation: str, call: Callable[[Log], None]) -> None:
    disk = FaultyDisk()
    log = begun(tmp_path, disk, 3)
    disk.fail_once(errno.EIO, on=operation)
    with pytest.raises(DiskFailed, match=r"disk failed \(Input/output error\) and nobody knows what it holds"):
        call(log)
    disk.done.clear()
    for again in (commit, checkpoint):
        with pytest.raises(DiskFailed, match="nobody knows what it holds"):
            again(log)
    assert disk.done == []
    log.close()
    assert recovered(tmp_path)[:1] in (OLD[:1], CHECKPOINT[:1])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_sync_that_fails_for_any_reason_is_final(tmp_path: Path, code: int) -> None:
    disk = FaultyDisk()
    log = begun(tmp_path, disk, 1)
    disk.fail_once(code, on="fdatasync")
    with pytest.raises(DiskFailed):
        log.append(COMMIT)
    with pytest.raises(DiskFailed):
        log.append(COMMIT)
    log.close()


@pytest.mark.parametrize("operation", ["truncate", "fdatasync"])
def test_a_commit_that_cannot_be_taken_back_is_final(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk(NarrowDisk(room=700))
    log = begun(tmp_path, disk, 1)
    disk.fail_once(errno.ENOSPC, on=operation)
    with pytest.raises(DiskFailed):
        log.append(COMMIT)
    with pytest.raises(DiskFailed):
        log.append(COMMIT)
    log.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_log_that_could_not_be_opened_is_let_go_and_can_be_opened_again(tmp_path: Path, code: int) -> None:
    write(tmp_path, OLD, segment_bytes=SEGMENT_BYTES)
    for skipping in count():
        disk = FaultyDisk()
        disk.fail_once(code, skipping=skipping)
        with suppress(BraidcastError):
            opened(tmp_path, disk).close()
            break
        assert recovered(tmp_path) == OLD
    assert skipping >= len(["unlink", "open", "pwrite", "truncate", "fdatasync", "sync_directory"])


def test_a_checkpoint_that_cannot_be_made_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = begun(tmp_path, FaultyDisk(), 3)
    with pytest.raises(ZeroDivisionError):
        log.checkpoint(b"%d" % (1 // n) for n in (1, 0))
    with pytest.raises(DiskFailed, match="a call was interrupted"):
        log.append(COMMIT)
    log.close()
    assert recovered(tmp_path) == OLD[:3]


def test_a_log_that_is_closed_is_not_used(tmp_path: Path) -> None:
    log = begun(tmp_path, FaultyDisk(), 1)
    log.close()
    log.close()
    with pytest.raises(DiskFailed, match="it is closed"):
        log.append(COMMIT)


# Some have sectors of zeros of their own.
payloads = st.builds(lambda part, times: part * times, st.binary(max_size=40), st.integers(0, 60))


class AnyLife(RuleBasedStateMachine):
    """A log and what it must hold, through commits, checkpoints, deaths of the process and power cuts."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.cache = CachingDisk()
        self.disk = FaultyDisk(self.cache)
        self.checkpoint: list[bytes] = []
        self.commits: list[bytes] = []
        self.log = self.open()

    def open(self) -> Log:
        return Log.open(self.directory, segment_bytes=2000, disk=self.disk)

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.directory)

    @rule(payload=payloads)
    def commits_one(self, payload: bytes) -> None:
        self.log.append(payload)
        self.commits.append(payload)

    @rule(made=st.lists(payloads, max_size=3))
    def takes_a_checkpoint(self, made: list[bytes]) -> None:
        self.log.checkpoint(made)
        self.checkpoint, self.commits = made, []

    @rule(seed=st.integers(0, 1 << 32), loses_power=st.booleans())
    def restarts(self, seed: int, loses_power: bool) -> None:
        self.reopen(seed, loses_power)
        assert list(self.log.recovered) == self.checkpoint + self.commits
        assert self.log.checkpoint_bytes == sum(len(frame(1, payload)) for payload in self.checkpoint)
        assert self.log.bytes_since_checkpoint == sum(len(frame(1, payload)) for payload in self.commits)

    @rule(
        made=st.one_of(payloads, st.lists(payloads, max_size=3)),
        moments=st.integers(0, 25),
        seed=st.integers(0, 1 << 32),
        loses_power=st.booleans(),
    )
    def crashes_in_a_call(self, made: bytes | list[bytes], moments: int, seed: int, loses_power: bool) -> None:
        new = ([*self.checkpoint], [*self.commits, made]) if isinstance(made, bytes) else (made, [])
        allowed = [new]
        self.disk.crash_in(moments)
        try:
            if isinstance(made, bytes):
                self.log.append(made)
            else:
                self.log.checkpoint(made)
        except Crashed:
            allowed.append((self.checkpoint, self.commits))
        self.reopen(seed, loses_power)
        found = list(self.log.recovered)
        held = [life for life in allowed if life[0] + life[1] == found]
        sizes = [sum(len(frame(1, payload)) for payload in life[1]) for life in held]
        assert self.log.bytes_since_checkpoint in sizes
        self.checkpoint, self.commits = held[sizes.index(self.log.bytes_since_checkpoint)]

    @rule(moments=st.integers(0, 25), seed=st.integers(0, 1 << 32), loses_power=st.booleans())
    def crashes_in_recovery(self, moments: int, seed: int, loses_power: bool) -> None:
        self.log.close()
        self.disk.crash_in(moments)
        with suppress(Crashed):
            self.log = self.open()
        self.restarts(seed, loses_power)

    def reopen(self, seed: int, loses_power: bool) -> None:
        self.log.close()
        self.disk.work()
        if loses_power:
            self.cache.cut_power(self.directory, Random(seed))
        self.log = self.open()


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=200, stateful_step_count=25, deadline=None, derandomize=True)
