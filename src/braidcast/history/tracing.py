"""The life of one message in a recorded history, found without reading the rest into memory."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from braidcast.core.client import MessageId
from braidcast.history.event import Event
from braidcast.history.manifest import Manifest
from braidcast.history.rows import events_of
from braidcast.history.schema import SCHEMA
from braidcast.history.store import inspect_history, with_newer_columns


@dataclass(frozen=True)
class Step:
    """An event, and whether it is about the message or only happened beside it at the same node."""

    event: Event
    about: bool


def trace(directory: str | os.PathLike[str], id: MessageId, around: int = 0) -> tuple[Manifest, list[Step]]:
    """What happened to a message, in order, with up to `around` events before and after each at its node."""
    inspected = inspect_history(directory)
    streams: dict[str, list[Path]] = {}
    for path in inspected.files:
        streams.setdefault(path.name.rpartition("-")[0], []).append(path)
    runs = [_steps(paths, inspected.manifest, id, around) for paths in streams.values()]
    return inspected.manifest, list(heapq.merge(*runs, key=lambda step: step.event.t_mono))


def _steps(paths: list[Path], manifest: Manifest, id: MessageId, around: int) -> Iterator[Step]:
    for path in paths:
        table = with_newer_columns(pq.read_table(path, schema=None))
        about = _about(table, id)
        wanted = _with_neighbours(table, about, around) if around else about
        places = pc.indices_nonzero(wanted)
        if len(places):
            found = events_of(table.take(places).select(SCHEMA.names), manifest)
            yield from map(Step, found, about.take(places).to_pylist())


def _about(table: pa.Table, id: MessageId) -> Any:
    """Which rows name the message, by itself or among others."""
    own = [pc.fill_null(pc.equal(table[name], getattr(id, name)), False) for name in id._fields]
    mask = pc.and_(pc.and_(own[0], own[1]), own[2]).combine_chunks()
    for name in ("ids", "dropped"):
        lists = table[name].combine_chunks()
        flat = lists.flatten()
        named = [pc.equal(pc.struct_field(flat, field), getattr(id, field)) for field in id._fields]
        rows = pc.list_parent_indices(lists).filter(pc.and_(pc.and_(named[0], named[1]), named[2]))
        if len(rows):
            mask = pc.or_(mask, pc.is_in(pa.array(range(len(table)), pa.int64()), rows.cast(pa.int64())))
    return mask


def _with_neighbours(table: pa.Table, about: Any, around: int) -> Any:
    nodes = table["node"].to_pylist()
    places: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        places.setdefault(node, []).append(place)
    rank = {place: n for mine in places.values() for n, place in enumerate(mine)}
    wanted = [False] * len(nodes)
    for place in pc.indices_nonzero(about).to_pylist():
        mine = places[nodes[place]]
        for other in mine[max(0, rank[place] - around) : rank[place] + around + 1]:
            wanted[other] = True
    return pa.array(wanted)
