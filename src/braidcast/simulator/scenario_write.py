"""Writes a plan as a scenario file whose run is the same, event by event."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from braidcast.core.topology import Pid, Topology
from braidcast.simulator.faults import Fault
from braidcast.simulator.load import Submission, clients_of
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import SimulationPlan

_FAULTS = {
    "crash": "crash {pids} for {ticks}",
    "crash_leader": "crash leader of {group} for {ticks}",
    "crash_group": "crash group {group} for {ticks}",
    "crash_all": "crash all for {ticks}",
    "lose_disk": "lose disk of {pids} for {ticks}",
    "break": "break {pids}",
    "partition": "partition {pids} for {ticks}",
    "one_way": "silence {pids} for {ticks}",
    "pause": "pause {pids} for {ticks}",
    "clock": "clock {pids} by {ticks}",
    "hand_over": "hand over group {group}",
}


def write_scenario(plan: SimulationPlan, comment: str, expectations: Iterable[str]) -> str:
    """The text of a scenario; load and faults of the plan must be lists, not rates."""
    assert isinstance(plan.load, tuple), "what is drawn is drawn before it is written"
    assert isinstance(plan.faults, tuple), "what is drawn is drawn before it is written"
    lines = [*(f"# {line}" for line in comment.splitlines()), *_settings(plan), ""]
    happenings = [(s.at, _submission(s, number, plan.topology)) for number, s in enumerate(plan.load, start=1)]
    happenings += [(fault.at, _fault(fault)) for fault in plan.faults]
    width = max((len(str(at)) for at, _ in happenings), default=0)
    lines += [f"at {at:<{width}} {what}" for at, what in sorted(happenings, key=lambda happening: happening[0])]
    lines += ["", *expectations]
    return "\n".join(lines) + "\n"


def _settings(plan: SimulationPlan) -> Iterator[str]:
    yield f"protocol {plan.protocol.name}"
    usual = plan.protocol.options()
    for field in dataclasses.fields(usual):
        value = getattr(plan.options, field.name) if plan.options is not None else getattr(usual, field.name)
        if value != getattr(usual, field.name):
            yield f"option {field.name}={_value(value)}"
    yield f"topology {plan.topology.shape}"
    yield f"seed {plan.seed}"
    yield f"delta {plan.delta or 10}"
    clients = clients_of(plan.topology, 0 if not plan.load else 1)
    known = [s.client for s in plan.load if isinstance(s, Submission)] if isinstance(plan.load, tuple) else []
    yield from _network(plan.network, (*plan.topology.pids, *sorted({*clients, *known})), plan.topology)
    if plan.disk.fsync:
        yield f"fsync {plan.disk.fsync}"
    if plan.disk.checkpoint_every:
        yield f"checkpoint every {plan.disk.checkpoint_every}"
    if not plan.disk.torn:
        yield "no torn writes"
    if plan.application.lag:
        every = f" every {plan.application.every}" if plan.application.every else ""
        yield f"application lag {plan.application.lag}{every}"
    if plan.application.snapshot:
        yield f"application snapshot takes {plan.application.snapshot}"
    if plan.cpu:
        yield f"cpu {plan.cpu}"
    for pid in sorted({*plan.clocks.offset, *plan.clocks.drift_ppm}):
        drift = plan.clocks.drift_ppm.get(pid, 0)
        yield f"clock {pid} offset {plan.clocks.offset.get(pid, 0)}" + (f" drift {drift}" if drift else "")
    yield f"client timeout {plan.clients.timeout}"
    if plan.clients.window:
        yield f"client window {plan.clients.window}"
    if plan.clients.rebatch:
        yield f"client rebatch {plan.clients.rebatch}"
    if plan.clients.to_all:
        yield "clients send to all"
    yield f"settle {plan.limits.settle}"
    yield f"grace {plan.limits.grace}"
    if plan.limits.rest:
        yield f"rest {plan.limits.rest}"


def _network(plan: NetworkPlan, pids: tuple[Pid, ...], topology: Topology) -> Iterator[str]:
    yield f"delay default {plan.delay}"
    if plan.regions is not None or plan.links:
        for p in pids:
            for q in pids:
                if p != q and (delay := plan.delay_of(p, q)) != plan.delay:
                    yield f"delay {_pid(p, topology)} -> {_pid(q, topology)} {delay}"
    yield f"reconnect {plan.reconnect}"
    if plan.stale:
        yield f"stale {plan.stale}"
    for kind, rate in plan.lose.items():
        yield f"lose {kind} {rate}"


def _submission(s: Submission, number: int, topology: Topology) -> str:
    words = [_pid(s.client, topology), "multicasts", s.name or f"m{number}", "to", *map(str, s.dest)]
    if s.via:
        words += ["via", *map(str, s.via)]
    if s.batch_count:
        words += ["batch", str(s.batch_count)]
    if s.again_after:
        words += ["again", "after", str(s.again_after)]
    words += ["payload", s.payload.hex() or "-"]
    if s.dies:
        words += ["and", "dies"]
    if s.new_session:
        words += ["in", "a", "new", "session"]
    return " ".join(words)


def _fault(fault: Fault) -> str:
    pids = " ".join(map(str, fault.pids))
    text = _FAULTS[fault.kind].format(pids=pids, group=fault.group, ticks=fault.ticks)
    return text if fault.forced or fault.kind not in ("crash", "crash_leader") else f"{text} if it leaves a majority"


def _pid(pid: Pid, topology: Topology) -> str:
    first = clients_of(topology, 1)[0]
    return f"client{pid - first + 1}" if pid >= first else str(pid)


def _value(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
