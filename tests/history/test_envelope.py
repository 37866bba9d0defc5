"""From messages to columns by the names of their attributes."""

from __future__ import annotations

from typing import Any

from braidcast.core.application import Delivered, Restored
from braidcast.core.client import MessageId, Multicast
from braidcast.core.message import message
from braidcast.history.columns import COLUMNS
from braidcast.history.envelope import fill, reader, reads

M = Multicast(MessageId(100, 1, 2), (0, 1), b"payload")
OTHER = MessageId(100, 1, 3)


@message
class Known:
    id: MessageId
    body: Multicast | None = None


@message
class NewState:
    ballot: int
    known: tuple[Known, ...]
    dropped: tuple[MessageId, ...]
    stable: tuple[tuple[int, int], ...] = ((1, 2),)


@message
class Propose:
    body: Multicast | None
    lts: int


@message
class Odd:
    view: str
    lts: tuple[int, ...]
    dest: str
    id: str


def filled(what: Any) -> dict[str, Any]:
    row: list[Any] = [None] * len(COLUMNS)
    fill(row, what)
    return {column.name: value for column, value in zip(COLUMNS, row, strict=True) if value is not None}


def test_attributes_fill_the_columns_of_their_names() -> None:
    assert filled(Restored(5, b"state")) == {"kind": "restored", "gts": 5}


def test_the_message_inside_fills_id_destinations_and_batch() -> None:
    batch = Multicast(M.id, M.dest, b"", 1, 0, 4)
    about = {"client": 100, "session": 1, "seq": 2, "dest": (0, 1)}
    assert filled(Delivered(M, 7)) == {"kind": "delivered", "gts": 7} | about
    assert filled(Propose(batch, 3)) == {"kind": "propose", "lts": 3, "batch_first": 0, "batch_count": 4} | about
    assert filled(Propose(None, 3)) == {"kind": "propose", "lts": 3}


def test_tuples_of_messages_fill_ids_and_what_is_dropped_has_a_column_of_its_own() -> None:
    state = NewState(4, (Known(M.id), Known(OTHER, M)), (OTHER,))
    assert filled(state) == {"kind": "new_state", "ballot": 4, "ids": [M.id, OTHER], "dropped": [OTHER]}


def test_values_of_another_type_than_the_column_are_left_out() -> None:
    assert filled(Odd("v1", (1, 2), "everywhere", "x")) == {"kind": "odd"}


def test_readers_find_the_same_values_in_messages() -> None:
    state = NewState(4, (Known(M.id), Known(OTHER)), (OTHER,))
    assert reader(NewState, "ids")(state) == (M.id, OTHER)
    assert reader(NewState, "dropped")(state) == (OTHER,)
    assert reader(Delivered, "id")(Delivered(M, 7)) == M.id
    assert reader(Delivered, "dest")(Delivered(M, 7)) == (0, 1)
    assert reader(Propose, "id")(Propose(None, 3)) is None
    assert reader(Restored, "lts")(Restored(5, b"")) is None
    assert reads(Delivered, "id")
    assert not reads(Restored, "id")
