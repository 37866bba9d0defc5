"""A node whose disk and wall clock misbehave on demand: `python -m tests.cluster.faults.node_with_faults` instead of
`braidcast node`. Only the edge to the operating system is replaced; the node is the real one.

What is asked of it stands in files beside its data directory (`Faults`):
- every write below the data directory is noted, with what it replaced, until a sync has covered it, so that a power
  cut can be played after the process was killed: `lose_unsynced` takes back what no sync had covered;
- while `full` exists, writes below the data directory find no room;
- `clock` holds how many seconds the wall clock is off.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

WROTE, SYNCED = 1, 2
_HEAD = struct.Struct("<BQQQI")
"""Kind; number of the write, or the highest that a sync covers; inode; where it began; how many bytes it replaced."""
SECTOR_BYTES = 512


class Faults:
    """The files by which a trial and the node understand each other."""

    def __init__(self, data: Path) -> None:
        self.data = data
        beside = data.parent
        self.unsynced, self.full, self.clock = (
            beside / f"{data.name}.{what}" for what in ("unsynced", "full", "clock")
        )

    def lose_unsynced(self, random: Random) -> int:
        """Power is cut, and the process is dead already: each write that no sync had covered is lost, or some of its
        sectors are; how many there were."""
        if not self.unsynced.exists():
            return 0
        wrote: list[tuple[int, int, int, bytes, int]] = []
        synced: dict[int, int] = {}
        notes = self.unsynced.read_bytes()
        at = 0
        while at + _HEAD.size <= len(notes):
            kind, number, inode, offset, length = _HEAD.unpack_from(notes, at)
            at += _HEAD.size
            if kind == SYNCED:
                synced[inode] = max(synced.get(inode, 0), number)
                continue
            size_before = int.from_bytes(notes[at : at + 8], "little")
            wrote.append((number, inode, offset, notes[at + 8 : at + 8 + length], size_before))
            at += 8 + length
        paths = {path.stat().st_ino: path for path in self.data.rglob("*") if path.is_file()}
        lost = 0
        for number, inode, offset, before, size_before in reversed(wrote):
            if number > synced.get(inode, 0) and inode in paths:
                _undo(paths[inode], offset, before, size_before, random)
                lost += 1
        self.unsynced.unlink()
        return lost


def _undo(path: Path, offset: int, before: bytes, size_before: int, random: Random) -> None:
    with open(path, "r+b") as file:
        size = path.stat().st_size
        end = min(size, max(size_before, offset + len(before)))
        for sector in range(offset - offset % SECTOR_BYTES, size, SECTOR_BYTES):
            if random.random() < 0.7:
                begin, stop = max(sector, offset), min(sector + SECTOR_BYTES, size)
                old = before[begin - offset : stop - offset]
                file.seek(begin)
                file.write(old + bytes(stop - begin - len(old)))
        if random.random() < 0.5:
            file.truncate(max(end, size_before))


class _Edge:
    """The calls of the operating system that a node writes with."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.prefix = faults, str(faults.data) + os.sep
        self.notes = os.open(faults.unsynced, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.number = 0
        self.pwrite, self.write, self.fdatasync, self.time_ns = os.pwrite, os.write, os.fdatasync, time.time_ns

    def install(self) -> None:
        os.pwrite, os.write, os.fdatasync = self._pwrite, self._write, self._fdatasync  # type: ignore[assignment]
        time.time_ns = self._time_ns
        time.time = lambda: self._time_ns() / 1e9

    def _is_data(self, fd: int) -> bool:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(self.prefix)

    def _before(self, fd: int, offset: int, length: int) -> None:
        if self.faults.full.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        found = os.fstat(fd)
        readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        try:
            before = os.pread(readable, length, offset)
        finally:
            os.close(readable)
        self.number += 1
        note = _HEAD.pack(WROTE, self.number, found.st_ino, offset, len(before)) + found.st_size.to_bytes(8, "little")
        self.write(self.notes, note + before)

    def _pwrite(self, fd: int, data: Any, at: int) -> int:
        if self._is_data(fd):
            self._before(fd, at, len(data))
        return self.pwrite(fd, data, at)

    def _write(self, fd: int, data: Any) -> int:
        if self._is_data(fd):
            self._before(fd, os.fstat(fd).st_size, len(data))  # journals are only ever appended to
        return self.write(fd, data)

    def _fdatasync(self, fd: int) -> None:
        covered = self.number
        self.fdatasync(fd)
        if self._is_data(fd):
            self.write(self.notes, _HEAD.pack(SYNCED, covered, os.fstat(fd).st_ino, 0, 0))

    def _time_ns(self) -> int:
        try:
            off_s = float(self.faults.clock.read_text())
        except (OSError, ValueError):
            off_s = 0.0
        return self.time_ns() + int(off_s * 1e9)


def main() -> None:
    """As `braidcast node`."""
    from braidcast.cli.main import run
    from braidcast.cli.registry import protocol_named
    from braidcast.cluster.config import load_config

    arguments = sys.argv[1:]
    config = load_config(arguments[arguments.index("--config") + 1], protocol_named)
    data = config.nodes[arguments[arguments.index("--id") + 1]].data
    data.parent.mkdir(parents=True, exist_ok=True)
    _Edge(Faults(data)).install()
    sys.exit(run(["node", *arguments]))


if __name__ == "__main__":
    main()
