"""A run: replayed exactly by its seed, on any machine, and judged for liveness."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulator.toys import STORE, Numbered, Store

from braidcast.cli.registry import SKEEN, WHITEBOX
from braidcast.core.errors import TopologyError
from braidcast.core.topology import Topology
from braidcast.properties.check import check
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.delays import Uniform
from braidcast.simulator.disk import DiskPlan
from braidcast.simulator.faults import FaultRates
from braidcast.simulator.judge import judge
from braidcast.simulator.load import ClientPlan, Load
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import Limits, SimulationPlan
from braidcast.simulator.recorder import canonical
from braidcast.simulator.run import simulate


def plan(seed: int = 5) -> SimulationPlan:
    return SimulationPlan(
        WHITEBOX,
        Topology.parse("2x3"),
        options=WHITEBOX.paced(WHITEBOX.options(), 20),
        seed=seed,
        network=NetworkPlan(delay=Uniform(1, 20)),
        disk=DiskPlan(fsync=3, checkpoint_every=15),
        application=ApplicationPlan(lag=30),
        load=Load(messages=20, gap=Uniform(0, 400), duplicates=0.2, batches=0.2),
        clients=ClientPlan(timeout=400),
        faults=FaultRates(end=5000, crashes=3, leader_crashes=2, breaks=3, partitions=1, pauses=1, total_crashes=0.5),
    )


SCRIPT = "from tests.simulator.test_run import plan, simulate; print(simulate(plan()).digest)"


def test_one_seed_is_one_digest_whatever_the_interpreter_hashes_strings_to() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "4711")
    }  # fmt: skip
    assert digests == {simulate(plan()).digest}


def test_another_seed_is_another_run() -> None:
    assert simulate(plan(1)).digest != simulate(plan(2)).digest


def test_recording_changes_nothing_about_a_run() -> None:
    recorded, silent = simulate(plan()), simulate(replace(plan(), record=False))
    assert silent.history is None
    assert silent.digest == ""
    assert (recorded.events, recorded.ticks, recorded.latencies) == (silent.events, silent.ticks, silent.latencies)
    assert {p: a.applied for p, a in recorded.applications.items()} == {
        p: a.applied for p, a in silent.applications.items()
    }


@pytest.mark.parametrize("seed", range(6))
def test_whitebox_with_faults_is_correct_and_comes_to_rest(seed: int) -> None:
    result = simulate(plan(seed))
    assert judge(result) == []
    assert result.quiescent
    assert result.history is not None
    assert result.history.manifest.quiescent


def test_skeen_is_correct_with_random_delays() -> None:
    load = Load(clients=4, messages=100, gap=Uniform(0, 20))
    result = simulate(
        SimulationPlan(SKEEN, Topology.parse("4x1"), network=NetworkPlan(delay=Uniform(1, 60)), load=load)
    )
    assert result.quiescent
    assert len(result.latencies) == 100
    assert result.history is not None
    assert check(result.history) == []


def test_a_run_that_does_not_come_to_rest_says_who_waits_for_what() -> None:
    load = Load(clients=1, messages=1)
    lossy = NetworkPlan(lose={"Propose": 1.0})
    stuck = SimulationPlan(SKEEN, Topology.parse("2x1"), network=lossy, load=replace(load, spread=(0, 1)))
    result = simulate(replace(stuck, limits=Limits(grace=5000)))
    assert not result.quiescent
    (violation,) = judge(result)
    assert violation.property == "termination"
    assert "client 1000 waits for group 0 and 1 to reply to 1000.1.1" in violation.seen


class Unreadable(Store):
    """Cannot read its own log."""

    __slots__ = ()

    def recover(self, records: Iterable[Any]) -> None:
        raise ZeroDivisionError("by design")


def test_a_process_that_raises_ends_the_run_and_is_a_violation() -> None:
    result = simulate(
        SimulationPlan(
            replace(STORE, make=Unreadable),
            Topology.parse("1"),
            load=Load(messages=3),
            faults=FaultRates(begin=200, end=300, total_crashes=1),
        )
    )
    (violation,) = [violation for violation in judge(result) if violation.property == "no_exception"]
    assert "ZeroDivisionError: by design (in recover, test_run.py:" in violation.seen


def test_a_topology_that_the_protocol_cannot_run_on_is_refused() -> None:
    with pytest.raises(TopologyError):
        simulate(SimulationPlan(SKEEN, Topology.parse("2x3")))


def test_the_canonical_text_of_a_message_does_not_depend_on_how_sets_iterate() -> None:
    assert canonical(Numbered(3)) == "Numbered(n=3)"
    assert canonical(frozenset({"b", "a"})) == "{'a','b'}"
    assert canonical({"b": (1, None), "a": b"x"}) == "{'a':b'x','b':(1,None)}"
