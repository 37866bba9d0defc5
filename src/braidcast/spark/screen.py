"""What might be wrong: everything else is proven right, in one pass over deliveries and multicasts.

*Fused*: one shuffle brings together all that is known of a message, and a message of which all of this holds violates
nothing: its multicasts and deliveries agree on destinations, batch, payload and gts; the stretches that have it, as
bits, are those that should, and none has it twice; replies say what deliveries say. What remains is *suspect*, which
need not be wrong: `judging` asks the definitions.

*A witness*: timestamps are believed by nobody. But where every log rises strictly in a gts that all agree on, and no
log has a gap below its last one, that gts is a function which proves one order of everything, and that the logs of a
group are prefixes of one another. Histories for which this is not so go to `order`.

Destinations and payloads are compared by a 64-bit hash: two that differ pass for one with a chance of 2^-64 each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from braidcast.core.ballots import PIDS_MAX
from braidcast.spark.schemas import MESSAGE

BITS: Final = 63
"""Of a word: a long but for its sign."""
KEY: Final = ("history", *MESSAGE)
_GROUPS_IN_A_WORD: Final = 63


def has_gts(stretches: DataFrame) -> DataFrame:
    """Histories whose deliveries carry a gts."""
    first = stretches.where("final and count > 0")
    # The first delivery of a log is in its first stretch that has any.
    begins = first.groupBy("history", "node").agg(F.min_by("first_gts", "stretch").alias("gts"))
    return begins.where("gts != 0").select("history").distinct()


def disordered(logged: DataFrame) -> DataFrame:
    """(history, node) of logs that do not rise strictly."""
    log = Window.partitionBy("history", "node", "log").orderBy("position")
    rows = logged.where("group is not null").select("history", "node", "log", "position", "gts", "rests_on")
    before = F.greatest(F.lag("gts", 1, 0).over(log), F.col("rests_on"))
    return rows.withColumn("before", before).where("gts <= before").select("history", "node").distinct()


def facts(
    logged: DataFrame, multicasts: DataFrame, replies: DataFrame, stretches: DataFrame, words: int
) -> DataFrame:
    """One row per message: all that is known of it."""
    masks = _named("got", [_word(F.col("bit"), number) for number in range(words)])
    places = F.broadcast(stretches.select(_place().alias("place"), *masks))
    delivered = logged.withColumn("place", _place()).join(places, "place", "left")
    got = [F.coalesce(f"got{number}", _zero()) for number in range(words)]
    nothing = [F.lit(0).cast("long")] * words
    null = F.lit(None).cast("long")
    rows = [
        delivered.select(*KEY, *_unit(), F.col("gts"), *_named("got", got), *_rest(1, 0, null, null)),
        multicasts.select(*KEY, *_unit(), null.alias("gts"), *_named("got", nothing), *_rest(0, 1, null, null)),
        replies.select(
            *KEY, null.alias("unit"), null.alias("to"), null.alias("gts"), *_named("got", nothing),
            *_rest(0, 0, F.nullif("gts", F.lit(0)), _reply_mask()),
        ),
    ]  # fmt: skip
    together = reduce(DataFrame.unionByName, rows)
    return together.groupBy(*KEY).agg(
        F.min("unit").alias("unit_min"), F.max("unit").alias("unit_max"), F.max("to").alias("to"),
        F.min("gts").alias("gts_min"), F.max("gts").alias("gts_max"),
        *(F.bit_or(f"got{number}").alias(f"got{number}") for number in range(words)),
        F.sum("deliveries").alias("deliveries"), F.sum("multicasts").alias("multicasts"),
        F.min("reply_gts").alias("reply_min"), F.max("reply_gts").alias("reply_max"),
        F.bit_or("reply_groups").alias("reply_groups"),
    )  # fmt: skip


def _place() -> Column:
    """History, node, log and stretch as one long, which Spark looks up several times faster than four columns.

    Null where they do not fit, as for a node that is no process; then nothing is proven of what it delivered.
    """
    place, fits = F.col("history"), F.lit(True)
    for name, size in (("node", PIDS_MAX), ("log", 1 << 12), ("stretch", 1 << 12)):
        place = place * size + F.col(name)
        fits &= F.col(name).between(0, size - 1)
    return F.when(fits, place)


def _unit() -> tuple[Column, Column]:
    dest = F.coalesce("dest", F.expr("array()").cast("array<int>"))
    count = F.coalesce("batch_count", F.lit(0))
    first = F.when(count > 0, F.col("batch_first")).otherwise(0)
    unit = F.xxhash64(dest, count, first, F.coalesce("payload_digest", F.lit(-1)))
    return unit.alias("unit"), F.xxhash64(dest).alias("to")


def _named(name: str, columns: list[Column]) -> list[Column]:
    return [column.alias(f"{name}{number}") for number, column in enumerate(columns)]


def _rest(deliveries: int, multicasts: int, reply_gts: Column, reply_groups: Column) -> list[Column]:
    return [
        F.lit(deliveries).cast("long").alias("deliveries"), F.lit(multicasts).cast("long").alias("multicasts"),
        reply_gts.alias("reply_gts"), reply_groups.alias("reply_groups"),
    ]  # fmt: skip


def _reply_mask() -> Column:
    """The group that a reply is about; all bits, which no destinations have, for a group beyond the word."""
    mask = _group_mask(F.col("about_group"))
    return F.when(mask == 0, F.lit(-1).cast("long")).otherwise(mask)


def _word(bit: Column, number: int) -> Column:
    """`bit` as a mask, if it is in this word."""
    within = bit - number * BITS
    inside = (within >= 0) & (within < BITS)
    return F.when(inside, _mask(F.greatest(within, F.lit(0)))).otherwise(_zero())


def _mask(place: Column) -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("long"), place.cast("int"))


def _group_mask(group: Column) -> Column:
    """A group as a mask; a group beyond the word is no bit."""
    known = (group >= 0) & (group < _GROUPS_IN_A_WORD)
    return F.when(known, _mask(F.when(known, group).otherwise(0))).otherwise(_zero())


def _zero() -> Column:
    return F.lit(0).cast("long")


def destinations(multicasts: DataFrame, stretches: DataFrame, words: int) -> DataFrame:
    """Per set of destinations: the bits of all stretches there, and the span of gts in which each should have it.

    `all` are the stretches of the whole history, for those that some stretch need not have.
    """
    dest = F.coalesce("dest", F.expr("array()").cast("array<int>"))
    sets = multicasts.select("history", dest.alias("dest")).distinct()
    every = stretches.groupBy("history").agg(
        F.collect_list(
            F.struct("group", "node", "bit", "closing", "restored", "rests_on", "covered", "last")
        ).alias("all")
    )
    joined = sets.join(F.broadcast(every), "history").withColumn(
        "there", F.filter("all", lambda s: F.array_contains(F.col("dest"), s.group.cast("int")))
    )
    zero = _zero()
    masks = [F.aggregate("there", zero, _adding_word(number)) for number in range(words)]
    groups = F.aggregate("dest", zero, lambda mask, group: mask.bitwiseOR(_group_mask(group)))
    return joined.select(
        "history", F.xxhash64("dest").alias("to"), "dest", "all", groups.alias("groups"), *_named("base", masks),
        F.coalesce(F.array_max(F.transform("there", lambda s: s.covered)), zero).alias("low"),
        F.coalesce(F.array_min(F.transform("there", lambda s: s.last)), zero).alias("high"),
    )  # fmt: skip


def _adding_word(number: int) -> Callable[[Column, Column], Column]:
    return lambda mask, stretch: mask.bitwiseOR(_word(stretch.bit, number))


def judged_facts(facts: DataFrame, destinations: DataFrame, about: DataFrame, words: int) -> DataFrame:
    """`facts` of messages with `suspect` and `delivered`; `about` says of each history (quiescent, has_gts)."""
    known = facts.join(F.broadcast(destinations), ["history", "to"], "left").join(F.broadcast(about), "history")
    gts, dated = F.col("gts_min"), F.col("has_gts")
    got = [F.col(f"got{number}") for number in range(words)]
    bits = reduce(lambda a, b: a + b, [F.bit_count(word) for word in got])
    agree = (
        (F.col("multicasts") > 0)
        & (F.col("unit_min") == F.col("unit_max"))
        & (F.col("gts_min") == F.col("gts_max"))
        & ((gts > 0) == dated)
        & (F.col("deliveries") == bits)
    )
    same = reduce(lambda a, b: a & b, [F.col(f"base{number}") == got[number] for number in range(words)])
    usual = same & (~dated | ((gts > F.col("low")) & (gts <= F.col("high"))))
    replies = ~F.col("quiescent") | F.col("reply_groups").isNull() | (
        (F.coalesce("reply_min", gts) == gts)
        & (F.coalesce("reply_max", gts) == gts)
        & (F.col("reply_groups").bitwiseAND(F.col("groups")) == F.col("reply_groups"))
    )  # fmt: skip

    def has(s: Column) -> Column:
        return reduce(lambda a, b: a | b, [got[n].bitwiseAND(_word(s.bit, n)) != 0 for n in range(words)])

    def right(s: Column) -> Column:
        there = F.array_contains(F.col("dest"), s.group.cast("int"))
        owed = (dated & (s.rests_on < gts) & (gts <= s["last"])) | (
            F.col("quiescent") & s.closing & (~dated | (gts > s.restored))
        )
        return F.when(has(s), there & (~dated | (gts > s.covered))).otherwise(~(there & owed))

    def with_group(mask: Column, s: Column) -> Column:
        return F.when(has(s), mask.bitwiseOR(_group_mask(s.group))).otherwise(mask)

    wanted = F.coalesce("reply_groups", _zero())
    replied = F.aggregate("all", _zero(), with_group).bitwiseAND(wanted) == wanted
    unusual = F.forall("all", right) & (~F.col("quiescent") | replied)
    clean = F.when(~(agree & replies), False).when(usual, True).otherwise(unusual)
    nowhere = (F.col("deliveries") == 0) & ~F.col("quiescent")
    return known.select(
        *KEY, "gts_min", "gts_max", (F.col("deliveries") > 0).alias("delivered"),
        (~F.coalesce(nowhere | clean, F.lit(False))).alias("suspect"),
    )  # fmt: skip


def shared_timestamps(judged: DataFrame) -> DataFrame:
    """`KEY` of delivered messages whose gts another message has, too."""
    dated = judged.where("gts_min > 0 or gts_max > 0")
    rows = dated.select(*KEY, F.explode(F.array_distinct(F.array("gts_min", "gts_max"))).alias("gts")).where("gts > 0")
    twice = rows.groupBy("history", "gts").agg(F.count("*").alias("owners")).where("owners > 1")
    return rows.join(twice, ["history", "gts"]).select(*KEY).distinct()
