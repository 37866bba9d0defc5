"""Campaigns: the same whatever the number of processes, with a command for every failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from braidcast.cli.registry import SKEEN, WHITEBOX
from braidcast.core.topology import Topology
from braidcast.protocols.whitebox import WhiteBox
from braidcast.protocols.whitebox.messages import Accepted
from braidcast.simulator.fuzz import fuzz, fuzz_one
from braidcast.simulator.fuzz_plans import draw_plan, seed_of
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.scenario_text import parse_scenario
from braidcast.simulator.scenarios import run_scenario
from braidcast.simulator.shrink import shrink, spelled_out


class ForgetsPromises(WhiteBox):
    """Mutation 17: a restart forgets the ballot that was promised."""

    __slots__ = ()

    def start(self, applied: int = 0) -> None:
        self.ballot = self.cballot
        super().start(applied)


class ForgetsAccepted(WhiteBox):
    """Mutation 17: a restart forgets what was accepted."""

    __slots__ = ()

    def redo_accepted(self, r: Accepted) -> None:
        pass


MUTANT = replace(WHITEBOX, make=ForgetsAccepted)
"""Fails within the first runs."""


def size_of(plan: SimulationPlan) -> int:
    """How many processes, messages and faults: what shrinking makes smaller."""
    assert isinstance(plan.load, tuple)
    assert isinstance(plan.faults, tuple)
    return len(plan.topology.pids) + len(plan.load) + len(plan.faults)


def test_seeds_of_runs_differ_and_do_not_depend_on_the_machine() -> None:
    assert len({seed_of(base, index) for base in range(20) for index in range(20)}) == 400
    assert seed_of(1, 0) == 157974076829889


def test_a_campaign_of_whitebox_finds_nothing_and_counts_what_it_saw() -> None:
    campaign = fuzz(WHITEBOX, 30, 3)
    found = campaign.to_json()
    assert found["failures"] == []
    assert (found["runs"], found["violations"]) == (30, 0)
    assert all(
        found[name] > 0 for name in ("events", "leader_changes", "restarts", "catchups", "redeliveries", "collected")
    )


def test_a_campaign_of_skeen_has_no_faults_and_finds_nothing() -> None:
    campaign = fuzz(SKEEN, 60, 3)
    assert campaign.ok
    assert campaign.counters["restarts"] == campaign.counters["lost"] == 0


def test_a_campaign_is_the_same_with_one_process_and_with_two() -> None:
    one, two = fuzz(WHITEBOX, 20, 5, jobs=1), fuzz(WHITEBOX, 20, 5, jobs=2)
    assert one.to_json() == two.to_json()
    assert one.counters == two.counters


def test_a_campaign_that_never_saw_what_it_should_proves_nothing() -> None:
    campaign = fuzz(replace(WHITEBOX, sometimes=("collected", "sneezed")), 200, 1, topology=Topology.parse("1"))
    assert not campaign.ok
    assert len(campaign.never_seen) == 1
    assert "`sneezed` at least once" in campaign.never_seen[0]


@pytest.mark.parametrize("shape", ["1", "4x1"])
def test_a_campaign_on_groups_of_one_need_not_see_what_cannot_occur_there(shape: str) -> None:
    campaign = fuzz(WHITEBOX, 200, 1, topology=Topology.parse(shape))
    assert (campaign.ok, campaign.never_seen, campaign.too_few) == (True, [], False)


def test_progress_is_reported_run_by_run() -> None:
    seen: list[tuple[int, int]] = []
    fuzz(SKEEN, 5, 1, progress=lambda runs, violations: seen.append((runs, violations)))
    assert seen == [(n, 0) for n in range(1, 6)]


def test_given_options_and_topology_come_before_drawn_ones_and_into_the_command() -> None:
    topology = Topology.parse("3")
    plan = draw_plan(WHITEBOX, 7, {"follower_delivery": "early"}, topology)
    assert (plan.options.follower_delivery, plan.topology.shape) == ("early", "3")
    failing = fuzz(MUTANT, 400, 1, options={"follower_delivery": "early"}, topology=topology, failures_max=1)
    assert failing.failures[0].command == (
        f"braidcast fuzz --protocol whitebox --replay {failing.failures[0].seed}"
        " --option follower_delivery=early --topology 3"
    )


def test_a_failing_run_is_replayed_by_its_seed() -> None:
    failure = fuzz(MUTANT, 400, 1, failures_max=1).failures[0]
    _, result, violations = fuzz_one(MUTANT, failure.seed)
    assert tuple(str(violation) for violation in violations[:20]) == failure.violations
    assert result.digest == fuzz_one(MUTANT, failure.seed)[1].digest


@pytest.mark.parametrize("mutant", [ForgetsPromises, ForgetsAccepted])
def test_a_failing_run_is_shrunk_to_a_scenario_that_fails_the_same_property(mutant: type[WhiteBox]) -> None:
    protocol = replace(WHITEBOX, make=mutant)
    failure = fuzz(protocol, 400, 2, failures_max=1).failures[0]
    plan, _, _ = fuzz_one(protocol, failure.seed)
    shrunk = shrink(plan, failure.properties[0])
    assert shrunk.reproduces
    before, after = size_of(spelled_out(plan)), size_of(shrunk.plan)
    assert after < before / 2
    mutated = run_scenario(parse_scenario(shrunk.text), protocol)
    assert mutated.ok
    # What the mutation breaks, the protocol itself does not.
    whole = run_scenario(parse_scenario(shrunk.text), WHITEBOX)
    assert failure.properties[0] not in [violation.property for violation in whole.violations]
