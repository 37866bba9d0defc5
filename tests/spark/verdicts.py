"""The verdict of Spark beside that of the oracle in memory, for many histories at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession
from tests.properties import tamper_inside
from tests.properties.histories import broken, correct_history
from tests.properties.tamper import TAMPERINGS

from braidcast.history.event import History
from braidcast.history.store import read_history, write_history
from braidcast.properties.check import PROPERTIES, judge_history
from braidcast.spark.reading import find_histories
from braidcast.spark.verify import Verdict, verify

assert tamper_inside.__doc__, "imported for what it adds to TAMPERINGS"
Found = Counter[tuple[object, ...]]


def a_history(seed: int) -> History:
    return correct_history(seed, messages=1 + seed % 9, faults=seed % 3 > 0)


def tampered(name: str, count: int) -> list[History]:
    """The first histories that can be made wrong in this way."""
    tampering = TAMPERINGS[name][1]
    found: list[History] = []
    for seed in range(60):
        history = tampering(Random(seed), a_history(seed))
        if history is not None:
            found.append(history)
        if len(found) == count:
            break
    return found


def mixed_up(seed: int) -> History:
    """A history of which a part makes no sense any more."""
    random = Random(seed)
    return broken(random, a_history(seed), random.choice((1, 5, 50)))


def written(histories: Iterable[History], folder: Path) -> Path:
    """A directory of histories."""
    for number, history in enumerate(histories):
        write_history(history, folder / f"{number:05}")
    return folder


def by_oracle(folder: Path) -> tuple[Found, Counter[str]]:
    """Every violation, and in how many histories each property was judged."""
    violations: Found = Counter()
    judged: Counter[str] = Counter()
    for found in find_histories([folder]):
        judgement = judge_history(read_history(found.directory))
        judged.update(judgement.judged)
        violations.update(
            (found.number, v.property, v.group, v.node, v.message, v.expected, v.seen) for v in judgement.violations
        )
    return violations, judged


def by_spark(verdict: Verdict) -> tuple[Found, Counter[str]]:
    """The same of a verdict."""
    rows = verdict.rows.collect()
    violations: Found = Counter(
        (
            row.history, row.property, row.group, row.node,
            None if row.client is None else (row.client, row.session, row.seq), row.expected, row.seen,
        )
        for row in rows
    )  # fmt: skip
    assert verdict.violations == {name: sum(row.property == name for row in rows) for name in PROPERTIES}
    return violations, Counter({name: count for name, count in verdict.judged.items() if count})


def assert_equal_verdicts(spark: SparkSession, folder: Path) -> Verdict:
    """Judge all histories of a folder both ways."""
    verdict = verify(spark, find_histories([folder]))
    expected, judged = by_oracle(folder)
    seen, judged_too = by_spark(verdict)
    assert judged_too == judged
    assert seen - expected == Counter(), "found by Spark only"
    assert expected - seen == Counter(), "found by the oracle only"
    return verdict
