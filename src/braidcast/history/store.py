"""Histories on disk: a directory with `manifest.json` and `events/<stem>-00000.parquet`, ...

Every file is written under a temporary name, synced and renamed, and the manifest, which lists the others, comes
last: a directory with a manifest is complete. Several writers may share a directory, each with a stem of its own.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from braidcast.history.columns import COLUMNS
from braidcast.history.envelope import PLACE, digest_of, fill
from braidcast.history.event import DELIVER, MULTICAST, Event, History
from braidcast.history.manifest import FILES, HistoryError, Manifest, json_object, manifest_from_json
from braidcast.history.rows import events_of
from braidcast.history.schema import SCHEMA, VERSION_KEY

MANIFEST: Final = "manifest.json"
EVENTS: Final = "events"
ROWS_PER_GROUP: Final = 50_000
ROWS_PER_FILE: Final = 1_000_000
_EMPTY_ROW: Final[list[Any]] = [None] * len(COLUMNS)
_WITH_PAYLOAD: Final = (MULTICAST, DELIVER)
_DIGEST: Final = PLACE["payload_digest"]
_NEWER: Final = frozenset(column.name for column in COLUMNS if column.newer)
_RUN, _PROTOCOL, _NODE, _INCARNATION, _GROUP, _SEQNO, _T_MONO, _T_WALL, _EVENT, _PEER, _ROLE = (
    PLACE[name]
    for name in (
        "run", "protocol", "node", "incarnation", "group", "seqno", "t_mono", "t_wall", "event", "peer", "role",
    )
)  # fmt: skip


class HistoryWriter:
    """Appends events to a history for as long as it takes, in bounded memory.

    What a crash of the writer can lose is the file in progress: `roll` makes everything so far safe. Leaving the
    `with` block writes the last file and, if `seals`, the manifest; a writer that shares its directory does not seal.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        manifest: Manifest,
        *,
        stem: str = "part",
        seals: bool = True,
        overwrite: bool = False,
        rows_per_group: int = ROWS_PER_GROUP,
        rows_per_file: int = ROWS_PER_FILE,
    ) -> None:
        self.directory, self.manifest, self.stem, self.seals = Path(directory), manifest, stem, seals
        self.rows_per_group, self.rows_per_file = rows_per_group, rows_per_file
        self.group_of = {p: g for g, members in enumerate(manifest.topology) for p in members}
        self.seqnos: dict[tuple[int, int], int] = {}
        """Events so far per node and incarnation."""
        self.rows: list[list[Any]] = []
        self.parquet: pq.ParquetWriter | None = None
        self.rows_in_file = 0
        self.files = 0
        _make_room(self.directory, stem, overwrite)

    def append(self, event: Event) -> None:
        """Record one event."""
        row = _EMPTY_ROW.copy()
        if event.what is not None:
            fill(row, event.what)
            if event.event in _WITH_PAYLOAD and (digest := digest_of(event.what)) is not None:
                row[_DIGEST] = digest
        node, incarnation = event.node, event.incarnation
        seqno = self.seqnos.get((node, incarnation), 0)
        self.seqnos[node, incarnation] = seqno + 1
        row[_RUN], row[_PROTOCOL] = self.manifest.run, self.manifest.protocol
        row[_NODE], row[_INCARNATION], row[_GROUP] = node, incarnation, self.group_of.get(node)
        row[_SEQNO], row[_T_MONO], row[_T_WALL] = seqno, event.t_mono, event.t_wall
        row[_EVENT], row[_PEER], row[_ROLE] = event.event, event.peer, event.role
        self.rows.append(row)
        if len(self.rows) >= self.rows_per_group:
            self._write_group()

    def extend(self, events: Iterable[Event]) -> None:
        """Record events."""
        for event in events:
            self.append(event)

    def roll(self) -> None:
        """Finish the file in progress, if there is one, so that its events survive a crash."""
        if self.rows:
            self._write_group(may_roll=False)
        if self.parquet is None:
            return
        self.parquet.close()
        self.parquet = None
        _commit(self._temporary(), self.directory / EVENTS / self._name())
        self.files += 1
        self.rows_in_file = 0

    def seal(self, manifest: Manifest | None = None) -> None:
        """Finish the history with its manifest, which may know more at the end than it did at the beginning."""
        self.roll()
        seal(self.directory, manifest or self.manifest)
        self.seals = False

    def abandon(self) -> None:
        """Drop the file in progress."""
        self.rows.clear()
        if self.parquet is not None:
            self.parquet.close()
            self.parquet = None
            self._temporary().unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abandon()
            return
        self.roll()
        if self.seals:
            self.seal()

    def _name(self) -> str:
        return f"{self.stem}-{self.files:05}.parquet"

    def _temporary(self) -> Path:
        return self.directory / EVENTS / f".{self._name()}.tmp"

    def _write_group(self, may_roll: bool = True) -> None:
        try:
            columns = [
                pa.array(values, field.type) for values, field in zip(zip(*self.rows, strict=True), SCHEMA, strict=True)
            ]
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise HistoryError(f"an event of run {self.manifest.run!r} does not fit the schema: {error}") from None
        if self.parquet is None:
            self.parquet = pq.ParquetWriter(self._temporary(), SCHEMA, compression="zstd", write_page_checksum=True)
        table = pa.Table.from_arrays(columns, schema=SCHEMA)
        self.parquet.write_table(table, row_group_size=self.rows_per_group)
        self.rows_in_file += len(self.rows)
        self.rows.clear()
        if may_roll and self.rows_in_file >= self.rows_per_file:
            self.roll()


def write_history(history: History, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a whole history; an existing one is replaced only with `overwrite`."""
    if not history.events:
        raise HistoryError(f"run {history.manifest.run!r} has no events: there is nothing to write to {directory}")
    with HistoryWriter(directory, history.manifest, overwrite=overwrite) as writer:
        writer.extend(history.events)


def seal(directory: str | os.PathLike[str], manifest: Manifest) -> None:
    """Write the manifest of a directory whose event files are all there."""
    folder = Path(directory)
    head = json_object(manifest.to_json(), MANIFEST)
    head[FILES] = {path.name: _rows_in(path) for path in sorted((folder / EVENTS).glob("*.parquet"))}
    temporary = folder / f".{MANIFEST}.tmp"
    temporary.write_text(json.dumps(head, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _commit(temporary, folder / MANIFEST)


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """The head of a history, without its events."""
    return _read_head(Path(directory))[0]


def read_history(directory: str | os.PathLike[str]) -> History:
    """A whole history; every event's `what` is a `Row`."""
    folder = Path(directory)
    manifest, files = _read_head(folder)
    streams: dict[str, list[Path]] = {}
    for path in _whole_files(folder, files):
        streams.setdefault(path.name.rpartition("-")[0], []).append(path)
    runs = [_read_stream(paths, manifest) for paths in streams.values()]
    events = list(runs[0]) if len(runs) == 1 else list(heapq.merge(*runs, key=lambda event: event.t_mono))
    if not events:
        raise HistoryError(f"{folder} holds no events: record the run again")
    return History(manifest, events)


@dataclass(frozen=True)
class Inspected:
    """A history that was looked at without reading its events."""

    manifest: Manifest
    files: tuple[Path, ...]
    """In the order of the manifest, those that are whole."""
    problems: tuple[str, ...]
    """What is wrong with the others."""


def inspect_history(directory: str | os.PathLike[str], *, partial: bool = False) -> Inspected:
    """The head of a history and its event files, each with the schema that it must have.

    A file that is missing or damaged is an error, or with `partial` a problem.
    """
    folder = Path(directory)
    manifest, files = _read_head(folder)
    problems: list[str] = []
    whole = _whole_files(folder, files, problems if partial else None)
    if not whole:
        raise HistoryError(f"{folder} has no event file that is whole: {problems[0]}")
    for path in whole:
        _check_schema(_schema_in(path), path)
    return Inspected(manifest, tuple(whole), tuple(problems))


def read_table(directory: str | os.PathLike[str]) -> pa.Table:
    """The events of a history as one Arrow table, files in the order of their names."""
    folder = Path(directory)
    _, files = _read_head(folder)
    return pa.concat_tables([_read_table(folder / EVENTS / name) for name in files])


def _whole_files(folder: Path, files: dict[str, int], problems: list[str] | None = None) -> list[Path]:
    """The files that the manifest lists; what is wrong is raised, or added to `problems`."""
    found = []
    for name, rows in files.items():
        path = folder / EVENTS / name
        try:
            if not path.is_file():
                raise HistoryError(f"{path} is missing, but the manifest lists it: restore it or record the run again")
            if (there := _rows_in(path)) != rows:
                raise HistoryError(f"{path} has {there} events, but the manifest says {rows}: restore it")
        except HistoryError as error:
            if problems is None:
                raise
            problems.append(str(error))
        else:
            found.append(path)
    if extra := sorted({path.name for path in (folder / EVENTS).glob("*.parquet")} - files.keys()):
        raise HistoryError(f"{folder / EVENTS / extra[0]} is not in the manifest: remove it, it is of another run")
    return found


def _read_stream(paths: list[Path], manifest: Manifest) -> Iterator[Event]:
    for path in paths:
        try:
            yield from events_of(_read_table(path), manifest)
        except HistoryError as error:
            raise HistoryError(f"{path}: {error}") from None


def _read_head(folder: Path) -> tuple[Manifest, dict[str, int]]:
    if not folder.is_dir():
        raise HistoryError(f"{folder} is not a directory: give the directory of a recorded run")
    path = folder / MANIFEST
    if not path.is_file():
        raise HistoryError(f"{folder} has no {MANIFEST}: it is no history, or its run did not finish")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path} cannot be read: {error}") from None
    manifest = manifest_from_json(text, str(path))
    files = json_object(text, str(path)).get(FILES)
    if not isinstance(files, dict) or not all(type(rows) is int for rows in files.values()):
        raise HistoryError(f"{path} does not list its event files: it is damaged, record the run again")
    if any(os.path.basename(name) != name or not name.endswith(".parquet") for name in files):
        raise HistoryError(f"{path} lists event files outside {EVENTS}: it is damaged or foreign")
    if not files:
        raise HistoryError(f"{folder} holds no events: record the run again")
    return manifest, files


def _read_table(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_schema(file.schema_arrow, path)
            return with_newer_columns(file.read())
    except (pa.ArrowException, OSError) as error:
        raise HistoryError(f"{path} is damaged: {_first_line(error)}") from None


def with_newer_columns(table: pa.Table) -> pa.Table:
    """A table of an older file, with nulls where it lacks what was added later."""
    for place, field in enumerate(SCHEMA):
        if field.name not in table.column_names:
            table = table.add_column(place, field, pa.nulls(len(table), field.type))
    return table


def _rows_in(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise HistoryError(f"{path} is damaged: {_first_line(error)}") from None


def _schema_in(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise HistoryError(f"{path} is damaged: {_first_line(error)}") from None


def _check_schema(found: pa.Schema, path: Path) -> None:
    version = (found.metadata or {}).get(VERSION_KEY)
    if version != SCHEMA.metadata[VERSION_KEY]:
        shown = version.decode(errors="replace") if version else "none"
        raise HistoryError(f"{path} has schema version {shown}: this braidcast reads version "
                           f"{SCHEMA.metadata[VERSION_KEY].decode()}")  # fmt: skip
    if missing := [name for name in SCHEMA.names if name not in found.names and name not in _NEWER]:
        raise HistoryError(f"{path} has no column {', '.join(missing)}: it is damaged, record the run again")
    if extra := [name for name in found.names if name not in PLACE]:
        raise HistoryError(f"{path} has unknown columns {', '.join(extra)}: is this a history of braidcast?")
    expected = [field for field in SCHEMA if field.name in found.names]
    for field in expected:
        kind = found.field(field.name).type
        if kind != field.type:
            raise HistoryError(f"{path}: column {field.name} is {kind}, it must be {field.type}")
    if found.names != [field.name for field in expected]:
        raise HistoryError(f"{path} has its columns in another order: it was not written by braidcast")


def _make_room(folder: Path, stem: str, overwrite: bool) -> None:
    """Prepare the directory for a new stem; with `overwrite`, take away the history that it holds."""
    events = folder / EVENTS
    if not stem or os.path.basename(stem) != stem or stem.startswith("."):
        raise HistoryError(f"{stem!r} cannot begin the name of an event file: use letters, digits and dashes")
    try:
        events.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise HistoryError(f"{folder} cannot hold a history: a file is in the way") from None
    except OSError as error:
        raise HistoryError(f"{folder} cannot hold a history: {error.strerror}") from None
    if overwrite:
        (folder / MANIFEST).unlink(missing_ok=True)
        for path in (*events.glob("*.parquet"), *events.glob(".*.parquet.tmp")):
            path.unlink()
    elif (folder / MANIFEST).exists() or next(events.glob(f"{stem}-[0-9]*.parquet"), None):
        raise HistoryError(f"{folder} already holds a history: choose another directory or ask to overwrite it")


def _commit(temporary: Path, path: Path) -> None:
    """Make `temporary` durable under its final name."""
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
