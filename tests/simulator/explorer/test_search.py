"""The exhaustive search: it finds exactly what a naive search finds, and figures stay as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulator.explorer.naive import explore_naively

from braidcast.cli.registry import SKEEN, WHITEBOX
from braidcast.core.topology import Dest, Topology
from braidcast.simulator.explorer import Limits, Setup, explore, order_invariants, standard_setup, submit


def skeen(shape: str, messages: int | list[Dest]) -> Setup:
    return standard_setup(SKEEN, Topology.parse(shape), messages)


@pytest.mark.parametrize(
    "setup",
    [
        skeen("2x1", 2),
        skeen("3x1", [(0, 1), (1, 2)]),
        Setup(WHITEBOX, Topology.parse("1x3"), submissions=submit(Topology.parse("1x3"), 1)),
        Setup(WHITEBOX, Topology.parse("1x3"), submissions=submit(Topology.parse("1x3"), 2, to="leaders")),
    ],
    ids=["skeen 2x1, 2 messages", "skeen 3x1, 2 messages", "white-box 1x3, 1 to all", "white-box 1x3, 2 to the leader"],
)
def test_the_search_finds_what_a_naive_search_finds(setup: Setup) -> None:
    report = explore(setup)
    assert report.exhausted
    assert (report.states, report.outcomes, report.transitions) == explore_naively(setup)


@pytest.mark.parametrize(
    ("shape", "messages", "states", "outcomes", "depth"),
    [
        ("2x1", 2, 133, 8, 8),
        ("2x1", 3, 3277, 102, 12),
        ("3x1", [(0, 1), (1, 2), (0, 2)], 2913, 25, 12),
        ("3x1", 2, 22963, 18, 18),
    ],
)
def test_skeen_keeps_its_promises_in_every_schedule(
    shape: str, messages: int | list[Dest], states: int, outcomes: int, depth: int
) -> None:
    setup = skeen(shape, messages)
    report = explore(setup, order_invariants(setup, termination=True))
    assert report.violations == ()
    assert (report.states, report.outcomes, report.depth) == (states, outcomes, depth)
    assert report.exhausted
    assert report.delay_bound is None


@pytest.mark.parametrize(
    "setup",
    [skeen("2x1", 3), standard_setup(WHITEBOX, Topology.parse("1x3"), 1, elections=1)],
    ids=["skeen", "white-box with an election"],
)
def test_the_order_of_dicts_matters_to_no_outcome(setup: Setup) -> None:
    ordered = explore(replace(setup, dict_order=True))
    assert set(ordered.terminal) == set(explore(setup).terminal)


def test_most_steps_are_looked_up() -> None:
    report = explore(skeen("3x1", 2))
    assert report.executed < report.transitions / 50


@pytest.mark.parametrize(
    ("limits", "why"), [(Limits(states=100), "states"), (Limits(seconds=0.0), "seconds")], ids=["states", "seconds"]
)
def test_a_search_that_meets_a_limit_says_so_and_is_not_called_exhaustive(limits: Limits, why: str) -> None:
    report = explore(skeen("2x1", 4), limits=limits)
    assert report.stopped_by == why
    assert not report.exhausted
    assert "not all schedules" in report.summary()


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    explore(skeen("2x1", 3), limits=Limits(progress=lambda states, moves: told.append((states, moves))))
    assert told[-1][0] > 1000


def test_a_report_is_plain_data() -> None:
    figures = explore(skeen("2x1", 2)).to_json()
    assert {"states", "outcomes", "depth", "exhausted", "delay_bound", "violations"} <= figures.keys()
    assert figures["states"] == 133
    assert figures["violations"] == []


@pytest.mark.parametrize("delays", [None, 3])
def test_a_search_whose_states_are_large_ends_in_time(delays: int | None) -> None:
    """A state with a thousand messages in flight takes long to leave; the limit holds all the same."""
    setup = standard_setup(WHITEBOX, Topology.parse("3"), 1000)
    report = explore(setup, delays=delays, limits=Limits(seconds=0.2))
    assert report.stopped_by == "seconds"
    assert report.states < 4096
    assert "not all schedules were covered" in report.summary()


def test_a_search_whose_time_is_over_before_it_begins_says_so() -> None:
    report = explore(standard_setup(WHITEBOX, Topology.parse("1001"), 1), limits=Limits(seconds=0.01))
    assert (report.states, report.stopped_by, report.exhausted) == (0, "seconds", False)
