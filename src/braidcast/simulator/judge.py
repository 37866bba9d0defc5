"""All that is wrong with a run: what the properties see in its history, that a process raised, that it did not rest,
and what only the final states show.

`applied_as_multicast`: applications end with what clients multicast, payload for payload, and members of a group that
are up with the same. A history does not tell what a snapshot held.

`memory_is_bounded`: after a rest, processes hold nothing of what was delivered (`holdings`).
"""

from __future__ import annotations

from collections.abc import Iterator

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId
from braidcast.core.topology import Group
from braidcast.history.event import MULTICAST, History
from braidcast.properties.check import check
from braidcast.properties.violation import Violation
from braidcast.simulator.collector import collector_paused
from braidcast.simulator.holdings import names_held
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.run import Result, simulate


@collector_paused()
def simulate_and_judge(plan: SimulationPlan) -> tuple[Result, list[Violation]]:
    """Run a plan and judge it, as every campaign does."""
    result = simulate(plan)
    return result, judge(result)


def judge(result: Result) -> list[Violation]:
    """Every violation; one of `termination` if somebody still waits although all faults have stopped."""
    assert result.history is not None, "what is judged is recorded"
    violations = check(result.history)
    run = result.history.manifest.run
    if result.error:
        violations.append(Violation("no_exception", run, None, None, None, "no process to raise", result.error))
        return violations
    violations += _applied_as_multicast(result, result.history)
    if not result.quiescent:
        seen = "; ".join(result.waiting[:3]) or f"still busy at tick {result.ticks}"
        expected = "everybody to have what they wait for, once the faults have stopped"
        violations.append(Violation("termination", run, None, None, None, expected, seen))
    elif result.rested:
        violations += _memory_is_bounded(result, run)
    return violations


def _applied_as_multicast(result: Result, history: History) -> Iterator[Violation]:
    payloads = {e.what.id: e.what.payload for e in history.events if e.event == MULTICAST}
    logs: dict[Group, list[MessageId]] = {}
    for pid, application in result.applications.items():
        group = result.plan.topology.group_of[pid]
        where = "applied_as_multicast", history.manifest.run, group, pid
        units = [d.multicast for d in application.applied if type(d) is Delivered and d.gts]
        for unit in units:
            if payloads.get(unit.id) != unit.payload:
                yield Violation(*where, unit.id, "the payload that was multicast to be applied", "another")
        log = [unit.id for unit in units]
        if result.quiescent and log != logs.setdefault(group, log):
            one = next(iter({*log} ^ {*logs[group]}), None)
            yield Violation(*where, one, "the same applied as by the members before it", f"{len(log)} messages")


def _memory_is_bounded(result: Result, run: str) -> Iterator[Violation]:
    for pid, process in result.processes.items():
        held = names_held(process, result.plan.protocol.keeps)
        if held:
            group = result.plan.topology.group_of[pid]
            expected = "nothing to be held of messages that everybody has had for long"
            seen = f"something of {len(held)}"
            yield Violation("memory_is_bounded", run, group, pid, min(held), expected, seen)
