"""The toy without a leader keeps its promises on the explorer and on the simulator, and its mutants do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.toys.causal import CAUSAL, Cast, Causal, CausallyDelivered, Change, Configured, Flush, Options, View
from tests.toys.judges import CausalOrder, EveryMessageEverywhere, VirtualSynchrony, views_of

from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Process
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Pid, Pids, Topology
from braidcast.simulator.delays import Uniform
from braidcast.simulator.explorer import Report, Setup, Submission, explore
from braidcast.simulator.load import ClientPlan
from braidcast.simulator.load import Submission as Multicasting
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.run import Simulation

THREE = Topology.of_sizes(3)
SERVICE = 2000
"""The membership service and whoever else is not a process."""


class OnlyFifo(Causal):
    """Delivers what comes next of each sender, whatever it comes after."""

    __slots__ = ()

    def is_next(self, sender: Pid, c: Cast) -> bool:
        """By the sender alone."""
        return c.after[self.view.members.index(sender)] == self.have[sender] + 1


class OmitsFlush(Causal):
    """Changes views without delivering what companions delivered."""

    __slots__ = ()

    def install(self, view: View) -> None:
        """Nobody told anything."""
        self.flushes = {p: Flush(f.next, f.previous, ()) for p, f in self.flushes.items()}
        super().install(view)


class NeverStops(Causal):
    """Goes on delivering in the old view after it has told the others what it delivered there."""

    __slots__ = ()

    def on_cast(self, sender: Pid, c: Cast) -> None:
        """As if there were no next view."""
        if c.view != self.view:
            return super().on_cast(sender, c)
        self.waiting.append((sender, c))
        return self.deliver_ready()


def causal(make: type[Process]) -> Protocol:
    return replace(CAUSAL, make=make)


# -- on the explorer -------------------------------------------------------------------------------------------------


def explored(
    make: type[Process], at: Pids, changes: Sequence[tuple[Pid, View]] = (), alone: Pids = (), all_at: Pids = ()
) -> Report:
    """One message at each of `at`; changes announced to the given processes, at any moment."""
    multicasts = [Multicast(MessageId(1000 + n, 1, 1), (0,), b"m%d" % n) for n in range(len(at))]
    submissions = [Submission(m.id.client, p, m) for p, m in zip(at, multicasts, strict=True)]
    submissions += [Submission(SERVICE + n, p, Change(view)) for n, (p, view) in enumerate(changes)]
    setup = Setup(causal(make), THREE, Options(alone), tuple(submissions))
    everything = EveryMessageEverywhere({p: [m.id for m in multicasts] for p in all_at})
    return explore(setup, [CausalOrder(), VirtualSynchrony(), everything])


DEPARTURE = [(0, View(1, (0, 1)))]
MERGE = [(0, View(1, (0, 1, 2)))]
TWO_CHANGES = [(0, View(1, (0, 1))), (1, View(2, (0, 1, 2)))]


@pytest.mark.parametrize(
    ("at", "changes", "alone", "all_at", "states", "outcomes"),
    [
        ((0, 1, 2), (), (), (0, 1, 2), 690, 38),
        ((2, 1), DEPARTURE, (), (), 320, 8),
        ((0, 1, 2), DEPARTURE, (), (), 3932, 68),
        ((0, 2), MERGE, (2,), (), 581, 7),
        ((2,), TWO_CHANGES, (), (), 1264, 8),
    ],
    ids=["one view", "2 departs", "2 departs, 3 messages", "2 was alone and joins", "2 departs and returns"],
)
def test_causal_keeps_its_promises_in_every_schedule(
    at: Pids, changes: Sequence[tuple[Pid, View]], alone: Pids, all_at: Pids, states: int, outcomes: int
) -> None:
    report = explored(Causal, at, changes, alone, all_at)
    assert report.violations == ()
    assert report.exhausted
    assert (report.states, report.outcomes) == (states, outcomes)


def test_only_companions_are_in_a_transitional_set() -> None:
    report = explored(Causal, (), MERGE, alone=(2,))
    (outcome,) = report.terminal
    view = View(1, (0, 1, 2))
    assert [log[-1] for log in outcome] == [
        Configured(view, (0, 1)), Configured(view, (0, 1)), Configured(view, (2,))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mutant", "at", "changes", "property"),
    [
        (OnlyFifo, (0, 1, 2), (), "causal order"),
        (OmitsFlush, (2, 1), DEPARTURE, "virtual synchrony"),
        (NeverStops, (2, 1), DEPARTURE, "virtual synchrony"),
    ],
)
def test_the_explorer_catches_the_mutant(
    mutant: type[Process], at: Pids, changes: Sequence[tuple[Pid, View]], property: str
) -> None:
    report = explored(mutant, at, changes)
    assert {violation.property for violation in report.violations} == {property}


# -- on the simulator ------------------------------------------------------------------------------------------------


def simulated(make: type[Process], seed: int) -> dict[Pid, tuple[object, ...]]:
    """Five processes under load; 4 departs, {0, 1} and {2, 3} part, all merge. What each delivered."""
    topology = Topology.of_sizes(5)
    load = tuple(Multicasting(at=7 * n, client=1000 + n, dest=(0,), via=(n % 5,)) for n in range(30))
    plan = SimulationPlan(
        protocol=causal(make),
        topology=topology,
        seed=seed,
        network=NetworkPlan(delay=Uniform(1, 40)),
        clients=ClientPlan(timeout=100_000),
        load=load,
    )
    simulation = Simulation(plan)
    simulation.start()
    for at, pid, view in (
        (60, 0, View(1, (0, 1, 2, 3))),
        (100, 1, View(2, (0, 1))),
        (110, 2, View(3, (2, 3))),
        (180, 3, View(4, (0, 1, 2, 3, 4))),
    ):
        simulation.world.call(at, simulation.nodes[pid].receive, SERVICE, Change(view))
    simulation.finish()
    return {p: tuple(application.applied) for p, application in simulation.result().applications.items()}


def violations(logs: dict[Pid, tuple[object, ...]]) -> list[str]:
    return [what for judge in (CausalOrder(), VirtualSynchrony()) for what in judge.judge(logs)]


@pytest.mark.parametrize("seed", range(12))
def test_causal_keeps_its_promises_while_components_part_and_merge(seed: int) -> None:
    logs = simulated(Causal, seed)
    assert violations(logs) == []
    ends = {p: views_of(log)[-1][0].view.number for p, log in logs.items()}
    assert set(ends.values()) == {4}, "everybody arrives in the last view"
    by_itself = views_of(logs[4])
    assert all(isinstance(d, CausallyDelivered) for _, deliveries in by_itself for d in deliveries)


@pytest.mark.parametrize("mutant", [OnlyFifo, OmitsFlush, NeverStops])
def test_the_simulator_catches_the_mutant(mutant: type[Process]) -> None:
    assert any(violations(simulated(mutant, seed)) for seed in range(12))
