"""The journal: what one replica delivered, in order, kept for subscribers. It is the application of a plain node.

1. Entries have indices from 1 without a gap; an index means the same delivery at every replica of the group.
2. Entries are written when they are delivered and synced a little later; `mark` is the timestamp up to which they are
   durable. After a crash the process delivers again what is above, so a torn end is cut off without a word.
3. What is oldest goes when the journal is too large: whoever asks for it is told (`Compacted`), never given less.
4. Without a directory it is kept in memory, within the same limit.
"""

from __future__ import annotations

import errno
import os
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec

from braidcast.core.application import Delivered
from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp
from braidcast.wire.codec import UNREADABLE
from braidcast.wire.service import JournalEntry

_HEAD = struct.Struct("<II")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
TAIL_BYTES = 4 << 20
"""Kept in memory, for subscribers that are up to date."""
ENTRY_BYTES = 64
"""What an entry takes besides its payload, roughly."""
SEGMENTS = 8
STRIDE_BYTES = 64 << 10
"""Between two places in a segment that can be looked up."""


class JournalError(BraidcastError):
    """A journal that cannot be read."""


class Compacted(BraidcastError):
    """What was asked for is no longer here."""


class Place(NamedTuple):
    """Where entries above a timestamp begin in a segment."""

    after: Timestamp
    offset: int


class Segment:
    """One file of the journal."""

    __slots__ = ("after", "first", "path", "places", "size")

    def __init__(self, path: Path, first: int, after: Timestamp) -> None:
        self.path, self.first, self.after = path, first, after
        """Its entries have timestamps above `after`."""
        self.size = 0
        self.places = [Place(after, 0)]


class SnapshotState(msgspec.Struct, array_like=True):
    """A journal as it travels to a replica that has fallen behind."""

    next: int
    oldest: int
    after: Timestamp
    entries: list[JournalEntry]


class Journal:
    """The journal of one replica."""

    def __init__(self, folder: Path | None, bytes_max: int) -> None:
        self.folder, self.bytes_max = folder, bytes_max
        self.segment_bytes = max(1 << 16, bytes_max // SEGMENTS)
        self.next = 1
        """The index of the next entry."""
        self.last_gts: Timestamp = 0
        self.mark: Timestamp = 0
        """Everything up to here is durable."""
        self.oldest = 1
        """The index of the oldest entry that is kept,"""
        self.after: Timestamp = 0
        """and the timestamp that all which are kept are above."""
        self.tail: deque[JournalEntry] = deque()
        self.tail_bytes = 0
        self.tail_after: Timestamp = 0
        self.segments: list[Segment] = []
        self.file: int | None = None
        self.unwritten: list[JournalEntry] = []
        self.written_gts: Timestamp = 0
        self.unsynced = False
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(list[JournalEntry])
        if folder is not None:
            self._open(folder)

    # -- deliveries --------------------------------------------------------------------------------------------------

    def append(self, delivered: Delivered) -> bool:
        """The next delivery; False if it is here already, because the process delivers again after a restart."""
        gts = delivered.gts
        if gts and gts <= self.last_gts:
            return False
        m = delivered.multicast
        entry = JournalEntry(
            self.next, gts, m.id, m.dest, m.payload, m.batch_first, m.batch_count, delivered.repeated
        )  # fmt: skip
        self._keep(entry)
        if self.folder is not None:
            self.unwritten.append(entry)
        return True

    def _keep(self, entry: JournalEntry) -> None:
        self.next = entry.index + 1
        self.last_gts = entry.gts
        self.tail.append(entry)
        self.tail_bytes += len(entry.payload) + ENTRY_BYTES
        limit = TAIL_BYTES if self.folder is not None else self.bytes_max
        while self.tail_bytes > limit and len(self.tail) > 1:
            gone = self.tail.popleft()
            self.tail_bytes -= len(gone.payload) + ENTRY_BYTES
            self.tail_after = gone.gts
            if self.folder is None:
                self.oldest, self.after = gone.index + 1, gone.gts

    def write(self) -> None:
        """Hand what was delivered to the operating system; not durable yet."""
        if not self.unwritten:
            return
        assert self.folder is not None, "only a journal on disk has something to write"
        entries, self.unwritten = self.unwritten, []
        try:
            if self.file is None or self.segments[-1].size >= self.segment_bytes:
                self._begin_segment(entries[0].index, self.written_gts)
            self._append_frame(entries)
        except OSError as error:
            self.unwritten = entries
            if error.errno not in NO_ROOM:
                raise

    def _append_frame(self, entries: list[JournalEntry]) -> None:
        assert self.file is not None
        segment = self.segments[-1]
        body = self._encode(entries)
        try:
            _write_all(self.file, _HEAD.pack(len(body), crc32(body)) + body)
        except OSError:
            os.ftruncate(self.file, segment.size)
            raise
        self._remember_place(segment, entries[0], segment.size)
        segment.size += _HEAD.size + len(body)
        self.written_gts = entries[-1].gts
        self.unsynced = True

    def begin_sync(self) -> tuple[int, Timestamp] | None:
        """A file to sync and close, in whatever thread, and the timestamp up to which all is durable then."""
        if self.file is None or not self.unsynced:
            return None
        self.unsynced = False
        return os.dup(self.file), self.written_gts

    # -- readers -----------------------------------------------------------------------------------------------------

    def read(self, after: Timestamp, entries_max: int) -> list[JournalEntry]:
        """The entries that follow the timestamp `after`, as many as are at hand up to the limit."""
        if after >= self.last_gts:
            return []
        if after < self.after:
            raise Compacted(f"what follows the timestamp {after} is no longer kept here: the oldest is {self.oldest}")
        if after >= self.tail_after:
            entries = self.tail
            first = bisect_right(entries, after, key=lambda entry: entry.gts)
            return [entries[place] for place in range(first, min(first + entries_max, len(entries)))]
        self.write()
        found: list[JournalEntry] = []
        at = max(0, bisect_right(self.segments, after, key=lambda segment: segment.after) - 1)
        for segment in self.segments[at:]:
            place = segment.places[bisect_right(segment.places, after, key=lambda place: place.after) - 1]
            for frame, _ in self._frames(segment.path, place.offset):
                found += [entry for entry in frame if entry.gts > after]
                if len(found) >= entries_max:
                    return found[:entries_max]
        return found

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def state(self) -> bytes:
        """Everything that is kept, for a replica that has fallen behind."""
        entries: list[JournalEntry] = []
        after = self.after
        while piece := self.read(after, 4096):
            entries += piece
            after = piece[-1].gts
        return self._encode(SnapshotState(self.next, self.oldest, self.after, entries))

    def restore(self, gts: Timestamp, state: bytes) -> None:
        """Become the journal whose state this is; durable when it returns."""
        snapshot = _read_snapshot(gts, state)
        self.close()
        self.unwritten, self.tail, self.tail_bytes = [], deque(), 0
        self.oldest, self.after, self.tail_after = snapshot.oldest, snapshot.after, snapshot.after
        self.written_gts = snapshot.after
        old, self.segments = self.segments, []
        if self.folder is not None:
            # The new segments first: after a crash between, the process hands over the snapshot once more.
            for segment in old:
                segment.path.unlink(missing_ok=True)
            self._begin_segment(snapshot.oldest, snapshot.after)
        for entry in snapshot.entries:
            self._keep(entry)
            if self.folder is not None:
                self.unwritten.append(entry)
                if len(self.unwritten) >= 4096:
                    self.write()
        self.write()
        self.next, self.last_gts = snapshot.next, gts
        if self.file is not None:
            os.fdatasync(self.file)
        self.mark = self.last_gts

    def close(self) -> None:
        """Let go of the file."""
        if self.file is not None:
            os.close(self.file)
            self.file = None

    # -- files -------------------------------------------------------------------------------------------------------

    def _begin_segment(self, first: int, after: Timestamp) -> None:
        assert self.folder is not None
        if self.file is not None:
            os.fdatasync(self.file)
            os.close(self.file)
        path = self.folder / f"{first:020}-{after:020}.journal"
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self.segments.append(Segment(path, first, after))
        while len(self.segments) > 1 and sum(s.size for s in self.segments[1:]) > self.bytes_max:
            self.segments.pop(0).path.unlink(missing_ok=True)
            self.oldest, self.after = self.segments[0].first, self.segments[0].after

    def _remember_place(self, segment: Segment, entry: JournalEntry, offset: int) -> None:
        if offset - segment.places[-1].offset >= STRIDE_BYTES:
            segment.places.append(Place(entry.gts - 1, offset))

    def _open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.journal")):
            first, after = (int(part) for part in path.stem.split("-"))
            self.segments.append(Segment(path, first, after))
        if self.segments:
            self.next, self.last_gts = self.segments[0].first, self.segments[0].after
            self.oldest, self.after, self.tail_after = self.next, self.last_gts, self.last_gts
            self.written_gts = self.last_gts
        for number, segment in enumerate(self.segments):
            last = number == len(self.segments) - 1
            if segment.first != self.next:
                raise JournalError(f"{segment.path} begins at {segment.first} instead of {self.next}: a file is gone")
            size = segment.path.stat().st_size
            for frame, end in self._frames(segment.path, 0):
                self._remember_place(segment, frame[0], segment.size)
                for entry in frame:
                    self._keep(entry)
                segment.size, self.written_gts = end, frame[-1].gts
            if segment.size < size:
                if not last:
                    raise JournalError(f"{segment.path} is damaged at byte {segment.size}: restore it from a backup")
                os.truncate(segment.path, segment.size)
        if self.segments:
            self.file = os.open(self.segments[-1].path, os.O_WRONLY | os.O_APPEND)
            os.fdatasync(self.file)
            self.mark = self.last_gts

    def _frames(self, path: Path, offset: int) -> Iterator[tuple[list[JournalEntry], int]]:
        with open(path, "rb") as file:
            file.seek(offset)
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, crc = _HEAD.unpack(head)
                body = file.read(length)
                if len(body) < length or not length or crc32(body) != crc:
                    return
                offset += _HEAD.size + length
                yield self._decoder.decode(body), offset


def _read_snapshot(gts: Timestamp, state: bytes) -> SnapshotState:
    """What `Journal.state` made; raises before anything is touched."""
    try:
        snapshot = msgspec.msgpack.decode(state, type=SnapshotState)
    except UNREADABLE as error:
        raise JournalError(f"a snapshot that cannot be read: {error}") from None
    entries = snapshot.entries
    indices = [snapshot.oldest, *[entry.index + 1 for entry in entries]]
    timestamps = [snapshot.after, *[entry.gts for entry in entries]]
    if (
        [*[entry.index for entry in entries], snapshot.next] != indices
        or any(before >= after for before, after in pairwise(timestamps))
        or not 0 <= snapshot.after <= timestamps[-1] <= gts
        or snapshot.oldest < 1
        or (not entries and snapshot.after < gts)
    ):
        raise JournalError("a snapshot that cannot be read: its entries are not in order")
    return snapshot


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
