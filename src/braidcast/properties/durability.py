"""Durability: the record that a message rests on is on disk before the message leaves (protocols.md 1.3).

The rules go by the names of kinds, as the white-box protocol uses them. A driver may join the records of several
steps before it lets go what they put out, so a later record may stand before an earlier message: an acknowledgement
of ballot b rests on what was accepted before any state of a ballot above b was installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from braidcast.core.ballots import Ballot, show_ballot
from braidcast.core.client import MessageId
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.core.topology import Pid
from braidcast.history.envelope import reader
from braidcast.history.event import DELIVER, PERSIST, RESTART, SEND
from braidcast.properties.property import WITH_DISKS, states
from braidcast.properties.view import REJOINS, View
from braidcast.properties.violation import Violation

_RECORDS = ("accepted", "installed", "marked", "transferred", "checkpoint", "promised", "started")
_VOTES = ("new_leader", "new_leader_ack")
_APPLIED = {"heartbeat_ack": "gts", "heartbeat": "floor"}
"""What says how far deliveries are durable, and the field that does."""


class _Disk:
    """What is durable at one process."""

    __slots__ = ("accepted", "dropped", "installed", "marked_to", "promised", "restored")

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
        if name == "checkpoint":
            self.installed.add(reader(kind, "cballot")(record))

    def lts_accepted(self, id: MessageId, ballot: Ballot) -> Timestamp | None:
        """What `id` was accepted at, as far as an acknowledgement in `ballot` may rest on it."""
        lts = self.accepted.get(id)
        if lts is None and id in self.dropped and ballot < self.dropped[id][0]:
            return self.dropped[id][1]
        return lts


@states(
    "An ACCEPT_ACK leaves after its message is on disk, accepted at the local timestamp that it acknowledges; "
    "a vote after the promise; a NEW_STATE_ACK after the state; a HEARTBEAT_ACK, and what a leader says may be "
    "collected, after the marks of all that they cover.",
    "section 1.3",
    WITH_DISKS,
)
def persist_precedes_send(view: View) -> Iterator[Violation]:
    disks: dict[Pid, _Disk] = {p: _Disk() for p in view.group_of}
    last: tuple[Any, Pid | None] = None, None
    sent = SEND, ("accept_ack", "new_state_ack", *_VOTES, *_APPLIED)
    for position, name, kind in view.in_order((PERSIST, _RECORDS), sent, REJOINS):
        event = view.events[position]
        node, what = event.node, event.what
        disk = disks.get(node)
        if disk is None or (what is last[0] and node == last[1]):
            continue
        if event.event == RESTART:
            disks[node] = _Disk()
            continue
        if event.event == PERSIST:
            disk.add(name, kind, what)
            continue
        last = what, node
        if name == "accept_ack":
            yield from _judge_ack(view, disk, node, kind, what)
            continue
        if name in _APPLIED:
            gts = reader(kind, _APPLIED[name])(what) or 0
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
    disks: dict[Pid, _Disk] = {p: _Disk() for p in view.group_of}
    watched = (PERSIST, _RECORDS), (DELIVER, ("delivered", "restored")), REJOINS
    for position, name, kind in view.in_order(*watched):
        event = view.events[position]
        node, what = event.node, event.what
        disk = disks.get(node)
        if disk is None:
            continue
        if event.event == RESTART:
            disks[node] = _Disk()
        elif event.event == PERSIST:
            disk.add(name, kind, what)
        elif name == "delivered":
            id = reader(kind, "id")(what)
            if id not in disk.accepted:
                yield view.violation("accepted on disk before its delivery", "nothing of it", node=node, message=id)
        elif what.gts not in disk.restored:
            yield view.violation(
                f"transferred {show_timestamp(what.gts)} on disk before restored", "no such snapshot", node=node
            )
