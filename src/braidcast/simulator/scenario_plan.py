"""From a scenario to the plan of its run; `scenario_write` goes the other way."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from braidcast.core.errors import BraidcastError
from braidcast.core.process import Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Pid, Topology
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.clocks import ClockPlan
from braidcast.simulator.delays import parse_delay
from braidcast.simulator.disk import DiskPlan
from braidcast.simulator.faults import Fault, FaultKind
from braidcast.simulator.load import ClientPlan, Submission, clients_of
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.pacing import paced_options
from braidcast.simulator.plan import Limits, SimulationPlan
from braidcast.simulator.scenario_text import Line, Scenario, ScenarioError

MANUAL_NOW: Ticks = 1_000_000_000
"""The clock of a manual scenario: so late that nothing was heard recently. The explorer's clock shows the same."""
EVENTS_MAX = 5_000_000
"""Nobody reads a schedule that long; some 20 seconds."""
FAULT_KINDS: dict[str, FaultKind] = {
    "crash": "crash",
    "crash_leader": "crash_leader",
    "crash_group": "crash_group",
    "crash_all": "crash_all",
    "lose_disk": "lose_disk",
    "break": "break",
    "partition": "partition",
    "one_way": "one_way",
    "pause": "pause",
    "clock_step": "clock",
    "hand_over_group": "hand_over",
}
"""Lines that are faults of the plan when they say how long they last, or need not."""


def start_of(scenario: Scenario) -> Ticks:
    """The tick of the file at which the run begins: 0, or earlier if something happens earlier."""
    return min([0, *(line.at for line in scenario.happenings if line.at is not None)])


def plan_of(
    scenario: Scenario, protocol: Protocol, options: Mapping[str, str] | None = None, seed: int | None = None
) -> SimulationPlan:
    """The plan of a scenario's run; `options` and `seed` come before what the file says."""
    if scenario.protocol is not None and scenario.protocol != protocol.name:
        raise ScenarioError(f"{scenario.name} is for protocol {scenario.protocol}, not for {protocol.name}")
    line = scenario.setting("topology")
    topology = Topology.parse(line.words["value"] if line is not None else "2x3")
    protocol.check_topology(topology)
    number = _numbers(scenario)
    delta = number("delta", 10)
    start = start_of(scenario)
    return SimulationPlan(
        protocol=protocol,
        topology=topology,
        options=options_of(scenario, protocol, options or {}),
        seed=number("seed", 0) if seed is None else seed,
        network=_network(scenario, topology),
        disk=DiskPlan(number("fsync", 0), number("checkpoint", 0), torn=scenario.setting("untorn") is None),
        application=_application(scenario),
        clocks=ClockPlan(
            {int(line.words["pid"]): line.number("n") for line in scenario.settings_of("clock")},
            {int(line.words["pid"]): line.number("m") for line in scenario.settings_of("clock")},
        ),
        cpu=number("cpu", 0),
        clients=ClientPlan(
            timeout=number("timeout", 100 * delta),
            window=number("window", 0),
            to_all=scenario.setting("to_all") is not None,
            rebatch=_rate(scenario, "rebatch"),
        ),
        load=tuple(submission_of(line, topology, start) for line in scenario.happenings if line.kind == "multicast"),
        faults=tuple(_fault(line, topology, start) for line in scenario.happenings if is_fault(line)),
        limits=Limits(number("settle", 200 * delta), number("grace", 200_000 * delta), EVENTS_MAX, number("rest", 0)),
        delta=delta,
        scenario=scenario.name,
    )


def options_of(scenario: Scenario, protocol: Protocol, given: Mapping[str, str]) -> Any:
    """The protocol's options as the file's pace, the file's options and then the caller set them."""
    pairs = {line.words["word"]: line.words["value"] for line in scenario.settings_of("option")}
    paced = scenario.setting("paced")
    try:
        return paced_options(protocol, {**pairs, **given}, None if paced is None else paced.number("n"))
    except BraidcastError as error:
        raise ScenarioError(f"{scenario.name}: {error}") from None


def is_fault(line: Line) -> bool:
    """Whether a line is a fault of the plan, and not something for the stage."""
    lasts = line.kind in ("break", "clock_step", "hand_over_group") or "ticks" in line.words
    return line.at is not None and line.kind in FAULT_KINDS and lasts


def submission_of(line: Line, topology: Topology, start: Ticks) -> Submission:
    """What a `multicasts` line says."""
    dest = line.pids("groups")
    if list(dest) != sorted(set(dest)) or dest[-1] >= len(topology.groups):
        raise line.error(f"groups {' '.join(map(str, dest))} do not fit topology {topology.shape}: "
                         f"give numbers below {len(topology.groups)}, ascending")  # fmt: skip
    via, hexes = line.words.get("via", ""), line.words.get("hex", "")
    return Submission(
        at=(line.at or 0) - start,
        client=pid_of(line.words["client"], topology),
        dest=dest,
        payload=bytes.fromhex(hexes.removeprefix("-")) if hexes else line.words["name"].encode(),
        batch_count=line.number("n"),
        via=topology.members(dest) if via == "all" else tuple(int(word) for word in via.split()),
        again_after=line.number("m"),
        dies=" and dies" in line.text,
        name=line.words["name"],
        new_session=" in a new session" in line.text,
    )


def pid_of(word: str, topology: Topology) -> Pid:
    """`client1` is the first client, `3` is process 3."""
    if word.startswith("client"):
        return clients_of(topology, 1)[0] + int(word.removeprefix("client")) - 1
    return int(word)


def check_pids(line: Line, pids: tuple[Pid, ...], topology: Topology) -> tuple[Pid, ...]:
    """These processes, all of which exist."""
    for pid in pids:
        if pid not in topology.group_of:
            raise line.error(f"there is no process {pid} in topology {topology.shape}: {topology.pids[0]} to "
                             f"{topology.pids[-1]}")  # fmt: skip
    return pids


def _fault(line: Line, topology: Topology, start: Ticks) -> Fault:
    pids: tuple[Pid, ...] = ()
    if "pids" in line.words:
        pids = check_pids(line, line.pids(), topology)
    elif "pid" in line.words:
        pids = check_pids(line, (line.number("pid"),), topology)
        pids += check_pids(line, (line.number("other"),), topology) if "other" in line.words else ()
    group = line.number("group")
    if group >= len(topology.groups):
        raise line.error(f"there is no group {group} in topology {topology.shape}")
    if line.kind == "crash" and len(pids) > 1:
        raise line.error("one process a line, or leave out `for`: `crash 3 for 100`")
    ticks = line.number("n") if line.kind == "clock_step" else line.number("ticks")
    return Fault((line.at or 0) - start, FAULT_KINDS[line.kind], pids, group, ticks, "majority" not in line.text)


def _network(scenario: Scenario, topology: Topology) -> NetworkPlan:
    links = {}
    for line in scenario.settings_of("link"):
        if "any" in (line.words["sender"], line.words["to"]):
            raise line.error("name both ends: `delay client1 -> 0 5`")
        ends = pid_of(line.words["sender"], topology), pid_of(line.words["to"], topology)
        links[ends] = parse_delay(line.words["delay"])
    plan = NetworkPlan(
        links=links,
        stale=_rate(scenario, "stale"),
        lose={line.words["kind"]: float(line.words["rate"]) for line in scenario.settings_of("lose")},
    )
    if (setting := scenario.setting("delay")) is not None:
        plan = dataclasses.replace(plan, delay=parse_delay(setting.words["delay"]))
    if (setting := scenario.setting("reconnect")) is not None:
        plan = dataclasses.replace(plan, reconnect=parse_delay(setting.words["delay"]))
    return plan


def _application(scenario: Scenario) -> ApplicationPlan:
    lag, snapshot = scenario.setting("lag"), scenario.setting("snapshot")
    return ApplicationPlan(
        lag=lag.number("n") if lag is not None else 0,
        every=lag.number("m") if lag is not None else 0,
        snapshot=snapshot.number("n") if snapshot is not None else 0,
    )


def _rate(scenario: Scenario, kind: str) -> float:
    line = scenario.setting(kind)
    return float(line.words["rate"]) if line is not None else 0.0


def _numbers(scenario: Scenario) -> Any:
    def number(kind: str, otherwise: int) -> int:
        line = scenario.setting(kind)
        return line.number("n") if line is not None else otherwise

    return number
