"""Counterexamples: written as scenario files, they show the same violation in the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from braidcast.cli.registry import SKEEN, WHITEBOX
from braidcast.core.topology import Topology
from braidcast.protocols.skeen import Propose, Skeen
from braidcast.protocols.whitebox import Options
from braidcast.simulator.explorer import Violation, explore, scenario_of, standard_setup
from braidcast.simulator.explorer.moves import ClockStep, Delay, Fire, Lose, Restart, Resubmit, Stop
from braidcast.simulator.scenario_text import parse_scenario
from braidcast.simulator.scenarios import run_scenario


class NeverSyncs(Skeen):
    """Forgets Figure 1 line 15: the clock is not raised to the timestamps it learns."""

    __slots__ = ()

    def on_propose(self, sender: int, p: Propose) -> None:
        """With the clock as it was before."""
        clock = self.clock
        super().on_propose(sender, p)
        self.clock = clock


BROKEN = replace(SKEEN, make=NeverSyncs)


@pytest.mark.parametrize("delays", [None, 2], ids=["exhaustive", "2 delays"])
def test_a_counterexample_shows_its_violation_in_the_simulator(delays: int | None) -> None:
    setup = standard_setup(BROKEN, Topology.parse("2x1"), 2)
    (violation, *_) = explore(setup, delays=delays).violations
    outcome = run_scenario(parse_scenario(scenario_of(setup, violation)), BROKEN)
    assert outcome.violations


def test_the_shortest_counterexample_is_the_same_every_time() -> None:
    setup = standard_setup(BROKEN, Topology.parse("2x1"), 2)
    assert explore(setup).violations == explore(setup).violations


def test_options_that_are_not_the_default_are_in_the_file() -> None:
    setup = standard_setup(WHITEBOX, Topology.parse("1x3"), 1, Options(follower_delivery="early", prevote=False))
    text = scenario_of(setup, Violation("some property", "is violated", ()))
    assert "option follower_delivery=early\n" in text
    assert "option prevote=off\n" in text
    assert parse_scenario(text).protocol == "whitebox"


def test_every_move_has_its_line_or_is_a_comment() -> None:
    setup = standard_setup(WHITEBOX, Topology.parse("1x3"), 1)
    suspect = WHITEBOX.suspicion
    assert suspect is not None
    moves = (
        Fire(1, suspect()), Restart(2), Stop(0), Lose(0, 1), Resubmit(1000), ClockStep(1, 5), Delay(0, 1, suspect())
    )  # fmt: skip
    text = scenario_of(setup, Violation("some property", "is violated", moves))
    assert len(parse_scenario(text).happenings) == len(moves)  # one multicast more, one delay less
