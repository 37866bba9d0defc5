"""Suspects judged by the definitions themselves: `braidcast.properties` on the part of a history that is about them.

A *slice* is such a part: the events of the suspects, and what says for the whole history which log they are in and how
far each log goes. What a property states of one message it finds in the slice of that message as in the whole, and so
says the same, word for word. The slices of a history:

- `MESSAGES` and up: suspect messages, many at once and in several slices if there are very many;
- `CONFLICTS`: messages that share a gts; `BATCHES`: the messages of sessions whose batches overlap;
- `NODES` and down: all deliveries of one process;
- `WALKS`: what is judged by walking along everything that happened, for histories that record it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from braidcast.core.client import MessageId
from braidcast.history.event import Event, History
from braidcast.history.manifest import Manifest
from braidcast.history.rows import events_of
from braidcast.history.schema import SCHEMA
from braidcast.properties.check import PROPERTIES
from braidcast.properties.view import View
from braidcast.properties.violation import Violation
from braidcast.spark.reading import STREAM_SHIFT

MESSAGES: Final = 0
CONFLICTS, BATCHES, WALKS, NODES = -1, -2, -3, -10
"""Of processes from here down: the slice of process p is `NODES` - p."""
MESSAGES_PER_SLICE: Final = 20_000

OF_MESSAGES: Final = (
    "delivered_was_multicast", "delivered_as_multicast", "delivered_where_addressed", "no_duplicates",
    "replies_are_true", "one_gts_per_message", "no_gaps", "agreement", "termination",
)  # fmt: skip
OF_CONFLICTS: Final = ("one_message_per_gts",)
OF_BATCHES: Final = ("batch_messages_once",)
OF_NODES: Final = ("gts_increases",)
OF_ORDER: Final = ("one_order", "group_logs_are_prefixes")
"""Judged by `order`."""
OF_WALKS: Final = tuple(
    name for name in PROPERTIES if name not in (*OF_MESSAGES, *OF_CONFLICTS, *OF_BATCHES, *OF_NODES, *OF_ORDER)
)
PARTIAL_TOO: Final = frozenset((
    "delivered_as_multicast", "delivered_where_addressed", "one_gts_per_message", "one_message_per_gts",
    "one_lts_per_ballot", "one_message_per_lts", "one_gts_decided", "genuineness", "transfer_is_genuine",
))  # fmt: skip
"""What is there breaks these whatever is missing; all others a missing file could break, or make up for."""


@dataclass(frozen=True)
class Known:
    """What the tasks know of a history."""

    manifest: Manifest
    judged: frozenset[str]
    """The properties that apply to it."""


def properties_of(task: int) -> tuple[str, ...]:
    """The properties that a slice is judged by."""
    return {CONFLICTS: OF_CONFLICTS, BATCHES: OF_BATCHES, WALKS: OF_WALKS}.get(
        task, OF_MESSAGES if task >= MESSAGES else OF_NODES
    )


def judge_slices(known: Mapping[int, Known]) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """What `applyInArrow` calls with each slice."""

    def judge(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        history, task = key[0].as_py(), key[1].as_py()
        return violations_table(history, slice_violations(known[history], task, table))

    return judge


def slice_violations(known: Known, task: int, table: pa.Table) -> Iterator[Violation]:
    """The violations that a slice shows of what it was made for."""
    view = View(History(known.manifest, events_in_order(table, known.manifest)))
    about = _suspects(table) if task >= MESSAGES else None
    for name in properties_of(task):
        if name in known.judged:
            for violation in PROPERTIES[name].violations(view):
                if about is None or violation.message in about:
                    yield violation


def events_in_order(table: pa.Table, manifest: Manifest) -> list[Event]:
    """The events of a slice as `read_history` has them; one that is in it for two reasons counts once."""
    table = table.take(pa.array(np.unique(np.asarray(table["position"]), return_index=True)[1]))
    streams = np.asarray(table["position"]) >> STREAM_SHIFT
    ends = [*np.flatnonzero(np.diff(streams)) + 1, len(table)]
    parts, start = [], 0
    for end in ends:
        parts.append(events_of(table.slice(start, int(end) - start).select(SCHEMA.names), manifest))
        start = int(end)
    return list(parts[0]) if len(parts) == 1 else list(heapq.merge(*parts, key=lambda event: event.t_mono))


def _suspects(table: pa.Table) -> set[MessageId]:
    rows = table.filter(table["suspect"]).select(["client", "session", "seq"]).to_pylist()
    return {MessageId(row["client"], row["session"], row["seq"]) for row in rows}


VIOLATIONS: Final = pa.schema([
    ("history", pa.int64()), ("run", pa.string()), ("property", pa.string()), ("group", pa.int64()),
    ("node", pa.int64()), ("client", pa.int64()), ("session", pa.int64()), ("seq", pa.int64()),
    ("expected", pa.string()), ("seen", pa.string()),
])  # fmt: skip


def violations_table(history: int, violations: Iterator[Violation]) -> pa.Table:
    """Violations as rows of the dataset `verdicts`."""
    rows = [
        (history, v.run, v.property, v.group, v.node, *(v.message or (None, None, None)), v.expected, v.seen)
        for v in violations
    ]
    if not rows:
        return VIOLATIONS.empty_table()
    columns = zip(zip(*rows, strict=True), VIOLATIONS, strict=True)
    return pa.Table.from_arrays([pa.array(values, field.type) for values, field in columns], schema=VIOLATIONS)
