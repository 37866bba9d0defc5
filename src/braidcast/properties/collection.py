"""Garbage collection: what may be forgotten (protocols.md 1.6), and the reports that it rests on.

The mark of a process is how far its application is. That a member gets a collected message late, from a message that
was in flight, breaks nothing, so rule (a) is judged at the end: a run that is quiet leaves nobody without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from braidcast.core.client import MessageId
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.core.topology import Group, Pid
from braidcast.history.envelope import reader, reads
from braidcast.history.event import SEND
from braidcast.properties.property import WITH_COLLECTION, WITH_GTS, states
from braidcast.properties.view import View
from braidcast.properties.violation import Violation


@states(
    "Who forgets a message has delivered it, and in the end so has every correct member of its group, or a snapshot "
    "that includes it.",
    "section 1.6 (a)",
    WITH_COLLECTION,
)
def collected_here_is_delivered_here(view: View) -> Iterator[Violation]:
    marks = view.marks
    judged: set[tuple[Group, MessageId]] = set()
    correct = set(view.manifest.correct)
    for node, position, id, gts in view.collected:
        if marks.mark(node, position) < gts:
            yield view.violation(
                f"delivered up to {show_timestamp(gts)} before it is collected",
                show_timestamp(marks.mark(node, position)), node=node, message=id,
            )  # fmt: skip
        group = view.group_of[node]
        if not view.manifest.quiescent or (group, id) in judged:
            continue
        judged.add((group, id))
        for member in view.groups[group]:
            if member in correct and marks.final(member) < gts:
                yield view.violation(
                    f"it or a snapshot from {show_timestamp(gts)} on, as node {node} collected it",
                    f"{show_timestamp(marks.final(member))} in the end", node=member, message=id,
                )  # fmt: skip


@states(
    "Who forgets a message knows that a quorum of every other destination has delivered it.",
    "section 1.6 (b)",
    WITH_COLLECTION,
)
def collected_here_is_stable_elsewhere(view: View) -> Iterator[Violation]:
    marks = view.marks
    for node, position, id, gts in view.collected:
        for group in view.dest_of(id) or ():
            if group == view.group_of[node] or group >= len(view.groups):
                continue
            if not marks.quorum_has(view.groups[group], gts, position):
                yield view.violation(
                    f"a quorum of group {group} at {show_timestamp(gts)} before it is collected",
                    f"marks {', '.join(show_timestamp(marks.mark(p, position)) for p in view.groups[group])}",
                    node=node, message=id,
                )  # fmt: skip


@states(
    "A process reports as durable only what its application has, and no crash takes that back.",
    "section 1.3, STABLE and GC reports",
    WITH_GTS,
)
def durable_reports_are_true(view: View) -> Iterator[Violation]:
    reports = list(_sent(view, "heartbeat_ack"))
    if not reports:
        return
    marks = view.marks
    highest: dict[Pid, list[tuple[int, Timestamp]]] = {}
    for node, position, _, gts in reports:
        if node not in view.group_of:
            continue
        if gts > marks.mark(node, position):
            yield view.violation(
                f"a report up to {show_timestamp(marks.mark(node, position))} at most", show_timestamp(gts), node=node
            )
        highest.setdefault(node, []).append((position, gts))
    lost_with_the_disk: dict[Pid, int] = {}
    for position, node, gts in view.resumed:
        if position in view.disk_losses:
            lost_with_the_disk[node] = position
            continue
        since = lost_with_the_disk.get(node, -1)
        reported = max([r for at, r in highest.get(node, []) if since < at < position], default=0)
        if reported > gts:
            yield view.violation(
                f"effects up to {show_timestamp(reported)} after a crash, as reported", show_timestamp(gts), node=node
            )


@states("A group is reported stable only up to where a quorum of it has delivered.", "section 1.6 (b)", WITH_GTS)
def stable_reports_are_true(view: View) -> Iterator[Violation]:
    marks = view.marks
    for node, position, group, gts in _sent(view, "stable"):
        if group is None or group >= len(view.groups):
            continue
        if not marks.quorum_has(view.groups[group], gts, position):
            yield view.violation(
                f"a quorum of group {group} at {show_timestamp(gts)} before it is called stable",
                f"marks {', '.join(show_timestamp(marks.mark(p, position)) for p in view.groups[group])}", node=node,
            )  # fmt: skip


def _sent(view: View, name: str) -> Iterator[tuple[Pid, int, Group | None, Timestamp]]:
    for kind, at in view.kinds(SEND, name):
        if not reads(kind, "gts"):
            continue
        get_gts, get_group = reader(kind, "gts"), reader(kind, "group")
        for position in at:
            event = view.events[position]
            gts = get_gts(event.what)
            if gts:
                yield event.node, position, get_group(event.what), gts
