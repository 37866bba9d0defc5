"""The files of a journal: each holds entries in frames, and its name says where it begins.

`INDEX-TIMESTAMP.journal` holds entries from that index on, all above that timestamp. A frame is its length, a checksum
and a list of entries. What cannot be read at the end of the last file is torn, since nothing is durable that was not
synced; whether too much is gone is for the process to say (`Process.can_resume`).

A bad frame with a good one behind it was whole once, and is damage. The exception is one that has a sector of zeros:
several frames may wait for a sync, the disk writes their sectors in any order, and zeros are what it has not written.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec

from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp
from braidcast.history.appending import append_whole
from braidcast.wire.service import JournalEntry

SUFFIX, STAGED_SUFFIX = ".journal", ".tmp"
STRIDE_BYTES = 64 << 10
"""Between two places in a segment that can be looked up."""
SECTOR_BYTES = 512
_HEAD = struct.Struct("<II")
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODER = msgspec.msgpack.Decoder(list[JournalEntry])


class JournalError(BraidcastError):
    """A journal that cannot be read."""


class Place(NamedTuple):
    """Where entries above a timestamp begin in a segment."""

    after: Timestamp
    offset: int


class Segment:
    """One file of a journal."""

    __slots__ = ("after", "file", "first", "path", "places", "size")

    def __init__(self, folder: Path, first: int, after: Timestamp, suffix: str = SUFFIX) -> None:
        self.path = folder / f"{first:020}-{after:020}{suffix}"
        self.first, self.after = first, after
        """Its entries have timestamps above `after`."""
        self.size = 0
        self.places = [Place(after, 0)]
        self.file: int | None = None

    @classmethod
    def found(cls, path: Path) -> Segment:
        """The segment of a file that is there."""
        first, _, after = path.stem.partition("-")
        if not (first.isdecimal() and after.isdecimal()):
            raise JournalError(f"{path} is not of this journal: move it elsewhere")
        return cls(path.parent, int(first), int(after))

    def open(self, flags: int = 0) -> None:
        """Make it ready to be appended to."""
        self.file = os.open(self.path, os.O_WRONLY | os.O_APPEND | flags, 0o644)

    def create(self) -> None:
        """Begin the file."""
        self.open(os.O_CREAT | os.O_TRUNC)

    def append(self, entries: list[JournalEntry]) -> None:
        """All of these or, with an `OSError`, none."""
        assert self.file is not None, "only an open segment is written to"
        body = _ENCODE(entries)
        append_whole(self.file, _HEAD.pack(len(body), crc32(body)) + body, self.size)
        self.grow(entries, self.size + _HEAD.size + len(body))

    def grow(self, entries: list[JournalEntry], size: int) -> None:
        """It holds these, too, and is so long now."""
        if self.size - self.places[-1].offset >= STRIDE_BYTES:
            self.places.append(Place(entries[0].gts - 1, self.size))
        self.size = size

    def sync(self) -> None:
        """Make what it holds durable."""
        assert self.file is not None, "only an open segment is synced"
        os.fdatasync(self.file)

    def close(self) -> None:
        """Let go of the file."""
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def remove(self) -> None:
        """Delete the file, durably."""
        self.close()
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    def discard(self) -> None:
        """Delete the file as far as that is possible; it does not count."""
        self.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def settle(self) -> None:
        """Give a staged file its name, durably."""
        path = self.path.with_suffix(SUFFIX)
        os.replace(self.path, path)
        self.path = path
        sync_folder(path.parent)

    def frames(self, offset: int = 0) -> Iterator[tuple[list[JournalEntry], int]]:
        """The entries of each frame from an offset on, and where it ends; up to the first that is not whole."""
        with open(self.path, "rb") as file:
            file.seek(offset)
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, crc = _HEAD.unpack(head)
                body = file.read(length)
                if len(body) < length or not length or crc32(body) != crc:
                    return
                offset += _HEAD.size + length
                try:
                    entries = _DECODER.decode(body)
                except msgspec.MsgspecError as error:
                    raise JournalError(f"{self.path} holds what this version cannot read ({error})") from None
                yield entries, offset

    def entries_above(self, after: Timestamp) -> Iterator[list[JournalEntry]]:
        """What it holds above a timestamp, frame by frame, complete or with an error."""
        at = self.places[max(1, bisect_right(self.places, after, key=lambda place: place.after)) - 1].offset
        for entries, end in self.frames(at):
            yield [entry for entry in entries if entry.gts > after]
            at = end
        if at < self.size:
            raise self.damage(at)

    def is_torn(self, at: int, index: int) -> bool:
        """Whether a crash can have left what is at `at`, where the frame of the entry `index` must be."""
        data = self.path.read_bytes()
        following = _good_frame_behind(data, at, index)
        return following is None or _has_lost_sector(data, at, following)

    def cut(self) -> None:
        """Cut off what does not belong to it."""
        os.truncate(self.path, self.size)

    def damage(self, at: int) -> JournalError:
        """What to raise, with what the operator has to do."""
        return JournalError(
            f"{self.path} is damaged at byte {at}: nothing was changed; move the node's data directory away and start "
            f"it with --rejoin"
        )


def _good_frame_behind(data: bytes, at: int, index: int) -> int | None:
    """Where the next frame begins that can only be one of this journal: with entries behind `index`."""
    for begin in range(at + 1, len(data) - _HEAD.size):
        length, crc = _HEAD.unpack_from(data, begin)
        body = begin + _HEAD.size
        if not 0 < length <= len(data) - body or crc32(memoryview(data)[body : body + length]) != crc:
            continue
        with suppress(msgspec.MsgspecError):
            entries = _DECODER.decode(memoryview(data)[body : body + length])
            if entries and entries[0].index > index:
                return begin
    return None


def _has_lost_sector(data: bytes, at: int, end: int) -> bool:
    """Whether something between is zeros from one boundary of a sector to the next."""
    begins = (at, *range(at - at % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES))
    return any(
        not data[begin : min(end, begin - begin % SECTOR_BYTES + SECTOR_BYTES)].strip(b"\0") for begin in begins
    )


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, durably."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir()
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
