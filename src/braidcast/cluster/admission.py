"""Admission: how much a node takes on, from clients and from peers.

1. A node takes from clients while its replicas have less to bring to delivery than the limits say, its disk has room,
   and a quorum of each of its groups takes what it is sent. All of this is derived from state and nothing is counted: a
   new leader inherits what is pending and with it the brake, and there are no credits to lose.
2. Peers are read until too much waits for the disk: what is pending does not slow them down, since a retry between
   groups is what unblocks a message.
3. Whether there is room is looked at when somebody asks for some; each turn only whether there is room again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braidcast.cluster.node import Node

SUBMITTED_BYTES_MAX = 4 << 20
"""What clients may bring to one commit, and a message: heartbeats wait for it."""
RESUMES = 0.75
"""Clients are read again when the load has fallen to this share of the limit."""


class Admission:
    """The brake of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.arrived_bytes = 0
        """What came since the last commit began: with what it put out, it waits for the next one."""
        self.submitted_bytes = 0
        """What clients submitted of that."""

    def begin_anew(self) -> None:
        """All that came has left, or is in the commit that begins."""
        self.arrived_bytes = self.submitted_bytes = 0

    def look(self) -> None:
        """At the end of a turn: who was stopped goes on if there is room, and peers stop if there is none."""
        node, limits = self.node, self.node.config.limits
        node.peers.set_reading(
            self.held_back < limits.pending_messages_max and self.arrived_bytes < limits.pending_bytes_max
        )
        if not node.clients.admits:
            self.admit()

    def admit(self) -> bool:
        """Whether there is room for what clients submit; if there is again, what waited for it comes first."""
        node, clients = self.node, self.node.clients
        if node.disk_lack or not self.has_place or not self._keeps_up():
            clients.admits = False
        elif not clients.admits and self._load() <= RESUMES:
            clients.admits = True
            for session, to, message in clients.released():
                node.door.submit(session, to, message)
                clients.admits = self.has_place
                node.wake()
        return clients.admits

    @property
    def has_place(self) -> bool:
        """Whether there is room for another message, in what is pending and in the next commit."""
        return self.submitted_bytes < SUBMITTED_BYTES_MAX and self._load() < 1

    @property
    def held_back(self) -> int:
        """How much was put out and waits for the disk."""
        count = 0
        for replica in self.node.replicas.values():
            count += len(replica.out.sent) + len(replica.out.delivered)
        return count

    def _load(self) -> float:
        """What there is to bring to delivery, or through the disk, as a share of what there may be."""
        limits, processes = self.node.config.limits, [replica.process for replica in self.node.replicas.values()]
        count = max(self.held_back, *[process.backlog for process in processes])
        size = max(self.arrived_bytes, *[process.backlog_bytes for process in processes])
        return max(count / limits.pending_messages_max, size / limits.pending_bytes_max)

    def _keeps_up(self) -> bool:
        """Whether a quorum of each group here takes what it is sent; who is away is waited for otherwise, or not."""
        node = self.node
        slow = {peer.name for peer in node.peers.all.values() if peer.congested}
        if not slow:
            return True
        for group in node.by_group:
            hosts = [node.config.node_of(pid) for pid in node.topology.groups[group]]
            swift = [host for host in hosts if host not in slow and node.reaches(host)]
            if not slow.isdisjoint(hosts) and len(swift) < node.topology.quorum[group]:
                return False
        return True
