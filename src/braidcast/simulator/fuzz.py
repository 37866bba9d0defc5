"""Fuzzing: many random runs with faults, each judged by every property, and liveness once the faults have stopped.

A run is named by its seed alone, so a failing one can be replayed by itself. A campaign's result does not depend on
how many processes it was spread over: runs are looked at in order of their index.
"""

from __future__ import annotations

import multiprocessing
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from braidcast.core.ballots import number_of
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.properties.sometimes import sometimes
from braidcast.properties.violation import Violation
from braidcast.simulator.collector import collect_run, collector_paused
from braidcast.simulator.fuzz_plans import check_options, draw_plan, seed_of
from braidcast.simulator.judge import simulate_and_judge
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.run import Result

SOMETIMES_RUNS_MIN = 200
"""Smaller campaigns need not have seen everything."""
RUNS_PER_TASK = 10
Progress = Callable[[int, int], None]
"""Called with the number of runs done and the number of violations so far."""


@dataclass(frozen=True)
class Failure:
    """A run that violated something."""

    seed: int
    violations: tuple[str, ...]
    properties: tuple[str, ...]
    command: str
    """Replays it."""

    def __str__(self) -> str:
        return f"{self.violations[0]} (replay: {self.command})"


@dataclass
class Campaign:
    """What a campaign found and saw."""

    protocol: str
    seed: int
    runs: int = 0
    events: int = 0
    violations: int = 0
    failures: list[Failure] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    never_seen: list[str] = field(default_factory=list)
    """What the campaign should have seen and did not; then it proves nothing."""
    too_few: bool = False
    """Whether it had too few runs to judge what was never seen."""

    @property
    def ok(self) -> bool:
        """Whether it found nothing and saw everything."""
        return not self.violations and not self.never_seen

    def to_json(self) -> dict[str, Any]:
        """Plain data for the command line."""
        counters = self.counters
        return {
            "protocol": self.protocol,
            "seed": self.seed,
            "runs": self.runs,
            "events": self.events,
            "violations": self.violations,
            "leader_changes": counters["leader_changes"],
            "restarts": counters["restarts"],
            "catchups": counters["caught_up"],
            "redeliveries": counters["redelivered"] + counters["delivered_again"],
            "collected": counters["collected"],
            "never_seen": self.never_seen,
            "failures": [
                {"seed": f.seed, "violations": list(f.violations), "command": f.command} for f in self.failures
            ],
        }


@dataclass(frozen=True)
class RunReport:
    """What one run of a campaign tells it."""

    seed: int
    events: int
    counters: dict[str, int]
    violations: tuple[Violation, ...]


def replay_command(protocol: Protocol, seed: int, options: Mapping[str, str], topology: Topology | None) -> str:
    """What to type to see one run of a campaign again."""
    words = ["braidcast", "fuzz", "--protocol", protocol.name, "--replay", str(seed)]
    for name, value in options.items():
        words += ["--option", f"{name}={value}"]
    if topology is not None:
        words += ["--topology", topology.shape]
    return shlex.join(words)


def fuzz_one(
    protocol: Protocol, seed: int, options: Mapping[str, str] | None = None, topology: Topology | None = None
) -> tuple[SimulationPlan, Result, list[Violation]]:
    """One run by its seed."""
    plan = draw_plan(protocol, seed, options, topology)
    return plan, *simulate_and_judge(plan)


def fuzz(
    protocol: Protocol,
    runs: int,
    seed: int,
    *,
    options: Mapping[str, str] | None = None,
    topology: Topology | None = None,
    jobs: int = 1,
    failures_max: int | None = 10,
    progress: Progress | None = None,
) -> Campaign:
    """A campaign; it ends early after `failures_max` failing runs."""
    options = options or {}
    check_options(protocol, options)
    campaign = Campaign(protocol.name, seed)
    work = _Work(protocol, seed, runs, options, topology)
    for report in _reports(work, jobs):
        _add(campaign, report, protocol, options, topology)
        if progress is not None:
            progress(campaign.runs, campaign.violations)
        if failures_max is not None and len(campaign.failures) >= failures_max:
            break
    if protocol.tolerates_faults and protocol.sometimes:
        campaign.too_few = campaign.runs < SOMETIMES_RUNS_MIN
        if not campaign.too_few:
            never = protocol.never_on(topology) if topology is not None else ()
            wanted = [name for name in protocol.sometimes if name not in never]
            campaign.never_seen = [str(missing) for missing in sometimes(campaign.counters, wanted)]
    return campaign


def _add(
    campaign: Campaign, report: RunReport, protocol: Protocol, options: Mapping[str, str], topology: Topology | None
) -> None:
    campaign.runs += 1
    campaign.events += report.events
    campaign.counters.update(report.counters)
    if report.violations:
        campaign.violations += len(report.violations)
        campaign.failures.append(
            Failure(
                report.seed,
                tuple(str(violation) for violation in report.violations[:20]),
                tuple(dict.fromkeys(violation.property for violation in report.violations)),
                replay_command(protocol, report.seed, options, topology),
            )
        )


@dataclass(frozen=True)
class _Work:
    protocol: Protocol
    seed: int
    runs: int
    options: Mapping[str, str]
    topology: Topology | None

    def tasks(self) -> list[range]:
        starts = range(0, self.runs, RUNS_PER_TASK)
        return [range(start, min(start + RUNS_PER_TASK, self.runs)) for start in starts]

    def do(self, task: range) -> list[RunReport]:
        reports: list[RunReport] = []
        with collector_paused():
            for index in task:
                reports.append(self.report(seed_of(self.seed, index)))
                collect_run()
        return reports

    def report(self, seed: int) -> RunReport:
        _, result, violations = fuzz_one(self.protocol, seed, self.options, self.topology)
        assert result.history is not None, "fuzzed runs are recorded"
        leaders = sum(
            event.event == "leading" and number_of(getattr(event.what, "ballot", 0)) > 0
            for event in result.history.events
        )
        return RunReport(seed, result.events, result.counters | {"leader_changes": leaders}, tuple(violations))


_worker: _Work | None = None
"""What a worker process works on: a protocol cannot be pickled, but a forked process has it already."""


def _begin(work: _Work) -> None:
    global _worker
    _worker = work


def _do(task: range) -> list[RunReport]:
    assert _worker is not None, "a worker is begun first"
    return _worker.do(task)


def _reports(work: _Work, jobs: int) -> Iterator[RunReport]:
    tasks = work.tasks()
    if jobs <= 1 or len(tasks) <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        for task in tasks:
            yield from work.do(task)
        return
    with multiprocessing.get_context("fork").Pool(min(jobs, len(tasks)), _begin, (work,)) as pool:
        for reports in pool.imap(_do, tasks):
            yield from reports
