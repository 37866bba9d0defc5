"""What is not of a dataset is not taken for it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from braidcast.history.schema import SCHEMA
from braidcast.spark.schemas import ALL, EVENTS, RUNS, WrongSchema


def test_every_dataset_is_known_by_its_name_and_takes_its_own(spark: SparkSession) -> None:
    assert {*ALL} == {"events", "runs", "multicasts", "deliveries", "verdicts", "latencies"}
    for name, dataset in ALL.items():
        assert dataset.name == name
        empty = dataset.empty(spark)
        other_order = empty.select(*reversed(empty.columns))
        assert dataset.check(other_order).schema == dataset.schema


def test_events_have_the_columns_of_histories() -> None:
    assert EVENTS.schema.fieldNames()[2:] == SCHEMA.names


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("drop", "run"), "a table of runs lacks the column run: make it anew"),
        (("int", "history"), "the column history of runs is int, it must be bigint"),
        (("add", "more"), "a table of runs has a column too many, more"),
    ],
)
def test_another_schema_is_named(change: tuple[str, str], says: str, spark: SparkSession) -> None:
    what, name = change
    frame = RUNS.empty(spark)
    changed = {
        "drop": lambda: frame.drop(name),
        "int": lambda: frame.withColumn(name, frame[name].cast("int")),
        "add": lambda: frame.withColumn(name, frame["run"]),
    }[what]()
    with pytest.raises(WrongSchema, match=says):
        RUNS.check(changed)
