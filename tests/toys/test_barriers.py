"""The toy that orders by wall clock keeps its promises on the explorer and on the simulator, and its mutants do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from tests.toys.barriers import BARRIERS, Barriers, Lease, Optimistic, Retracted
from tests.toys.judges import OptimisticOrder

from braidcast.core.application import Delivered
from braidcast.core.process import Process, Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Dest, Pid, Topology
from braidcast.history.event import DELIVER
from braidcast.properties.check import check
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.clocks import ClockPlan
from braidcast.simulator.delays import Uniform
from braidcast.simulator.explorer import Report, Setup, explore, order_invariants, submit
from braidcast.simulator.faults import Fault
from braidcast.simulator.load import Load
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.run import Result, simulate

TO_BOTH_AND_TO_ONE: Sequence[Dest] = ((0, 1), (1,))
STEPS_BACK: dict[Pid, Sequence[Ticks]] = {0: (1010, 1000), 1: (1005,)}
OVERTAKES: dict[Pid, Sequence[Ticks]] = {0: (1010, 1030), 1: (1020,)}


class ForgetsLease(Barriers):
    """Promises from memory: after a restart it knows only what it stamped."""

    __slots__ = ()

    def redo_lease(self, r: Lease) -> None:
        """Nothing."""


class IgnoresGaps(Barriers):
    """Believes a barrier although stamps before it were lost."""

    __slots__ = ()

    def misses(self, source: Pid, sent: int) -> bool:
        """Never."""
        return False


class NeverRetracts(Barriers):
    """Delivers optimistically in the order in which windows end."""

    __slots__ = ()

    def deliver_optimistically(self, gts: int) -> None:
        """Whatever came before."""
        self.optimistic.append(gts)
        self.deliver(Optimistic(self.pending[gts], gts))


def barriers(make: type[Process]) -> Protocol:
    return replace(BARRIERS, make=make)


# -- on the explorer -------------------------------------------------------------------------------------------------


Walls = dict[Pid, Sequence[Ticks]]


def explored(
    make: type[Process], walls: Walls, beats: int, crashes: int = 0, losses: int = 0, again: int = 0
) -> Report:
    topology = Topology.parse("2x1")
    setup = Setup(
        barriers(make),
        topology,
        submissions=submit(topology, TO_BOTH_AND_TO_ONE),
        timers={"Beat": beats, "Ripe": None},
        walls=walls,
        crashes=crashes,
        losses=losses,
        resubmissions=again,
    )
    return explore(setup, [*order_invariants(setup), OptimisticOrder()])


@pytest.mark.parametrize(
    ("walls", "faults", "states", "outcomes"),
    [
        (STEPS_BACK, {"beats": 2}, 2902, 28),
        (STEPS_BACK, {"beats": 2, "crashes": 1}, 26134, 342),
        (STEPS_BACK, {"beats": 1, "crashes": 1, "again": 1}, 29656, 202),
        (OVERTAKES, {"beats": 2, "losses": 1}, 11010, 64),
        (OVERTAKES, {"beats": 2, "crashes": 1}, 30898, 367),
    ],
    ids=["clock steps back", "and a restart", "and the client retries", "session lost", "restart"],
)
def test_barriers_keep_order_in_every_schedule(
    walls: dict[Pid, Sequence[Ticks]], faults: dict[str, int], states: int, outcomes: int
) -> None:
    report = explored(Barriers, walls, **faults)
    assert report.violations == ()
    assert report.exhausted
    assert (report.states, report.outcomes) == (states, outcomes)


def test_every_kind_of_delivery_occurs() -> None:
    report = explored(Barriers, OVERTAKES, beats=2, losses=1)
    kinds = {type(delivery) for outcome in report.terminal for log in outcome for delivery in log}
    assert kinds == {Delivered, Optimistic, Retracted}


@pytest.mark.parametrize(
    ("mutant", "walls", "faults", "property"),
    [
        (ForgetsLease, STEPS_BACK, {"beats": 1, "crashes": 1, "again": 1}, "delivery order"),
        (IgnoresGaps, OVERTAKES, {"beats": 2, "losses": 1}, "delivery order"),
        (IgnoresGaps, OVERTAKES, {"beats": 2, "crashes": 1}, "delivery order"),
        (NeverRetracts, STEPS_BACK, {"beats": 1}, "optimistic order"),
    ],
)
def test_the_explorer_catches_the_mutant(
    mutant: type[Process], walls: dict[Pid, Sequence[Ticks]], faults: dict[str, int], property: str
) -> None:
    report = explored(mutant, walls, **faults)
    assert property in {violation.property for violation in report.violations}


# -- on the simulator ------------------------------------------------------------------------------------------------


@cache
def simulated(make: type[Process], seed: int) -> Result:
    """Random delays, clocks that are off and step back, restarts, lost sessions, effects that lag."""
    faults = (
        Fault(at=250, kind="break", pids=(0, 2)),
        Fault(at=300, kind="crash", pids=(0,), ticks=100, forced=True),
        Fault(at=350, kind="clock", pids=(0,), ticks=-600),
        Fault(at=500, kind="crash", pids=(1,), ticks=100, forced=True),
    )
    return simulate(
        SimulationPlan(
            protocol=barriers(make),
            topology=Topology.parse("3x1"),
            seed=seed,
            network=NetworkPlan(delay=Uniform(1, 30)),
            application=ApplicationPlan(lag=40),
            clocks=ClockPlan(offset={0: 500, 1: 510, 2: 490}, drift_ppm={1: 200}),
            load=Load(messages=30, clients=3, gap=Uniform(0, 150), spread=(1, 2, 1)),
            faults=faults,
        )
    )


def violations(result: Result) -> list[str]:
    assert result.history is not None
    logs = {p: tuple(application.applied) for p, application in result.applications.items()}
    found = [f"optimistic: {what}" for what in OptimisticOrder().judge(logs)]
    return found + [str(violation) for violation in check(result.history, ORDER)]


ORDER = (
    "delivered_was_multicast",
    "delivered_where_addressed",
    "no_duplicates",
    "replies_are_true",
    "one_gts_per_message",
    "one_message_per_gts",
    "gts_increases",
    "one_order",
    "no_gaps",
    "agreement",
    "termination",
)


@pytest.mark.parametrize("seed", range(12))
def test_barriers_keep_order_through_restarts_and_clock_steps(seed: int) -> None:
    result = simulated(Barriers, seed)
    assert result.quiescent, result.waiting
    assert violations(result) == []


def test_runs_see_mistakes_of_optimism() -> None:
    kinds = set()
    for seed in range(12):
        history = simulated(Barriers, seed).history
        assert history is not None
        kinds |= {type(event.what) for event in history.events if event.event == DELIVER}
    assert kinds == {Delivered, Optimistic, Retracted}


def test_the_simulator_catches_promises_from_memory() -> None:
    caught = [seed for seed in range(12) if violations(simulated(ForgetsLease, seed))]
    assert caught
