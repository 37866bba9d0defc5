"""White-box processes in memory, with every message, timer and restart in the test's hand.

Disks are instant: the records of a step are in the log before anything it sent can be delivered. Nothing moves by
itself; `run` delivers everything, `deliver` what it is told to, in the order in which it was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from braidcast.core.application import Delivered
from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Outbox
from braidcast.core.timestamps import Timestamp, timestamp
from braidcast.core.topology import Pid, Topology
from braidcast.protocols.whitebox import Options, WhiteBox
from braidcast.protocols.whitebox.entry import Entry
from braidcast.protocols.whitebox.messages import Beat, Retry, Suspect

CLIENT = 100
"""A process id outside every topology of these tests."""
OPTIONS = Options(
    heartbeat_ticks=40, suspect_ticks=200, retry_ticks=120, forget_ticks=4_000, prevote=False
)
M = TypeVar("M")


def unit(seq: int, *dest: int, client: int = CLIENT, session: int = 1, **fields: Any) -> Multicast:
    """A client's message; its payload says which."""
    id = MessageId(client, session, seq)
    return Multicast(id, dest or (0,), **{"payload": f"m{seq}".encode(), **fields})


class Bench:
    """Groups of the given sizes, processes numbered from 0; the first of each leads ballot 0 and all have started."""

    def __init__(self, *sizes: int, **options: Any) -> None:
        self.topology = Topology.of_sizes(*(sizes or (3,)))
        self.options = replace(OPTIONS, **options)
        self.now = 0
        self.queue: list[tuple[Pid, Pid, Any]] = []
        """In flight: (sender, receiver, message)."""
        self.answers: list[tuple[Pid, Any]] = []
        """What clients were told: (process, message)."""
        self.logs: dict[Pid, list[Any]] = {p: [] for p in self.topology.pids}
        self.delivered: dict[Pid, list[Any]] = {p: [] for p in self.topology.pids}
        self.timers: dict[Pid, dict[Any, tuple[int, int]]] = {p: {} for p in self.topology.pids}
        """Pending: timer -> (earliest, latest) time."""
        self.notes: dict[Pid, list[Any]] = {p: [] for p in self.topology.pids}
        self.down: set[Pid] = set()
        self.processes: dict[Pid, WhiteBox] = {}
        for pid in self.topology.pids:
            self._create(pid)
            self.processes[pid].start()
            self._carry_out(pid)

    # -- what a test does --------------------------------------------------------------------------------------------

    def submit(self, m: Multicast, *pids: Pid) -> None:
        """The client sends `m` to these processes; none: to the first of each destination group."""
        for pid in pids or tuple(self.topology.groups[g][0] for g in m.dest):
            self.step(pid, m.id.client, m)

    def step(self, pid: Pid, sender: Pid, message: Any) -> None:
        """One input at `pid`."""
        self.out(pid).now = self.now
        self.processes[pid].step(sender, message)
        self._carry_out(pid)

    def deliver(self, sender: Pid | None = None, receiver: Pid | None = None, kind: type | None = None) -> int:
        """Deliver what is in flight now and matches; what that makes processes send stays in flight."""
        found = [flight for flight in self.queue if _matches(flight, sender, receiver, kind)]
        for flight in found:
            self.queue.remove(flight)
            self._arrive(flight)
        return len(found)

    def run(self, unless: Callable[[Pid, Pid, Any], bool] = lambda s, r, m: False) -> None:
        """Deliver everything until nothing is in flight; `unless` names what stays in flight."""
        while found := [flight for flight in self.queue if not unless(*flight)]:
            self.queue.remove(found[0])
            self._arrive(found[0])

    def drop(self, sender: Pid | None = None, receiver: Pid | None = None, kind: type | None = None) -> int:
        """Lose what is in flight and matches."""
        kept = [flight for flight in self.queue if not _matches(flight, sender, receiver, kind)]
        dropped = len(self.queue) - len(kept)
        self.queue = kept
        return dropped

    def fire(self, pid: Pid, timer: Any) -> None:
        """A timer fires, whether it is due or not."""
        self.timers[pid].pop(timer, None)
        self.step(pid, pid, timer)

    def elect(self, pid: Pid) -> None:
        """The leader selection service nominates `pid` (line 35), and everybody alive hears of it."""
        self.nominate(pid)
        self.run()

    def nominate(self, pid: Pid) -> None:
        """`pid` becomes a candidate; its messages are in flight."""
        self.fire(pid, Suspect())

    def crash(self, pid: Pid) -> None:
        """`pid` stops; what is in flight to it is lost, what it sent is not."""
        self.down.add(pid)
        self.drop(receiver=pid)

    def restart(self, pid: Pid, applied: Timestamp = 0) -> WhiteBox:
        """A new life from the log; the application's durable effects reach `applied`."""
        self.drop(receiver=pid)
        self.down.discard(pid)
        process = self._create(pid)
        self.out(pid).now = self.now
        process.recover(self.logs[pid])
        process.start(applied)
        self._carry_out(pid)
        return process

    def revived(self, pid: Pid) -> WhiteBox:
        """Another process, recovered from the log of `pid` but not started; `pid` itself goes on."""
        out = Outbox(pid)
        out.now = self.now
        process = WhiteBox(out, self.topology, self.options)
        process.recover(self.logs[pid])
        return process

    def beat(self, pid: Pid) -> None:
        """The leader's heartbeat, and what follows from it."""
        self.fire(pid, Beat())
        self.run()

    # -- what a test looks at ----------------------------------------------------------------------------------------

    def __getitem__(self, pid: Pid) -> WhiteBox:
        return self.processes[pid]

    def out(self, pid: Pid) -> Outbox:
        """The outbox of `pid`."""
        return self.processes[pid].out

    def entry(self, pid: Pid, m: Multicast) -> Entry:
        """What `pid` knows of `m`."""
        return self.processes[pid].entries[m.id]

    def in_flight(self, kind: type[M], sender: Pid | None = None, receiver: Pid | None = None) -> list[M]:
        """Messages of a kind that are in flight, in order."""
        return [flight[2] for flight in self.queue if _matches(flight, sender, receiver, kind)]

    def order(self, pid: Pid) -> list[int]:
        """The seqs that `pid` delivered, in order."""
        return [d.multicast.id.seq for d in self.delivered[pid] if isinstance(d, Delivered)]

    def refused(self, pid: Pid, why: str) -> int:
        """How often `pid` refused something for that reason."""
        return self.out(pid).refused.get(why, 0)

    def records(self, pid: Pid, kind: type[M]) -> list[M]:
        """Records of a kind in the log of `pid`."""
        return [record for record in self.logs[pid] if isinstance(record, kind)]

    def told(self, kind: type[M]) -> list[M]:
        """What clients were told, of a kind."""
        return [message for _, message in self.answers if isinstance(message, kind)]

    def noted(self, pid: Pid, kind: type[M]) -> list[M]:
        """Notes of a kind made by `pid`."""
        return [note for note in self.notes[pid] if isinstance(note, kind)]

    # -- machinery ---------------------------------------------------------------------------------------------------

    def _create(self, pid: Pid) -> WhiteBox:
        out = Outbox(pid, self.notes[pid].append)
        self.timers[pid] = {}
        self.processes[pid] = WhiteBox(out, self.topology, self.options)
        return self.processes[pid]

    def _arrive(self, flight: tuple[Pid, Pid, Any]) -> None:
        sender, receiver, message = flight
        if receiver not in self.down:
            self.step(receiver, sender, message)

    def _carry_out(self, pid: Pid) -> None:
        batch = self.out(pid).take()
        self.logs[pid] += batch.records
        for to, message in batch.sent:
            for receiver in to:
                if receiver in self.topology.group_of:
                    if receiver != pid and receiver not in self.down:
                        self.queue.append((pid, receiver, message))
                else:
                    self.answers.append((pid, message))
        self.delivered[pid] += batch.delivered
        for timer, after, spread in batch.timers:
            self.timers[pid].pop(timer, None)
            if after is not None:
                self.timers[pid][timer] = (self.now + after, self.now + after + spread)


def _matches(flight: tuple[Pid, Pid, Any], sender: Pid | None, receiver: Pid | None, kind: type | None) -> bool:
    return (
        (sender is None or flight[0] == sender)
        and (receiver is None or flight[1] == receiver)
        and (kind is None or type(flight[2]) is kind)
    )


def retry(bench: Bench, pid: Pid, m: Multicast, clock: int = 1) -> Retry:
    """What `pid`, which leads its group in ballot 0, asks other groups; its own timestamp has `clock`."""
    group = bench.topology.group_of[pid]
    return Retry(m, ballot(0, pid), ts(clock, group))


def ts(clock: int, group: int = 0) -> Timestamp:
    """Short for `timestamp`."""
    return timestamp(clock, group)
