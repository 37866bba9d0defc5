"""The delay bound: what it covers, that a larger bound covers more, and that it is never called exhaustive."""

from __future__ import annotations

import pytest

from braidcast.cli.registry import SKEEN
from braidcast.core.topology import Topology
from braidcast.simulator.explorer import explore, order_invariants, standard_setup

SETUP = standard_setup(SKEEN, Topology.parse("2x1"), 2)


def test_without_delays_there_is_one_schedule() -> None:
    report = explore(SETUP, delays=0)
    assert (report.states, report.outcomes, report.depth) == (9, 1, 8)


@pytest.mark.parametrize(
    ("bound", "states", "outcomes"), [(0, 9, 1), (1, 41, 3), (2, 103, 6), (3, 182, 8), (10, 360, 8)]
)
def test_each_delay_covers_more_schedules_of_skeen(bound: int, states: int, outcomes: int) -> None:
    report = explore(SETUP, order_invariants(SETUP, termination=True), delays=bound)
    assert (report.states, report.outcomes, report.violations) == (states, outcomes, ())


def test_with_delays_enough_the_outcomes_are_those_of_the_exhaustive_search() -> None:
    assert set(explore(SETUP, delays=10).terminal) == set(explore(SETUP).terminal)


def test_a_bound_that_no_schedule_reaches_ends_when_a_delay_adds_nothing() -> None:
    report = explore(SETUP, delays=10**15)
    assert (report.states, report.exhausted, report.delay_bound) == (360, False, 10**15)


def test_a_bounded_search_is_never_called_exhaustive() -> None:
    report = explore(SETUP, delays=10)
    assert not report.exhausted
    assert report.delay_bound == 10
    assert report.stopped_by is None
    assert report.summary().startswith("all schedules with at most 10 delays")
