"""Several messages of one client in one payload. Nodes never look into it.

A payload with a `batch_count` is a MessagePack array of so many byte strings. What is none counts as one message, as
it is: a client that does not keep to this must not stop those who read what it sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from braidcast.wire.codec import UNREADABLE
from braidcast.wire.service import JournalEntry

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode
BATCH_MARGIN_BYTES, MESSAGE_MARGIN_BYTES = 5, 5
"""What a batch takes besides its messages at most, and each message besides itself."""


def packed(messages: Sequence[bytes]) -> bytes:
    """Messages as the payload of a batch."""
    return _encode(messages)


def messages_of(entry: JournalEntry) -> Iterator[tuple[int, bytes]]:
    """The messages that an entry brings, with their offsets: those that an earlier batch has brought are left out."""
    messages = [entry.payload]
    if entry.batch_count:
        try:
            found = _decode(entry.payload)
        except UNREADABLE:
            found = []
        if len(found) == entry.batch_count:
            messages = found
    if not entry.repeated:
        yield from enumerate(messages)
        return
    repeated = set(entry.repeated)
    if len(repeated) < entry.batch_count:  # or all of it came before, however it was packed
        yield from [(offset, message) for offset, message in enumerate(messages) if offset not in repeated]
