"""Verdicts to disk: `runs` and `verdicts` as Parquet, beside a summary that is written last."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from braidcast.core.errors import BraidcastError
from braidcast.spark.reading import Found, read_runs
from braidcast.spark.schemas import RUNS, VERDICTS
from braidcast.spark.verify import Verdict

SUMMARY = "verdict.json"


class BadPlace(BraidcastError):
    """A directory that cannot take what is to be written."""


def check_place(directory: Path) -> None:
    """Raise `BadPlace` unless there is room for a verdict; said before the work."""
    if directory.exists() and not directory.is_dir():
        raise BadPlace(f"{directory} is a file: name a directory for the verdict")
    others = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    if others and SUMMARY not in others:
        raise BadPlace(f"{directory} holds something else ({others[0]}): name a new directory for the verdict")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadPlace(f"{directory} cannot be made: {error.strerror or error}") from None
    if not os.access(directory, os.W_OK):
        raise BadPlace(f"{directory} may not be written to: name another directory")


def write_verdict(spark: SparkSession, histories: Sequence[Found], verdict: Verdict, directory: Path) -> None:
    """Write a verdict in place of the one that is there."""
    place = directory.absolute()
    (place / SUMMARY).unlink(missing_ok=True)
    for dataset, rows in ((RUNS, read_runs(spark, histories)), (VERDICTS, verdict.rows)):
        dataset.check(rows).coalesce(1).write.mode("overwrite").parquet((place / dataset.name).as_uri())
    temporary = place / f".{SUMMARY}.tmp"
    temporary.write_text(json.dumps(verdict.to_json(), indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, place / SUMMARY)
