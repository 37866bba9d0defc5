"""Durability: the record that a message rests on is on disk before the message leaves (protocols.md 1.3).

The rules go by the names of kinds, as the white-box protocol uses them. A driver may join the records of several
steps before it lets go what they put out, so a later record may stand before an earlier message: an acknowledgement
of ballot b rests on what was accepted before any state of a ballot above b was installed.

Where a restart says what the disk held (`RECOVERED`), that is what is durable from then on, and what had been durable
before must be in it. What lies below its mark was delivered and may be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from braidcast.core.ballots import Ballot, show_ballot
from braidcast.core.client import MessageId
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.core.topology import Pid
from braidcast.history.envelope import reader
from braidcast.history.event import DELIVER, PERSIST, RECOVERED, RESTART, SEND
from braidcast.properties.property import WITH_DISKS, WITH_RECOVERY, states
from braidcast.properties.view import DISK_LOST, View
from braidcast.properties.violation import Violation

_RECORDS = ("accepted", "installed", "marked", "transferred", "checkpoint", "promised", "started")
_VOTES = ("new_leader", "new_leader_ack")
_APPLIED = ("heartbeat_ack", "stable")
"""What says up to which `gts` deliveries are durable, its sender's among them."""
_RESTARTS = RESTART, ("resumed", DISK_LOST)
_RECOVERIES = RECOVERED, _RECORDS


class _Disk:
    """What is durable at one process."""

    __slots__ = ("accepted", "dropped", "installed", "marked_to", "promised", "restored", "upto")

    def __init__(self) -> None:
        self.accepted: dict[MessageId, Timestamp] = {}
        """With the local timestamp, 0 where only the id is known."""
        self.dropped: dict[MessageId, tuple[Ballot, Timestamp]] = {}
        """In which ballot's state an accepted message was dropped."""
        self.marked_to: Timestamp = 0
        """Up to where deliveries are marked."""
        self.promised: set[Ballot] = set()
        self.installed: set[Ballot] = set()
        self.restored: set[Timestamp] = set()
        self.upto: Timestamp = 0
        """Everything up to here was delivered, as a recovered checkpoint says."""

    def add(self, name: str, kind: type | str, record: Any) -> None:
        """A record is durable."""
        if name == "accepted":
            self.accepted[reader(kind, "id")(record)] = reader(kind, "lts")(record) or 0
            return
        if name == "marked":
            self.accepted.setdefault(reader(kind, "id")(record), 0)
            self.marked_to = max(self.marked_to, reader(kind, "gts")(record) or 0)
            return
        ballot = reader(kind, "ballot")(record)
        if ballot is not None:
            self.promised.add(ballot)
        if name in ("promised", "started"):
            return
        ids = reader(kind, "ids")(record) or ()
        self.accepted |= dict.fromkeys(ids, 0)
        if name == "installed":
            self.installed.add(ballot)
            for id in reader(kind, "dropped")(record) or ():
                lts = self.accepted.pop(id, None)
                if lts is not None:
                    self.dropped[id] = (ballot, lts)
            return
        gts = reader(kind, "gts")(record) or 0
        self.marked_to = max(self.marked_to, gts)
        if name == "transferred":
            self.restored.add(gts)
        else:
            self.installed.add(reader(kind, "cballot")(record))
            self.upto = max(self.upto, gts)

    def lts_accepted(self, id: MessageId, ballot: Ballot) -> Timestamp | None:
        """What `id` was accepted at, as far as an acknowledgement in `ballot` may rest on it."""
        lts = self.accepted.get(id)
        if lts is None and id in self.dropped and ballot < self.dropped[id][0]:
            return self.dropped[id][1]
        return lts


class _Disks:
    """What is durable at each process, as a walk over a history finds it."""

    __slots__ = ("by_node", "recovering", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self.by_node: dict[Pid, _Disk] = {p: _Disk() for p in view.group_of}
        self.recovering: set[Pid] = set()
        """Restarted, and nothing was heard yet of what the disk holds."""

    def take(self, position: int, name: str, kind: type | str) -> _Disk | None:
        """An event that may be about a disk; the disk of its process if it is about something else."""
        event = self.view.events[position]
        node = event.node
        disk = self.by_node.get(node)
        if disk is None or event.event not in (RESTART, RECOVERED, PERSIST):
            return disk
        if event.event == RESTART:
            self.recovering.add(node)
            if name == DISK_LOST:
                self.by_node[node] = _Disk()
            return None
        if event.event == RECOVERED and node in self.recovering:
            disk = self.by_node[node] = _Disk()
        self.recovering.discard(node)
        disk.add(name, kind, event.what)
        return None


@states(
    "An ACCEPT_ACK leaves after its message is on disk, accepted at the local timestamp that it acknowledges; "
    "a vote after the promise; a NEW_STATE_ACK after the state; a HEARTBEAT_ACK or STABLE after the marks "
    "of all that it covers.",
    "section 1.3",
    WITH_DISKS,
)
def persist_precedes_send(view: View) -> Iterator[Violation]:
    disks = _Disks(view)
    last: tuple[Any, Pid | None] = None, None
    sent = SEND, ("accept_ack", "new_state_ack", *_VOTES, *_APPLIED)
    for position, name, kind in view.in_order((PERSIST, _RECORDS), sent, _RESTARTS, _RECOVERIES):
        event = view.events[position]
        node, what = event.node, event.what
        if (disk := disks.take(position, name, kind)) is None or (what is last[0] and node == last[1]):
            continue
        last = what, node
        if name == "accept_ack":
            yield from _judge_ack(view, disk, node, kind, what)
            continue
        if name in _APPLIED:
            gts = reader(kind, "gts")(what) or 0
            if gts > disk.marked_to:
                yield view.violation(
                    f"deliveries up to {show_timestamp(gts)} marked on disk before {name}",
                    f"marks up to {show_timestamp(disk.marked_to)}", node=node,
                )  # fmt: skip
            continue
        ballot = reader(kind, "ballot")(what)
        if ballot is None:
            continue
        if ballot not in (disk.promised if name in _VOTES else disk.installed):
            record = "promised" if name in _VOTES else "installed"
            yield view.violation(
                f"{record} {show_ballot(ballot)} on disk before {name}", "nothing of it on disk", node=node
            )


def _judge_ack(view: View, disk: _Disk, node: Pid, kind: type | str, ack: Any) -> Iterator[Violation]:
    id, vector = reader(kind, "id")(ack), reader(kind, "vector")(ack)
    dest, group = view.dest_of(id), view.group_of[node]
    if id is None or not vector or dest is None or group not in dest or len(vector) != len(dest):
        return
    ballot = vector[dest.index(group)]
    held = disk.lts_accepted(id, ballot)
    if held is None:
        yield view.violation("accepted on disk before accept_ack", "nothing of it on disk", node=node, message=id)
        return
    proposed = view.lts_proposed.get((id, group, ballot))
    if held and proposed and held != proposed:
        yield view.violation(
            f"accepted at {show_timestamp(proposed)} on disk before accept_ack", f"{show_timestamp(held)} on disk",
            node=node, message=id,
        )  # fmt: skip


@states(
    "The application sees a message after it is on disk, accepted, and a snapshot after it is on disk.",
    "section 1.3",
    WITH_DISKS,
)
def persist_precedes_delivery(view: View) -> Iterator[Violation]:
    disks = _Disks(view)
    watched = (PERSIST, _RECORDS), _RECOVERIES, (DELIVER, ("delivered", "restored")), _RESTARTS
    for position, name, kind in view.in_order(*watched):
        if (disk := disks.take(position, name, kind)) is None:
            continue
        node, what = view.events[position].node, view.events[position].what
        if name == "delivered":
            id = reader(kind, "id")(what)
            if id not in disk.accepted and not 0 < (reader(kind, "gts")(what) or 0) <= disk.upto:
                yield view.violation("accepted on disk before its delivery", "nothing of it", node=node, message=id)
        elif what.gts not in disk.restored and what.gts > disk.upto:
            yield view.violation(
                f"transferred {show_timestamp(what.gts)} on disk before restored", "no such snapshot", node=node
            )


@states(
    "What was durable at a process when it went down is what it finds when it restarts.", "section 1.3", WITH_RECOVERY
)
def durable_is_recovered(view: View) -> Iterator[Violation]:
    disks = _Disks(view)
    for position, name, kind in view.in_order((PERSIST, _RECORDS), _RESTARTS, _RECOVERIES):
        event = view.events[position]
        node = event.node
        before = disks.by_node.get(node) if event.event == RECOVERED and node in disks.recovering else None
        disks.take(position, name, kind)
        if before is None or name != "checkpoint":
            continue  # what is not recovered at once, one cannot tell from what is not recovered at all
        found = disks.by_node[node]
        if (promised := max(before.promised, default=0)) > (ballot := max(found.promised, default=0)):
            yield view.violation(f"a promise of {show_ballot(promised)}", show_ballot(ballot), node=node)
        if before.marked_to > found.upto:
            yield view.violation(
                f"delivered up to {show_timestamp(before.marked_to)}", show_timestamp(found.upto), node=node
            )
        for id in before.accepted.keys() - found.accepted.keys():
            if view.gts_of.get(id, found.upto + 1) > found.upto:
                yield view.violation(
                    "accepted on disk after the restart, as before it", "nothing of it", node=node, message=id
                )
