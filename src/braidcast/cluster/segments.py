"""The format of a log's segments, and what a crash may have left of the last one.

A segment is a file named after the number of its first frame. It appears whole, by a rename, and grows at its end:

    head    magic, version, number of the first frame, where its checkpoint ends (0: it has none), checksum of these;
            the id of the log, and its checksum
    frames  each one: magic, length, number, checksum of the payload, checksum of all these; payload; end mark
    zeros   written ahead, up to the end of the file

A commit is one frame and begins when the one before is durable, so a crash can spoil only the very last frame. A disk
writes whole sectors, in any order, and what it has not written is zeros or lies beyond the end of the file. Hence a
bad frame is *torn*, nobody was told of it, and it may be cut off, if there is nothing behind it and

- only zeros follow some point inside it (the end mark is not zero, so they never follow one inside a whole frame), or
- a whole sector of it is zeros.

Any other bad frame was durable once and is damage, which is never passed over. The length has a checksum of its own
(the header's) because all this rests on where a frame ends. One damage goes unseen, as in etcd: in the last commit,
if that has 512 zeros of its own as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self
from zlib import crc32

from braidcast.core.errors import BraidcastError

VERSION: Final = 2
SECTOR_BYTES: Final = 512

_MAGIC: Final = b"braidlog"
_HEAD: Final = struct.Struct("<8sIQQ")
_ID: Final = struct.Struct("<16s")
_FRAME_MAGIC: Final = b"\xf7CMT"
_FRAME: Final = struct.Struct("<4sQQI")
_CHECKSUM: Final = struct.Struct("<I")
_END_MARK: Final = b"\xa5"
_COMMON_HEAD_BYTES: Final = _HEAD.size + _CHECKSUM.size
"""All versions begin so."""
HEAD_BYTES: Final = _COMMON_HEAD_BYTES + _ID.size + _CHECKSUM.size
NO_ID: Final = bytes(_ID.size)
FRAME_HEAD_BYTES: Final = _FRAME.size + _CHECKSUM.size


class LogCorrupt(BraidcastError):
    """Something that was durable is damaged or gone."""


class LogForeign(BraidcastError):
    """A file that is not of this log, or is of a newer version of it."""


def damage(path: Path, at: int, what: str) -> LogCorrupt:
    """What to raise, with what the operator has to do."""
    return LogCorrupt(
        f"{path} is damaged at byte {at}: {what}; do not delete it: stop, copy the directory, and bring this node back "
        "with `braidcast node --rejoin` after its data directory was moved away"
    )


def head(first: int, checkpoint_end: int, log_id: bytes = NO_ID) -> bytes:
    """The beginning of a segment."""
    packed = _HEAD.pack(_MAGIC, VERSION, first, checkpoint_end)
    return b"".join((packed, _CHECKSUM.pack(crc32(packed)), log_id, _CHECKSUM.pack(crc32(log_id))))


def frame(number: int, payload: bytes) -> bytes:
    """One commit."""
    packed = _FRAME.pack(_FRAME_MAGIC, len(payload), number, crc32(payload))
    return b"".join((packed, _CHECKSUM.pack(crc32(packed)), payload, _END_MARK))


class _FrameHead(NamedTuple):
    magic: bytes
    length: int
    number: int
    payload_checksum: int

    @property
    def frame_bytes(self) -> int:
        return FRAME_HEAD_BYTES + self.length + len(_END_MARK)


class Segment(NamedTuple):
    """A segment as it was read."""

    path: Path
    first: int
    """The number of its first frame."""
    checkpoint_end: int
    """Its frames before this are a checkpoint, which replaces all segments before; 0: it has none."""
    log_id: bytes
    """Which log it is of."""
    data: bytes

    @classmethod
    def parse(cls, path: Path, data: bytes) -> Self:
        """`data` may be the whole file or only its head."""
        whole = len(data) >= _COMMON_HEAD_BYTES and _is_sealed(data, 0, _HEAD.size) and data.startswith(_MAGIC)
        if not whole:
            raise damage(path, 0, "this is not the head of a segment")
        _, version, first, checkpoint_end = _HEAD.unpack_from(data)
        if version != VERSION:
            raise LogForeign(f"{path} has format {version}, this braidcast knows format {VERSION}: use the one that "
                             "wrote it or a newer one")  # fmt: skip
        if len(data) < HEAD_BYTES or not _is_sealed(data, _COMMON_HEAD_BYTES, _ID.size):
            raise damage(path, 0, "this is not the head of a segment")
        (log_id,) = _ID.unpack_from(data, _COMMON_HEAD_BYTES)
        return cls(path, first, checkpoint_end, log_id, data)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Where each good frame ends and its payload, up to the end of the log or the first bad one."""
        at, number = HEAD_BYTES, self.first
        while (found := self._frame_head(at)) is not None and found.number == number:
            end = at + found.frame_bytes
            payload = self.data[at + FRAME_HEAD_BYTES : end - 1]
            # The last byte may not have been written. All the rest was, so it costs nothing to keep the commit.
            if crc32(payload) != found.payload_checksum or self.data[end - 1 : end] not in (_END_MARK, b"\0"):
                return
            at, number = end, number + 1
            yield at, payload

    def torn_bytes(self, at: int, number: int, *, is_last: bool) -> int:
        """How much to cut off behind the last good frame, which ends at `at`; `number` would be the next."""
        content_end = at + len(self.data[at:].rstrip(b"\0"))
        if content_end == at and at >= self.checkpoint_end:
            return 0
        found = self._frame_head(at)
        if found is not None and found.number != number:
            raise damage(self.path, at, f"frame {found.number} is where frame {number} must be")
        if not is_last or at < self.checkpoint_end:
            raise damage(self.path, at, f"frame {number} is bad")
        if found is not None:
            end = at + found.frame_bytes
            is_followed = content_end > end
        else:
            end = at + FRAME_HEAD_BYTES
            is_followed = self._has_frame_behind(at, number)
        if is_followed or not (content_end < end or self._has_lost_sector(at, end)):
            raise damage(self.path, at, f"frame {number} is bad and was not torn by a crash")
        return content_end - at

    def _frame_head(self, at: int) -> _FrameHead | None:
        """The header of a frame at `at`, if it is good."""
        if at + FRAME_HEAD_BYTES > len(self.data) or not _is_sealed(self.data, at, _FRAME.size):
            return None
        found = _FrameHead(*_FRAME.unpack_from(self.data, at))
        return found if found.magic == _FRAME_MAGIC else None

    def _has_frame_behind(self, at: int, number: int) -> bool:
        """Whether the header of any later frame comes after a header that does not say where its frame ends."""
        while (at := self.data.find(_FRAME_MAGIC, at + 1)) >= 0:
            if (found := self._frame_head(at)) is not None and found.number > number:
                return True
        return False

    def _has_lost_sector(self, at: int, end: int) -> bool:
        # Of the first sector only what the frame has of it; of the last one all, for behind the frame are only zeros.
        first_boundary = at - at % SECTOR_BYTES + SECTOR_BYTES
        begins = (at, *range(first_boundary, end, SECTOR_BYTES))
        return any(
            not self.data[begin : begin - begin % SECTOR_BYTES + SECTOR_BYTES].strip(b"\0") for begin in begins
        )


def _is_sealed(data: bytes, at: int, size: int) -> bool:
    """Whether `size` bytes at `at` are followed by their checksum."""
    (checksum,) = _CHECKSUM.unpack_from(data, at + size)
    return bool(crc32(data[at : at + size]) == checksum)
