"""Skeen's protocol among groups of one process that never fails (paper 001, Figure 1).

Every destination gives the message a local timestamp and tells the others; the global timestamp is the highest.
A message is delivered when no other can end below it. Line numbers are those of the figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.message import message
from braidcast.core.process import Outbox, Process
from braidcast.core.timestamps import GROUP_BITS, Timestamp
from braidcast.core.topology import Dest, Group, Pid, Topology
from braidcast.protocols.parts.pending import PendingHeap


@dataclass(frozen=True)
class Options:
    """Skeen's protocol has none."""


@message
class Propose:
    """`group` proposes `lts` for the message `id`."""

    id: MessageId
    dest: Dest
    group: Group
    lts: Timestamp


class Entry:
    """What is known of one message until it is delivered."""

    __slots__ = ("dest", "gts", "missing", "multicast", "proposed", "proposers")

    def __init__(self, dest: Dest) -> None:
        self.dest = dest
        self.multicast: Multicast | None = None
        self.missing = len(dest)
        """How many groups have not proposed yet."""
        self.proposers: set[Group] = set()
        self.proposed: Timestamp = 0
        """The highest proposal so far."""
        self.gts: Timestamp = 0
        """0 until every group has proposed."""


class Skeen(Process):
    """A process that is a group by itself."""

    __slots__ = ("clock", "delivered", "entries", "group", "pending", "topology")

    def __init__(self, out: Outbox, topology: Topology, options: Options) -> None:
        super().__init__(out)
        topology.require_singletons("skeen")
        self.topology = topology
        self.group = topology.group_of[out.me]
        self.clock = 0
        self.entries: dict[MessageId, Entry] = {}
        self.pending: PendingHeap[Entry] = PendingHeap()
        self.delivered: dict[MessageId, Timestamp] = {}
        """Never shrinks: the paper's protocol keeps no books of what is complete."""

    @property
    def backlog(self) -> int:
        return len(self.pending)

    def on_multicast(self, sender: Pid, m: Multicast) -> None:
        """Lines 8-12."""
        if self.group not in m.dest or not self.topology.has_groups(m.dest):
            return self.refuse("multicast to impossible destinations")
        if m.id in self.delivered:
            return self.send((sender,), Reply(m.id, self.group, self.delivered[m.id]))
        entry = self.entry(m.id, m.dest)
        if entry.dest != m.dest:
            return self.refuse("multicast with other destinations")
        if entry.multicast is not None:
            return self.refuse("multicast twice")
        self.clock += 1
        lts = self.clock << GROUP_BITS | self.group
        entry.multicast = m
        self.pending.push(lts, entry)
        self.send(self.topology.members(m.dest), Propose(m.id, m.dest, self.group, lts))

    def on_propose(self, sender: Pid, p: Propose) -> None:
        """Lines 13-22."""
        if self.topology.group_of.get(sender) != p.group or not {self.group, p.group} <= set(p.dest):
            return self.refuse("proposal for another group")
        if p.id in self.delivered or not self.topology.has_groups(p.dest):
            return self.refuse("proposal of what is delivered or impossible")
        entry = self.entry(p.id, p.dest)
        if p.group in entry.proposers or entry.dest != p.dest:
            return self.refuse("proposal twice")
        entry.proposers.add(p.group)
        entry.missing -= 1
        if p.lts > entry.proposed:
            entry.proposed = p.lts
        if not entry.missing:
            entry.gts = entry.proposed
            self.clock = max(self.clock, entry.gts >> GROUP_BITS)
            self.deliver_committed()

    def deliver_committed(self) -> None:
        """Lines 17-22."""
        while (entry := self.pending.next_committed()) is not None:
            self.pending.pop()
            m = entry.multicast
            assert m is not None, "only what was proposed here waits here"
            del self.entries[m.id]
            self.delivered[m.id] = entry.gts
            self.deliver(Delivered(m, entry.gts))
            self.send((m.id.client,), Reply(m.id, self.group, entry.gts))

    def entry(self, id: MessageId, dest: Dest) -> Entry:
        """The entry of `id`; another group's proposal may come before the message itself."""
        entry = self.entries.get(id)
        if entry is None:
            entry = self.entries[id] = Entry(dest)
        return entry
