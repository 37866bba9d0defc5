"""The log of a node: everything durable of all the replicas that it hosts.

1. A commit is one frame and one sync. It begins when the one before is durable, hence only the last can be torn.
2. What `open` recovers is durable, and is the checkpoint and every commit since. What it cannot read it never skips.
3. A checkpoint and a new segment are written under another name, synced, renamed, and the directory is synced: they
   are there whole or not at all. The segments that a checkpoint replaces are deleted after that.
4. A full disk takes back what it got of the frame. The log is as it was and the same call may be made again. The same
   goes for a segment that cannot be begun because there is no room, or no file to open. The directory stays open: once
   a segment has its name, nothing that may be lacking stands between it and its being durable.
5. A log has an id of its own from its first segment on, and keeps it. Whoever knows the id, and how far the log was, is
   given that log or none: not a new one in place of one that is gone, and not an older copy.
6. After any other failure of the disk nobody knows what it holds. The log is of no more use; recovery decides.

All calls come from one thread, one at a time. All I/O that a disk can refuse goes through `Disk`.

Now and then a commit also writes zeros ahead, for those after it. A sync that changes neither the size of the file nor
what is allocated to it spares the file system a commit of its own: a third less for small ones and half for those of
20 KB (ext4). After `fallocate` extents still have to be marked as written, which undoes it for all but small ones.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from braidcast.cluster.lacking import ADVICE, lack_of
from braidcast.cluster.segments import HEAD_BYTES, LogForeign, Segment, damage, frame, head
from braidcast.core.errors import BraidcastError

LOCK: Final = "lock"
TEMPORARY: Final = "next.tmp"
SEGMENT_BYTES: Final = 64 << 20
AHEAD_BYTES: Final = 256 << 10
"""More saves no more, and makes the commit that writes them slower."""
FIRST: Final = 1
"""The number of a log's first frame."""
_ZEROS: Final = memoryview(bytes(AHEAD_BYTES))
_SEGMENT_NAME: Final = re.compile(r"\d{20}\.log")
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_PLACE: Final = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS)
"""What a directory is to blame for, and not the disk below it."""


class LogInUse(BraidcastError):
    """Somebody else has this log open."""


class LogLost(BraidcastError):
    """The log that somebody rests on is gone, or another one is in its place."""


class DiskFull(BraidcastError):
    """There was no room, or no file to open. Nothing has changed, and the same call may be made again."""

    def __init__(self, lack: str, directory: Path) -> None:
        super().__init__(f"the log in {directory} cannot go on ({lack}): {ADVICE[lack]}, nothing is lost")
        self.lack = lack
        """In few words."""


class DiskFailed(BraidcastError):
    """The log can no longer be used."""


class Disk:
    """What the log asks of a disk. Tests put faults here."""

    def read(self, path: Path, size: int = -1) -> bytes:
        """All of a file, or its beginning."""
        with open(path, "rb") as file:
            return file.read(size)

    def create(self, path: Path) -> int:
        """A new and empty file; one of that name is emptied."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def open(self, path: Path) -> int:
        """A file that is there."""
        return os.open(path, os.O_RDWR)

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        """Write some of `data`; returns how much."""
        return os.pwrite(fd, data, at)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file off."""
        os.ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        """Make a file's content and size durable."""
        os.fdatasync(fd)

    def open_directory(self, path: Path) -> int:
        """A directory that is there."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_directory(self, fd: int) -> None:
        """Make the names in a directory durable."""
        os.fsync(fd)

    def replace(self, old: Path, new: Path) -> None:
        """Give a file another name, at once and for whatever had that name."""
        os.replace(old, new)

    def unlink(self, path: Path) -> None:
        """Delete a file, if it is there."""
        path.unlink(missing_ok=True)


_DISK: Final = Disk()


class Log:
    """A log that is open. `Log.open` makes one."""

    def __init__(self, directory: Path, segment_bytes: int, syncs: bool, disk: Disk) -> None:
        self.directory, self.segment_bytes, self.syncs, self.disk = directory, segment_bytes, syncs, disk
        self.recovered: Iterator[bytes] = iter(())
        """The checkpoint's payloads and those of all commits since; read from disk as it is consumed, which must be
        before the first commit."""
        self.torn_bytes = 0
        """What recovery cut off of a commit that nobody was told of."""
        self.checkpoint_bytes = 0
        self.bytes_since_checkpoint = 0
        self.number = FIRST
        """Of the next frame."""
        self.id = ""
        """In hexadecimal digits; the same for ever."""
        self._id_wanted, self._number_wanted = "", FIRST
        self._paths: list[Path] = []
        """The segments from the newest checkpoint on. The last one grows."""
        self._replaced: list[Path] = []
        """Segments from before it, to be deleted."""
        self._fd = self._lock = self._names = -1
        """The last segment, the lock, and the directory."""
        self._end = self._allocated = 0
        """Where the next frame begins, and the end of the file."""
        self._unusable = "it is not open"

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        syncs: bool = True,
        disk: Disk = _DISK,
        id: str = "",
        number: int = FIRST,
    ) -> Log:
        """Lock a directory, which is made if need be, and recover what it holds.

        With an `id` only that log will do, and it must go on at this `number` or later.
        """
        log = cls(directory, segment_bytes, syncs, disk)
        log._id_wanted, log._number_wanted = id, number
        log._unusable = ""
        try:
            with log._using():
                log._make_directory()
                log._take_lock()
                log._names = disk.open_directory(directory)
                log._recover()
        except BaseException:
            log.close()
            raise
        return log

    def append(self, payload: bytes) -> None:
        """Make one commit; it is durable when this returns."""
        data = frame(self.number, payload)
        with self._using():
            if self._end > HEAD_BYTES and self._end + len(data) > self.segment_bytes:
                self._begin_segment(None)
            end = self._end + len(data)
            try:
                self._write(self._fd, data, self._end)
            except OSError as error:
                if error.errno in _FULL:
                    self._cut(self._end)
                raise
            if end > self._allocated:
                self._write_ahead(end)
            self._sync(self._fd)
            self._end, self.number = end, self.number + 1
            self.bytes_since_checkpoint += len(data)

    def checkpoint(self, payloads: Iterable[bytes]) -> None:
        """Replace everything so far by these payloads, at once."""
        with self._using():
            self._begin_segment(payloads)
            self.checkpoint_bytes, self.bytes_since_checkpoint = self._end - HEAD_BYTES, 0
            self._replaced += self._paths[:-1]
            self._paths = self._paths[-1:]
            self._delete_replaced()

    def close(self) -> None:
        """Let go of the files and the lock; writes nothing, as there is nothing left to write."""
        for fd in (self._fd, self._lock, self._names):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock = self._names = -1
        self._unusable = self._unusable or "it is closed"

    @contextmanager
    def _using(self) -> Iterator[None]:
        if self._unusable:
            raise DiskFailed(f"the log in {self.directory} cannot be used: {self._unusable}")
        self._unusable = "a call was interrupted"
        try:
            yield
        except OSError as error:
            if lack := lack_of(error):
                self._unusable = ""
                raise DiskFull(lack, self.directory) from error
            raise self._failed(error) from error
        self._unusable = ""

    def _failed(self, error: OSError) -> DiskFailed:
        if error.errno in _PLACE:
            self._unusable = (
                f"it has no directory that can be used ({error.strerror}); nothing was deleted: put right what is at "
                f"that path, and start again"
            )
        else:
            self._unusable = (
                f"its disk failed ({error.strerror}) and nobody knows what it holds; repair it and start again"
            )
        return DiskFailed(f"the log in {self.directory} cannot be used: {self._unusable}")

    def _make_directory(self) -> None:
        missing = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            fd = self.disk.open_directory(path.parent)
            try:
                self._sync_names(fd)
            finally:
                os.close(fd)

    def _take_lock(self) -> None:
        self._lock = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogInUse(
                f"{self.directory} is in use by another node: stop that one, or give this one a directory of its own"
            ) from None

    def _recover(self) -> None:
        self.disk.unlink(self.directory / TEMPORARY)
        self._find_segments()
        if not self._paths:
            if self._id_wanted:
                raise self._lost("it is gone")
            self.id = uuid.uuid4().hex
            return self._begin_segment(None)
        if self._id_wanted not in ("", self.id):
            raise self._lost("another log is in its place")
        last_frame = self._check_segments()
        if self.number < self._number_wanted:
            raise self._lost(f"commits are gone from its end: it held {self._number_wanted - 1}, now {self.number - 1}")
        self._fd = self.disk.open(self._paths[-1])
        # The process that wrote the last frame may have died before its sync, or of its failure. Then the frame may
        # be in memory only, marked as written, and would be gone after a power cut: it has to be written again.
        self._write(self._fd, last_frame, self._end - len(last_frame))
        self._cut(self._end)
        self._sync_names(self._names)
        self._delete_replaced()
        self.recovered = self._payloads()

    def _lost(self, what: str) -> LogLost:
        return LogLost(
            f"the log in {self.directory} is not the one that this node wrote ({what}), so what the node promised is "
            f"lost: bring that log back, or move the node's data directory away and start it with --rejoin"
        )

    def _find_segments(self) -> None:
        """Tell the segments from the newest checkpoint on from those before, which it replaced."""
        for path in sorted(self.directory.iterdir()):
            if _SEGMENT_NAME.fullmatch(path.name):
                self._paths.append(path)
            elif path.name != LOCK:
                raise LogForeign(f"{path} is not of this log: move it elsewhere, the directory must be the log's own")
        for place in reversed(range(len(self._paths))):
            segment = self._load(self._paths[place], HEAD_BYTES)
            self.id = self.id or segment.log_id.hex()
            if segment.checkpoint_end:
                self._replaced, self._paths = self._paths[:place], self._paths[place:]
                return
        if self._paths and self._paths[0] != self._path(FIRST):
            raise damage(self._paths[0], 0, "the segments before it are missing, and it has no checkpoint")

    def _check_segments(self) -> bytes:
        """Read everything once, to find where the log ends; returns the last frame of the last segment."""
        last: bytes | None = None
        self.number = int(self._paths[0].stem)
        for path in self._paths:
            segment = self._load(path)
            if segment.log_id.hex() != self.id:
                raise damage(path, 0, "it is of another log than the last segment")
            if segment.first != self.number:
                raise damage(path, 0, f"frame {self.number} is missing before its first, frame {segment.first}")
            last, self._end = None, HEAD_BYTES
            for end, payload in segment.frames():
                last, self._end, self.number = payload, end, self.number + 1
            self.torn_bytes = segment.torn_bytes(self._end, self.number, is_last=path == self._paths[-1])
            self.checkpoint_bytes += max(0, segment.checkpoint_end - HEAD_BYTES)
            self.bytes_since_checkpoint += self._end - max(HEAD_BYTES, segment.checkpoint_end)
        return b"" if last is None else frame(self.number - 1, last)

    def _payloads(self) -> Iterator[bytes]:
        # Read and checked once more: to keep them would take as much memory as the log is long.
        number = int(self._paths[0].stem)
        end = self.number
        for path in self._paths:
            for _, payload in self._load(path).frames():
                assert self.number == end, "what was recovered is read before the first commit"
                yield payload
                number += 1
        if number != end:
            raise damage(self._paths[-1], 0, f"frame {number} was good a moment ago")

    def _load(self, path: Path, size: int = -1) -> Segment:
        try:
            segment = Segment.parse(path, self.disk.read(path, size))
        except OSError as error:
            if lack := lack_of(error):
                raise DiskFull(lack, self.directory) from error
            raise self._failed(error) from error
        if path != self._path(segment.first):
            raise damage(path, 0, f"its first frame is {segment.first}, so this is not its name")
        return segment

    def _begin_segment(self, payloads: Iterable[bytes] | None) -> None:
        """Put a new segment behind the others, with a checkpoint in it unless `payloads` is `None`."""
        temporary, path = self.directory / TEMPORARY, self._path(self.number)
        fd = self.disk.create(temporary)
        try:
            end, number = HEAD_BYTES, self.number
            for payload in () if payloads is None else payloads:
                data = frame(number, payload)
                self._write(fd, data, end)
                end, number = end + len(data), number + 1
            self._write(fd, head(self.number, 0 if payloads is None else end, bytes.fromhex(self.id)), 0)
            self._sync(fd)
            self.disk.replace(temporary, path)
            self._sync_names(self._names)
        except BaseException:
            os.close(fd)
            with suppress(OSError):
                self.disk.unlink(temporary)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        # A segment without a frame has the name of its successor, which has then taken its place.
        self._paths = [*(other for other in self._paths if other != path), path]
        self._fd, self._end, self._allocated, self.number = fd, end, end, number

    def _delete_replaced(self) -> None:
        try:
            while self._replaced:
                self.disk.unlink(self._replaced[0])
                del self._replaced[0]
        except OSError as error:
            # Some file systems need room to delete. What is left is in nobody's way and goes with the next checkpoint.
            if error.errno not in _FULL:
                raise

    def _write(self, fd: int, data: bytes, at: int) -> None:
        left = memoryview(data)
        while left:
            written = self.disk.pwrite(fd, left, at)
            left, at = left[written:], at + written

    def _write_ahead(self, end: int) -> None:
        """Write zeros behind a frame that ends at `end`, as many as there is room for."""
        zeros = _ZEROS[: max(0, self.segment_bytes - end)]
        self._allocated = end
        try:
            self._allocated += self.disk.pwrite(self._fd, zeros, end) if zeros else 0
        except OSError as error:
            if error.errno not in _FULL:
                raise

    def _cut(self, end: int) -> None:
        """Durably end the current segment here: what is written next must not mix with what was there."""
        try:
            self.disk.truncate(self._fd, end)
        except OSError as error:
            raise self._failed(error) from error
        self._sync(self._fd)
        self._allocated = end

    def _sync(self, fd: int) -> None:
        if self.syncs:
            try:
                self.disk.fdatasync(fd)
            except OSError as error:
                raise self._failed(error) from error

    def _sync_names(self, directory: int) -> None:
        if self.syncs:
            try:
                self.disk.sync_directory(directory)
            except OSError as error:
                raise self._failed(error) from error

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:020}.log"
