"""What a mutant is, what kills it, and what it is to be killed.

A killer is a scenario file, a campaign (a family of plans, from some seed on) or an exploration. It kills a mutant if
the mutant violates a property, misses an expectation or never comes to rest, where the shipped protocol does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.mutations.edits import Edit, mutated
from tests.mutations.families import FAMILIES

from braidcast.cli.registry import WHITEBOX
from braidcast.core.protocol import Protocol
from braidcast.simulator.explorer import Limits as SearchLimits
from braidcast.simulator.explorer import Setup, explore, order_invariants
from braidcast.simulator.judge import simulate_and_judge
from braidcast.simulator.scenarios import load_scenario, run_scenario

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
ORDER = (
    "one_gts_per_message", "one_message_per_gts", "gts_increases", "one_order", "group_logs_are_prefixes", "no_gaps",
    "agreement", "no_duplicates", "batch_messages_once", "one_gts_decided", "replies_are_true",
)  # fmt: skip
"""What clients and applications can see; which of them a mutant violates first is chance."""
INSIDE = (
    "one_lts_per_ballot", "one_message_per_lts", "ballots_rise", "clocks_rise", "persist_precedes_send",
    "persist_precedes_delivery",
)  # fmt: skip
"""What the protocol promises itself."""
COLLECTION = (
    "collected_here_is_delivered_here", "collected_here_is_stable_elsewhere", "durable_reports_are_true",
    "stable_reports_are_true",
)  # fmt: skip
LIVENESS = ("termination",)
CRASH = "exception"
"""Stands for a property: the protocol raised."""


class Death(NamedTuple):
    """How a mutant was found out."""

    runs: int
    """How many runs it took, this one included; states, for an exploration."""
    properties: tuple[str, ...]
    """What it violated, first the most telling; `expectation` if it missed one of a scenario."""
    told: str
    """One line for a person."""


def _crash(error: Exception) -> Death:
    return Death(1, (CRASH,), repr(error))


@dataclass(frozen=True)
class InScenario:
    """A file in tests/scenarios."""

    name: str

    def __str__(self) -> str:
        return f"scenario {self.name}"

    def hunt(self, protocol: Protocol, violates: tuple[str, ...] = ()) -> Death | None:
        """Run it once; what it expects tells enough."""
        scenario = load_scenario(str(SCENARIOS / f"{self.name}.scenario"))
        try:
            outcome = run_scenario(scenario, protocol)
        except Exception as error:  # whatever a broken protocol comes to
            return _crash(error)
        found = [violation.property for violation in outcome.violations]
        found += ["expectation"] if outcome.unmet else []
        if not found:
            return None
        told = str(outcome.violations[0]) if outcome.violations else outcome.unmet[0]
        return Death(1, tuple(dict.fromkeys(found)), told)


@dataclass(frozen=True)
class InCampaign:
    """At most `runs` plans of a family, from `seed` on."""

    family: str
    seed: int = 0
    runs: int = 150

    def __str__(self) -> str:
        return f"campaign {self.family} from seed {self.seed}"

    def hunt(self, protocol: Protocol, violates: tuple[str, ...] = ()) -> Death | None:
        """Run until something is wrong: one of what is named in `violates`, if that names anything."""
        for index in range(self.runs):
            found = self.run(protocol, self.seed + index)
            if found is not None and (not violates or {*violates} & {*found.properties}):
                return found._replace(runs=index + 1)
        return None

    def run(self, protocol: Protocol, seed: int) -> Death | None:
        """One run of the family."""
        try:
            violations = simulate_and_judge(FAMILIES[self.family](protocol, seed))[1]
        except Exception as error:  # whatever a broken protocol comes to
            return _crash(error)
        if not violations:
            return None
        return Death(1, tuple(dict.fromkeys(v.property for v in violations)), str(violations[0]))


@dataclass(frozen=True)
class InExploration:
    """All schedules of a setup, or as many as the limit allows."""

    name: str
    setup: Setup
    delays: int | None = None
    states_max: int = 300_000

    def __str__(self) -> str:
        return f"exploration {self.name}"

    def hunt(self, protocol: Protocol, violates: tuple[str, ...] = ()) -> Death | None:
        """Explore until something is wrong."""
        setup = replace(self.setup, protocol=protocol)
        limits = SearchLimits(states=self.states_max)
        report = explore(setup, order_invariants(setup), self.delays, limits)
        if not report.violations:
            return None
        violation = report.violations[0]
        return Death(report.states, (violation.property,), violation.what)


Killer = InScenario | InCampaign | InExploration


@dataclass(frozen=True)
class Mutant:
    """The protocol with one thing broken."""

    number: str
    """As in section 6 of protocols.md; a letter or word behind it tells several mutants of a number apart."""
    name: str
    broken: str
    """What it does wrong, in a sentence."""
    edits: tuple[Edit, ...]
    killer: Killer | None = None
    """None: it survives, and `survives` says why."""
    violates: tuple[str, ...] = ()
    """A campaign goes on until it violates one of these; none named: any will do."""
    parts: tuple[tuple[str, type], ...] = ()
    survives: str = ""
    redundant: bool = False
    """It survives because no run can tell it from the protocol."""

    @property
    def protocol(self) -> Protocol:
        """The mutant in place of white-box."""
        return _protocol(self.edits, self.parts)

    def __str__(self) -> str:
        return f"{self.number}-{self.name}"


@cache
def _protocol(edits: tuple[Edit, ...], parts: tuple[tuple[str, type], ...]) -> Protocol:
    return replace(WHITEBOX, make=mutated(edits, parts))
