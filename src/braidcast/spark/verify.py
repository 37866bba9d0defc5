"""The judgement of any number of histories at once.

1. One pass counts what there is, which says which properties apply.
2. One pass over multicasts and deliveries proves most of it right (`screen`).
3. What it could not prove is judged by the definitions, in slices (`judging`) or merged (`order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from braidcast.core.client import MessageId
from braidcast.history.manifest import HistoryError
from braidcast.properties.check import PROPERTIES
from braidcast.spark import screen, slices
from braidcast.spark.judging import BATCHES, CONFLICTS, Known, judge_slices
from braidcast.spark.logs import deliveries, interruptions, logged, members, multicasts, processes, stretches
from braidcast.spark.order import judge_order
from braidcast.spark.reading import Found, read_events, read_runs
from braidcast.spark.schemas import MESSAGE, VERDICTS
from braidcast.spark.scopes import (
    Counts,
    applying,
    count_events,
    counts_of,
    foreign_events,
    needs_walk,
    scope_of,
)  # fmt: skip

EXAMPLES_MAX: Final = 5
SHOWN: Final = ("run", "group", "node", "expected", "seen")
STEPS: Final = 6
CACHED_BYTES_MAX: Final = 20_000_000
"""Thousands of small files take longer to open than to read, so up to here the events are read once."""
Said = Callable[[int, str], None]
"""Told before each step: how many are done, and what the next one is."""


@dataclass(slots=True)
class Verdict:
    """What came of judging."""

    runs: int
    events: int
    deliveries: int
    judged: dict[str, int]
    """Of each property, in how many histories it was judged;"""
    violations: dict[str, int]
    """how many violations were found;"""
    examples: list[dict[str, Any]]
    """and some of them, as rows of the dataset `verdicts`, with their directory."""
    rows: DataFrame
    """All of them."""
    notes: list[str] = field(default_factory=list)
    """What is odd about a history, or could not be judged of it."""

    @property
    def violated(self) -> bool:
        """Whether there is any violation."""
        return any(self.violations.values())

    def to_json(self) -> dict[str, Any]:
        """Plain data; `checked` says whether any of the histories could be judged."""
        properties: dict[str, dict[str, Any]] = {
            name: {"checked": self.judged[name] > 0, "violations": self.violations[name]} for name in PROPERTIES
        }
        for example in self.examples:
            shown = {key: example[key] for key in ("directory", *SHOWN)} | {"message": message_of(example)}
            properties[example["property"]].setdefault("examples", []).append(shown)
        found = {
            "runs": self.runs, "events": self.events, "deliveries": self.deliveries, "properties": properties,
        }  # fmt: skip
        return found | ({"notes": self.notes} if self.notes else {})

    def said_of(self, name: str) -> str:
        """Whether a property was judged, and if not everywhere, what it can judge."""
        count = self.judged[name]
        if count == self.runs:
            return "judged"
        where = "skipped" if not count else f"judged in {count:,} of {self.runs:,}"
        return f"{where}: it judges {scope_of(name).text}"


def verify(spark: SparkSession, histories: Sequence[Found], said: Said = lambda done, what: None) -> Verdict:
    """Judge all histories by every property that applies to each."""
    return Verification(spark, histories, said).run()


class Verification:
    """One judgement under way: what is worked out once and used by several steps."""

    def __init__(self, spark: SparkSession, histories: Sequence[Found], said: Said) -> None:
        self.spark, self.histories, self.said = spark, histories, said
        self.events = read_events(spark, histories)
        self.cached = sum(found.bytes for found in histories) < CACHED_BYTES_MAX
        if self.cached:
            self.events = self.events.persist()
        self.runs = read_runs(spark, histories)
        self.counts: dict[int, Counts] = {}
        self.known: dict[int, Known] = {}

    def run(self) -> Verdict:
        """All steps."""
        self.said(0, "counting")
        self._count()
        self.said(1, "logs")
        self._find_logs()
        self.said(2, "messages")
        suspects = self._find_suspects()
        self.said(3, "order")
        falling = self._find_falling()
        self.said(4, "judging")
        verdicts = self._keep(VERDICTS.check(self._judge(suspects, falling)))
        self.said(5, "summing up")
        if self.cached:
            self.events.unpersist()
        return self._verdict(verdicts)

    def _keep(self, frame: DataFrame) -> DataFrame:
        """The rows themselves in place of how they come about: plans that grow from step to step take Spark minutes."""
        return frame.localCheckpoint()

    def _count(self) -> None:
        counts = self._keep(count_events(self.events))
        for row in foreign_events(counts, self.runs).collect():
            self._refuse(row["history"], row["run"], row["protocol"])
        rows = {row["history"]: row for row in counts.collect()}
        for found in self.histories:
            if found.number not in rows:
                raise HistoryError(f"{found.directory} holds no events: record the run again")
            self.counts[found.number] = counts_of(found.manifest, str(found.directory), rows[found.number])

    def _refuse(self, history: int, run: str, protocol: str) -> None:
        """Say whose events a history has beside its own."""
        foreign = (F.col("run") != run) | (F.col("protocol") != protocol)
        for other in self._of(self.events, [history]).where(foreign).select("run", "protocol").take(1):
            where, theirs = self.histories[history].directory, f"{other[0]!r} of {other[1]}"
            raise HistoryError(
                f"{where} has events of run {theirs}, but its manifest is of {run!r} of {protocol}: restore it"
            )

    def _find_logs(self) -> None:
        self.interrupted = any(counts.interruptions for counts in self.counts.values())
        self.deliveries, self.multicasts = deliveries(self.events), multicasts(self.events)
        of_processes = processes(members(self.runs), interruptions(self.events), self.deliveries)
        self.processes = self._keep(of_processes)
        self.logged = logged(self.deliveries, self.processes, interrupted=self.interrupted)
        self.stretches = self._keep(stretches(self.processes, self.logged))
        bits = self.stretches.agg(F.max("bit")).first()
        self.words = 1 + (bits[0] if bits else 0) // screen.BITS
        for row in screen.has_gts(self.stretches).collect():
            self.counts[row["history"]].has_gts = True
        for found in self.histories:
            counts = self.counts[found.number]
            self.known[found.number] = Known(found.manifest, applying(counts, partial=found.partial))

    def _find_suspects(self) -> DataFrame:
        about = self.spark.createDataFrame(
            [(n, c.manifest.quiescent, c.has_gts) for n, c in self.counts.items()],
            "history long, quiescent boolean, has_gts boolean",
        )
        quiescent = [n for n, c in self.counts.items() if c.manifest.quiescent and c.replies]
        replies = self.events.where("event = 'reply' and kind = 'reply' and client is not null")
        facts = screen.facts(self.logged, self.multicasts, self._of(replies, quiescent), self.stretches, self.words)
        places = screen.destinations(self.multicasts, self.stretches, self.words)
        self.judged = self._keep(screen.judged_facts(facts, places, about, self.words))
        return self.judged.where("suspect")

    def _find_falling(self) -> DataFrame:
        return self._keep(screen.disordered(self.logged))

    def _judge(self, suspects: DataFrame, falling: DataFrame) -> DataFrame:
        """Violations of all that is suspect."""
        dated = {n for n, c in self.counts.items() if c.has_gts}
        conflicts = self._keep(self._of(screen.shared_timestamps(self.judged), dated))
        doubtful = suspects.where("delivered")
        messages = slices.in_slices(suspects).union(slices.in_one(conflicts, CONFLICTS))
        if batched := {n for n, c in self.counts.items() if c.batches}:
            overlapping = slices.of_overlapping_batches(
                self._of(self.multicasts, batched), self._of(self.deliveries, batched), doubtful
            )
            messages = messages.union(slices.in_one(overlapping, BATCHES))
        nodes = self._of(falling, dated)
        if self.interrupted:
            restored = self._of(self.processes, dated).where(F.size("restores") > 0)
            nodes = nodes.union(restored.select("history", "node")).distinct()
        ends = self.stretches.where("count > 0").select("history", F.col("last_position").alias("position"))
        walked = [n for n, c in self.counts.items() if needs_walk(c, self.known[n].judged)]
        messages, nodes = self._keep(messages), self._keep(nodes)
        found = VERDICTS.empty(self.spark)
        if walked or not (messages.isEmpty() and nodes.isEmpty()):
            marks = self._keep(ends.union(slices.newest_lives(self.events)))
            rows = slices.sliced(self.events, messages, nodes, self._numbers(walked), marks)
            found = rows.groupBy("history", "task").applyInArrow(judge_slices(self.known), VERDICTS.schema)
        unproven = self.counts.keys() - dated | _histories(doubtful) | _histories(conflicts) | _histories(falling)
        return found.union(self._judged_order(unproven)) if unproven else found

    def _judged_order(self, histories: Iterable[int]) -> DataFrame:
        ended = self.stretches.select("history", "node", "log", "stretch", "ended")
        rows = self._of(self.logged, histories).where("group is not null").select(
            "history", "group", "node", "log", "stretch", "position", *MESSAGE
        )  # fmt: skip
        placed = rows.join(F.broadcast(ended), ["history", "node", "log", "stretch"], "left")
        return placed.groupBy("history").applyInArrow(judge_order(self.known), VERDICTS.schema)

    def _of(self, frame: DataFrame, histories: Iterable[int]) -> DataFrame:
        """The rows of some histories."""
        wanted = {*histories}
        if wanted == {*self.counts}:
            return frame
        return frame.join(F.broadcast(self._numbers(wanted)), "history", "left_semi")

    def _numbers(self, histories: Iterable[int]) -> DataFrame:
        return self.spark.createDataFrame([(n,) for n in sorted(histories)], "history long")

    def _verdict(self, verdicts: DataFrame) -> Verdict:
        number = Window.partitionBy("property").orderBy("history", "node", *MESSAGE)
        total = F.count("*").over(Window.partitionBy("property"))
        few = verdicts.withColumns({"number": F.row_number().over(number), "total": total})
        rows = [row.asDict() for row in few.where(F.col("number") <= EXAMPLES_MAX).collect()]
        found = {row["property"]: row["total"] for row in rows}
        directories = {h.number: str(h.directory) for h in self.histories}
        examples = [row | {"directory": directories[row["history"]]} for row in rows]
        return Verdict(
            len(self.histories),
            sum(c.events for c in self.counts.values()),
            sum(c.deliveries for c in self.counts.values()),
            {name: sum(name in known.judged for known in self.known.values()) for name in PROPERTIES},
            {name: found.get(name, 0) for name in PROPERTIES},
            sorted(examples, key=lambda row: ([*PROPERTIES].index(row["property"]), row["number"])),
            verdicts,
            self._notes(),
        )

    def _notes(self) -> list[str]:
        notes = []
        for found in self.histories:
            for problem in found.problems:
                notes.append(f"{found.directory} is judged in part: {problem}")
            if silent := self.counts[found.number].silent:
                told = ", ".join(map(str, silent))
                notes.append(f"{found.directory} has no event of process {told}: it never ran, or its file is missing")
        return notes


def message_of(row: Mapping[str, Any]) -> str | None:
    """The id of the message that a violation is about."""
    return None if row["client"] is None else str(MessageId(row["client"], row["session"], row["seq"]))


def _histories(frame: DataFrame) -> set[int]:
    return {row["history"] for row in frame.select("history").distinct().collect()}
