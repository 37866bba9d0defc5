"""A schedule that the explorer finds becomes a file that anybody can run."""

from __future__ import annotations

from dataclasses import replace

from braidcast.cli.registry import WHITEBOX
from braidcast.core.topology import Topology
from braidcast.protocols.whitebox import WhiteBox
from braidcast.simulator.explorer import Setup, explore, submit
from braidcast.simulator.explorer.scenario import scenario_of
from braidcast.simulator.scenario_text import parse_scenario
from braidcast.simulator.scenarios import run_scenario


class Hasty(WhiteBox):
    """Delivers what is committed although something below it is not (line 21 left out)."""

    __slots__ = ()

    def deliver_committed(self) -> None:
        for entry in self.pending.in_order():
            if entry.gts > self.max_delivered_gts:
                self.deliver_next(entry)


def test_counterexample_fails_again_as_a_scenario_and_passes_on_the_right_protocol() -> None:
    hasty = replace(WHITEBOX, make=Hasty)
    topology = Topology.of_sizes(1, 1)
    report = explore(Setup(hasty, topology, submissions=submit(topology, 2)))
    assert report.violations
    text = scenario_of(Setup(hasty, topology, submissions=submit(topology, 2)), report.violations[0])
    scenario = parse_scenario(text, "found")
    assert run_scenario(scenario, hasty).violations
    assert run_scenario(scenario, WHITEBOX).ok
    assert not explore(Setup(WHITEBOX, topology, submissions=submit(topology, 2))).violations
