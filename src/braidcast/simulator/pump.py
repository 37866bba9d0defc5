"""The smallest driver there is: no time, no faults. It shows what a protocol costs by itself."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from time import process_time
from typing import Any

from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Outbox, Process
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Dest, Pid, Topology

CLIENT: Pid = 60_000


class Pump:
    """Processes that hand each other messages in memory, round by round, as a node does tick by tick."""

    def __init__(self, protocol: Protocol, topology: Topology, options: Mapping[str, str]) -> None:
        protocol.check_topology(topology)
        parsed = protocol.parse_options(options)
        self.processes: dict[Pid, Process] = {}
        self.inboxes: dict[Pid, list[tuple[Pid, Any]]] = {}
        self.timers: dict[tuple[Pid, Any], None] = {}
        self.delivered = 0
        self.events = 0
        for pid in topology.pids:
            self.processes[pid] = protocol.make(Outbox(pid), topology, parsed)
            self.inboxes[pid] = []
        for process in self.processes.values():
            process.start()
            self.release(process)

    def inject(self, to: Pid, m: Multicast) -> None:
        """A client's message arrives at `to`."""
        self.inboxes[to].append((CLIENT, m))

    def release(self, process: Process) -> None:
        """Carry out what a process put out; the disk is infinitely fast."""
        out = process.out
        me, inboxes = process.me, self.inboxes
        for to, message in out.sent:
            item = (me, message)
            for pid in to:
                if pid != me and pid in inboxes:
                    inboxes[pid].append(item)
        out.sent.clear()
        out.records.clear()
        self.delivered += len(out.delivered)
        out.delivered.clear()
        for timer, after, _ in out.timers:
            if after is None:
                self.timers.pop((me, timer), None)
            else:
                self.timers[me, timer] = None
        out.timers.clear()

    def run(self) -> None:
        """Until nothing is in flight."""
        moved = True
        while moved:
            moved = False
            for pid, process in self.processes.items():
                inbox = self.inboxes[pid]
                if inbox:
                    moved = True
                    self.inboxes[pid] = []
                    self.events += len(inbox)
                    step = process.step
                    for sender, message in inbox:
                        step(sender, message)
                    self.release(process)

    def fire(self, kind: str) -> None:
        """Every pending timer of one kind goes off."""
        for pid, timer in [key for key in self.timers if type(key[1]).__name__ == kind]:
            del self.timers[pid, timer]
            process = self.processes[pid]
            process.step(pid, timer)
            self.release(process)
        self.run()


def measure(
    protocol: Protocol, topology: Topology, options: Mapping[str, str], dest: Dest, messages: int, outstanding: int = 64
) -> dict[str, float]:
    """Messages a second of CPU time through a protocol in memory, `outstanding` at a time, collection on."""
    pump = Pump(protocol, topology, options)
    leaders = [topology.groups[group][0] for group in dest]
    gc.collect()
    gc.disable()  # as a node does: entries die by their counts, and the collector would only walk them
    begin = process_time()
    for first in range(1, messages + 1, outstanding):
        for seq in range(first, min(first + outstanding, messages + 1)):
            m = Multicast(MessageId(CLIENT, 1, seq), dest, b"x" * 20, first)
            for leader in leaders:
                pump.inject(leader, m)
        pump.run()
        if first % (outstanding * 16) == 1:
            for process in pump.processes.values():
                process.out.now += 1
            pump.fire("Beat")
    seconds = process_time() - begin
    gc.enable()
    expected = messages * len(topology.members(dest))
    if pump.delivered != expected:
        raise AssertionError(f"{pump.delivered} of {expected} deliveries happened")
    return {
        "messages_per_s": messages / seconds,
        "events_per_message": pump.events / messages,
        "us_per_message": seconds / messages * 1e6,
        "us_per_event": seconds / pump.events * 1e6,
    }
