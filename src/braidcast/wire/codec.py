"""The codec: messages to bytes and back, as MessagePack by msgspec.

A frame's body is a list of items (sender, receivers, message). What may come in is said when a codec is made: a timer
or a word of the driver is no message that a peer may send, and decodes as little as garbage does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from braidcast.core.errors import BraidcastError
from braidcast.core.topology import Pid, Pids

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that it cannot read; text and depth have errors of their own."""

Item = tuple[Pid, Pids, Any]
"""Who says it, to which of the receiver's processes, and what."""


ARRAY_BYTES = 5
"""What the header of a list takes in MessagePack, whatever its length."""


def _array_of(pieces: Sequence[bytes]) -> bytes:
    """A list of what is encoded already."""
    return b"".join((b"\xdd", len(pieces).to_bytes(4, "big"), *pieces))


class Undecodable(BraidcastError):
    """Bytes that are none of the messages that may come here."""


class Codec:
    """Encodes anything declared with `@message`; decodes the kinds it was made for."""

    def __init__(self, kinds: Iterable[type]) -> None:
        self.kinds = tuple(sorted(set(kinds), key=lambda kind: kind.__name__))
        union: Any = reduce(or_, self.kinds) if self.kinds else None
        self.union = union
        self._items = msgspec.msgpack.Decoder(list[tuple[int, tuple[int, ...], union]])
        self._one = msgspec.msgpack.Decoder(union)
        encoder = msgspec.msgpack.Encoder()
        self.encode = encoder.encode

    def bodies(self, items: Sequence[Item], bytes_max: int) -> Iterator[bytes]:
        """The items, in order, as bodies of that size at most: one if that will do. A single item may be larger."""
        body = self.encode(items)
        if len(body) <= bytes_max or len(items) == 1:
            yield body
            return
        del body
        pieces: list[bytes] = []
        size = ARRAY_BYTES
        for item in items:
            piece = self.encode(item)
            if pieces and size + len(piece) > bytes_max:
                yield _array_of(pieces)
                pieces, size = [], ARRAY_BYTES
            pieces.append(piece)
            size += len(piece)
        yield _array_of(pieces)

    def decode(self, body: bytes) -> Sequence[Item]:
        """The items of a frame."""
        try:
            return self._items.decode(body)
        except UNREADABLE as error:
            raise Undecodable(f"a frame that cannot be read: {error}") from None

    def decode_one(self, body: bytes) -> Any:
        """A single message."""
        try:
            return self._one.decode(body)
        except UNREADABLE as error:
            raise Undecodable(f"a message that cannot be read: {error}") from None
