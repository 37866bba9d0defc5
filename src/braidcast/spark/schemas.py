"""The datasets of the pipeline: each has a name and one schema, checked wherever it is made or read.

Every integer is a long, as in the histories themselves. A message is named by `client`, `session` and `seq`; a history
by `history`, its number among those that are judged together, since two directories may hold one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from braidcast.core.errors import BraidcastError
from braidcast.history.schema import SCHEMA

MESSAGE: Final = ("client", "session", "seq")
"""The columns that name a message."""
_LONG, _TEXT, _BOOL = LongType(), StringType(), BooleanType()
_GROUPS: Final = ArrayType(from_arrow_schema(SCHEMA)["dest"].dataType.elementType)  # type: ignore[attr-defined]


class WrongSchema(BraidcastError):
    """Data that is not of the dataset that it is said to be of."""


@dataclass(frozen=True)
class Dataset:
    """A kind of table."""

    name: str
    schema: StructType

    def check(self, frame: DataFrame) -> DataFrame:
        """`frame` with the columns of this dataset in their order, or `WrongSchema`."""
        found = {field.name: field.dataType for field in frame.schema}
        for field in self.schema:
            if field.name not in found:
                raise WrongSchema(f"a table of {self.name} lacks the column {field.name}: make it anew")
            if not _same(found[field.name], field.dataType):
                raise WrongSchema(
                    f"the column {field.name} of {self.name} is {found[field.name].simpleString()}, it must be "
                    f"{field.dataType.simpleString()}: make the table anew"
                )
        if extra := sorted(found.keys() - {field.name for field in self.schema}):
            raise WrongSchema(f"a table of {self.name} has a column too many, {extra[0]}: make it anew")
        return frame.select([F.col(field.name) for field in self.schema])

    def empty(self, spark: SparkSession) -> DataFrame:
        """No rows."""
        return spark.createDataFrame([], self.schema)


def _same(one: DataType, other: DataType) -> bool:
    """Whether two types are one but for what may be null."""
    return one.simpleString() == other.simpleString()


def _schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


COLUMNS: Final = from_arrow_schema(SCHEMA)
"""Of the files of histories."""
EVENTS: Final = Dataset(
    "events", StructType([StructField("history", _LONG), StructField("position", _LONG), *COLUMNS.fields])
)
"""What happened. `position` orders the events of a node; `reading` says how it is made."""
RUNS: Final = Dataset(
    "runs",
    _schema(
        history=_LONG, run=_TEXT, directory=_TEXT, protocol=_TEXT, driver=_TEXT, topology=ArrayType(ArrayType(_LONG)),
        promises=ArrayType(_TEXT), quiescent=_BOOL, crashed=ArrayType(_LONG), partial=_BOOL,
    ),
)  # fmt: skip
"""What each history is, from its manifest; `partial` if files of it are missing."""
MULTICASTS: Final = Dataset(
    "multicasts",
    _schema(
        history=_LONG, position=_LONG, client=_LONG, session=_LONG, seq=_LONG, node=_LONG, incarnation=_LONG,
        t_mono=_LONG, dest=_GROUPS, batch_first=_LONG, batch_count=_LONG, payload_digest=_LONG,
    ),
)  # fmt: skip
"""What clients submitted; a message may occur more than once."""
DELIVERIES: Final = Dataset(
    "deliveries",
    _schema(
        history=_LONG, position=_LONG, node=_LONG, group=_LONG, client=_LONG, session=_LONG, seq=_LONG, t_mono=_LONG,
        role=_TEXT, dest=_GROUPS, gts=_LONG, batch_first=_LONG, batch_count=_LONG, repeats=_BOOL,
        payload_digest=_LONG,
    ),
)  # fmt: skip
"""What processes handed to their applications; `gts` is 0 where the protocol has none."""
VERDICTS: Final = Dataset(
    "verdicts",
    _schema(
        history=_LONG, run=_TEXT, property=_TEXT, group=_LONG, node=_LONG, client=_LONG, session=_LONG, seq=_LONG,
        expected=_TEXT, seen=_TEXT,
    ),
)  # fmt: skip
"""Violations: one row each, as `braidcast.properties.violation.Violation`."""
LATENCIES: Final = Dataset(
    "latencies",
    _schema(
        history=_LONG, client=_LONG, session=_LONG, seq=_LONG, protocol=_TEXT, destinations=_LONG, group=_LONG,
        role=_TEXT, latency=_LONG, delays=_LONG,
    ),
)  # fmt: skip
"""From the multicast of a message to its first delivery in a group by a process of this role: in the history's unit of
time, and where hops have a fixed length, in hops."""
ALL: Final = {dataset.name: dataset for dataset in (EVENTS, RUNS, MULTICASTS, DELIVERIES, VERDICTS, LATENCIES)}
