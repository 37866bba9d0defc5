"""What a search found, and how far it got."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from braidcast.simulator.explorer.moves import Move, show, show_all

Outcome = tuple[tuple[Any, ...], ...]
"""What each process delivered, in the order of the pids."""


@dataclass(frozen=True)
class Violation:
    """A state that must not be, and a schedule that leads to it; the shortest one if the search was exhaustive."""

    property: str
    what: str
    moves: tuple[Move, ...]

    def schedule(self) -> str:
        """The moves, one a line."""
        return show_all(self.moves)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"property": self.property, "what": self.what, "moves": [show(move) for move in self.moves]}


@dataclass(frozen=True)
class Limits:
    """When to give up; a search that was stopped says so and by what."""

    states: int | None = None
    seconds: float | None = None
    violations: int = 1
    """After so many violations there is nothing more to learn."""
    progress: Callable[[int, int], None] | None = None
    """Called now and then with the numbers of states and moves so far."""


@dataclass(frozen=True)
class Report:
    """The figures of one search."""

    states: int
    outcomes: int
    """Distinct results of schedules that ran until nothing was in flight: what each process delivered."""
    depth: int
    """Moves on the longest of the shortest schedules to the states."""
    exhausted: bool
    """Whether every schedule within the budgets was covered; never true under a delay bound."""
    delay_bound: int | None
    stopped_by: str | None
    """What kept the search from covering all schedules (within the bound): `states`, `seconds` or `violations`."""
    violations: tuple[Violation, ...]
    transitions: int
    executed: int
    """How many steps were executed; all others were looked up."""
    local_states: int
    seconds: float
    bytes_per_state: int
    """Of the visited set."""
    terminal: tuple[Outcome, ...] = field(default=(), repr=False)
    """The outcomes themselves."""

    def summary(self) -> str:
        """One sentence on what was covered."""
        if self.stopped_by:
            return f"stopped by {self.stopped_by} after {self.states:,} states: not all schedules were covered"
        if self.delay_bound is not None:
            return f"all schedules with at most {self.delay_bound} delays: {self.states:,} states"
        return f"all schedules: {self.states:,} states"

    def to_json(self) -> dict[str, Any]:
        """Plain data, outcomes as their number."""
        figures = asdict(self)
        del figures["terminal"]
        figures["violations"] = [violation.to_json() for violation in self.violations]
        figures["seconds"] = round(self.seconds, 3)
        return figures


def nothing_covered(delay_bound: int | None, seconds: float) -> Report:
    """The report of a search whose time was over before all processes had started."""
    return Report(
        states=0, outcomes=0, depth=0, exhausted=False, delay_bound=delay_bound, stopped_by="seconds", violations=(),
        transitions=0, executed=0, local_states=0, seconds=seconds, bytes_per_state=0,
    )  # fmt: skip


class Findings:
    """Violations and outcomes as they are found; shared by the two searches."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.violations: list[Violation] = []
        self.outcomes: set[tuple[int, ...]] = set()
        self.stopped_by: str | None = None

    def add(self, found: Sequence[tuple[str, str]], moves: Callable[[], tuple[Move, ...]]) -> None:
        """Note violations, with the schedule that led to them."""
        for name, what in found:
            self.violations.append(Violation(name, what, moves()))
        if len(self.violations) >= self.limits.violations:
            self.stopped_by = "violations"
