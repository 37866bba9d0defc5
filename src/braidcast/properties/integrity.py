"""Validity and integrity: what is delivered was multicast, to those it was meant for, and once."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from braidcast.core.client import MessageId
from braidcast.core.timestamps import show_timestamp
from braidcast.core.topology import Group
from braidcast.properties.property import QUIESCENT, WITH_PAYLOADS, WITH_TRAFFIC, states
from braidcast.properties.view import Delivery, Log, Submitted, View
from braidcast.properties.violation import Violation

BATCH_MESSAGES_MAX = 1 << 20
"""A protocol may refuse a larger batch."""


@states("Every delivered message was multicast, with these destinations and this batch.", "section 5, validity")
def delivered_was_multicast(view: View) -> Iterator[Violation]:
    multicasts = view.multicasts
    for log in view.logs:
        for d in log.deliveries:
            submitted = multicasts.get(d.id)
            if submitted is None:
                yield view.violation("a multicast of what is delivered", "none", node=d.node, message=d.id)
            elif submitted.dest != d.dest:
                yield view.violation(f"destinations {submitted.dest}", f"{d.dest}", node=d.node, message=d.id)
            elif (submitted.batch_count, submitted.batch_count and submitted.batch_first) != (
                d.batch_count,
                d.batch_count and d.batch_first,
            ):
                yield view.violation(f"the batch {_batch(submitted)}", _batch(d), node=d.node, message=d.id)


@states("What is delivered is what was multicast: the payload is the same.", "section 5, validity", WITH_PAYLOADS)
def delivered_as_multicast(view: View) -> Iterator[Violation]:
    multicasts = view.multicasts
    for log in view.logs:
        for d in log.deliveries:
            submitted = multicasts.get(d.id)
            if submitted is None or None in (d.payload, submitted.payload) or d.payload == submitted.payload:
                continue
            yield view.violation(f"the payload {_payload(submitted)}", _payload(d), node=d.node, message=d.id)


@states(
    "A process refuses only what is impossible, what used a name twice, or what comes when its group has forgotten "
    "sessions.",
    "section 1.6, expired sessions",
    WITH_TRAFFIC,
)
def refused_for_a_reason(view: View) -> Iterator[Violation]:
    if not view.refusals:
        return
    forgot: dict[Group, int] = {}
    for _, at in view.kinds("sessions_expired"):
        for position in at:
            group = view.group_of.get(view.events[position].node)
            if group is not None:
                forgot[group] = min(position, forgot.get(group, position))
    for position, id in view.refusals:
        node = view.events[position].node
        submitted, group = view.multicasts.get(id), view.group_of.get(node)
        if submitted is None or group is None or id in view.ambiguous or not _is_possible(view, submitted, group):
            continue
        if forgot.get(group, position) >= position:
            yield view.violation(
                "no refusal: it is for this group, and no session was forgotten here", "one", node=node, message=id
            )


def _is_possible(view: View, submitted: Submitted, group: Group) -> bool:
    dest, count = submitted.dest, submitted.batch_count
    groups_are_there = group in dest and dest == tuple(sorted({*dest})) and dest[0] >= 0 and dest[-1] < len(view.groups)
    return groups_are_there and 0 <= count <= BATCH_MESSAGES_MAX and submitted.batch_first >= 0


@states("A message is delivered only at members of its destination groups.", "section 5, validity")
def delivered_where_addressed(view: View) -> Iterator[Violation]:
    for log in view.logs:
        group = log.group
        for d in log.deliveries:
            submitted = view.multicasts.get(d.id)
            dest = submitted.dest if submitted else d.dest
            if group not in dest:
                yield view.violation(f"deliveries in groups {dest} only", f"one in {group}", node=d.node, message=d.id)
    for d in view.strays:
        yield view.violation("deliveries at members only", "one at a process of no group", node=d.node, message=d.id)


@states("No process delivers a message twice, across its incarnations.", "section 5, integrity")
def no_duplicates(view: View) -> Iterator[Violation]:
    for log in view.logs:
        ids = [d.id for d in log.deliveries]
        if len(set(ids)) == len(ids) and not log.restores:
            continue
        first: dict[MessageId, str] = {}
        restores = list(reversed(log.restores))
        for place, d in enumerate(log.deliveries):
            while restores and restores[-1].before <= place:
                gts = restores.pop().gts
                first |= dict.fromkeys(view.covered(log.group, gts), f"in the snapshot at {show_timestamp(gts)}")
            if d.id in first:
                yield view.violation(
                    "one delivery", f"another in incarnation {d.incarnation}, after one {first[d.id]}",
                    node=d.node, message=d.id,
                )  # fmt: skip
            first.setdefault(d.id, f"in incarnation {d.incarnation}")


@states("No process delivers a message of a batch twice, or skips one that it has not delivered.", "section 1.7")
def batch_messages_once(view: View) -> Iterator[Violation]:
    for log in view.logs:
        if any(d.batch_count for d in log.deliveries):
            yield from _batch_messages_once(view, log)


def _batch_messages_once(view: View, log: Log) -> Iterator[Violation]:
    seen: dict[tuple[int, int], set[int]] = {}
    restores = list(reversed(log.restores))
    for place, d in enumerate(log.deliveries):
        while restores and restores[-1].before <= place:
            _count_covered(view, log, restores.pop().gts, seen)
        if not d.batch_count:
            continue
        before = seen.setdefault(d.id[:2], set())
        numbers = range(d.batch_first, d.batch_first + d.batch_count)
        again = set() if before.isdisjoint(numbers) else {n - d.batch_first for n in before.intersection(numbers)}
        if again != set(d.repeated):
            yield view.violation(
                f"repeated offsets {sorted(again)}", f"{sorted(d.repeated)}", node=d.node, message=d.id
            )
        before.update(numbers)


def _count_covered(view: View, log: Log, gts: int, seen: dict[tuple[int, int], set[int]]) -> None:
    for id in view.covered(log.group, gts):
        submitted = view.multicasts.get(id)
        if submitted is not None and submitted.batch_count:
            first = submitted.batch_first
            seen.setdefault(id[:2], set()).update(range(first, first + submitted.batch_count))


@states("A reply tells the truth: its group delivered the message, at that timestamp.", "section 1.7", QUIESCENT)
def replies_are_true(view: View) -> Iterator[Violation]:
    delivered_in: dict[tuple[MessageId, int], Delivery] = {
        (d.id, log.group): d for log in view.logs for d in log.deliveries
    }
    for position in view.at("reply", "reply"):
        event = view.events[position]
        reply = event.what
        found = delivered_in.get((reply.id, reply.group))
        if found is None:
            yield view.violation(
                "a reply only after delivery", f"one from node {event.peer} for group {reply.group}, which has none",
                node=event.node, group=reply.group, message=reply.id,
            )  # fmt: skip
        elif reply.gts and reply.gts != found.gts:
            yield view.violation(
                f"gts {show_timestamp(found.gts)} in the reply", show_timestamp(reply.gts),
                node=event.node, group=reply.group, message=reply.id,
            )  # fmt: skip


def _payload(unit: Submitted | Delivery) -> str:
    digest = crc32(unit.payload) if isinstance(unit.payload, bytes) else unit.payload
    return f"with digest {digest:08x}"


def _batch(unit: Submitted | Delivery) -> str:
    return f"of {unit.batch_count} messages from {unit.batch_first}" if unit.batch_count else "of none"
