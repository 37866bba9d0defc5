"""Search of all schedules with at most so many delays, for spaces that cannot be exhausted.

The schedule without delays delivers the oldest message in flight, always; messages of one step are as old as the
order in which it sent them. A *delay* puts the oldest message, with all others on its channel, behind everything
that is in flight at that moment, and costs one (delay-bounded scheduling: Emmi, Qadeer, Rakamaric, POPL 2011). So a
bound of d covers every schedule in which at most d times a channel is held back for as long as one round of what
was in flight. The moves of the environment cost no delay: each may happen at any moment, within its own budget.

A state is the local states, all in flight in order of age, and the budget. States are visited in the order of the
delays they need, then of the moves, so each is visited once and with as many delays left as it can have.
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

from braidcast.simulator.collector import collector_paused
from braidcast.simulator.explorer.environment import Budget, Effect, Locals
from braidcast.simulator.explorer.moves import Delay
from braidcast.simulator.explorer.queues import Event
from braidcast.simulator.explorer.report import Limits, Report
from braidcast.simulator.explorer.steps import Steps
from braidcast.simulator.explorer.trail import BYTES_OF_AN_INT, BYTES_OF_PARENT, CHECK_EVERY, Trail

Flight = tuple[Event, ...]


class Timed(NamedTuple):
    """One global state of a delay-bounded search."""

    locals: Locals
    flight: Flight
    """All in flight, oldest first."""
    budget: Budget
    number: int


class DelayBounded(Trail):
    """One search with a bound on delays."""

    def __init__(self, steps: Steps, limits: Limits, bound: int) -> None:
        super().__init__(steps, limits)
        self.bound = bound
        self._delays: dict[Event, int] = {}
        self.seen: set[int] = set()

    def run(self) -> Report:
        """Search until all is covered or a limit is met."""
        began = time.perf_counter()
        with collector_paused():
            depth = self._run()
        steps, findings, states = self.steps, self.findings, len(self.seen)
        return Report(
            states=states, outcomes=len(findings.outcomes), depth=depth, exhausted=False, delay_bound=self.bound,
            stopped_by=findings.stopped_by, violations=tuple(findings.violations), transitions=self.transitions,
            executed=steps.executed, local_states=steps.count(), seconds=time.perf_counter() - began,
            bytes_per_state=(sys.getsizeof(self.seen) + (BYTES_OF_AN_INT + BYTES_OF_PARENT) * states) // states,
            terminal=self.outcomes(),
        )  # fmt: skip

    def _run(self) -> int:
        start = self._start()
        self._check(start)
        deepest = 0
        by_depth: dict[int, list[Timed]] = {0: [start]}
        for delays in range(self.bound + 1):
            delayed: dict[int, list[Timed]] = {}
            depth = min(by_depth, default=0)
            while by_depth:
                level = by_depth.pop(depth, [])
                if level:
                    deepest = max(deepest, depth)
                    made, put_off = self._expand(level, delays < self.bound)
                    if made:
                        by_depth.setdefault(depth + 1, []).extend(made)
                    if put_off:
                        delayed[depth + 1] = put_off
                if self.findings.stopped_by:
                    return deepest
                depth += 1
            # What one of this round reached without a further delay needs no second visit.
            by_depth = {}
            for depth, states in delayed.items():
                fresh = []
                for state in states:
                    mark = hash(state[:3])
                    if mark not in self.seen:
                        self.seen.add(mark)
                        fresh.append(state)
                if fresh:
                    by_depth[depth] = fresh
            if not by_depth:
                break  # one delay more reaches nothing new, and so do any more
        return deepest

    def _start(self) -> Timed:
        steps = self.steps
        results = steps.start(self.environment.mode())
        events = [steps.event_of(*submission) for submission in steps.setup.submissions]
        for result in results:
            events += result.events
        self.parents.append(0)
        self.moves.append(0)
        start = Timed(tuple([result.local for result in results]), tuple(events), self.environment.start, 0)
        self.seen.add(hash(start[:3]))
        return start

    def _expand(self, level: list[Timed], may_delay: bool) -> tuple[list[Timed], list[Timed]]:
        steps, environment, seen = self.steps, self.environment, self.seen
        memo, receiver, view, execute, stopped = steps.memo, steps.receiver, steps.view, steps.execute, steps.stopped
        parents, moves, idle = self.parents, self.moves, not steps.setup.walls
        made: list[Timed] = []
        delayed: list[Timed] = []
        for count, state in enumerate(level):
            locals_, flight, budget, number = state
            for place, event in enumerate(flight):  # the oldest that can come; nearly always the first
                index = receiver[event]
                local = locals_[index]
                result = memo[local].get(event)
                if result is None:
                    if steps.is_late():
                        self.findings.stopped_by = "seconds"
                        break
                    result = execute(local, event)
                after = result[0]
                if after < 0:
                    continue
                changed = locals_ if after == local else (*locals_[:index], after, *locals_[index + 1:])
                sent = result[3]
                if sent and self.environment.may_stop:
                    sent = tuple([e for e in sent if not stopped[changed[receiver[e]]]])
                new = flight[:place] + flight[place + 1 :] + sent
                mark = hash((changed, new, budget))
                self.transitions += 1
                if mark not in seen:
                    seen.add(mark)
                    next_state = Timed(changed, new, budget, len(parents))
                    parents.append(number)
                    moves.append(event)
                    made.append(next_state)
                    if view[after] != view[local] or steps.error[after]:
                        self._check(next_state)
                if may_delay:
                    new = self._delayed(flight, place)
                    self.transitions += 1
                    if hash((locals_, new, budget)) not in seen:
                        delayed.append(Timed(locals_, new, budget, len(parents)))
                        parents.append(number)
                        moves.append(self._delay_move(event))
                break
            else:
                if not environment.must_fire(locals_):
                    self._end(state)
            if not (idle and environment.is_spent(budget)):
                self._expand_environment(state, made)
            if self.findings.stopped_by:
                break
            if not count % CHECK_EVERY and self._is_over(len(seen), self.transitions):
                break
        return made, delayed

    def _delayed(self, flight: Flight, place: int) -> Flight:
        """The oldest message and all others on its channel go behind the rest."""
        of = self.steps.event
        sender, to, _ = of[flight[place]]
        behind = tuple([e for e in flight if of[e][1] == to and of[e][0] == sender])
        return tuple([e for e in flight if of[e][1] != to or of[e][0] != sender]) + behind

    def _delay_move(self, event: Event) -> int:
        number = self._delays.get(event)
        if number is None:
            self._special.append(Delay(*self.steps.event[event]))
            number = self._delays[event] = -len(self._special)
        return number

    def _expand_environment(self, state: Timed, made: list[Timed]) -> None:
        steps = self.steps
        for effect in self.environment.effects(state.locals, state.budget):
            kept = self._kept(state.flight, effect)
            if effect.lost_between != (-1, -1) and len(kept) == len(state.flight) and not effect.events:
                continue  # the session that broke carried nothing: the same as if it had not
            sent = tuple([e for e in effect.events if not steps.stopped[effect.locals[steps.receiver[e]]]])
            self.transitions += 1
            flight = kept + sent
            mark = hash((effect.locals, flight, effect.budget))
            if mark in self.seen:
                continue
            self.seen.add(mark)
            next_state = Timed(effect.locals, flight, effect.budget, len(self.parents))
            self.parents.append(state.number)
            self._special.append(effect.move)
            self.moves.append(-len(self._special))
            made.append(next_state)
            self._check(next_state)

    def _kept(self, flight: Flight, effect: Effect) -> Flight:
        """What a move of the environment leaves in flight."""
        if effect.lost_to < 0 and effect.lost_between == (-1, -1):
            return flight
        receiver, of = self.steps.receiver, self.steps.event
        if effect.lost_to >= 0:
            return tuple([e for e in flight if receiver[e] != effect.lost_to])
        ends = {self.steps.pids[index] for index in effect.lost_between}
        return tuple([e for e in flight if {of[e][0], of[e][1]} != ends])
