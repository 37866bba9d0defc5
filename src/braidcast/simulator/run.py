"""Runs a plan to its end: until everybody has what they wait for, or the limit is reached."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from random import Random
from typing import Any

from braidcast import __version__
from braidcast.core.errors import BraidcastError
from braidcast.core.message import snake_name
from braidcast.core.process import Process, Ticks
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.core.topology import Pid
from braidcast.history.event import History
from braidcast.history.manifest import Manifest
from braidcast.simulator import recorder as recording
from braidcast.simulator.application import Application
from braidcast.simulator.clients import Client
from braidcast.simulator.clocks import Clock
from braidcast.simulator.disk import Disk
from braidcast.simulator.faults import Fault, FaultRates, Faults, draw_faults
from braidcast.simulator.load import Load, Submission, draw_load
from braidcast.simulator.network import Network
from braidcast.simulator.node import Node
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.recorder import Recorder
from braidcast.simulator.world import World


@dataclass
class Result:
    """What a run was and did."""

    plan: SimulationPlan
    history: History | None
    quiescent: bool
    waiting: list[str]
    """Who still waits for what; empty when quiescent."""
    ticks: Ticks
    events: int
    counters: dict[str, int]
    """Counts of notes by name in snake case, and what the drivers count themselves."""
    refused: dict[str, int]
    """How often processes refused an input, by reason."""
    latencies: list[Ticks]
    """Of the complete messages, as their clients saw it."""
    applications: dict[Pid, Application]
    error: str = ""
    """What a process raised, if one did; the run ended there."""
    processes: dict[Pid, Process] = field(repr=False, default_factory=dict)
    rested: bool = False
    """Whether the run had its rest, so that processes should hold nothing."""

    @cached_property
    def digest(self) -> str:
        """Names the schedule: equal for equal runs on any machine. Empty without a history."""
        return recording.digest(self.history.events) if self.history is not None else ""


def simulate(plan: SimulationPlan) -> Result:
    """Run a plan."""
    simulation = Simulation(plan)
    with simulation.catching():
        simulation.start()
        simulation.finish()
    return simulation.result()


class Simulation:
    """A run under way. `simulate` is the usual way; scenarios step in between."""

    def __init__(self, plan: SimulationPlan) -> None:
        protocol, topology = plan.protocol, plan.topology
        protocol.check_topology(topology)
        self.plan = plan
        self.options = plan.options if plan.options is not None else protocol.options()
        self.world = World()
        self.recorder = Recorder(self.world, traffic=plan.traffic) if plan.record else None
        self.network = Network(plan.network, self.world, self.random("network"), self.recorder)
        load, faults = plan.load, plan.faults
        self.load: tuple[Submission, ...] = (
            draw_load(load, topology, self.random("load")) if isinstance(load, Load) else load
        )
        self.fault_plan: tuple[Fault, ...] = (
            draw_faults(faults, topology, self.random("faults")) if isinstance(faults, FaultRates) else faults
        )
        stepping = {fault.pids[0] for fault in self.fault_plan if fault.kind == "clock"}
        self.nodes: dict[Pid, Node] = {}
        for pid in topology.pids:
            clock = plan.clocks.clock_of(pid) or (Clock() if pid in stepping else None)
            self.nodes[pid] = Node(
                pid,
                self.network,
                lambda out: protocol.make(out, topology, self.options),
                Disk(plan.disk, self.random(f"disk {pid}")),
                plan.application,
                clock,
                plan.cpu,
                self.random(f"timers {pid}"),
                self.recorder,
            )
        self.clients: dict[Pid, Client] = {}
        for submission in self.load:
            self.client(submission.client)
        self.faults = Faults(self.world, self.network, self.nodes, topology)
        self.quiescent = self.rested = False
        self.error = ""

    @contextmanager
    def catching(self) -> Iterator[None]:
        """A process that raises has a bug like any other: the run ends, and is judged and shrunk like any other."""
        try:
            yield
        except BraidcastError:
            raise
        except Exception as error:
            self.error = _where(error)

    def random(self, purpose: str) -> Random:
        """A generator of its own for every purpose, so that one more draw for one does not shift all the others."""
        return Random(f"{self.plan.seed} {purpose}")

    def client(self, pid: Pid) -> Client:
        """The client with that id; made when first asked for."""
        client = self.clients.get(pid)
        if client is None:
            client = self.clients[pid] = Client(
                pid, self.network, self.plan.topology, self.plan.clients, self.random(f"client {pid}"), self.recorder
            )
        return client

    def start(self) -> None:
        """Start all processes; schedule the load and the faults."""
        for node in self.nodes.values():
            node.boot()
        for submission in self.load:
            self.world.call(submission.at, self.clients[submission.client].submit, submission)
        self.faults.schedule(self.fault_plan)

    def finish(self) -> None:
        """Go on until the run is quiescent or beyond its limits."""
        limits = self.plan.limits
        ends = [submission.at for submission in self.load]
        ends += [fault.at + (0 if fault.kind == "clock" else fault.ticks) for fault in self.fault_plan]
        self._settle(max(ends, default=0))
        if limits.rest and self.quiescent and self.load:
            self._rest()

    def _rest(self) -> None:
        """Let everything be forgotten that is ever forgotten.

        A process may wait for the next message to learn that it can forget the ones before, so there is a next one.
        """
        client = self.client(max([submission.client for submission in self.load]) + 1)
        for dest in sorted({submission.dest for submission in self.load}):
            client.submit(Submission(self.world.now, client.pid, dest))
        self._settle(self.world.now)
        if self.quiescent:
            self.world.run(self.world.now + self.plan.limits.rest, self.plan.limits.events_max)
            self.rested = self.world.events < self.plan.limits.events_max

    def _settle(self, busy_until: Ticks) -> None:
        limits, world = self.plan.limits, self.world
        world.run(busy_until, limits.events_max)
        delivered = -1
        while world.times and world.events < limits.events_max and world.now <= busy_until + limits.grace:
            before, delivered = delivered, self._delivered()
            if before == delivered and not self.waiting():
                break
            # By the queue and not by the clock: with nothing scheduled for long, nothing is looked at for long.
            world.run(max(world.now, world.times[0]) + limits.settle, limits.events_max)
        cut_short = world.events >= limits.events_max
        self.quiescent = not cut_short and not self.faults.active and not self.waiting()

    def _delivered(self) -> int:
        return sum(len(node.application.applied) for node in self.nodes.values())

    def waiting(self) -> list[str]:
        """Who waits for what."""
        found = [
            f"client {client.pid} waits for group {' and '.join(map(str, sorted(unit.waiting)))} to reply to "
            f"{unit.multicast.id}, first sent at {unit.submitted_at}, {unit.attempts} times"
            for client in self.clients.values()
            for unit in client.units.values()
        ]
        found += [
            f"client {client.pid} has {len(client.waiting)} messages that wait for its window"
            for client in self.clients.values()
            if client.waiting
        ]
        owed = self._owed()
        for pid, node in self.nodes.items():
            need = owed[self.plan.topology.group_of[pid]]
            if not node.up:
                found.append(f"process {pid} is down")
            elif node.application.seen < need:
                found.append(
                    f"process {pid} has delivered up to {show_timestamp(node.application.seen)}, "
                    f"but {show_timestamp(need)}, which is for its group, is delivered elsewhere"
                )
        return found

    def _owed(self) -> list[Timestamp]:
        """Per group, the highest timestamp of all that was delivered anywhere and is for this group."""
        owed: list[Timestamp] = [0] * len(self.plan.topology.groups)
        for node in self.nodes.values():
            group = self.plan.topology.group_of[node.pid]
            owed[group] = max(owed[group], node.application.seen)
            for delivery in node.application.applied:
                multicast, gts = getattr(delivery, "multicast", None), getattr(delivery, "gts", 0)
                if multicast is not None and gts:
                    for g in multicast.dest:
                        if owed[g] < gts:
                            owed[g] = gts
        return owed

    def result(self) -> Result:
        """What the run was and did, so far."""
        waiting = [] if self.quiescent or self.error else self.waiting()
        refused: dict[str, int] = {}
        for node in self.nodes.values():
            for why, count in node.out.refused.items():
                refused[why] = refused.get(why, 0) + count
        return Result(
            plan=self.plan,
            history=self._history(),
            quiescent=self.quiescent,
            waiting=waiting,
            ticks=self.world.now,
            events=self.world.events,
            counters=self._counters(),
            refused=refused,
            latencies=[t for client in self.clients.values() for t in client.latencies.values()],
            applications={pid: node.application for pid, node in self.nodes.items()},
            error=self.error,
            processes={pid: node.process for pid, node in self.nodes.items()},
            rested=self.rested,
        )

    def _counters(self) -> dict[str, int]:
        notes = self.recorder.notes if self.recorder is not None else {}
        counters = {snake_name(kind): count for kind, count in notes.items()}
        counters |= {f"fault_{kind}": count for kind, count in self.faults.counts.items()}
        counters |= {
            "restarts": self.faults.restarts,
            "lost": self.network.lost,
            "torn": sum(node.disk.torn_frames for node in self.nodes.values()),
            "delivered_again": sum(node.application.redelivered for node in self.nodes.values()),
            "submitted": sum(len(client.submitted) for client in self.clients.values()),
            "complete": sum(len(client.latencies) for client in self.clients.values()),
        }
        return counters

    def _history(self) -> History | None:
        if self.recorder is None:
            return None
        plan = self.plan
        down = [node.pid for node in self.nodes.values() if not node.up]
        down += [client.pid for client in self.clients.values() if not client.up]
        manifest = Manifest(
            protocol=plan.protocol.name,
            promises=plan.protocol.promises,
            topology=plan.topology.groups,
            run=plan.run or f"{plan.protocol.name}-{plan.seed}",
            driver="simulator",
            seed=plan.seed,
            options=_options(self.options),
            software_version=__version__,
            delta=plan.delta,
            scenario=plan.scenario,
            quiescent=self.quiescent,
            crashed=tuple(down),
        )
        return History(manifest, self.recorder.events)


def _where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (in {last.name}, {PurePath(last.filename).name}:{last.lineno})"


def _options(options: Any) -> dict[str, Any]:
    return dataclasses.asdict(options) if dataclasses.is_dataclass(options) and not isinstance(options, type) else {}
