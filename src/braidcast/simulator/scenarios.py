"""Runs a scenario: the built-in ones by name, any other by its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from braidcast.core.application import Connected
from braidcast.core.client import MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.message import snake_name
from braidcast.core.process import Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Pid
from braidcast.properties.check import check
from braidcast.properties.violation import Violation
from braidcast.simulator.clocks import Clock
from braidcast.simulator.judge import judge
from braidcast.simulator.run import Result, Simulation
from braidcast.simulator.scenario_expect import Row, Seen, deliveries, unexpected_refusals, unmet
from braidcast.simulator.scenario_plan import MANUAL_NOW, check_pids, is_fault, pid_of, plan_of, start_of, submission_of
from braidcast.simulator.scenario_stage import Rule, Stage
from braidcast.simulator.scenario_text import Line, Scenario, ScenarioError, parse_scenario

BUILT_IN = Path(__file__).parent / "scenario_files"
"""One folder per protocol."""
SUFFIX = ".scenario"


@dataclass
class Outcome:
    """What a scenario showed."""

    scenario: Scenario
    result: Result
    rows: list[Row]
    violations: list[Violation]
    unmet: list[str]
    """Expectations that were not met, one line each."""
    refused: dict[str, str]
    """Messages that the protocol declined to order, and why."""

    @property
    def ok(self) -> bool:
        """Whether everything was as expected."""
        return not self.unmet

    def to_json(self) -> dict[str, Any]:
        """Plain data for the command line."""
        return {
            "protocol": self.result.plan.protocol.name,
            "scenario": self.scenario.name,
            "delta": self.result.plan.delta,
            "deliveries": [row.to_json() for row in self.rows],
            "violations": [str(violation) for violation in self.violations],
            "unmet": self.unmet,
            "refused": self.refused,
        }


def built_in_scenarios(protocol: str) -> list[str]:
    """The names of the scenarios that come with a protocol."""
    return sorted(path.stem for path in (BUILT_IN / protocol).glob(f"*{SUFFIX}"))


def load_scenario(name: str, protocol: str | None = None) -> Scenario:
    """A scenario by its file, or by its name among those that come with the protocol."""
    if name.endswith(SUFFIX) or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise ScenarioError(f"there is no scenario file {name}: give the path of a {SUFFIX} file")
        return parse_scenario(_text(path), name)
    known = built_in_scenarios(protocol) if protocol is not None else []
    if name not in known:
        choice = f"choose {' or '.join(known)}" if known else "there are none for this protocol"
        raise ScenarioError(f"there is no scenario {name!r}: {choice}, or give the path of a {SUFFIX} file")
    assert protocol is not None, "without a protocol no name is known"
    return parse_scenario(_text(BUILT_IN / protocol / f"{name}{SUFFIX}"), name)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} cannot be read as text: {error}") from None


def run_scenario(
    scenario: Scenario, protocol: Protocol, options: Mapping[str, str] | None = None, seed: int | None = None
) -> Outcome:
    """Run a scenario and look at what it expects."""
    play = Play(scenario, protocol, options or {}, seed)
    return play.run()


class Play:
    """One run of a scenario."""

    def __init__(
        self, scenario: Scenario, protocol: Protocol, options: Mapping[str, str], seed: int | None = None
    ) -> None:
        self.scenario = scenario
        self.plan = plan_of(scenario, protocol, options, seed)
        self.start = start_of(scenario)
        plan = replace(self.plan, load=(), faults=()) if scenario.manual else self.plan
        self.simulation = Simulation(plan)
        self.world, self.nodes = self.simulation.world, self.simulation.nodes
        self.stage = Stage(self.simulation.network, manual=scenario.manual)
        self.cut: list[list[tuple[Pid, Pid]]] = []
        """Partitions that last until they are healed."""
        self.topology = plan.topology
        self.sent: dict[Pid, list[tuple[tuple[Pid, ...], Multicast]]] = {}
        """What each client has sent in a manual scenario, to whom."""

    def run(self) -> Outcome:
        """The run, and what came of it."""
        happenings = self.scenario.happenings
        for line in happenings:
            self._check(line)
        if self.scenario.manual or any(line.kind in ("hold", "drop") for line in happenings):
            # Only where it is needed: a network that asks about each message is slower, and nothing else.
            self.simulation.network.intercept = self.stage.intercept
        with self.simulation.catching():
            if self.scenario.manual:
                self._run_by_hand()
            else:
                self._run_by_time()
        return self._outcome()

    def _run_by_time(self) -> None:
        last: Ticks = 0
        for line in self.scenario.happenings:
            if line.at is None:
                self._happen(line)
            elif line.kind != "multicast" and not is_fault(line):
                last = max(last, line.at - self.start)
                self.world.call(line.at - self.start, self._happen, line)
        self.simulation.start()
        end, events_max = self.scenario.setting("end"), self.plan.limits.events_max
        if end is not None:
            self.world.run(end.number("n") - self.start, events_max)
        else:
            self.world.run(last, events_max)
            self.simulation.finish()

    def _run_by_hand(self) -> None:
        now = self.scenario.setting("now")
        self.world.now = now.number("n") if now is not None else MANUAL_NOW
        for node in self.nodes.values():
            node.by_hand = True
        self.simulation.start()
        for line in self.scenario.happenings:
            if line.kind == "multicast":
                self._multicast_by_hand(line)
            else:
                self._happen(line)
            reached = self.world.now
            self.world.run(reached)
            self.world.now = reached  # what fell due on the way showed its own time
        self.simulation.quiescent = not self.stage.flights and not self.simulation.waiting()

    def _multicast_by_hand(self, line: Line) -> None:
        submission = submission_of(line, self.topology, 0)
        client = self.simulation.client(submission.client)
        before = len(self.stage.flights)
        client.submit(submission)
        flights = self.stage.flights[before:]
        to = tuple(flight.to for flight in flights)
        self.sent.setdefault(client.pid, []).append((to, client.submitted[-1]))

    # -- lines ------------------------------------------------------------------------------------------------

    def _check(self, line: Line) -> None:
        words = line.words
        pids = [*line.pids()] if "pids" in words else []
        pids += [int(words[name]) for name in ("pid", "other") if name in words]
        pids += [int(words[name]) for name in ("sender", "to") if words.get(name, "any").isdecimal()]
        check_pids(line, tuple(pid for pid in pids if pid < min(self.simulation.clients, default=1000)), self.topology)
        if line.kind in ("hold", "release", "drop", "step"):
            self._check_kind(line)
        if line.number("group") >= len(self.topology.groups):
            raise line.error(f"there is no group {line.number('group')} in topology {self.topology.shape}")

    def _check_kind(self, line: Line) -> None:
        inputs = {kind.__name__ for node in self.nodes.values() for kind in node.process.inputs}
        known = sorted(inputs | {kind.__name__ for kind in (Connected, Reply, Redirect, Refused)})
        if line.words["kind"] not in ("*", *known):
            raise line.error(f"there is no kind of message {line.words['kind']}: there are {', '.join(known)}")

    def _happen(self, line: Line) -> None:
        getattr(self, f"_do_{line.kind}")(line)

    def _do_crash(self, line: Line) -> None:
        for pid in line.pids():
            self._crash(pid)

    def _do_crash_leader(self, line: Line) -> None:
        self._crash(self.simulation.faults.leader_of(line.number("group")))

    def _do_crash_group(self, line: Line) -> None:
        for pid in self.topology.groups[line.number("group")]:
            self._crash(pid)

    def _do_crash_all(self, _: Line) -> None:
        for pid in self.topology.pids:
            self._crash(pid)

    def _crash(self, pid: Pid) -> None:
        self.simulation.faults.crash(pid)
        self.stage.lose(lambda flight: flight.to == pid)

    def _do_lose_disk(self, line: Line) -> None:
        self._crash(line.number("pid"))
        self.simulation.faults.lose_disk(line.number("pid"))

    def _do_restart(self, line: Line) -> None:
        for pid in line.pids():
            self._crash(pid)
            self.simulation.faults.restart(pid)

    def _do_break(self, line: Line) -> None:
        ends = {line.number("pid"), line.number("other")}
        self.stage.lose(lambda flight: {flight.sender, flight.to} == ends)

    def _do_partition(self, line: Line) -> None:
        self._cut(line, one_way=False)

    def _do_one_way(self, line: Line) -> None:
        self._cut(line, one_way=True)

    def _cut(self, line: Line, *, one_way: bool) -> None:
        directions = self.simulation.faults.directions(line.pids(), one_way=one_way)
        self.simulation.network.block(directions)
        self.cut.append(directions)

    def _do_heal(self, _: Line) -> None:
        for directions in self.cut:
            self.simulation.network.unblock(directions)
        self.cut.clear()

    def _do_pause(self, line: Line) -> None:
        self.nodes[line.number("pid")].pause()

    def _do_resume(self, line: Line) -> None:
        self.nodes[line.number("pid")].resume()

    def _do_clock_set(self, line: Line) -> None:
        node = self.nodes[line.number("pid")]
        node.clock = Clock(line.number("n") - self.world.now)
        node.refresh()

    def _do_suspect(self, line: Line) -> None:
        suspicion = self.plan.protocol.suspicion
        if suspicion is None:
            raise line.error(f"{self.plan.protocol.name} suspects nobody: it has no such timer")
        self._fire(line, suspicion())

    def _do_fire(self, line: Line) -> None:
        node, kind = self.nodes[line.number("pid")], line.words["kind"]
        due = node.timers.due()
        timer = next((timer for timer in due if type(timer).__name__ == kind), None)
        if timer is None:
            pending = ", ".join(dict.fromkeys(type(timer).__name__ for timer in due)) or "none"
            raise line.error(f"process {node.pid} has no timer {kind} pending: pending is {pending}")
        self._fire(line, timer)

    def _do_hand_over(self, line: Line) -> None:
        self.nodes[line.number("pid")].hand_over(line.number("other") if "other" in line.words else None)

    def _do_hand_over_group(self, line: Line) -> None:
        self.nodes[self.simulation.faults.leader_of(line.number("group"))].hand_over()

    def _fire(self, line: Line, timer: Any) -> None:
        node = self.nodes[line.number("pid")]
        if not node.up:
            raise line.error(f"process {node.pid} is down")
        node.timers.fire(timer)

    def _rule(self, line: Line) -> Rule:
        kind, sender, to = line.words["kind"], line.words["sender"], line.words["to"]
        return Rule(
            None if kind == "*" else kind,
            None if sender == "any" else pid_of(sender, self.topology),
            None if to == "any" else pid_of(to, self.topology),
        )

    def _do_hold(self, line: Line) -> None:
        self.stage.holds.append(self._rule(line))

    def _do_drop(self, line: Line) -> None:
        rule = self._rule(line)
        if self.scenario.manual:
            self.stage.lose(lambda flight: rule.covers(*flight))
        else:
            self.stage.drops.append(rule)

    def _do_release(self, line: Line) -> None:
        rule = self._rule(line)
        if rule in self.stage.drops:
            self.stage.drops.remove(rule)
        elif rule not in self.stage.holds:
            raise line.error("nothing is held by these words: write `release` with the words of the `hold`")
        else:
            self.stage.release(rule)

    def _do_step(self, line: Line) -> None:
        to, sender = (pid_of(line.words[name], self.topology) for name in ("to", "sender"))
        kind = line.words["kind"]
        if kind == Connected.__name__ and to not in self.nodes:
            raise line.error("only processes are told about sessions")
        if not self.stage.step(to, sender, kind):
            raise line.error(f"no {kind} from {sender} to {to} is in flight: in flight is {self.stage.channels()}")

    def _do_resubmit(self, line: Line) -> None:
        client = self.simulation.client(pid_of(line.words["client"], self.topology))
        for to, multicast in self.sent.get(client.pid, []):
            self.simulation.network.send(client, [(to, multicast)])

    def _do_advance(self, line: Line) -> None:
        self.world.now += line.number("n")

    # -- what came of it --------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        result = self.simulation.result()
        assert result.history is not None, "scenarios are recorded"
        names: dict[str, MessageId] = {}
        for client in self.simulation.clients.values():
            names |= {name: multicast.id for name, multicast in client.named.items()}
        rows = self._rows(result, names)
        to_its_end = not self.scenario.manual and self.scenario.setting("end") is None
        violations = judge(result) if to_its_end or result.error else check(result.history)
        seen = Seen(
            rows=rows,
            names=names,
            events=result.history.events,
            roles={pid: node.process.role for pid, node in self.nodes.items() if node.up},
            violations=violations,
            quiescent=result.quiescent,
            waiting=result.waiting,
            refused=self._refused(names),
            notes=[snake_name(kind) for kind in self.plan.protocol.recorded],
        )
        expectations = [line for line, condition in self.scenario.expectations if self._applies(line, condition)]
        failures = [failure for line in expectations if (failure := unmet(line, seen)) is not None]
        failures += unexpected_refusals(expectations, seen)
        shown = [row for row in rows if row.message not in self._preparation()]
        return Outcome(self.scenario, result, shown, violations, failures, dict(seen.refused))

    def _refused(self, names: Mapping[str, MessageId]) -> dict[str, str]:
        why = {id: why for client in self.simulation.clients.values() for id, why in client.refused.items()}
        return {name: why[id] for name, id in names.items() if id in why}

    def _applies(self, line: Line, condition: tuple[str, str] | None) -> bool:
        if condition is None:
            return True
        name, value = condition
        options = self.simulation.options
        if not hasattr(options, name):
            raise line.error(f"{self.plan.protocol.name} has no option {name!r}")
        return str(getattr(options, name)) == value

    def _preparation(self) -> set[str]:
        lines = self.scenario.happenings
        return {line.words["name"] for line in lines if line.kind == "multicast" and (line.at or 0) < 0}

    def _rows(self, result: Result, names: Mapping[str, MessageId]) -> list[Row]:
        assert result.history is not None, "scenarios are recorded"
        by_id = {id: name for name, id in names.items()}
        origin = -self.start if not self.scenario.manual else self.world.now
        events: Sequence[Any] = result.history.events
        begun = {event.what.id: event.t_mono for event in events if event.event == "multicast"}
        delta = self.plan.delta or 10
        return [
            Row(
                message=by_id[id],
                process=event.node,
                group=self.topology.group_of[event.node],
                role=event.role or "",
                at=event.t_mono - origin,
                delays=round((event.t_mono - begun[id]) / delta, 3),
            )
            for event in events
            if (id := deliveries(event)) in by_id and id is not None
        ]
