"""What both searches keep of the states they have seen: what was judged, and the way back to the start."""

from __future__ import annotations

from array import array
from typing import Protocol

from braidcast.simulator.explorer.environment import Environment, Locals
from braidcast.simulator.explorer.moves import Deliver, Fire, Move
from braidcast.simulator.explorer.report import Findings, Limits, Outcome
from braidcast.simulator.explorer.steps import Steps

BYTES_OF_AN_INT = 36
BYTES_OF_PARENT = 12
CHECK_EVERY = 256
"""States between two looks at the limits; before a step is executed, which may take long, there is one more."""


class Numbered(Protocol):
    """A global state of either search."""

    @property
    def locals(self) -> Locals:
        """The local states."""

    @property
    def number(self) -> int:
        """In the order of discovery."""


class Trail:
    """The part of a search that does not depend on what a global state is."""

    def __init__(self, steps: Steps, limits: Limits) -> None:
        self.steps = steps
        self.environment = Environment(steps)
        self.findings = Findings(limits)
        self.limits = limits
        self.parents = array("Q")
        self.moves = array("l")
        """The move that led to each state: an event, or from -1 downwards one of the special moves."""
        self._special: list[Move] = []
        self._checked: set[tuple[int, ...]] = set()
        self._checked_ends: set[tuple[int, ...]] = set()
        self.transitions = 0

    def path(self, number: int) -> tuple[Move, ...]:
        """The moves that lead to a state; delays are told, though they change no process."""
        path: list[Move] = []
        while number:
            path.append(self._move(self.moves[number]))
            number = self.parents[number]
        return tuple(reversed(path))

    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes that were found, in a stable order."""
        logs = self.steps.logs
        return tuple([tuple([logs[number] for number in outcome]) for outcome in sorted(self.findings.outcomes)])

    def _move(self, number: int) -> Move:
        if number < 0:
            return self._special[-number - 1]
        sender, to, message = self.steps.event[number]
        return Fire(to, message) if self.steps.is_timer[number] else Deliver(sender, to, message)

    def _check(self, state: Numbered) -> None:
        steps = self.steps
        for local in state.locals:
            if steps.error[local]:
                self.findings.add([("no exception", steps.error[local])], lambda: self.path(state.number))
        views = tuple([steps.view[local] for local in state.locals])
        if views not in self._checked:
            self._checked.add(views)
            self.findings.add(steps.judge(state.locals, at_end=False), lambda: self.path(state.number))

    def _end(self, state: Numbered) -> None:
        """A final state: the environment may still do something, but nothing has to happen any more."""
        steps = self.steps
        self.findings.outcomes.add(tuple([steps.delivered[local] for local in state.locals]))
        views = tuple([steps.end_view[local] for local in state.locals])
        if views not in self._checked_ends:
            self._checked_ends.add(views)
            self.findings.add(steps.judge(state.locals, at_end=True), lambda: self.path(state.number))

    def _is_over(self, states: int, transitions: int) -> bool:
        limits = self.limits
        if limits.progress:
            limits.progress(states, transitions)
        if limits.states is not None and states > limits.states:
            self.findings.stopped_by = "states"
        elif self.steps.is_late():
            self.findings.stopped_by = "seconds"
        return self.findings.stopped_by is not None
