"""The smallest driver there is: one queue, no time, no faults. It shows what a protocol costs by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Outbox, Process
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Dest, Pid, Topology

CLIENT: Pid = 60_000


class Pump:
    """Processes that hand each other messages in memory, in the order in which they were sent."""

    def __init__(self, protocol: Protocol, topology: Topology, options: Mapping[str, str]) -> None:
        protocol.check_topology(topology)
        parsed = protocol.parse_options(options)
        make: Callable[[Pid], Process] = lambda pid: protocol.make(Outbox(pid), topology, parsed)  # noqa: E731
        self.topology = topology
        self.processes = {pid: make(pid) for pid in topology.pids}
        self.queue: deque[tuple[Process, Pid, Any]] = deque()
        self.timers: dict[tuple[Pid, Any], None] = {}
        self.delivered = 0
        self.events = 0
        for process in self.processes.values():
            process.start()
            self.release(process)

    def inject(self, to: Pid, m: Multicast) -> None:
        """A client's message arrives at `to`."""
        self.queue.append((self.processes[to], CLIENT, m))

    def release(self, process: Process) -> None:
        """Carry out what a step put out; the disk is infinitely fast."""
        batch = process.out.batch
        me = process.me
        processes, queue = self.processes, self.queue
        for to, message in batch.sent:
            for pid in to:
                if pid != me and pid in processes:
                    queue.append((processes[pid], me, message))
        self.delivered += len(batch.delivered)
        for timer, after, _ in batch.timers:
            if after is None:
                self.timers.pop((me, timer), None)
            else:
                self.timers[me, timer] = None
        for part in batch:
            part.clear()

    def run(self) -> None:
        """Until nothing is in flight."""
        queue, release = self.queue, self.release
        while queue:
            process, sender, message = queue.popleft()
            process.step(sender, message)
            self.events += 1
            if any(process.out.batch):
                release(process)

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
    expected = messages * len(topology.members(dest))
    if pump.delivered != expected:
        raise AssertionError(f"{pump.delivered} of {expected} deliveries happened")
    return {
        "messages_per_s": messages / seconds,
        "events_per_message": pump.events / messages,
        "us_per_message": seconds / messages * 1e6,
        "us_per_event": seconds / pump.events * 1e6,
    }
