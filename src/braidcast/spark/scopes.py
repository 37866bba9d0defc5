"""Which properties can judge which history, from counts: the scopes of `braidcast.properties`, answered by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from braidcast.history.manifest import FIFO, GENUINE, HistoryError, Manifest
from braidcast.properties import property as scopes
from braidcast.properties.check import PROPERTIES
from braidcast.properties.property import Scope
from braidcast.spark.judging import OF_WALKS, PARTIAL_TOO
from braidcast.spark.logs import is_interruption

_NAMED: Final = ("named_min", "named_max")


class Counts:
    """What there is of everything in one history."""

    def __init__(self, manifest: Manifest, row: Mapping[str, Any]) -> None:
        self.manifest = manifest
        self.row = row
        self.has_gts = False
        """Whether its deliveries carry a gts; the logs tell."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.row[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def silent(self) -> list[int]:
        """Processes that left no event at all: their files may be missing."""
        return sorted({p for members in self.manifest.topology for p in members} - {*self.nodes})

    @property
    def walks(self) -> bool:
        """Whether there is anything to be judged by walking along it."""
        return bool(
            self.sends
            or self.persists
            or self.recovered
            or self.collected
            or self.replies
            or FIFO in self.manifest.promises
        )


HOLDS: Final[dict[str, Callable[[Counts], bool]]] = {
    scopes.ANY.text: lambda _: True,
    scopes.WITH_GTS.text: lambda c: c.has_gts,
    scopes.QUIESCENT.text: lambda c: c.manifest.quiescent,
    scopes.PROMISED_FIFO.text: lambda c: FIFO in c.manifest.promises,
    scopes.PROMISED_GENUINE.text: lambda c: GENUINE in c.manifest.promises and c.sends > 0,
    scopes.WITH_RECORDS.text: lambda c: c.votes > 0,
    scopes.WITH_DISKS.text: lambda c: (
        c.votes > 0 and (c.manifest.driver != "cluster" or (c.persists > 0 and not c.silent_restarts))
    ),
    scopes.WITH_RECOVERY.text: lambda c: c.recovered > 0,
    scopes.WITH_BALLOTS.text: lambda c: c.persists > 0,
    scopes.WITH_COLLECTION.text: lambda c: c.collected > 0,
    scopes.WITH_PAYLOADS.text: lambda c: c.digests > 0,
    scopes.WITH_TRAFFIC.text: lambda c: c.sends > 0,
}
"""By the words of the scope, as `Scope.holds` decides from a `View`."""


def count_events(events: DataFrame) -> DataFrame:
    """One row per history; `named_min` and `named_max` are the same if all events are of one run and protocol.

    Counted per life of each node first, and names as hashes: with sets and texts Spark would sort all events for this.
    """
    event, kind = F.col("event"), F.col("kind")
    is_delivery = (event == "deliver") & (kind == "delivered")
    votes = ((event == "send") & kind.isin("accept_ack", "new_leader")) | (
        (event == "persist") & kind.isin("accepted", "promised", "marked")
    )
    lost_disk = F.coalesce((kind == "disk_lost") & F.col("group").isNotNull() & F.col("gts").isNotNull(), F.lit(False))
    nameless = F.col("client").isNull() | F.col("session").isNull() | F.col("seq").isNull()
    lives = events.groupBy("history", "node", "incarnation").agg(
        F.min(name_hash()).alias("named_min"), F.max(name_hash()).alias("named_max"),
        F.count("*").alias("events"),
        F.count_if(is_delivery).alias("deliveries"),
        F.count_if(event == "send").alias("sends"),
        F.count_if(event == "persist").alias("persists"),
        F.count_if(event == "collected").alias("collected"),
        F.count_if(event == "recovered").alias("recovered"),
        F.count_if((event == "restart") & ~lost_disk).alias("restarts"),
        F.count_if((event == "reply") & (kind == "reply")).alias("replies"),
        F.count_if((event == "multicast") & F.col("payload_digest").isNotNull()).alias("digests"),
        F.count_if(votes).alias("votes"),
        F.count_if(is_interruption()).alias("interruptions"),
        F.count_if(is_delivery & (F.col("batch_count") > 0)).alias("batches"),
        F.count_if((is_delivery | ((event == "multicast") & (kind == "multicast"))) & nameless).alias("nameless"),
    )  # fmt: skip
    keys = ("history", "node", "incarnation")
    sums = [F.sum(name).alias(name) for name in lives.columns if name not in (*keys, *_NAMED)]
    return lives.groupBy("history").agg(
        F.count_if((F.col("restarts") > 0) & (F.col("recovered") == 0)).alias("silent_restarts"),
        F.collect_set("node").alias("nodes"), F.min("named_min").alias("named_min"),
        F.max("named_max").alias("named_max"), *sums,
    )  # fmt: skip


def name_hash() -> Column:
    """Of the run and the protocol that a row is of."""
    return F.xxhash64("run", "protocol")


def foreign_events(counts: DataFrame, runs: DataFrame) -> DataFrame:
    """(history, run, protocol) of histories with events of another run than their manifest says."""
    named = runs.withColumn("named", name_hash())
    others = (F.col("named_min") != F.col("named")) | (F.col("named_max") != F.col("named"))
    return counts.join(named, "history").where(others).select("history", "run", "protocol")


def counts_of(manifest: Manifest, where: str, row: Row) -> Counts:
    """The counts of a history."""
    if row["nameless"]:
        raise HistoryError(f"{where} has multicasts or deliveries without a whole message id: record the run again")
    return Counts(manifest, row.asDict())


def applying(counts: Counts, *, partial: bool) -> frozenset[str]:
    """The properties that can judge a history."""
    names = PARTIAL_TOO if partial else PROPERTIES
    return frozenset(name for name in names if HOLDS[PROPERTIES[name].scope.text](counts))


def needs_walk(counts: Counts, judged: Iterable[str]) -> bool:
    """Whether a history has to be walked along."""
    return counts.walks and not {*judged}.isdisjoint(OF_WALKS)


def scope_of(name: str) -> Scope:
    """What a property judges."""
    return PROPERTIES[name].scope
