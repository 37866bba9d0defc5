"""What only final states show: what applications ended with, and what processes still hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.mutations.families import calm, resting

from braidcast.cli.registry import SKEEN, WHITEBOX
from braidcast.core.client import MessageId
from braidcast.core.message import message
from braidcast.core.process import Outbox, Process
from braidcast.core.topology import Topology
from braidcast.protocols.whitebox import WhiteBox
from braidcast.protocols.whitebox.entry import Entry
from braidcast.simulator.fuzz_plans import RESTS, draw_plan, seed_of
from braidcast.simulator.holdings import names_held
from braidcast.simulator.judge import judge
from braidcast.simulator.run import Result, simulate
from braidcast.simulator.scenario_plan import plan_of
from braidcast.simulator.scenario_text import parse_scenario
from braidcast.simulator.scenario_write import write_scenario
from braidcast.simulator.shrink import spelled_out

ID = MessageId(1000, 1, 1)


def properties(result: Result) -> set[str]:
    return {violation.property for violation in judge(result)}


def test_an_application_that_ends_with_another_payload_is_found() -> None:
    result = simulate(calm(WHITEBOX, 0))
    assert properties(result) == set()
    applied = result.applications[0].applied
    m = applied[0].multicast
    applied[0] = type(applied[0])(type(m)(m.id, m.dest, b"rubbish"), applied[0].gts)
    assert properties(result) == {"applied_as_multicast"}


def test_an_application_that_ends_without_what_the_other_members_have_is_found() -> None:
    result = simulate(replace(calm(WHITEBOX, 0), topology=Topology.parse("3")))
    del result.applications[2].applied[0]
    assert properties(result) == {"applied_as_multicast"}


def test_whoever_holds_something_after_the_rest_is_found() -> None:
    plan = resting(WHITEBOX, 0)
    result = simulate(plan)
    assert result.rested
    assert properties(result) == set()
    process = result.processes[0]
    assert isinstance(process, WhiteBox)
    process.entries[ID] = Entry(ID, (0,), 2, 0)
    assert properties(result) == {"memory_is_bounded"}
    assert properties(replace(result, rested=False)) == set()


def test_a_rest_is_part_of_a_run_that_is_written_as_a_scenario() -> None:
    plan = spelled_out(resting(WHITEBOX, 0))
    again = plan_of(parse_scenario(write_scenario(plan, "", [])), WHITEBOX)
    assert again.limits.rest == plan.limits.rest > 0


def test_some_runs_of_a_campaign_rest_and_none_of_a_protocol_that_forgets_nothing() -> None:
    rests = [draw_plan(WHITEBOX, seed_of(1, index)).limits.rest > 0 for index in range(200)]
    assert RESTS / 2 < sum(rests) / len(rests) < 2 * RESTS
    assert not any(draw_plan(SKEEN, seed_of(1, index)).limits.rest for index in range(50))


@message
class Wrapped:
    id: MessageId


class Part:
    __slots__ = ("inside",)

    def __init__(self, inside: object) -> None:
        self.inside = inside


class Keeper(Process):
    __slots__ = ("kept", "other")

    def __init__(self, kept: object, other: object = ()) -> None:
        super().__init__(Outbox(0))
        self.kept, self.other = kept, other


@pytest.mark.parametrize(
    "kept", [ID, [ID], {ID: 1}, {1: ID}, {(ID, 2)}, Wrapped(ID), Part({3: [Part(Wrapped(ID))]})],
    ids=lambda kept: type(kept).__name__,
)
def test_a_name_is_found_wherever_it_is_kept(kept: object) -> None:
    assert names_held(Keeper(kept)) == {ID}
    assert names_held(Keeper((), kept), keeps=("other",)) == set()


def test_tombstones_by_session_and_number_are_no_names() -> None:
    assert names_held(Keeper({(1000, 1): {1: 7}, 2: (1000, 1, 1)})) == set()


@pytest.mark.parametrize(
    ("shape", "never"),
    [
        ("1", {"caught_up", "snapshot_installed", "stepped_down", "state_regained", "took_over", "vote_complete",
                "retried"}),
        ("4x1", {"caught_up", "snapshot_installed", "stepped_down", "state_regained", "took_over",
                  "vote_complete"}),
        ("3+1", set()),
        ("3", set()),
    ],
)
def test_what_a_campaign_must_have_seen_depends_on_the_topology(shape: str, never: set[str]) -> None:
    assert WHITEBOX.never_on(Topology.parse(shape)) == never
    assert never <= {*WHITEBOX.sometimes}
