"""Frames: the unit in which bytes travel. No I/O.

1. A frame is a header and a body. The header holds two magic bytes, the version of the format, the length of the body,
   the number of the frame in its connection, and a checksum over all of this and the body.
2. Frames of one direction of a connection are numbered from 0 without a gap: one that comes twice, or is replayed, or
   is missing ends the connection.
3. A body of no bytes says only that its sender is alive.
4. Whatever is wrong with a frame ends the connection (`FrameError`); nothing after it is looked at.
"""

from __future__ import annotations

import struct
from zlib import crc32

from braidcast.core.errors import BraidcastError

MAGIC = b"bc"
VERSION = 1
_HEADER = struct.Struct("<2sBxIII")
_CHECKED = struct.Struct("<2sBxII")
HEADER_BYTES = _HEADER.size
NUMBERS = 1 << 32
"""Frame numbers begin again after so many."""


class FrameError(BraidcastError):
    """The other side sent what is no frame, or not the next one."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        """In few words and without numbers: what it is counted as."""
        self.bodies: list[bytes] = []
        """Of the good frames that came with it, before it."""


def frame(number: int, body: bytes) -> bytes:
    """`body` as the frame of that number."""
    number %= NUMBERS
    checked = _CHECKED.pack(MAGIC, VERSION, len(body), number)
    return b"".join((checked, crc32(body, crc32(checked)).to_bytes(4, "little"), body))


class FrameReader:
    """Cuts a stream of bytes, in whatever pieces it arrives, into the bodies of frames."""

    def __init__(self, body_bytes_max: int) -> None:
        self.body_bytes_max = body_bytes_max
        self.number = 0
        """Of the next frame."""
        self.buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies of the frames that are complete now; the same ones however the stream is cut."""
        if not self.buffer:
            bodies, end = self._cut(data)
            if end < len(data):
                self.buffer += memoryview(data)[end:]
            return bodies
        self.buffer += data
        if not self._holds_a_frame():
            return []
        bodies, end = self._cut(self.buffer)
        del self.buffer[:end]
        return bodies

    def _holds_a_frame(self) -> bool:
        if len(self.buffer) < HEADER_BYTES:
            return False
        return len(self.buffer) >= HEADER_BYTES + self._length_at(self.buffer, 0)

    def _length_at(self, data: bytes | bytearray, at: int) -> int:
        magic, version, length, number, _ = _HEADER.unpack_from(data, at)
        if magic != MAGIC:
            raise FrameError("foreign frame", "not a frame of braidcast")
        if version != VERSION:
            what = f"frame format {version}, this is {VERSION}: run the same version on all sides"
            raise FrameError("frame of another format", what)
        if length > self.body_bytes_max:
            what = f"a frame of {length:,} bytes; at most {self.body_bytes_max:,} are taken"
            raise FrameError("frame too large", what)
        if number != self.number:
            raise FrameError("frame out of turn", f"frame number {number} instead of {self.number}")
        return int(length)

    def _cut(self, data: bytes | bytearray) -> tuple[list[bytes], int]:
        bodies: list[bytes] = []
        try:
            return bodies, self._cut_into(bodies, data)
        except FrameError as error:
            error.bodies = bodies
            raise

    def _cut_into(self, bodies: list[bytes], data: bytes | bytearray) -> int:
        at, size = 0, len(data)
        while size - at >= HEADER_BYTES:
            begin = at + HEADER_BYTES
            end = begin + self._length_at(data, at)
            if end > size:
                break
            body = bytes(data[begin:end])
            crc = crc32(body, crc32(data[at : begin - 4]))
            if crc != int.from_bytes(data[begin - 4 : begin], "little"):
                raise FrameError("frame with a wrong checksum", "a frame with a wrong checksum")
            self.number = (self.number + 1) % NUMBERS
            if body:
                bodies.append(body)
            at = end
        return at
