"""Pieces: how what may be of any size travels in messages that are not.

1. Whoever sends a transfer cuts it (`cut`) and numbers the pieces: each message has `part`, one of `parts`.
2. A piece holds at most `chunk_entries` items (messages, ids, numbers, rows of the dedup table) and at most about
   `chunk_bytes` of them, unless a single item is larger: that one travels alone. So a message of the protocol is at
   most `chunk_bytes`, or one client's message, plus its fixed fields, however much there is.
3. Whoever receives it does nothing before it has all pieces (`Pieces`), and never puts together those of two transfers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from braidcast.core.client import Multicast
from braidcast.protocols.parts.dedup import SessionState
from braidcast.protocols.whitebox.messages import Known
from braidcast.protocols.whitebox.options import Options

ITEM_BYTES = 160
"""More than anything that is cut takes as MessagePack, but for what `size_of` adds."""
NUMBER_BYTES = 10


class Piece(Protocol):
    """A message that is one of several."""

    @property
    def part(self) -> int: ...
    @property
    def parts(self) -> int: ...


P = TypeVar("P", bound=Piece)


class Pieces(Generic[P]):
    """What has come of a transfer."""

    __slots__ = ("held", "transfer")

    def __init__(self) -> None:
        self.held: dict[int, P] = {}
        self.transfer: tuple[int, ...] = ()
        """What tells it from every other one; nothing while nothing is here."""

    def __len__(self) -> int:
        return len(self.held)

    def add(self, transfer: tuple[int, ...], piece: P) -> list[P]:
        """All pieces in order, if this was the last one of its transfer that was missing; otherwise nothing yet."""
        if transfer != self.transfer:
            self.transfer, self.held = transfer, {}
        self.held[piece.part] = piece
        if len(self.held) < piece.parts:
            return []
        whole = [self.held[part] for part in range(piece.parts)]
        self.transfer, self.held = (), {}
        return whole


def can_be(piece: Piece) -> bool:
    """Whether there can be such a piece."""
    return 0 <= piece.part < piece.parts


def joined(pieces: Iterable[Any], field: str) -> tuple[Any, ...]:
    """What the pieces hold together in that field."""
    return tuple([item for piece in pieces for item in getattr(piece, field)])


def cut(options: Options, **contents: Iterable[Any]) -> Iterator[dict[str, tuple[Any, ...]]]:
    """The contents of these fields, one field after the other, as pieces; at least one. Nothing is cut ahead."""
    held: dict[str, list[Any]] = {field: [] for field in contents}
    count = size = 0
    for field, items in contents.items():
        for item in items:
            more = size_of(item)
            if count and (count >= options.chunk_entries or size + more > options.chunk_bytes):
                yield {name: tuple(some) for name, some in held.items()}
                held = {name: [] for name in contents}
                count = size = 0
            held[field].append(item)
            count += 1
            size += more
    yield {name: tuple(some) for name, some in held.items()}


def size_of(item: Any) -> int:
    """About how many bytes an item takes in a message; no fewer if it is not very small."""
    kind = type(item)
    if kind is Known:
        payload = len(item.body.payload) if item.body is not None else 0
        return ITEM_BYTES + 2 * NUMBER_BYTES * len(item.dest) + payload
    if kind is Multicast:
        return ITEM_BYTES + NUMBER_BYTES * len(item.dest) + len(item.payload)
    if kind is SessionState:
        return ITEM_BYTES + 2 * NUMBER_BYTES * len(item.delivered)
    if kind is bytes:
        return len(item)
    if isinstance(item, tuple):
        return NUMBER_BYTES * (1 + sum([1 + len(x) if isinstance(x, tuple) else 1 for x in item]))
    return NUMBER_BYTES


def slices(state: bytes, size: int) -> list[bytes]:
    """`state` in slices of `size` bytes."""
    return [state[at : at + size] for at in range(0, len(state), size)]
