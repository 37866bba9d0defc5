"""Exhaustive search, breadth first: every state that some schedule reaches, and the shortest schedule to each.

A global state is a tuple of local states, a dict from channel to queue for the channels that are not empty, and a
budget: all numbers, whose marks make up its fingerprint. The fingerprint of a successor is known before the
successor is built, and most successors were seen before and never are built.

The visited set holds 64-bit fingerprints: two states that collide would hide one of them. For 10 million states the
chance that any two collide is 3 in a million. Parents are kept by number, 12 bytes a state, to tell the schedule.
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

from braidcast.simulator.collector import collector_paused
from braidcast.simulator.explorer.environment import Budget, Effect, Locals
from braidcast.simulator.explorer.queues import Queue
from braidcast.simulator.explorer.report import Limits, Report
from braidcast.simulator.explorer.steps import Steps
from braidcast.simulator.explorer.trail import BYTES_OF_AN_INT, BYTES_OF_PARENT, CHECK_EVERY, Trail

Net = dict[Queue, Queue]


class State(NamedTuple):
    """One global state."""

    fingerprint: int
    locals: Locals
    net: Net
    budget: Budget
    number: int
    """In the order of discovery."""


class Search(Trail):
    """One exhaustive search."""

    def __init__(self, steps: Steps, limits: Limits) -> None:
        super().__init__(steps, limits)
        self.queues = steps.queues

    def run(self) -> Report:
        """Search until all is covered or a limit is met."""
        began = time.perf_counter()
        with collector_paused():
            states, depth = self._run()
        steps, findings = self.steps, self.findings
        return Report(
            states=states, outcomes=len(findings.outcomes), depth=depth,
            exhausted=findings.stopped_by is None, delay_bound=None,
            stopped_by=findings.stopped_by, violations=tuple(findings.violations), transitions=self.transitions,
            executed=steps.executed, local_states=steps.count(), seconds=time.perf_counter() - began,
            bytes_per_state=self._seen_bytes // states, terminal=self.outcomes(),
        )  # fmt: skip

    def _run(self) -> tuple[int, int]:
        start = self._start()
        seen = {start.fingerprint}
        level, depth = [start], 0
        self._check(start)
        while level and not self.findings.stopped_by:
            level = self._expand(level, seen)
            depth += bool(level)
        self._seen_bytes = sys.getsizeof(seen) + (BYTES_OF_AN_INT + BYTES_OF_PARENT) * len(seen)
        return len(seen), depth

    def _start(self) -> State:
        steps, environment = self.steps, self.environment
        fingerprint = environment.marks[environment.start]
        results = steps.start(environment.mode())
        net: Net = {}
        events = [steps.event_of(*submission) for submission in steps.setup.submissions]
        for result in results:
            fingerprint ^= result.mark
            events += result.events
        fingerprint ^= self._push(net, tuple(events))
        self.parents.append(0)
        self.moves.append(0)
        return State(fingerprint, tuple([result.local for result in results]), net, environment.start, 0)

    def _expand(self, level: list[State], seen: set[int]) -> list[State]:
        """All new states one move away from a level."""
        steps, queues, environment = self.steps, self.queues, self.environment
        memo, receiver, view, execute = steps.memo, steps.receiver, steps.view, steps.execute
        head, rest, channel, pop_mark, pushes = (
            queues.head, queues.rest, queues.channel, queues.pop_mark, queues.pushes
        )  # fmt: skip
        push, parents, moves = queues.push, self.parents, self.moves
        error, idle = steps.error, not steps.setup.walls
        findings = self.findings
        transitions = 0
        next_level: list[State] = []
        for count, state in enumerate(level):
            fingerprint, locals_, net, budget, number = state
            final = True
            for queue in net.values():
                event = head[queue]
                if event < 0:
                    continue
                index = receiver[event]
                local = locals_[index]
                result = memo[local].get(event)
                if result is None:
                    if steps.is_late():
                        findings.stopped_by, final = "seconds", False
                        break
                    result = execute(local, event)
                after, sends, mark, _ = result
                if after < 0:
                    continue
                final = False
                mark ^= fingerprint ^ pop_mark[queue]
                for to, sequence in sends:
                    before = net.get(to, to)
                    pushed = pushes[before].get(sequence)
                    if pushed is None:
                        pushed = push(before, sequence)
                    mark ^= pushed[1]
                transitions += 1
                if mark in seen:
                    continue
                seen.add(mark)
                on = channel[queue]
                new = net.copy()
                if rest[queue] == on:
                    del new[on]
                else:
                    new[on] = rest[queue]
                for to, sequence in sends:
                    new[to] = pushes[net.get(to, to)][sequence][0]
                if after == local:
                    made = State(mark, locals_, new, budget, len(parents))
                else:
                    changed = (*locals_[:index], after, *locals_[index + 1:])
                    made = State(mark, changed, new, budget, len(parents))
                parents.append(number)
                moves.append(event)
                next_level.append(made)
                if view[after] != view[local] or error[after]:
                    self._check(made)
            if not (idle and environment.is_spent(budget)):
                transitions += self._expand_environment(state, seen, next_level)
            if final and not environment.must_fire(locals_):
                self._end(state)
            if findings.stopped_by:
                break
            if not count % CHECK_EVERY and self._is_over(len(seen), self.transitions + transitions):
                break
        self.transitions += transitions
        return next_level

    def _expand_environment(self, state: State, seen: set[int], next_level: list[State]) -> int:
        transitions = 0
        for effect in self.environment.effects(state.locals, state.budget):
            net = state.net.copy()
            mark = state.fingerprint ^ effect.mark
            lost = self._lose(net, effect)
            if effect.lost_between != (-1, -1) and not lost and not effect.events:
                continue  # the session that broke carried nothing: the same as if it had not
            mark ^= lost
            mark ^= self._push(net, effect.events)
            transitions += 1
            if mark in seen:
                continue
            seen.add(mark)
            made = State(mark, effect.locals, net, effect.budget, len(self.parents))
            self.parents.append(state.number)
            self._special.append(effect.move)
            self.moves.append(-len(self._special))
            next_level.append(made)
            self._check(made)
        return transitions

    def _push(self, net: Net, events: tuple[int, ...]) -> int:
        """Put events on their channels; what that changes in a fingerprint."""
        mark = 0
        for channel, sequence in self.steps.grouped(events):
            before = net.get(channel, channel)
            pushed = self.queues.pushes[before].get(sequence) or self.queues.push(before, sequence)
            net[channel] = pushed[0]
            mark ^= pushed[1]
        return mark

    def _lose(self, net: Net, effect: Effect) -> int:
        """Take what is lost off the channels; what that changes in a fingerprint."""
        mark, pids, queues = 0, self.steps.pids, self.queues
        if effect.lost_to < 0 and effect.lost_between == (-1, -1):
            return 0
        one, other = (pids[index] for index in effect.lost_between)
        for channel, queue in list(net.items()):
            sender, to = queues.ends[channel]
            if to == pids[effect.lost_to] if effect.lost_to >= 0 else {sender, to} == {one, other}:
                mark ^= queues.mark[queue]
                del net[channel]
        if effect.closes:
            for sender in (*pids, *self.environment.clients):
                if sender != pids[effect.lost_to]:
                    channel = queues.channel_of(sender, pids[effect.lost_to])
                    net[channel] = queues.closed(channel)
                    mark ^= queues.mark[net[channel]]
        return mark
