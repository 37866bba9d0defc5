"""The environment's moves: timers, crashes, lost sessions, clients that submit again, clocks that step.

Every move is described as an `Effect`, which says what becomes of the processes, what is lost in flight and what is
sent; how what is in flight is kept is a matter of the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from braidcast.core.application import Connected
from braidcast.simulator.explorer.moves import ClockStep, Fire, Lose, LoseDisk, Move, Restart, Resubmit, Stop
from braidcast.simulator.explorer.queues import Event
from braidcast.simulator.explorer.setup import MOVES_OF_THE_ENVIRONMENT
from braidcast.simulator.explorer.steps import MODE, Local, Mode, Result, Steps

Budget = int
Locals = tuple[Local, ...]
UNLIMITED = -1


class Effect(NamedTuple):
    """What a move of the environment comes to."""

    move: Move
    locals: Locals
    mark: int
    """What the change of local states and budget changes in a fingerprint."""
    events: tuple[Event, ...]
    budget: Budget
    lost_to: int = -1
    """What is in flight to the process of this index is lost,"""
    lost_between: tuple[int, int] = (-1, -1)
    """or what is in flight between these two;"""
    closes: bool = False
    """and what is ever sent to it."""


class Environment:
    """Which moves a budget allows, and what they come to."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        setup = steps.setup
        budgets = setup.budgets()
        self.names = tuple(budgets)
        self._crashes, self._disk_losses, self._stops, self._losses, self._resubmissions = (
            self.names.index(name) if name in self.names else -1 for name in MOVES_OF_THE_ENVIRONMENT
        )
        self._budgets: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], Budget] = {}
        self.marks: list[int] = []
        self._modes: list[int] = []
        self._connected = setup.connected and steps.handles(Connected)
        self.clients = sorted({s.sender for s in setup.submissions if s.sender not in steps.index_of})
        self._copies = {
            client: tuple([steps.event_of(*s) for s in setup.submissions if s.sender == client])
            for client in self.clients
        }
        self.start: Budget = self._number(tuple([UNLIMITED if n is None else n for n in budgets.values()]))
        self.may_stop = bool(setup.stops)
        self.always = {name for name, count in budgets.items() if count is None}
        """The timers that must fire."""

    def mode(self) -> Mode:
        """What can be seen at the start."""
        return self.steps.modes[self._modes[self.start]]

    def _number(self, counts: tuple[int, ...]) -> Budget:
        number = self._numbers.get(counts)
        if number is None:
            number = self._numbers[counts] = len(self._budgets)
            self._budgets.append(counts)
            self.marks.append(hash((0x5EED, *counts)) & (1 << 64) - 1)
            alive = {name for name, count in zip(self.names, counts, strict=True) if count}
            timers = frozenset(alive - set(MOVES_OF_THE_ENVIRONMENT))
            self._modes.append(self.steps.mode_of(Mode("crashes" in alive, timers)))
        return number

    def is_spent(self, budget: Budget) -> bool:
        """Whether the environment has no move left, whatever the state; clocks not counted."""
        return not any(self._budgets[budget])

    def _spend(self, budget: Budget, place: int) -> Budget | None:
        counts = self._budgets[budget]
        if place < 0 or not counts[place]:
            return None
        if counts[place] == UNLIMITED:
            return budget
        return self._number((*counts[:place], counts[place] - 1, *counts[place + 1:]))

    def must_fire(self, locals_: Locals) -> bool:
        """Whether a timer that must fire is pending, so that the state is not final."""
        steps = self.steps
        return bool(self.always) and any(
            type(steps.event[e][2]).__name__ in self.always for local in locals_ for e in steps.timers[local]
        )

    def effects(self, locals_: Locals, budget: Budget) -> Iterator[Effect]:
        """All moves that are possible."""
        yield from self._firings(locals_, budget)
        if (after := self._spend(budget, self._crashes)) is not None:
            yield from self._restarts(locals_, budget, after)
        if (after := self._spend(budget, self._disk_losses)) is not None:
            yield from self._rejoins(locals_, budget, after)
        if (after := self._spend(budget, self._stops)) is not None:
            yield from self._stoppings(locals_, budget, after)
        if (after := self._spend(budget, self._losses)) is not None:
            yield from self._lost_sessions(locals_, budget, after)
        if (after := self._spend(budget, self._resubmissions)) is not None:
            for client in self.clients:
                kept, mark = self._adjusted(locals_, 0, budget, after)
                yield Effect(Resubmit(client), kept, mark, self._copies[client], after)
        if self.steps.setup.walls:
            yield from self._clock_steps(locals_, budget)

    def _firings(self, locals_: Locals, budget: Budget) -> Iterator[Effect]:
        steps = self.steps
        for index, local in enumerate(locals_):
            for e in steps.timers[local]:
                timer = steps.event[e][2]
                after = self._spend(budget, self.names.index(type(timer).__name__))
                if after is None:
                    continue
                result = steps.memo[local].get(e) or steps.execute(local, e)
                changed = (*locals_[:index], result.local, *locals_[index + 1:])
                changed, mark = self._adjusted(changed, result.mark, budget, after)
                yield Effect(Fire(steps.pids[index], timer), changed, mark, result.events, after)

    def _restarts(self, locals_: Locals, budget: Budget, after: Budget) -> Iterator[Effect]:
        steps = self.steps
        for index, local in enumerate(locals_):
            if steps.stopped[local]:
                continue
            yield self._back(Restart(steps.pids[index]), index, steps.restart(local), locals_, budget, after)
            if steps.may_forget(local):
                result = steps.restart(local, forgets=True)
                yield self._back(Restart(steps.pids[index], True), index, result, locals_, budget, after)

    def _rejoins(self, locals_: Locals, budget: Budget, after: Budget) -> Iterator[Effect]:
        steps = self.steps
        life = self._budgets[budget][self._disk_losses]  # what is left of the budget has not named a life before
        for index, local in enumerate(locals_):
            if not steps.stopped[local]:
                result = steps.lose_disk(local, life)
                yield self._back(LoseDisk(steps.pids[index]), index, result, locals_, budget, after)

    def _back(
        self, move: Move, index: int, result: Result, locals_: Locals, budget: Budget, after: Budget
    ) -> Effect:  # fmt: skip
        """A process is back from a crash; its peers hear of new sessions."""
        steps = self.steps
        changed = (*locals_[:index], result.local, *locals_[index + 1:])
        changed, mark = self._adjusted(changed, result.mark, budget, after)
        events = result.events
        if self._connected:
            for peer, other in enumerate(locals_):
                if peer != index and not steps.stopped[other]:
                    events = self._new_session(index, peer) + events
        return Effect(move, changed, mark, events, after, lost_to=index)

    def _stoppings(self, locals_: Locals, budget: Budget, after: Budget) -> Iterator[Effect]:
        steps = self.steps
        for index, local in enumerate(locals_):
            if steps.stopped[local]:
                continue
            result = steps.stop(local)
            changed = (*locals_[:index], result.local, *locals_[index + 1:])
            changed, mark = self._adjusted(changed, result.mark, budget, after)
            yield Effect(Stop(steps.pids[index]), changed, mark, (), after, lost_to=index, closes=True)

    def _lost_sessions(self, locals_: Locals, budget: Budget, after: Budget) -> Iterator[Effect]:
        pids = self.steps.pids
        kept, mark = self._adjusted(locals_, 0, budget, after)
        for one in range(len(pids)):
            for other in range(one + 1, len(pids)):
                if self.steps.stopped[locals_[one]] or self.steps.stopped[locals_[other]]:
                    continue
                events = self._new_session(one, other) if self._connected else ()
                yield Effect(Lose(pids[one], pids[other]), kept, mark, events, after, lost_between=(one, other))

    def _clock_steps(self, locals_: Locals, budget: Budget) -> Iterator[Effect]:
        steps = self.steps
        for index, local in enumerate(locals_):
            result = steps.step_clock(local)
            if result is not None:
                changed = (*locals_[:index], result.local, *locals_[index + 1:])
                wall = steps.wall_of(index, steps.wall[result.local])
                yield Effect(ClockStep(steps.pids[index], wall), changed, result.mark, (), budget)

    def _new_session(self, one: int, other: int) -> tuple[Event, ...]:
        pids, event_of = self.steps.pids, self.steps.event_of
        return (
            event_of(pids[one], pids[other], Connected(pids[one])),
            event_of(pids[other], pids[one], Connected(pids[other])),
        )

    def _adjusted(self, locals_: Locals, mark: int, budget: Budget, after: Budget) -> tuple[Locals, int]:
        """Forget what the budget that is left cannot show."""
        if budget == after:
            return locals_, mark
        mark ^= self.marks[budget] ^ self.marks[after]
        mode = self._modes[after]
        if mode != self._modes[budget]:
            memo, changed = self.steps.memo, []
            for local in locals_:
                result = memo[local].get(MODE - mode) or self.steps.change_mode(local, mode)
                mark ^= result.mark
                changed.append(result.local)
            locals_ = tuple(changed)
        return locals_, mark
