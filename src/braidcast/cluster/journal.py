"""The journal: what one replica delivered, in order, kept for subscribers. It is the application of a plain node.

1. Entries have indices from 1 without a gap; an index means the same delivery at every replica of the group.
2. Entries are written when they are delivered and synced a little later; `mark` is the timestamp up to which they are
   durable. After a crash the process delivers again what is above, so a torn end is cut off without a word; but not
   before something is written, so that whoever looks at a journal, or refuses to go on with it, leaves it as it is.
3. What is oldest goes when the journal is too large: whoever asks for it is told (`Compacted`), never given less.
4. What cannot be written for want of room or of a file to open is kept in memory and written later (`lack`); whoever
   drives it then stops.
5. A snapshot replaces the files so that a crash at any point leaves the beginning of some journal, which the process
   brings up to date: the new files are written under other names; then the old ones go, oldest first; then the new ones
   get their names, oldest first; each of these steps is durable before the next.
6. Without a directory it is kept in memory, within the same limit.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from braidcast.cluster.journal_segments import STAGED_SUFFIX, SUFFIX, JournalError, Segment, make_folder, sync_folder
from braidcast.cluster.lacking import FILES, lack_of
from braidcast.core.application import Delivered
from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp
from braidcast.wire.codec import UNREADABLE
from braidcast.wire.service import JournalEntry

log = logging.getLogger(__name__)

TAIL_BYTES = 4 << 20
"""Kept in memory, for subscribers that are up to date."""
ENTRY_BYTES = 64
"""What an entry takes besides its payload, roughly."""
SEGMENTS = 8
FRAME_BYTES = 64 << 10
"""A frame of a file holds no more than this, or one entry: it is read as a whole."""
PIECE_ENTRIES = 4096


class Compacted(BraidcastError):
    """What was asked for is no longer here."""


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
        """The newest entries; all that are not written are among them."""
        self.tail_bytes = 0
        self.tail_after: Timestamp = 0
        self.segments: list[Segment] = []
        """The last one grows."""
        self.unwritten: list[JournalEntry] = []
        self.written_gts: Timestamp = 0
        self.replaces = False
        """The files are those of before a snapshot, of which nothing is written yet."""
        self.lack = ""
        """What that waits for which is not written."""
        self.unsynced = False
        self.torn = ""
        """Where the last file has an end that cannot be read, in words."""
        self.damage = ""
        """What a reader met; as long as nobody reads there, the node goes on."""
        self._encode = msgspec.msgpack.Encoder().encode
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
        if self.tail_bytes > TAIL_BYTES or self.folder is None:
            self._shorten_tail()

    def _shorten_tail(self) -> None:
        tail, on_disk = self.tail, self.folder is not None
        limit = TAIL_BYTES if on_disk else self.bytes_max
        while self.tail_bytes > limit and len(tail) > 1 and not (on_disk and tail[0].gts > self.written_gts):
            gone = tail.popleft()
            self.tail_bytes -= len(gone.payload) + ENTRY_BYTES
            self.tail_after = gone.gts
            if not on_disk:
                self.oldest, self.after = gone.index + 1, gone.gts

    def write(self) -> None:
        """Hand what was delivered to the operating system; not durable yet."""
        if not self.unwritten and not self.replaces:
            return
        try:
            if self.replaces:
                self._replace_segments()
            elif self.torn:
                self.segments[-1].cut()
            self.torn = ""
            for entries in _frames_of(self.unwritten):
                if not self.segments or self.segments[-1].size >= self.segment_bytes:
                    self._begin_segment(entries[0].index, self.written_gts)
                self.segments[-1].append(entries)
                self._written(entries)
        except OSError as error:
            if not (lack := lack_of(error)):
                raise
            self.lack = lack
        else:
            self.lack = ""

    def _written(self, entries: list[JournalEntry]) -> None:
        self.unwritten = self.unwritten[len(entries) :]
        self.written_gts = entries[-1].gts
        self.unsynced = True

    def begin_sync(self) -> tuple[int, Timestamp] | None:
        """A file to sync and close, in whatever thread, and the timestamp up to which all is durable then."""
        if not self.unsynced or not self.segments or (file := self.segments[-1].file) is None:
            return None
        self.unsynced = False
        return os.dup(file), self.written_gts

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
        try:
            return self._read_files(after, entries_max)
        except JournalError as error:
            if not self.damage:
                self.damage = str(error)
                log.error("%s", error)
            raise

    def _read_files(self, after: Timestamp, entries_max: int) -> list[JournalEntry]:
        found: list[JournalEntry] = []
        at = max(0, bisect_right(self.segments, after, key=lambda segment: segment.after) - 1)
        for segment in self.segments[at:]:
            for frame in segment.entries_above(after):
                found += frame
                if len(found) >= entries_max:
                    return found[:entries_max]
        return found

    def entries_after(self, after: Timestamp) -> Iterator[JournalEntry]:
        """All that follow the timestamp `after`."""
        while piece := self.read(after, PIECE_ENTRIES):
            yield from piece
            after = piece[-1].gts

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def state(self, bytes_max: int) -> bytes:
        """The newest of what is kept, about so much of it, for a replica that has fallen behind; without a file to
        open, what is in memory."""
        begin = self._begin_of(bytes_max)
        try:
            entries = list(self.entries_after(begin))
        except OSError as error:
            if lack_of(error) != FILES:
                raise
            begin = self.tail_after
            entries = list(self.entries_after(begin))
        return self._encode(SnapshotState(self.next, entries[0].index if entries else self.next, begin, entries))

    def _begin_of(self, bytes_max: int) -> Timestamp:
        """The timestamp after which there are at most so many bytes, or one frame."""
        if self.folder is None or self.replaces:
            left, after = self.tail_bytes, self.after
            for entry in self.tail:
                if left <= bytes_max:
                    break
                left, after = left - len(entry.payload) - ENTRY_BYTES, entry.gts
            return min(after, self.tail[-1].gts - 1) if self.tail else after
        left, after = sum(segment.size for segment in self.segments), self.after
        for segment in self.segments:
            for place in segment.places:
                if left - place.offset <= bytes_max:
                    return place.after
                after = place.after
            left -= segment.size
        return after

    def restore(self, gts: Timestamp, state: bytes) -> None:
        """Become the journal whose state this is; durable some time later, as deliveries are."""
        snapshot = _read_snapshot(gts, state)
        self.tail, self.tail_bytes = deque(), 0
        self.oldest, self.after = snapshot.oldest, snapshot.after
        self.tail_after = self.written_gts = snapshot.after
        for entry in snapshot.entries:
            self._keep(entry)
        self.next, self.last_gts = snapshot.next, gts
        if self.folder is not None:
            self.unwritten, self.replaces, self.unsynced = snapshot.entries, True, False
            self.write()

    def close(self) -> None:
        """Let go of the file."""
        if self.segments:
            self.segments[-1].close()

    # -- files -------------------------------------------------------------------------------------------------------

    def _begin_segment(self, first: int, after: Timestamp) -> None:
        assert self.folder is not None, "only a journal on disk has files"
        segment = Segment(self.folder, first, after)
        if self.segments:
            self.segments[-1].sync()
        segment.create()
        try:
            sync_folder(self.folder)
        except OSError:
            segment.discard()
            raise
        self.close()
        self.segments.append(segment)
        while len(self.segments) > 1 and sum(s.size for s in self.segments[1:]) > self.bytes_max:
            gone = self.segments.pop(0)  # first, as it may be gone when its removal fails
            self.oldest, self.after = self.segments[0].first, self.segments[0].after
            gone.remove()

    def _replace_segments(self) -> None:
        """Rule 5. Nothing is lost if it fails: it is done again from the beginning."""
        staged: list[Segment] = []
        try:
            self._stage(staged)
            while self.segments:
                self.segments[0].remove()
                del self.segments[0]
            while staged:
                staged[0].settle()
                self.close()
                self.segments.append(staged.pop(0))
        except BaseException:
            for segment in staged:
                segment.discard()
            raise
        self.unwritten, self.replaces = [], False
        self.written_gts, self.unsynced = self.last_gts, True
        self._shorten_tail()

    def _stage(self, staged: list[Segment]) -> None:
        assert self.folder is not None, "only a journal on disk has files"
        after = self.after
        for entries in _frames_of(self.unwritten):
            if not staged or staged[-1].size >= self.segment_bytes:
                staged.append(Segment(self.folder, entries[0].index, after, STAGED_SUFFIX))
                staged[-1].create()
            staged[-1].append(entries)
            after = entries[-1].gts
        if not staged:
            staged.append(Segment(self.folder, self.next, self.last_gts, STAGED_SUFFIX))
            staged[-1].create()
        for segment in staged:
            segment.sync()

    def _open(self, folder: Path) -> None:
        try:
            make_folder(folder)
            for path in folder.glob(f"*{STAGED_SUFFIX}"):
                path.unlink()
            self.segments = [Segment.found(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
            if self.segments:
                self._read_segments()
                self.segments[-1].open()
                self.segments[-1].sync()  # a process that died had written it, maybe not synced
                sync_folder(folder)
        except OSError as error:
            raise JournalError(
                f"{folder} cannot hold a journal: {error.strerror or error}; nothing was deleted: make room, or put "
                f"right what is at that path, and start again"
            ) from None
        self.mark = self.last_gts

    def _read_segments(self) -> None:
        begin = self.segments[0]
        self.next = self.oldest = begin.first
        self.last_gts = self.after = self.tail_after = self.written_gts = begin.after
        for segment in self.segments:
            if segment.first != self.next:
                raise JournalError(
                    f"{segment.path} begins at {segment.first} instead of {self.next}: a file is gone; bring it back, "
                    f"or move the node's data directory away and start it with --rejoin"
                )
            for entries, end in segment.frames():
                if entries[0].index != self.next:
                    raise segment.damage(segment.size)
                segment.grow(entries, end)
                for entry in entries:
                    self._keep(entry)
                self.written_gts = entries[-1].gts
            if segment.size < segment.path.stat().st_size:
                if segment is not self.segments[-1] or not segment.is_torn(segment.size, self.next):
                    raise segment.damage(segment.size)
                self.torn = f" (byte {segment.size} of {segment.path} and what follows cannot be read)"


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


def _frames_of(entries: list[JournalEntry]) -> Iterator[list[JournalEntry]]:
    """The same entries in pieces that make frames."""
    begin = size = 0
    for at, entry in enumerate(entries):
        if size and size + len(entry.payload) > FRAME_BYTES:
            yield entries[begin:at]
            begin, size = at, 0
        size += len(entry.payload) + ENTRY_BYTES
    if begin < len(entries):
        yield entries[begin:]
