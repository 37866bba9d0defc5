"""Which events go into which slice (`judging`): pure transforms, and one pass over the events for all slices.

An event is in the slices of its message, if it is about one that is suspect; in those of its process or history, if
these have any; and in all slices of its history if it is *context*, without which a slice could not be read: restarts,
snapshots, crashes, the last delivery of each stretch, and a word of the newest life of each client.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from braidcast.spark.judging import MESSAGES_PER_SLICE, NODES, WALKS
from braidcast.spark.logs import is_interruption
from braidcast.spark.schemas import EVENTS, MESSAGE

KEY = ("history", *MESSAGE)
WALKED = (
    "multicast", "send", "receive", "persist", "restart", "recovered", "crash", "reply", "collected",
    "sessions_expired",
)  # fmt: skip


def is_delivery() -> Column:
    """Of a message, and final."""
    return (F.col("event") == "deliver") & (F.col("kind") == "delivered")


def in_slices(suspects: DataFrame) -> DataFrame:
    """Suspect messages with their `task`: as many slices as the history needs."""
    sizes = suspects.groupBy("history").agg(F.ceil(F.count("*") / MESSAGES_PER_SLICE).alias("slices"))
    task = F.pmod(F.xxhash64(*MESSAGE), F.col("slices")).cast("int")
    return suspects.join(F.broadcast(sizes), "history").select(*KEY, task.alias("task"), F.lit(True).alias("suspect"))


def in_one(messages: DataFrame, task: int) -> DataFrame:
    """Messages of which a history has one slice."""
    return messages.select(*KEY, F.lit(task).alias("task"), F.lit(False).alias("suspect"))


def of_overlapping_batches(multicasts: DataFrame, deliveries: DataFrame, doubtful: DataFrame) -> DataFrame:
    """`KEY` of the batches of sessions in which batches overlap, something was left out, or a message is doubtful."""
    session = Window.partitionBy("history", "client", "session").orderBy("batch_first", *MESSAGE)
    earlier = session.rowsBetween(Window.unboundedPreceding, -1)
    end = F.col("batch_first") + F.col("batch_count")
    batches = multicasts.where("batch_count > 0").dropDuplicates([*KEY])
    overlapping = batches.withColumn("end", F.max(end).over(earlier)).where("batch_first < end")
    sessions = [f.select("history", "client", "session") for f in (overlapping, deliveries.where("repeats"), doubtful)]
    every = batches.select(*KEY).union(deliveries.where("batch_count > 0").select(*KEY))
    return every.join(reduce(DataFrame.union, sessions), ["history", "client", "session"], "left_semi").distinct()


def newest_lives(events: DataFrame) -> DataFrame:
    """(history, position) of a multicast of the newest life of each client that began again."""
    again = events.where("event = 'multicast' and incarnation > 0")
    newest = again.groupBy("history", "node").agg(F.max_by("position", "incarnation").alias("position"))
    return newest.select("history", "position")


def sliced(
    events: DataFrame, messages: DataFrame, nodes: DataFrame, walks: DataFrame, marks: DataFrame
) -> DataFrame:
    """Every event of every slice: `EVENTS` with `task` and `suspect`.

    `messages`: (`KEY`, task, suspect); `nodes`: (history, node); `walks`: (history), those that are walked along;
    `marks`: (history, position), events that are context.
    """
    entry = F.struct("task", "suspect")
    of_message = messages.groupBy(*KEY).agg(F.collect_set(entry).alias("of_message"))
    contexts = messages.groupBy("history").agg(F.collect_set("task").alias("contexts"))
    about = is_delivery() | F.col("event").isin("multicast", "reply") | (
        (F.col("event") == "send") & (F.col("kind") == "refused")
    )  # fmt: skip
    walked = (F.col("event").isin(*WALKED) | is_delivery() | is_interruption()) & (
        (F.col("event") != "receive") | F.col("client").isNotNull()
    )
    found = (
        events.join(of_message, [*KEY], "left")
        .join(F.broadcast(contexts), "history", "left")
        .join(F.broadcast(nodes.withColumn("of_node", F.lit(True))), ["history", "node"], "left")
        .join(F.broadcast(walks.withColumn("walked", F.lit(True))), "history", "left")
        .join(F.broadcast(marks.distinct().withColumn("marked", F.lit(True))), ["history", "position"], "left")
    )
    nothing = F.expr("array()").cast("array<struct<task: int, suspect: boolean>>")
    context = is_interruption() | (F.col("event") == "crash") | F.col("marked")
    entries = F.concat(
        F.when(about, F.coalesce("of_message", nothing)).otherwise(nothing),
        F.when(context, F.coalesce(F.transform("contexts", _plain), nothing)).otherwise(nothing),
        _one(F.col("of_node") & (is_delivery() | is_interruption()), F.lit(NODES) - F.col("node"), nothing),
        _one(F.col("walked") & walked, F.lit(WALKS), nothing),
    )
    columns = [F.col(field.name) for field in EVENTS.schema]
    return found.select(*columns, F.explode(entries).alias("entry")).select(*columns, "entry.task", "entry.suspect")


def _plain(task: Column) -> Column:
    return F.struct(task.cast("int").alias("task"), F.lit(False).alias("suspect"))


def _one(condition: Column, task: Column, nothing: Column) -> Column:
    return F.when(F.coalesce(condition, F.lit(False)), F.array(_plain(task))).otherwise(nothing)
