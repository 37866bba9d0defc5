"""Disks that fail, crash and lose what was not synced, for the tests of the log."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import TypeVar

from braidcast.cluster.log import Disk, Log
from braidcast.cluster.segments import HEAD_BYTES, SECTOR_BYTES, frame

T = TypeVar("T")
SMALL = 4096
"""Segments so short that nearly all of the file is frames."""
SEVERAL_SECTORS = [Random(n).randbytes(size) for n, size in enumerate((30, 500, 0, 700, 520))]


class Crashed(Exception):
    """The process is no more."""


class FaultyDisk(Disk):
    """Asks `fault`, which may raise, before and after each operation of another disk."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.fault: Callable[[int, str], None] = _no_fault
        self.moment = 0
        """How often it has asked."""
        self.done: list[str] = []

    def _do(self, what: str, operation: Callable[[], T]) -> T:
        self._ask("before " + what)
        result = operation()
        self.done.append(what)
        self._ask("after " + what)
        return result

    def _ask(self, what: str) -> None:
        self.moment += 1
        self.fault(self.moment, what)

    def read(self, path: Path, size: int = -1) -> bytes:
        return self._do("read", lambda: self.disk.read(path, size))

    def create(self, path: Path) -> int:
        return self._do("create", lambda: self.disk.create(path))

    def open(self, path: Path) -> int:
        return self._do("open", lambda: self.disk.open(path))

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        return self._do("pwrite", lambda: self.disk.pwrite(fd, data, at))

    def truncate(self, fd: int, size: int) -> None:
        self._do("truncate", lambda: self.disk.truncate(fd, size))

    def fdatasync(self, fd: int) -> None:
        self._do("fdatasync", lambda: self.disk.fdatasync(fd))

    def open_directory(self, path: Path) -> int:
        return self._do("open_directory", lambda: self.disk.open_directory(path))

    def sync_directory(self, fd: int) -> None:
        self._do("sync_directory", lambda: self.disk.sync_directory(fd))

    def replace(self, old: Path, new: Path) -> None:
        self._do("replace", lambda: self.disk.replace(old, new))

    def unlink(self, path: Path) -> None:
        self._do("unlink", lambda: self.disk.unlink(path))

    def crash_in(self, moments: int) -> None:
        """Crash when that many moments have passed, and stay so until `work`."""
        last = self.moment + moments

        def fault(moment: int, what: str) -> None:
            if moment > last:
                raise Crashed(what)

        self.fault = fault

    def fail_once(self, code: int, *, on: str = "", skipping: int = 0) -> None:
        """One operation fails before it has done anything: the first one `on` which it may, after `skipping` others."""
        left = skipping

        def fault(moment: int, what: str) -> None:
            nonlocal left
            if what.startswith("before " + on):
                left -= 1
                if left == -1:
                    raise OSError(code, os.strerror(code))

        self.fault = fault

    def work(self) -> None:
        """No fault from now on."""
        self.fault = _no_fault


def _no_fault(moment: int, what: str) -> None:
    pass


class NarrowDisk(Disk):
    """Takes up to `written_max` bytes with one write, and has room for files of up to `room` bytes."""

    def __init__(self, *, written_max: int = 1 << 30, room: int = 1 << 30) -> None:
        self.written_max, self.room = written_max, room

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        if at >= self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(fd, data[: min(self.written_max, self.room - at)], at)


class Inode:
    """A file: what programs see, and what is on the disk."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable
        self.seen = bytearray(durable)

    def after_power_cut(self, random: Random) -> bytes:
        """Each sector is the old one or the new one; so is the size, or in between."""
        sizes = sorted((len(self.durable), len(self.seen)))
        size = random.choice((*sizes, random.randint(*sizes)))
        sectors = (
            random.choice((self.durable, self.seen))[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
            for at in range(0, size, SECTOR_BYTES)
        )
        return b"".join(sectors)[:size]


class CachingDisk(Disk):
    """Knows what is durable, and can lose the rest."""

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {}
        self.names: list[dict[Path, Inode]] = [{}]
        """The durable ones, then as they were after each change since."""

    def create(self, path: Path) -> int:
        fd = super().create(path)
        self.inodes[fd] = Inode()
        self.names.append({**self.names[-1], path: self.inodes[fd]})
        return fd

    def open(self, path: Path) -> int:
        fd = super().open(path)
        self.inodes[fd] = self.names[-1][path]
        return fd

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        seen = self.inodes[fd].seen
        seen.extend(bytes(max(0, at - len(seen))))
        seen[at : at + len(data)] = data
        return super().pwrite(fd, data, at)

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        del self.inodes[fd].seen[size:]

    def fdatasync(self, fd: int) -> None:
        self.inodes[fd].durable = bytes(self.inodes[fd].seen)

    def sync_directory(self, fd: int) -> None:
        del self.names[:-1]

    def replace(self, old: Path, new: Path) -> None:
        super().replace(old, new)
        names = dict(self.names[-1])
        names[new] = names.pop(old)
        self.names.append(names)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.names.append({name: inode for name, inode in self.names[-1].items() if name != path})

    def cut_power(self, directory: Path, random: Random) -> None:
        """Nothing of the log is open. Of what was not synced, anything may be left."""
        left = {path: inode.after_power_cut(random) for path, inode in random.choice(self.names).items()}
        for path in directory.glob("*.*"):
            path.unlink()
        for path, data in left.items():
            path.write_bytes(data)
        self.names = [{path: Inode(data) for path, data in left.items()}]


def opened(directory: Path, disk: Disk | None = None, *, segment_bytes: int = SMALL) -> Log:
    return Log.open(directory, segment_bytes=segment_bytes, syncs=disk is not None, disk=disk or Disk())


def recovered(directory: Path, *, segment_bytes: int = SMALL) -> list[bytes]:
    log = opened(directory, segment_bytes=segment_bytes)
    try:
        return list(log.recovered)
    finally:
        log.close()


def write(directory: Path, payloads: Iterable[bytes], *, segment_bytes: int = SMALL) -> None:
    log = opened(directory, segment_bytes=segment_bytes)
    for payload in payloads:
        log.append(payload)
    log.close()


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def ends(payloads: Iterable[bytes]) -> list[int]:
    """Where the head and each frame of a segment end."""
    result = [HEAD_BYTES]
    for payload in payloads:
        result.append(result[-1] + len(frame(1, payload)))
    return result


def put(path: Path, data: bytes | bytearray) -> None:
    """Give a file this content."""
    # Not `write_bytes`: ext4 writes a file that was emptied and filled again to the disk at once, which takes its time.
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate()
