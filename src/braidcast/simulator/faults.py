"""What goes wrong and when: a list of faults, drawn from rates or written down, and the hand that carries them out.

A fault that depends on the state of the run (the leader crashes) is resolved when it happens. Unless a fault takes
down a whole group on purpose, never more than a minority of a group is down at a time: such a fault does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

from braidcast.core.process import Ticks
from braidcast.core.topology import Group, Pid, Topology
from braidcast.simulator.delays import Delay, DelaySource, Uniform
from braidcast.simulator.network import Network
from braidcast.simulator.node import Node
from braidcast.simulator.world import World

REJOINING = "rejoining"
"""The role of a process that lost its disk and is not restored."""
SHORTLY: Delay = Uniform(50, 500)
BACK_OR_FORTH: Delay = Uniform(-500, 500)

FaultKind = Literal[
    "crash", "crash_leader", "crash_group", "crash_all", "lose_disk", "break", "partition", "one_way", "pause", "clock",
    "hand_over",
]


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and for how long."""

    at: Ticks
    kind: FaultKind
    pids: tuple[Pid, ...] = ()
    """Who crashes, loses its disk, pauses or has its clock set; the ends of a session; one side of a partition."""
    group: Group = 0
    """For crash_leader, crash_group and hand_over."""
    ticks: Ticks = 0
    """How long it lasts; for `clock`, by how much the clock steps."""
    forced: bool = False
    """Crash even if more than a minority of the group is down then."""


@dataclass(frozen=True)
class FaultRates:
    """How many faults of each kind there are in a run, on average, and how long they last."""

    begin: Ticks = 0
    end: Ticks = 0
    """No fault begins at or after this; all of them end by then. 0: there are none."""
    crashes: float = 0.0
    leader_crashes: float = 0.0
    group_crashes: float = 0.0
    total_crashes: float = 0.0
    disk_losses: float = 0.0
    breaks: float = 0.0
    partitions: float = 0.0
    one_ways: float = 0.0
    pauses: float = 0.0
    clock_steps: float = 0.0
    hand_overs: float = 0.0
    """No fault, but as good a reason for an election at any moment."""
    downtime: Delay = SHORTLY
    partition_time: Delay = SHORTLY
    pause_time: Delay = SHORTLY
    clock_step: Delay = BACK_OR_FORTH


def draw_faults(rates: FaultRates, topology: Topology, random: Random) -> tuple[Fault, ...]:
    """Faults in order of time, each over by `rates.end`."""
    if rates.end <= rates.begin:
        return ()
    downtime, partition_time, pause_time, clock_step = (
        DelaySource(delay, random)
        for delay in (rates.downtime, rates.partition_time, rates.pause_time, rates.clock_step)
    )
    pids = topology.pids
    found: list[Fault] = []

    def times(rate: float) -> list[Ticks]:
        count = int(rate) + (random.random() < rate % 1)
        return [random.randrange(rates.begin, rates.end) for _ in range(count)]

    def lasting(at: Ticks, source: DelaySource) -> Ticks:
        return min(source.draw(), rates.end - at)

    for at in times(rates.crashes):
        found.append(Fault(at, "crash", (random.choice(pids),), ticks=lasting(at, downtime)))
    for at in times(rates.leader_crashes):
        group = random.randrange(len(topology.groups))
        found.append(Fault(at, "crash_leader", group=group, ticks=lasting(at, downtime)))
    for at in times(rates.group_crashes):
        group = random.randrange(len(topology.groups))
        found.append(Fault(at, "crash_group", group=group, ticks=lasting(at, downtime)))
    for at in times(rates.total_crashes):
        found.append(Fault(at, "crash_all", ticks=lasting(at, downtime)))
    if len(pids) > 1:
        for at in times(rates.breaks):
            found.append(Fault(at, "break", tuple(random.sample(pids, 2))))
        for kind, rate in (("partition", rates.partitions), ("one_way", rates.one_ways)):
            for at in times(rate):
                side = tuple(sorted(random.sample(pids, random.randint(1, max(1, len(pids) // 2)))))
                ticks = lasting(at, partition_time)
                found.append(Fault(at, "one_way" if kind == "one_way" else "partition", side, ticks=ticks))
    for at in times(rates.pauses):
        found.append(Fault(at, "pause", (random.choice(pids),), ticks=lasting(at, pause_time)))
    for at in times(rates.clock_steps):
        found.append(Fault(at, "clock", (random.choice(pids),), ticks=clock_step.draw()))
    for at in times(rates.disk_losses):
        found.append(Fault(at, "lose_disk", (random.choice(pids),), ticks=lasting(at, downtime)))
    for at in times(rates.hand_overs):
        found.append(Fault(at, "hand_over", group=random.randrange(len(topology.groups))))
    return tuple(sorted(found, key=lambda fault: fault.at))


class Faults:
    """Carries out faults, and counts those that had an effect."""

    def __init__(self, world: World, network: Network, nodes: Mapping[Pid, Node], topology: Topology) -> None:
        self.world = world
        self.network = network
        self.nodes = nodes
        self.topology = topology
        self.counts: dict[str, int] = {}
        self.restarts = 0
        self.active = 0
        """How many faults have begun and not ended, or not begun."""

    def schedule(self, faults: tuple[Fault, ...]) -> None:
        """They will happen."""
        self.active += len(faults)
        for fault in faults:
            self.world.call(fault.at, self.begin, fault)

    def begin(self, fault: Fault) -> None:
        """It happens."""
        match fault.kind:
            case "crash" | "crash_leader":
                pid = fault.pids[0] if fault.kind == "crash" else self.leader_of(fault.group)
                effective = self.nodes[pid].up if fault.forced else self.may_crash(pid)
                if effective:
                    self.crash(pid)
                    self._end_later(fault, self.restart, pid)
            case "lose_disk":
                pid = fault.pids[0]
                effective = self.may_lose_disk(pid)  # forced or not: nobody promises anything beyond that
                if effective:
                    self.lose_disk(pid)
                    self._end_later(fault, self.restart, pid)
            case "crash_group" | "crash_all":
                groups = self.topology.groups
                members = groups[fault.group] if fault.kind == "crash_group" else self.topology.pids
                down = [pid for pid in members if self.nodes[pid].up]
                effective = bool(down)
                for pid in down:
                    self.crash(pid)
                if effective:
                    self._end_later(fault, self.restart, *down)
            case "break":
                effective = all(self.nodes[pid].up for pid in fault.pids)
                if effective:
                    self.network.break_session(*fault.pids)
                self.active -= effective
            case "partition" | "one_way":
                effective = True
                directions = self.directions(fault.pids, one_way=fault.kind == "one_way")
                self.network.block(directions)
                self._end_later(fault, self._unblock, directions)
            case "pause":
                node = self.nodes[fault.pids[0]]
                effective = node.up and not node.paused
                if effective:
                    node.pause()
                    self._end_later(fault, node.resume)
            case "clock":
                clock = self.nodes[fault.pids[0]].clock
                effective = clock is not None
                if clock is not None:
                    clock.step(fault.ticks)
                self.active -= effective
            case "hand_over":
                effective = True
                self.nodes[self.leader_of(fault.group)].hand_over()
                self.active -= 1
        if effective:
            self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        else:
            self.active -= 1

    def _end_later(self, fault: Fault, function: object, *arguments: object) -> None:
        self.world.call(self.world.now + fault.ticks, self._end, function, arguments)

    def _end(self, function: object, arguments: tuple[object, ...]) -> None:
        assert callable(function), "what ends a fault is a call"
        function(*arguments)
        self.active -= 1

    def _unblock(self, directions: list[tuple[Pid, Pid]]) -> None:
        self.network.unblock(directions)

    def crash(self, pid: Pid) -> None:
        """A node goes down."""
        if self.nodes[pid].up:
            self.nodes[pid].crash()

    def lose_disk(self, pid: Pid) -> None:
        """A node goes down and its disk is lost."""
        self.crash(pid)
        self.nodes[pid].lose_disk()

    def restart(self, *pids: Pid) -> None:
        """Nodes come up again."""
        for pid in pids:
            if not self.nodes[pid].up:
                self.restarts += 1
                self.nodes[pid].restart()

    def may_crash(self, pid: Pid) -> bool:
        """Whether at most a minority of its group would be down."""
        members = self.topology.groups[self.topology.group_of[pid]]
        down = sum(not self.nodes[p].up for p in members)
        return self.nodes[pid].up and down + 1 <= (len(members) - 1) // 2

    def may_lose_disk(self, pid: Pid) -> bool:
        """Whether the rest of its group can restore it: no other member has lost its disk and not been restored."""
        others = [self.nodes[p] for p in self.topology.groups[self.topology.group_of[pid]] if p != pid]
        remember = [node.process.role != REJOINING if node.up else not node.disk.lost for node in others]
        return self.nodes[pid].up and bool(others) and all(remember)

    def leader_of(self, group: Group) -> Pid:
        """Who leads a group at the moment, or else its first member that is up."""
        members = self.topology.groups[group]
        leaders = [p for p in members if self.nodes[p].up and self.nodes[p].process.role == "leader"]
        up = [p for p in members if self.nodes[p].up]
        return (leaders or up or members)[0]

    def directions(self, side: tuple[Pid, ...], *, one_way: bool) -> list[tuple[Pid, Pid]]:
        """What is blocked when `side` cannot be heard by the other processes (or, if not one-way, hears them not)."""
        others = [p for p in self.topology.pids if p not in side]
        out = [(p, q) for p in side for q in others]
        return out if one_way else out + [(q, p) for p, q in out]
