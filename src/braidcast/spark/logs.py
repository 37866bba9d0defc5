"""From events to multicasts, deliveries and logs: pure transforms.

A log is what the application of one process has seen, as `braidcast.properties.view` defines it: a restart that lost
effects ends one log and begins another, which shares its beginning; a snapshot stands for every delivery up to its
gts and ends one *stretch* of a log. Logs count from 0 per process, stretches from 0 per log. Processes to which
neither happened, nearly all, have one log of one stretch, and what they deliver is not touched.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from braidcast.spark.schemas import DELIVERIES, MULTICASTS

RESTARTS = "array<struct<position: long, gts: long>>"
RESTORES = "array<struct<position: long, gts: long, first: int, last: int>>"


def multicasts(events: DataFrame) -> DataFrame:
    """`MULTICASTS` of `EVENTS`."""
    rows = events.where((F.col("event") == "multicast") & F.col("client").isNotNull())
    return MULTICASTS.check(rows.select([field.name for field in MULTICASTS.schema]))


def deliveries(events: DataFrame) -> DataFrame:
    """`DELIVERIES` of `EVENTS`."""
    rows = events.where((F.col("event") == "deliver") & (F.col("kind") == "delivered"))
    filled = rows.withColumns({
        "gts": F.coalesce("gts", F.lit(0)),
        "repeats": F.coalesce(F.size("repeated") > 0, F.lit(False)),
    })  # fmt: skip
    return DELIVERIES.check(filled.select([field.name for field in DELIVERIES.schema]))


def is_interruption() -> Column:
    """Restarts that say up to where the effects reach, and snapshots."""
    restart = (F.col("event") == "restart") & F.col("gts").isNotNull()
    return restart | ((F.col("event") == "deliver") & (F.col("kind") == "restored"))


def members(runs: DataFrame) -> DataFrame:
    """The processes of `RUNS`: (history, group, node, correct)."""
    groups = runs.select("history", "crashed", F.posexplode("topology").alias("group", "nodes"))
    return groups.select(
        "history", F.col("group").cast("long").alias("group"), F.explode("nodes").alias("node"), "crashed"
    ).select("history", "group", "node", (~F.array_contains("crashed", F.col("node"))).alias("correct"))


def interruptions(events: DataFrame) -> DataFrame:
    """Per process: `restarts` and `restores`, in order."""
    rows = events.where(is_interruption())
    step = F.struct("position", "gts")
    return rows.groupBy("history", "node").agg(
        F.array_sort(F.collect_list(F.when(F.col("event") == "restart", step))).alias("restarts"),
        F.array_sort(F.collect_list(F.when(F.col("event") == "deliver", step))).alias("restores"),
    )


def _taken_back(position: Column, gts: Column) -> Column:
    """Where the restart stands that took back what was delivered at `position`; null if none did."""
    return F.get(F.filter("restarts", lambda r: (r.position > position) & (r.gts < gts)), F.lit(0)).position


def processes(members: DataFrame, interruptions: DataFrame, deliveries: DataFrame) -> DataFrame:
    """`members` with `lossy`, where each but the last of their logs ended, and `restores` with the logs they are in."""
    interrupted = interruptions.withColumn(
        "lost_snapshots",
        F.array_compact(F.transform("restores", lambda r: _taken_back(r.position, r.gts))),
    )
    lost = (
        deliveries.join(F.broadcast(interruptions.where(F.size("restarts") > 0)), ["history", "node"])
        .withColumn("taken_back", _taken_back(F.col("position"), F.col("gts")))
        .where("taken_back is not null")
        .groupBy("history", "node")
        .agg(F.collect_set("taken_back").alias("lost_deliveries"))
    )
    empty = F.expr("array()").cast("array<bigint>")
    found = interrupted.join(lost, ["history", "node"], "left").withColumn(
        "lossy",
        F.array_sort(F.array_union(F.coalesce("lost_deliveries", empty), "lost_snapshots")),
    )
    placed = found.withColumn(
        "restores",
        F.transform(
            "restores",
            lambda r: F.struct(
                r.position.alias("position"),
                r.gts.alias("gts"),
                _first_log(r.position).alias("first"),
                _last_log(_taken_back(r.position, r.gts)).alias("last"),
            ),
        ),
    )
    return members.join(
        placed.select("history", "node", "restarts", "restores", "lossy"), ["history", "node"], "left"
    ).select(
        "history", "group", "node", "correct",
        F.coalesce("restarts", F.expr("array()").cast(RESTARTS)).alias("restarts"),
        F.coalesce("restores", F.expr("array()").cast(RESTORES)).alias("restores"),
        F.coalesce("lossy", empty).alias("lossy"),
    )  # fmt: skip


def _first_log(position: Column) -> Column:
    """The log that goes on at `position`."""
    return F.size(F.filter("lossy", lambda end: end < position))


def _last_log(taken_back: Column) -> Column:
    """The last log that has what a restart took back, or never did."""
    return F.coalesce(F.array_position("lossy", taken_back).cast("int") - 1, F.size("lossy"))


def logged(deliveries: DataFrame, processes: DataFrame, *, interrupted: bool) -> DataFrame:
    """Every delivery in every log that has it: with `log` and `stretch`, `rests_on` and `covered`.

    `rests_on` is the gts of the snapshot that the stretch begins with, `covered` the highest of the log so far; 0
    without one. `interrupted` says whether any process has more than one stretch: it is cheaper to know.
    """
    plain = {"log": 0, "stretch": 0, "rests_on": 0, "covered": 0}
    if not interrupted:
        return deliveries.withColumns({name: F.lit(value).cast(_kind(name)) for name, value in plain.items()})
    of_node = F.broadcast(processes.select("history", "node", "restarts", "restores", "lossy"))
    rows = deliveries.join(of_node, ["history", "node"], "left")
    last = _last_log(_taken_back(F.col("position"), F.col("gts")))
    logs = F.when(F.size("lossy") > 0, F.sequence(_first_log(F.col("position")), last)).otherwise(F.array(F.lit(0)))
    mine = F.filter(
        "restores", lambda r: (r.first <= F.col("log")) & (r["last"] >= F.col("log")) & (r.position < F.col("position"))
    )
    rows = rows.withColumn("log", F.explode(logs)).withColumn("mine", F.when(F.size("restores") > 0, mine))
    return rows.withColumns({
        "stretch": F.coalesce(F.size("mine"), F.lit(0)),
        "rests_on": F.coalesce(F.get("mine", F.size("mine") - 1).gts, F.lit(0)),
        "covered": F.coalesce(F.array_max(F.transform("mine", lambda r: r.gts)), F.lit(0)),
    }).drop("mine", "restarts", "restores", "lossy")  # fmt: skip


def _kind(name: str) -> str:
    return "int" if name in ("log", "stretch") else "long"


def stretches(processes: DataFrame, logged: DataFrame) -> DataFrame:
    """Every stretch of every log, those without deliveries too, numbered by `bit` within their history.

    `closing`: the last stretch of the last log of a process that was correct; `restored`: the highest snapshot in that
    log; `last`: the highest gts of the stretch, delivered at `last_position`; `ended`: where a lost log ended.
    """
    found = logged.groupBy("history", "node", "log", "stretch").agg(
        F.max("gts").alias("last"), F.max_by("position", "gts").alias("last_position"),
        F.min_by("gts", "position").alias("first_gts"), F.count("*").alias("count"),
    )
    in_log = F.filter("restores", lambda r: (r.first <= F.col("log")) & (r["last"] >= F.col("log")))
    logs = processes.withColumn("log", F.explode(F.sequence(F.lit(0), F.size("lossy")))).withColumn("mine", in_log)
    every = logs.withColumn("stretch", F.explode(F.sequence(F.lit(0), F.size("mine"))))
    before = F.slice("mine", F.lit(1), F.col("stretch"))
    final = F.col("log") == F.size("lossy")
    highest = F.coalesce(F.array_max(F.transform("mine", lambda r: r.gts)), F.lit(0))
    joined = every.join(found, ["history", "node", "log", "stretch"], "left").select(
        "history", "group", "node", "log", "stretch",
        F.get("lossy", F.col("log")).alias("ended"),
        final.alias("final"),
        (final & F.col("correct") & (F.col("stretch") == F.size("mine"))).alias("closing"),
        F.when(final, highest).otherwise(0).alias("restored"),
        F.coalesce(F.get("mine", F.col("stretch") - 1).gts, F.lit(0)).alias("rests_on"),
        F.coalesce(F.array_max(F.transform(before, lambda r: r.gts)), F.lit(0)).alias("covered"),
        F.coalesce("last", F.lit(0)).alias("last"),
        "last_position",
        F.coalesce("first_gts", F.lit(0)).alias("first_gts"),
        F.coalesce("count", F.lit(0)).alias("count"),
    )  # fmt: skip
    order = Window.partitionBy("history").orderBy("group", "node", "log", "stretch")
    return joined.withColumn("bit", (F.row_number().over(order) - 1).cast("int"))
