"""Spark judges as the oracle does: the same properties, the same violations, word for word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.properties.tamper import TAMPERINGS
from tests.properties.test_by_hand import deliver, history, submit, unit
from tests.spark.verdicts import a_history, assert_equal_verdicts, mixed_up, tampered, written

from braidcast.core.application import Restored
from braidcast.history.event import History, Resumed
from braidcast.properties.check import PROPERTIES


def by_hand() -> list[History]:
    """Corner cases: no timestamps, cycles over three groups, lost effects, snapshots, batches, strangers, silence."""
    a, b, c = unit(1, 0, 2), unit(2, 0, 1), unit(3, 1, 2)
    one, two, three = unit(1, 0), unit(2, 0), unit(3, 0)
    again = [("crash", 0, None), ("restart", 0, Resumed(10)), *deliver(0, (two, 20))]
    other_order = [("restart", 0, Resumed(0)), *deliver(0, (two, 10), (one, 20))]
    full = deliver(0, (one, 10), (two, 20), (three, 30))
    all_three = [*submit(one, two, three), *full]
    batch, overlapping = unit(1, 0, first=0, count=3), unit(2, 0, first=2, count=2)
    return [
        history(*submit(a, b, c), *deliver(0, a, b), *deliver(1, b, c), *deliver(2, c, a), sizes=(1, 1, 1)),
        history(*submit(one, two), *deliver(0, (one, 10), (two, 20)), *again, quiescent=True),
        history(*submit(one, two), *deliver(0, (one, 10), (two, 20)), *other_order),
        history(*submit(one), *deliver(0, (one, 10)), ("restart", 0, Resumed(0)), quiescent=True),
        history(*all_three, ("deliver", 1, Restored(20, b"")), *deliver(1, (three, 30)), sizes=(2,)),
        history(*all_three, ("deliver", 1, Restored(10, b"")), *deliver(1, (three, 30)), sizes=(2,)),
        history(*submit(one, two), *full, ("deliver", 0, Restored(40, b"")), *deliver(0, (two, 20)), quiescent=True),
        history(*submit(batch, overlapping), *deliver(0, (batch, 10), (overlapping, 20))),
        history(*submit(one), *deliver(9, (one, 10)), quiescent=True),
        history(*submit(one), *deliver(0, (one, 10)), sizes=(3,), quiescent=True, crashed=(1, 2)),
        history(*submit(one, two), *deliver(0, (one, 10), (two, 10)), *deliver(0, (one, 10))),
        history(*submit(unit(1, 0, 7)), *deliver(0, (unit(1, 0, 7), 10)), quiescent=True),
        history(*submit(one, unit(1, 0, 1)), *deliver(0, (one, 10)), *deliver(1, (unit(1, 0, 1), 10)), quiescent=True),
        history(*submit(*(unit(n, 0) for n in range(1, 4))), quiescent=True, sizes=(64, 1)),
    ]


def test_spark_and_the_oracle_agree_on_every_history(spark: SparkSession, tmp_path: Path) -> None:
    """All in one question to Spark: correct ones, each tampering, broken ones, corner cases."""
    correct = [a_history(seed) for seed in range(8)]
    restless = [History(replace(h.manifest, quiescent=False, promises=(), crashed=(0,)), h.events) for h in correct[:4]]
    wrong = [history for name in TAMPERINGS for history in tampered(name, 1)]
    mixed = [mixed_up(seed) for seed in range(12)]
    folder = written([*correct, *restless, *wrong, *mixed, *by_hand()], tmp_path)
    verdict = assert_equal_verdicts(spark, folder)
    assert {name for name, count in verdict.violations.items() if count} == {*PROPERTIES}, "each is broken by something"
    for example in verdict.examples:
        assert example["number"] <= 5


@pytest.mark.soak
def test_spark_and_the_oracle_agree_on_thousands_of_histories(spark: SparkSession, tmp_path: Path) -> None:
    correct = [a_history(seed) for seed in range(1000)]
    restless = [History(replace(h.manifest, quiescent=False, promises=()), h.events) for h in correct[:200]]
    wrong = [history for name in TAMPERINGS for history in tampered(name, 30)]
    mixed = [mixed_up(seed) for seed in range(1000)]
    assert_equal_verdicts(spark, written([*correct, *restless, *wrong, *mixed, *by_hand()], tmp_path))
