"""The log: what comes back after a restart, what a crash may cut off, and what is damage."""

from __future__ import annotations

import errno
import struct
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from tests.cluster.log_disks import (
    SEVERAL_SECTORS,
    CachingDisk,
    FaultyDisk,
    ends,
    opened,
    put,
    recovered,
    segments,
    write,
)

from braidcast.cluster.log import LOCK, DiskFailed, Log, LogInUse
from braidcast.cluster.segments import (
    FRAME_HEAD_BYTES,
    HEAD_BYTES,
    SECTOR_BYTES,
    LogCorrupt,
    LogForeign,
    frame,
    head,
)

# -------------------------------------------------------------------------------------------------------------------
# What is written comes back.


def test_an_empty_directory_is_an_empty_log(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "node" / "log")
    assert (list(log.recovered), log.torn_bytes, log.number) == ([], 0, 1)
    assert (log.bytes_since_checkpoint, log.checkpoint_bytes) == (0, 0)
    log.close()
    assert recovered(tmp_path / "node" / "log") == []


def test_commits_come_back_in_order_from_several_segments(tmp_path: Path) -> None:
    payloads = [bytes([n]) * (n * 7) for n in range(100)]
    write(tmp_path, payloads[:50], segment_bytes=2000)
    write(tmp_path, payloads[50:], segment_bytes=2000)
    assert len(segments(tmp_path)) > 10
    assert max(path.stat().st_size for path in segments(tmp_path)) <= 2000
    assert recovered(tmp_path) == payloads


def test_a_commit_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    payloads = [b"a" * 3000, b"b", b"c" * 3000]
    disk = FaultyDisk()
    log = opened(tmp_path, disk, segment_bytes=1000)
    for payload in payloads:
        log.append(payload)
    log.close()
    assert disk.done.count("create") == 3
    assert [path.stem.lstrip("0") for path in segments(tmp_path)] == ["1", "2", "3"]
    assert recovered(tmp_path, segment_bytes=1000) == payloads


def test_a_checkpoint_replaces_what_was_before_and_commits_follow_it(tmp_path: Path) -> None:
    write(tmp_path, SEVERAL_SECTORS, segment_bytes=1000)
    log = opened(tmp_path)
    log.checkpoint(iter([b"state", b"", b"more"]))
    assert (log.checkpoint_bytes, log.bytes_since_checkpoint) == (3 * len(frame(1, b"")) + 9, 0)
    log.append(b"commit")
    sizes = log.checkpoint_bytes, log.bytes_since_checkpoint
    log.close()
    assert len(segments(tmp_path)) == 1
    log = opened(tmp_path)
    assert list(log.recovered) == [b"state", b"", b"more", b"commit"]
    assert sizes == (log.checkpoint_bytes, log.bytes_since_checkpoint)
    assert log.bytes_since_checkpoint == len(frame(1, b"commit"))
    assert log.number == len(SEVERAL_SECTORS) + 5
    log.close()


def test_checkpoints_of_nothing_leave_an_empty_log_that_goes_on(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for _ in range(2):
        log.checkpoint([])
    log.append(b"commit")
    log.close()
    assert recovered(tmp_path) == [b"commit"]


def test_what_was_recovered_is_read_before_the_first_commit(tmp_path: Path) -> None:
    write(tmp_path, [b"one", b"two"])
    log = opened(tmp_path)
    assert next(log.recovered) == b"one"
    log.append(b"three")
    with pytest.raises(AssertionError, match="before the first commit"):
        next(log.recovered)
    log.close()


def test_a_commit_is_one_write_and_one_sync_once_there_are_zeros(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = opened(tmp_path, disk)
    log.append(b"the zeros come with this one")
    disk.done.clear()
    size = segments(tmp_path)[0].stat().st_size
    log.append(b"commit")
    assert disk.done == ["pwrite", "fdatasync"]
    assert segments(tmp_path)[0].stat().st_size == size
    log.close()


def test_without_syncs_nothing_is_synced(tmp_path: Path) -> None:
    disk = FaultyDisk()
    for _ in range(2):
        log = Log.open(tmp_path / "log", segment_bytes=100, syncs=False, disk=disk)
        log.append(bytes(90))
        log.append(bytes(90))
        log.checkpoint([b"state"])
        log.close()
    assert {"pwrite", "replace"} <= set(disk.done)
    assert not {"fdatasync", "sync_directory"} & set(disk.done)


# -------------------------------------------------------------------------------------------------------------------
# Torn commits.


@pytest.mark.parametrize("lost", ["cut off", "zeros"])
@pytest.mark.parametrize("before", SEVERAL_SECTORS[:2], ids=len)
def test_a_log_that_ends_at_any_byte_of_the_last_two_commits_is_a_prefix_of_whole_ones(
    tmp_path: Path, before: bytes, lost: str
) -> None:
    payloads = [before, *SEVERAL_SECTORS[2:]]
    write(tmp_path, payloads)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    boundaries = ends(payloads)
    for at in range(boundaries[-3], boundaries[-1] + 1):
        put(path, data[:at] if lost == "cut off" else data[:at].ljust(len(data), b"\0"))
        log = opened(tmp_path)
        # Of a commit that lacks but the last byte all is there: if that reads as zero, it is kept.
        whole = sum(end <= at + (lost == "zeros") for end in boundaries[1:])
        assert list(log.recovered) == payloads[:whole]
        assert (log.torn_bytes > 0) == (at > boundaries[whole] and data[boundaries[whole] : at].strip(b"\0") != b"")
        log.append(b"goes on")
        log.close()
        assert recovered(tmp_path) == [*payloads[:whole], b"goes on"]


@pytest.mark.parametrize("size", [480, 500, 1500])
@pytest.mark.parametrize("shift", range(SECTOR_BYTES - 40, SECTOR_BYTES + 8, 3))
def test_a_commit_that_lacks_any_of_its_sectors_is_cut_off(tmp_path: Path, shift: int, size: int) -> None:
    """Wherever it begins in a sector: the lost part may be a byte of its header."""
    payloads = [bytes(SECTOR_BYTES - HEAD_BYTES - len(frame(1, b"")) + shift), b"x" * size]
    write(tmp_path, payloads)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    start, end = ends(payloads)[-2:]
    edges = [start, *(at for at in range(0, end, SECTOR_BYTES) if at > start), end]
    parts = list(pairwise(edges))
    for lost in (chosen for count in range(1, len(parts) + 1) for chosen in combinations(parts, count)):
        torn = bytearray(data)
        for begin, stop in lost:
            torn[begin:stop] = bytes(stop - begin)
        put(path, torn)
        kept = payloads if lost == ((end - 1, end),) else payloads[:1]
        assert recovered(tmp_path) == kept
        assert not path.read_bytes()[ends(kept)[-1] :]


def test_a_commit_that_was_read_back_is_durable(tmp_path: Path) -> None:
    """The process died between write and sync; what the next one read must survive the power cut after that."""
    cache = CachingDisk()
    disk = FaultyDisk(cache)
    log = opened(tmp_path, disk)
    log.append(b"one")
    disk.fail_once(errno.EIO, on="fdatasync")
    with pytest.raises(DiskFailed):
        log.append(b"two")
    log.close()
    disk.work()
    disk.done.clear()
    log = opened(tmp_path, disk)
    assert list(log.recovered) == [b"one", b"two"]
    # Linux counts pages that it failed to write as written: only if written again can a sync do something about them.
    assert disk.done.index("pwrite") < disk.done.index("fdatasync")
    log.close()
    cache.cut_power(tmp_path, Random(1))
    assert recovered(tmp_path) == [b"one", b"two"]


def test_a_checkpoint_that_was_read_back_is_durable(tmp_path: Path) -> None:
    """The process died between the renaming and the sync of the directory."""
    for seed in range(10):
        directory, cache = tmp_path / str(seed), CachingDisk()
        disk = FaultyDisk(cache)
        log = opened(directory, disk)
        log.append(b"before")
        disk.fail_once(errno.EIO, on="sync_directory")
        with pytest.raises(DiskFailed):
            log.checkpoint([b"state"])
        log.close()
        log = opened(directory, disk)
        assert list(log.recovered) == [b"state"]
        log.append(b"commit")
        log.close()
        cache.cut_power(directory, Random(seed))
        assert recovered(directory) == [b"state", b"commit"]


def test_a_torn_commit_may_hold_what_looks_like_earlier_commits(tmp_path: Path) -> None:
    payloads = [b"one", b"two" * 300, frame(1, b"one") * 30]
    write(tmp_path, payloads)
    (path,) = segments(tmp_path)
    begin = ends(payloads)[-2]
    lost = SECTOR_BYTES - begin % SECTOR_BYTES
    data = path.read_bytes()
    put(path, data[:begin] + bytes(lost) + data[begin + lost :])
    assert recovered(tmp_path) == payloads[:-1]


# -------------------------------------------------------------------------------------------------------------------
# Damage.


def refused(directory: Path, path: Path, data: bytes | bytearray) -> str:
    """The log is not opened, and not touched."""
    put(path, data)
    with pytest.raises(LogCorrupt) as caught:
        opened(directory)
    assert path.read_bytes() == data
    return str(caught.value)


@pytest.mark.parametrize("flip", [0x01, 0xFF])
@pytest.mark.parametrize("place", range(len(SEVERAL_SECTORS)))
def test_any_flipped_byte_of_a_commit_is_damage(tmp_path: Path, place: int, flip: int) -> None:
    """In the middle and, without a sector of zeros, in the last one too."""
    write(tmp_path, SEVERAL_SECTORS)
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    begin, end = ends(SEVERAL_SECTORS)[place : place + 2]
    for at in range(begin, end):
        data[at] ^= flip
        message = refused(tmp_path, path, data)
        data[at] ^= flip
        assert f"at byte {begin}: frame {place + 1} is bad" in message


def test_any_flipped_byte_of_a_head_is_damage(tmp_path: Path) -> None:
    write(tmp_path, SEVERAL_SECTORS)
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    for at in range(HEAD_BYTES):
        data[at] ^= 1
        assert "at byte 0" in refused(tmp_path, path, data)
        data[at] ^= 1


def test_damage_is_told_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, SEVERAL_SECTORS)
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    at = ends(SEVERAL_SECTORS)[3]
    data[at + FRAME_HEAD_BYTES] ^= 1
    message = refused(tmp_path, path, data)
    assert message.startswith(f"{path} is damaged at byte {at}: ")
    assert "do not delete it: stop, copy the directory" in message
    assert "`braidcast node --rejoin`" in message
    assert "\n" not in message


def test_lost_sectors_before_a_later_commit_are_damage(tmp_path: Path) -> None:
    """Also those of a header, after which nobody knows where the next frame begins."""
    write(tmp_path, SEVERAL_SECTORS)
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    last = ends(SEVERAL_SECTORS)[-2]
    for begin in range(SECTOR_BYTES, last - SECTOR_BYTES, SECTOR_BYTES):
        refused(tmp_path, path, data[:begin] + bytes(SECTOR_BYTES) + data[begin + SECTOR_BYTES :])
    for begin in ends(SEVERAL_SECTORS)[:-2]:
        lost = SECTOR_BYTES - begin % SECTOR_BYTES
        refused(tmp_path, path, data[:begin] + bytes(lost) + data[begin + lost :])


def test_a_zero_that_a_header_has_alone_in_a_sector_is_not_a_lost_sector(tmp_path: Path) -> None:
    """If another byte of that header is flipped, the length of the frame is unknown and only the sector can tell."""
    shift = SECTOR_BYTES - HEAD_BYTES - len(frame(1, b"")) - (FRAME_HEAD_BYTES - 1)
    ending_in_zero = (b"%d" % n for n in range(10_000) if frame(2, b"%d" % n)[FRAME_HEAD_BYTES - 1] == 0)
    payloads = [bytes(shift), next(ending_in_zero)]
    write(tmp_path, payloads)
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    data[ends(payloads)[1] + 4] ^= 1
    refused(tmp_path, path, data)


def test_a_segment_that_is_not_the_last_must_be_whole(tmp_path: Path) -> None:
    write(tmp_path, SEVERAL_SECTORS, segment_bytes=1000)
    path = segments(tmp_path)[1]
    data = path.read_bytes().rstrip(b"\0")
    refused(tmp_path, path, data[:-3])
    refused(tmp_path, path, data[:HEAD_BYTES])
    refused(tmp_path, path, data[: HEAD_BYTES - 1])
    refused(tmp_path, path, b"")
    refused(tmp_path, path, data + frame(5, SEVERAL_SECTORS[4])[:20])


def test_a_checkpoint_must_be_whole(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.checkpoint([b"one", b"two"])
    log.close()
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    for at in range(HEAD_BYTES, len(data) - 1):
        refused(tmp_path, path, data[:at])
        refused(tmp_path, path, data[:at].ljust(len(data), b"\0"))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_segment_is_damage(tmp_path: Path, missing: int) -> None:
    write(tmp_path, [bytes(900)] * 4, segment_bytes=1000)
    segments(tmp_path)[missing].unlink()
    with pytest.raises(LogCorrupt, match="missing"):
        opened(tmp_path)


def test_a_gap_in_the_numbers_and_a_name_that_is_not_its_own_are_damage(tmp_path: Path) -> None:
    write(tmp_path, [b"one"])
    (path,) = segments(tmp_path)
    message = refused(tmp_path, path, head(1, 0) + frame(1, b"one") + frame(3, b"three"))
    assert "frame 3 is where frame 2 must be" in message
    assert "not its name" in refused(tmp_path, path, head(2, 0) + frame(2, b"two"))


def test_a_newer_format_is_told_from_damage(tmp_path: Path) -> None:
    write(tmp_path, [b"one"])
    newer = struct.pack("<8sIQQ", b"braidlog", 3, 1, 0)
    segments(tmp_path)[0].write_bytes(newer + struct.pack("<I", crc32(newer)) + b"in another way")
    with pytest.raises(LogForeign, match="has format 3, this braidcast knows format 2"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["notes.txt", "1.log", "00000000000000000001.log.bak", ".hidden"])
def test_a_foreign_file_is_not_passed_over(tmp_path: Path, name: str) -> None:
    """It may be a segment that somebody renamed."""
    write(tmp_path, [b"one"])
    (tmp_path / name).touch()
    with pytest.raises(LogForeign, match=name):
        opened(tmp_path)


def test_two_nodes_never_share_a_directory(tmp_path: Path) -> None:
    log = opened(tmp_path)
    with pytest.raises(LogInUse, match="in use by another node: stop that one"):
        opened(tmp_path)
    log.append(b"one")
    log.close()
    assert recovered(tmp_path) == [b"one"]
    assert (tmp_path / LOCK).exists()
