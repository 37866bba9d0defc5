"""From the message of any protocol to the columns of an event, by the names of its attributes.

No protocol is imported. What a class can fill is worked out once per class:

1. An attribute with the name of a column fills it, if its value has the column's type.
2. `id` fills client, session and seq. A message inside (`multicast`, `body`, `m` or `message`) fills the id, the
   destinations and the batch that the outer one does not have.
3. A tuple of messages with ids, or of ids, fills `ids`, unless it is called `dropped`: then it fills `dropped`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple
from zlib import crc32

from braidcast.core.client import MessageId
from braidcast.core.message import field_names, is_message, snake_name
from braidcast.history.columns import COLUMNS, GROUPS, INT, INTS, Row

PLACE: Final = {column.name: place for place, column in enumerate(COLUMNS)}
INSIDE: Final = ("multicast", "body", "m", "message")
"""Attributes that may hold the message that the outer one is about."""
FROM_INSIDE: Final = ("id", "dest", "batch_first", "batch_count")
_FROM_EVENT: Final = frozenset(
    ("run", "protocol", "node", "incarnation", "seqno", "t_mono", "t_wall", "event", "peer", "kind")
)
_INTS: Final = {"group": PLACE["about_group"]} | {
    c.name: PLACE[c.name]
    for c in COLUMNS
    if c.kind == INT
    and c.name not in _FROM_EVENT
    and c.name not in ("group", "about_group", "client", "session", "seq")
}
_LISTS: Final = {c.name: PLACE[c.name] for c in COLUMNS if c.kind in (INTS, GROUPS)}
_ID, _KIND, _BATCH = PLACE["client"], PLACE["kind"], PLACE["batch_first"]
_IDS, _DROPPED, DROPPED = PLACE["ids"], PLACE["dropped"], "dropped"


class _Plan(NamedTuple):
    """What a class of messages can fill."""

    kind: str
    has_id: bool
    ints: tuple[tuple[int, str], ...]
    lists: tuple[tuple[int, str], ...]
    inside: tuple[str, ...]
    others: tuple[str, ...]
    """Attributes that may hold a tuple of messages."""


@cache
def _plan(kind: type) -> _Plan:
    names = _fields(kind)
    own = [name for name in names if name in _INTS or name in _LISTS or name == "id"]
    return _Plan(
        snake_name(kind),
        "id" in names,
        tuple((_INTS[name], name) for name in names if name in _INTS),
        tuple((_LISTS[name], name) for name in names if name in _LISTS),
        tuple(name for name in names if name in INSIDE),
        tuple(name for name in names if name not in own and name not in INSIDE),
    )


def _fields(kind: type) -> tuple[str, ...]:
    try:
        return field_names(kind)
    except TypeError:
        return ()


def fill(row: list[Any], what: Any) -> None:
    """Fill the columns of `row` that come from `what`; `row` has one place per column."""
    if isinstance(what, Row):
        _fill_from_row(row, what)
        return
    kind: type = type(what)
    plan = _plan(kind)
    row[_KIND] = plan.kind
    _fill_fields(row, what, plan)
    for name in plan.inside:
        value = getattr(what, name)
        if is_message(value):
            _fill_inside(row, value)
    for name in plan.others:
        value = getattr(what, name)
        if type(value) is tuple and value:
            ids = [found for found in map(_id_of, value) if found is not None]
            if ids:
                place = _DROPPED if name == DROPPED else _IDS
                row[place] = (row[place] or []) + ids
    if not row[_BATCH + 1]:
        row[_BATCH] = row[_BATCH + 1] = None


def digest_of(what: Any) -> int | None:
    """CRC-32 of the payload of a message, or of the message that is delivered; None if there is none."""
    payload = getattr(getattr(what, "multicast", what), "payload", None)
    return crc32(payload) if type(payload) is bytes else None


def _fill_fields(row: list[Any], what: Any, plan: _Plan) -> None:
    if plan.has_id and isinstance(what.id, MessageId):
        row[_ID : _ID + 3] = what.id
    for place, name in plan.ints:
        value = getattr(what, name)
        if isinstance(value, int):
            row[place] = value
    for place, name in plan.lists:
        value = getattr(what, name)
        if value and type(value) is tuple and all(isinstance(item, int) for item in value):
            row[place] = value


def _fill_inside(row: list[Any], inner: Any) -> None:
    names = _fields(type(inner))
    if row[_ID] is None and "id" in names and isinstance(inner.id, MessageId):
        row[_ID : _ID + 3] = inner.id
    for name in FROM_INSIDE[1:]:
        if name in names and row[PLACE[name]] is None:
            row[PLACE[name]] = getattr(inner, name)


def _fill_from_row(row: list[Any], what: Row) -> None:
    row[_KIND] = what.kind
    if what.id is not None:
        row[_ID : _ID + 3] = what.id
    row[_IDS], row[_DROPPED] = what.ids, what.dropped
    for names in (_INTS, _LISTS):
        for name, place in names.items():
            row[place] = getattr(what, name)


def _id_of(value: Any) -> MessageId | None:
    if isinstance(value, MessageId):
        return value
    if not is_message(value):
        return None
    kind: type = type(value)
    found: MessageId | None = reader(kind, "id")(value)
    return found


def kind_name(kind: type | str) -> str:
    """The name of a kind of message; a `Row` is known by its `kind` already."""
    return kind if isinstance(kind, str) else _plan(kind).kind


def _nothing(_: Any) -> None:
    return None


@cache
def reader(kind: type | str, name: str) -> Callable[[Any], Any]:
    """How to get the column `name` from a `what` of this kind; what it has not got is None."""
    if isinstance(kind, str):
        return attrgetter(name)
    if name == "ids":
        return _ids_of
    names = _fields(kind)
    if name in names:
        return attrgetter(name)
    inside = [attrgetter(f"{field}.{name}") for field in INSIDE if field in names]
    if name in FROM_INSIDE and inside:
        return lambda what: _inside(what, inside)
    return _nothing


def _inside(what: Any, readers: Iterable[Callable[[Any], Any]]) -> Any:
    for read in readers:
        try:
            value = read(what)
        except AttributeError:  # the message inside was left out, or is of another kind
            continue
        if value is not None:
            return value
    return None


def _ids_of(what: Any) -> tuple[MessageId, ...] | None:
    kind: type = type(what)
    found: list[MessageId] = []
    for name in _plan(kind).others:
        value = getattr(what, name)
        if type(value) is tuple and name != DROPPED:
            found += [id for id in map(_id_of, value) if id is not None]
    return tuple(found) or None


def reads(kind: type | str, name: str) -> bool:
    """Whether a `what` of this kind can have the column `name` at all."""
    return reader(kind, name) is not _nothing
