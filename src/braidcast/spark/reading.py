"""Histories into Spark: which directories there are, what is wrong with them, and their events as one table.

A directory is a history, or holds histories. `position` is made of the place of the event's file and its row there:
it orders the events of a node, and those of all nodes if one writer wrote the history. Files of several writers are
streams, which are merged by their clocks where the order between nodes is asked for (`judging`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braidcast.history.manifest import HistoryError, Manifest
from braidcast.history.store import MANIFEST, Inspected, inspect_history
from braidcast.spark.schemas import COLUMNS, EVENTS, RUNS

ROW_BITS, FILE_BITS = 32, 20
STREAM_SHIFT = ROW_BITS + FILE_BITS
"""A position, shifted right by this, says which stream of its history an event is in."""
READERS = 8


@dataclass(frozen=True)
class Found:
    """A history on disk."""

    number: int
    directory: Path
    manifest: Manifest
    streams: tuple[tuple[Path, ...], ...]
    problems: tuple[str, ...]
    """What is missing or cut; then only a part of it can be judged."""

    @property
    def partial(self) -> bool:
        """Whether files of it are missing."""
        return bool(self.problems)

    @property
    def bytes(self) -> int:
        """Of its files."""
        return sum(path.stat().st_size for paths in self.streams for path in paths)


def find_histories(directories: Iterable[Path], *, partial: bool = False) -> list[Found]:
    """The histories in these directories; damaged ones are a `HistoryError`, or `partial` ones."""
    folders = [folder for directory in directories for folder in _histories_in(directory)]
    twice = [folder for number, folder in enumerate(folders) if folder in folders[:number]]
    if twice:
        raise HistoryError(f"{twice[0]} is named twice: name each history once")
    with ThreadPoolExecutor(READERS) as pool:
        inspected = list(pool.map(lambda folder: inspect_history(folder, partial=partial), folders))
    return [_found(number, folder, each) for number, (folder, each) in enumerate(zip(folders, inspected, strict=True))]


def _found(number: int, folder: Path, inspected: Inspected) -> Found:
    streams: dict[str, list[Path]] = {}
    for path in inspected.files:
        streams.setdefault(path.name.rpartition("-")[0], []).append(path)
    return Found(
        number, folder, inspected.manifest, tuple(tuple(paths) for paths in streams.values()), inspected.problems
    )


def _histories_in(directory: Path) -> Sequence[Path]:
    folder = directory.absolute()
    if folder.is_dir() and not (folder / MANIFEST).is_file():
        inside = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
        if inside:
            return inside
    return [folder]


def read_runs(spark: SparkSession, histories: Sequence[Found]) -> DataFrame:
    """`RUNS`: one row for each history."""
    rows = [
        (
            found.number, found.manifest.run, str(found.directory), found.manifest.protocol, found.manifest.driver,
            [list(members) for members in found.manifest.topology], list(found.manifest.promises),
            found.manifest.quiescent, list(found.manifest.crashed), found.partial,
        )
        for found in histories
    ]  # fmt: skip
    return RUNS.check(spark.createDataFrame(rows, RUNS.schema))


def read_events(spark: SparkSession, histories: Sequence[Found]) -> DataFrame:
    """`EVENTS` of all histories."""
    files = [
        (name, found.number, (stream << FILE_BITS | place) << ROW_BITS)
        for found in histories
        for stream, paths in enumerate(found.streams)
        for place, name in enumerate(_names_in_spark(spark, paths))
    ]
    places = F.broadcast(spark.createDataFrame(files, "file string, history long, first long"))
    paths = [_literal(str(path)) for found in histories for paths in found.streams for path in paths]
    rows = spark.read.schema(COLUMNS).parquet(*paths)
    return EVENTS.check(
        rows.withColumns({"file": F.col("_metadata.file_path"), "row": F.col("_metadata.row_index")})
        .join(places, "file")
        .withColumn("position", F.col("first") + F.col("row"))
        .drop("file", "row", "first")
    )


def _names_in_spark(spark: SparkSession, paths: Iterable[Path]) -> list[str]:
    """What Spark calls files: decoding its names of them row by row would take longer than all the rest."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a session has a JVM"
    return [jvm.org.apache.hadoop.fs.Path(f"file:{path}").toUri().toString() for path in paths]


def _literal(path: str) -> str:
    """A path in which Spark finds no pattern."""
    return "".join(f"\\{letter}" if letter in "[]{}*?\\" else letter for letter in path)
