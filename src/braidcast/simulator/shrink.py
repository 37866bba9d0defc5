"""Makes a failing run small: fewer faults and messages, smaller groups, a plainer network; then writes it down.

Whatever is left out must leave the same property violated. Leaving something out shifts what is drawn after it, so
each smaller plan is tried with a few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from braidcast.core.errors import BraidcastError, TopologyError
from braidcast.core.topology import Topology
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.clocks import ClockPlan
from braidcast.simulator.delays import Constant
from braidcast.simulator.disk import DiskPlan
from braidcast.simulator.judge import simulate_and_judge
from braidcast.simulator.load import Submission
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.run import Simulation
from braidcast.simulator.scenario_text import parse_scenario
from braidcast.simulator.scenario_write import write_scenario
from braidcast.simulator.scenarios import run_scenario


@dataclass(frozen=True)
class Shrunk:
    """A small failing run."""

    plan: SimulationPlan
    property: str
    """What it violates."""
    text: str
    """The scenario file."""
    reproduces: bool
    """Whether the file, read and run, violates the same property."""
    runs: int
    """How many runs it took."""


def spelled_out(plan: SimulationPlan) -> SimulationPlan:
    """The same run, with load and faults as lists instead of rates."""
    simulation = Simulation(plan)
    return replace(plan, load=simulation.load, faults=simulation.fault_plan, options=simulation.options)


def shrink(
    plan: SimulationPlan,
    property: str,
    *,
    seeds: int = 2,
    runs_max: int = 600,
    progress: Callable[[int], None] | None = None,
    comment: str = "",
) -> Shrunk:
    """A smaller plan that violates the same property, as a scenario."""
    search = _Search(property, seeds, runs_max, progress)
    small = search.shrink(spelled_out(plan))
    text = write_scenario(small, comment or f"A shrunk run that violates {property}.", [f"expect violation {property}"])
    try:
        outcome = run_scenario(parse_scenario(text, "shrunk"), small.protocol)
        reproduces = any(violation.property == property for violation in outcome.violations)
    except BraidcastError:
        reproduces = False
    return Shrunk(small, property, text, reproduces, search.runs)


class _Search:
    def __init__(self, property: str, seeds: int, runs_max: int, progress: Callable[[int], None] | None) -> None:
        self.property = property
        self.seeds = seeds
        self.runs_max = runs_max
        self.progress = progress
        self.runs = 0

    def shrink(self, plan: SimulationPlan) -> SimulationPlan:
        before: SimulationPlan | None = None
        while plan != before and self.runs < self.runs_max:
            before = plan
            for simpler in (self._fewer_groups, self._fewer, self._plainer, self._shorter):
                plan = simpler(plan)
        return plan

    def failing(self, plan: SimulationPlan) -> SimulationPlan | None:
        """The plan, perhaps with another seed, if it still violates the property."""
        for seed in range(plan.seed, plan.seed + self.seeds):
            if self.runs >= self.runs_max:
                return None
            self.runs += 1
            if self.progress is not None:
                self.progress(self.runs)
            candidate = replace(plan, seed=seed)
            if any(violation.property == self.property for violation in simulate_and_judge(candidate)[1]):
                return candidate
        return None

    def _fewer_groups(self, plan: SimulationPlan) -> SimulationPlan:
        changed = True
        while changed:
            changed = False
            for topology, kept in _smaller_topologies(plan):
                if (found := self.failing(_moved(plan, topology, kept))) is not None:
                    plan, changed = found, True
                    break
        return plan

    def _fewer(self, plan: SimulationPlan) -> SimulationPlan:
        plan = self._without(plan, _list(plan.faults), lambda plan, faults: replace(plan, faults=faults))
        return self._without(plan, _list(plan.load), lambda plan, load: replace(plan, load=load))

    def _without(
        self,
        plan: SimulationPlan,
        items: tuple[Any, ...],
        having: Callable[[SimulationPlan, tuple[Any, ...]], SimulationPlan],
    ) -> SimulationPlan:
        """Leave out as much of a list as can be, in ever smaller pieces."""
        size = len(items)
        while size:
            start = 0
            while start < len(items):
                rest = items[:start] + items[start + size :]
                found = self.failing(having(plan, rest))
                if found is not None:
                    plan, items = found, rest
                else:
                    start += size
            size //= 2
        return plan

    def _plainer(self, plan: SimulationPlan) -> SimulationPlan:
        for change in _PLAINER:
            candidate = change(plan)
            if candidate != plan and (found := self.failing(candidate)) is not None:
                plan = found
        load = _list(plan.load)
        for i in range(len(load)):
            for plain in _plain_submissions(load[i]):
                candidate = replace(plan, load=(*load[:i], plain, *load[i + 1 :]))
                if plain != load[i] and (found := self.failing(candidate)) is not None:
                    plan, load = found, _list(found.load)
        return plan

    def _shorter(self, plan: SimulationPlan) -> SimulationPlan:
        faults = _list(plan.faults)
        for i in range(len(faults)):
            fault = faults[i]
            if fault.kind == "clock" or fault.ticks < 2:
                continue
            candidate = replace(plan, faults=(*faults[:i], replace(fault, ticks=fault.ticks // 2), *faults[i + 1 :]))
            if (found := self.failing(candidate)) is not None:
                plan, faults = found, _list(found.faults)
        return plan


def _smaller_topologies(plan: SimulationPlan) -> Iterator[tuple[Topology, list[int]]]:
    """Each with the groups that are kept, by their old numbers."""
    groups = plan.topology.groups
    sizes = [len(members) for members in groups]
    for g in range(len(groups)):
        smaller = []
        if len(groups) > 1:
            smaller.append((sizes[:g] + sizes[g + 1 :], [h for h in range(len(groups)) if h != g]))
        smaller += [([*sizes[:g], size, *sizes[g + 1 :]], list(range(len(groups)))) for size in range(1, sizes[g])]
        for shape, kept in smaller:
            try:
                topology = Topology.of_sizes(*shape)
                plan.protocol.check_topology(topology)
            except TopologyError:
                continue
            yield topology, kept


def _moved(plan: SimulationPlan, topology: Topology, kept: list[int]) -> SimulationPlan:
    """The plan on a smaller topology: processes keep their place in their group, what has none is left out."""
    group = {old: new for new, old in enumerate(kept)}
    pid = {
        old: new
        for old_group, new_group in group.items()
        for old, new in zip(plan.topology.groups[old_group], topology.groups[new_group], strict=False)
    }
    load = [
        replace(s, dest=tuple(group[g] for g in s.dest if g in group), via=tuple(pid[p] for p in s.via if p in pid))
        for s in _list(plan.load)
    ]
    faults = [
        replace(f, pids=tuple(pid[p] for p in f.pids if p in pid), group=group.get(f.group, 0))
        for f in _list(plan.faults)
        if f.kind not in ("crash_leader", "crash_group") or f.group in group
    ]
    needed = {"crash": 1, "lose_disk": 1, "break": 2, "partition": 1, "one_way": 1, "pause": 1, "clock": 1}
    clocks = plan.clocks
    network = plan.network
    regions = network.regions
    if regions is not None:
        places = {pid.get(p, p): place for p, place in regions.region_of.items() if p in pid}
        network = replace(network, regions=replace(regions, region_of=places))
    return replace(
        plan,
        topology=topology,
        load=tuple(s for s in load if s.dest),
        faults=tuple(f for f in faults if len(f.pids) >= needed.get(f.kind, 0)),
        clocks=ClockPlan(_renamed(clocks.offset, pid), _renamed(clocks.drift_ppm, pid)),
        network=network,
    )


def _renamed(values: Any, pid: dict[int, int]) -> dict[int, int]:
    return {pid[p]: value for p, value in values.items() if p in pid}


def _list(items: Any) -> tuple[Any, ...]:
    assert isinstance(items, tuple), "what is shrunk is spelled out"
    return items


def _plain_submissions(s: Submission) -> Iterator[Submission]:
    yield replace(s, again_after=0)
    yield replace(s, batch_count=0)
    yield replace(s, payload=b"")
    yield replace(s, dies=False)
    yield replace(s, new_session=False)


def _usual_delay(plan: SimulationPlan) -> Constant:
    delay = plan.network.delay
    ticks = getattr(delay, "high", 0) // 2 or getattr(delay, "median", 0) or getattr(delay, "mean", 0)
    return Constant(max(1, ticks)) if not isinstance(delay, Constant) else delay


_PLAINER: tuple[Callable[[SimulationPlan], SimulationPlan], ...] = (
    lambda plan: replace(plan, faults=tuple(replace(fault, forced=True) for fault in _list(plan.faults))),
    lambda plan: replace(plan, clocks=ClockPlan()),
    lambda plan: replace(plan, cpu=0),
    lambda plan: replace(plan, application=ApplicationPlan()),
    lambda plan: replace(plan, disk=replace(plan.disk, checkpoint_every=0)),
    lambda plan: replace(plan, disk=DiskPlan()),
    lambda plan: replace(plan, network=replace(plan.network, regions=None)),
    lambda plan: replace(plan, network=replace(plan.network, stale=0.0)),
    lambda plan: replace(plan, clients=replace(plan.clients, rebatch=0.0)),
    lambda plan: replace(plan, network=NetworkPlan(delay=_usual_delay(plan), lose=plan.network.lose)),
)
"""Ways to make everything around the processes plainer, one at a time."""
