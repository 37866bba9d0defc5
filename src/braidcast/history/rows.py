"""Events read back from Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from braidcast.core.client import MessageId
from braidcast.history.columns import COLUMNS, Row
from braidcast.history.event import CRASH, DELIVER, MULTICAST, REPLY, RESTART, SEND, START, Event
from braidcast.history.manifest import HistoryError, Manifest

_ROW_INTS = (
    "about_group", "ballot", "cballot", "vector", "lts", "gts", "prev_gts", "clock", "view", "index", "acks",
    "ts_init", "ts_final", "instance", "barrier", "tau", "omega", "payload_digest",
)  # fmt: skip
"""The columns of `Row` from `group` on, in its order."""
BARE = (START, CRASH, RESTART)
"""Events that may be about nothing."""
NEEDED = {
    (MULTICAST, "multicast"): "id", (DELIVER, "delivered"): "id", (REPLY, "reply"): "id", (SEND, "refused"): "id",
    (DELIVER, "restored"): "gts", (RESTART, "resumed"): "gts",
}  # fmt: skip
"""What core's own events say always, whatever the protocol."""


def events_of(table: pa.Table, manifest: Manifest) -> Iterator[Event]:
    """The events of a table, with a `Row` as `what`."""
    columns: dict[str, list[Any]] = {}
    for column in COLUMNS:
        array = table.column(column.name)
        if column.always and array.null_count:
            raise HistoryError(f"column {column.name} has holes: restore the file or record the run again")
        columns[column.name] = array.to_pylist()
    for name in ("run", "protocol"):
        expected = getattr(manifest, name)
        if other := set(columns[name]) - {expected}:
            raise HistoryError(f"it is of {name} {min(other)!r}, but the manifest is of {expected!r}")
    whats = zip(
        columns["kind"],
        map(_id, columns["client"], columns["session"], columns["seq"]),
        map(_tuple, columns["dest"]),
        columns["batch_first"],
        columns["batch_count"],
        map(_tuple, columns["repeated"]),
        map(_ids, columns["ids"]),
        map(_ids, columns["dropped"]),
        *(map(_tuple, columns[name]) if name == "vector" else columns[name] for name in _ROW_INTS),
        strict=True,
    )
    heads = zip(
        columns["t_mono"], columns["t_wall"], columns["node"], columns["incarnation"], columns["event"],
        columns["peer"], columns["role"], strict=True,
    )  # fmt: skip
    for (t_mono, t_wall, node, incarnation, event, peer, role), what in zip(heads, whats, strict=True):
        row = None if what[0] is None else Row(*what)
        if row is None:
            if event not in BARE or what[1] is not None:
                raise HistoryError(f"{_article(event)} event of node {node} has no kind: record the run again")
        elif (needed := NEEDED.get((event, row.kind))) is not None and getattr(row, needed) is None:
            lacks = "message id" if needed == "id" else needed
            raise HistoryError(f"{_article(event)} event of node {node} has no {lacks}: record the run again")
        yield Event(t_mono, t_wall, node, incarnation, event, peer, row, role)


def _id(client: int | None, session: int | None, seq: int | None) -> MessageId | None:
    if client is None and session is None and seq is None:
        return None
    if client is None or session is None or seq is None:
        raise HistoryError(f"a message id has holes ({client}, {session}, {seq}): record the run again")
    return MessageId(client, session, seq)


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    if values is None:
        return None
    if None in values:
        raise HistoryError("a list of numbers has holes: record the run again")
    return tuple(values)


def _ids(values: list[dict[str, int]] | None) -> tuple[MessageId, ...] | None:
    if values is None:
        return None
    found = tuple([_id(v["client"], v["session"], v["seq"]) for v in values])
    ids = tuple([id for id in found if id is not None])
    if len(ids) < len(found):
        raise HistoryError("a list of message ids has holes: record the run again")
    return ids


def _article(event: str) -> str:
    return f"{'an' if event[:1] in 'aeiou' else 'a'} {event}"
