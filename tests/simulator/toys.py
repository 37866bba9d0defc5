"""Small processes that show what the simulator does, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from braidcast.core.application import Connected, Delivered, Restored, Snapshot, SnapshotWanted
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.message import message
from braidcast.core.process import Outbox, Process, Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Pid, Topology
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.run import Simulation


@dataclass(frozen=True)
class NoOptions:
    """None."""


@message
class Numbered:
    """The n-th message on its channel."""

    n: int


@message
class Noise:
    """Another kind of message."""

    n: int


@message
class Tick:
    """A timer."""

    name: str


@message
class Heard:
    """A note."""

    n: int


class Listener(Process):
    """Keeps what it hears, with the times."""

    __slots__ = ("heard", "sessions", "ticks", "topology")

    def __init__(self, out: Outbox, topology: Topology, options: NoOptions) -> None:
        super().__init__(out)
        self.topology = topology
        self.heard: list[tuple[Ticks, Pid, int]] = []
        self.sessions: list[tuple[Ticks, Pid]] = []
        self.ticks: list[tuple[Ticks, Ticks, str]] = []

    def on_numbered(self, sender: Pid, m: Numbered) -> None:
        self.heard.append((self.out.now, sender, m.n))
        if note := self.note:
            note(Heard(m.n))

    def on_noise(self, sender: Pid, m: Noise) -> None:
        pass

    def on_connected(self, sender: Pid, m: Connected) -> None:
        self.sessions.append((self.out.now, m.peer))

    def on_tick(self, sender: Pid, m: Tick) -> None:
        self.ticks.append((self.out.now, self.out.wall, m.name))

    @property
    def numbers(self) -> list[int]:
        """What it heard, without times."""
        return [n for _, _, n in self.heard]


@message
class Stored:
    """Record: a message and its place."""

    multicast: Multicast
    gts: int


@message
class Counted:
    """Record: written in the same step as `Stored`."""

    gts: int


@message
class Ask:
    """A client asks for a snapshot of the application."""


class Store(Process):
    """A group of one that orders what it gets, durably: two records a step."""

    __slots__ = ("counted", "order", "places", "snapshots")

    def __init__(self, out: Outbox, topology: Topology, options: NoOptions) -> None:
        super().__init__(out)
        self.order: list[Stored] = []
        self.places: dict[MessageId, int] = {}
        self.counted = 0
        self.snapshots: list[Snapshot] = []

    def on_multicast(self, sender: Pid, m: Multicast) -> None:
        if m.id not in self.places:
            stored = Stored(m, len(self.order) + 1)
            self.persist(stored)
            self.persist(Counted(stored.gts))
            self.redo_stored(stored)
            self.redo_counted(Counted(stored.gts))
            self.deliver(Delivered(m, stored.gts))
        self.send((m.id.client,), Reply(m.id, 0, self.places[m.id]))

    def on_ask(self, sender: Pid, a: Ask) -> None:
        self.deliver(SnapshotWanted(len(self.order)))

    def on_snapshot(self, sender: Pid, s: Snapshot) -> None:
        self.snapshots.append(s)

    def on_restored(self, sender: Pid, r: Restored) -> None:
        self.deliver(r)

    def redo_stored(self, r: Stored) -> None:
        self.order.append(r)
        self.places[r.multicast.id] = r.gts

    def redo_counted(self, r: Counted) -> None:
        self.counted = r.gts

    def start(self, applied: int = 0) -> None:
        assert self.counted == len(self.order), "the records of a step are durable together or not at all"
        for stored in self.order:
            if stored.gts > applied:
                self.deliver(Delivered(stored.multicast, stored.gts))

    def checkpoint(self) -> Iterable[Any]:
        return [*self.order, Counted(self.counted)]


LISTENER = Protocol("listener", "listens", Listener, NoOptions)
STORE = Protocol("store", "orders durably in a group of one", Store, NoOptions)


def simulation(protocol: Protocol, topology: str, **settings: Any) -> Simulation:
    """A simulation that has been started."""
    started = Simulation(SimulationPlan(protocol, Topology.parse(topology), **settings))
    started.start()
    return started


def listener(simulation: Simulation, pid: Pid) -> Listener:
    """The listener at a process."""
    process = simulation.nodes[pid].process
    assert isinstance(process, Listener), "a run of listeners"
    return process


def store(simulation: Simulation, pid: Pid = 0) -> Store:
    """The store at a process."""
    process = simulation.nodes[pid].process
    assert isinstance(process, Store), "a run of stores"
    return process


def say(simulation: Simulation, sender: Pid, to: Pid, *messages: Any) -> None:
    """A process sends, in one step."""
    node = simulation.nodes[sender]
    for m in messages:
        node.out.send((to,), m)
    node.release()


def gts_applied(simulation: Simulation, pid: Pid = 0) -> list[int]:
    """The places of what an application has applied."""
    return [delivery.gts for delivery in simulation.nodes[pid].application.applied]
