"""All that is wrong with a run: what the properties see in its history, that a process raised, that it did not rest."""

from __future__ import annotations

from braidcast.properties.check import check
from braidcast.properties.violation import Violation
from braidcast.simulator.collector import collector_paused
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
    elif not result.quiescent:
        seen = "; ".join(result.waiting[:3]) or f"still busy at tick {result.ticks}"
        expected = "everybody to have what they wait for, once the faults have stopped"
        violations.append(Violation("termination", run, None, None, None, expected, seen))
    return violations
