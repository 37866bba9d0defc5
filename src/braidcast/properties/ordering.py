"""Order: one total order that every log is a part of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise

from braidcast.core.client import MessageId
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.core.topology import Pid
from braidcast.properties.property import PROMISED_FIFO, WITH_GTS, states
from braidcast.properties.view import Delivery, Log, View
from braidcast.properties.violation import Violation


@states("Every delivery of a message shows the same global timestamp.", "section 5, timestamp agreement", WITH_GTS)
def one_gts_per_message(view: View) -> Iterator[Violation]:
    found = view.gts_of
    for log in view.logs:
        for d in log.deliveries:
            if d.gts != found.get(d.id, 0):
                yield view.violation(
                    f"gts {show_timestamp(found[d.id])} as elsewhere", show_timestamp(d.gts), node=d.node, message=d.id
                )


@states("No two messages have one global timestamp.", "section 5, timestamp uniqueness", WITH_GTS)
def one_message_per_gts(view: View) -> Iterator[Violation]:
    owner: dict[Timestamp, MessageId] = {}
    for log in view.logs:
        for d in log.deliveries:
            other = owner.setdefault(d.gts, d.id)
            if other != d.id and d.gts:
                yield view.violation(
                    f"gts {show_timestamp(d.gts)} for {other} only", f"it for {d.id} too", node=d.node, message=d.id
                )


@states("A process delivers in the order of global timestamps, across its incarnations.", "section 5, ordering",
        WITH_GTS)  # fmt: skip
def gts_increases(view: View) -> Iterator[Violation]:
    for log in view.logs:
        for rests_on, deliveries in log.segments():
            last = rests_on
            for d in deliveries:
                if d.gts <= last:
                    yield view.violation(
                        f"a gts above {show_timestamp(last)}", show_timestamp(d.gts), node=d.node, message=d.id
                    )
                last = d.gts
        for restore in log.restores:
            if restore.before and restore.gts < (last := log.deliveries[restore.before - 1].gts):
                yield view.violation(
                    f"a snapshot at {show_timestamp(last)} or later", show_timestamp(restore.gts), node=log.node
                )


@states("All logs together are acyclic: some total order contains them all.", "section 5, ordering; 001, section II")
def one_order(view: View) -> Iterator[Violation]:
    after: dict[MessageId, dict[MessageId, Pid]] = {}
    for log in view.logs:
        for first, second in pairwise(log.deliveries):
            after.setdefault(first.id, {}).setdefault(second.id, second.node)
    before = dict.fromkeys(after, 0)
    for followers in after.values():
        for id in followers:
            before[id] = before.get(id, 0) + 1
    free = [id for id, count in before.items() if not count]
    left = len(before)
    while free:
        left -= 1
        for follower in after.get(free.pop(), ()):
            before[follower] -= 1
            if not before[follower]:
                free.append(follower)
    if left:
        id, node, seen = cycle_among(after, {id for id, count in before.items() if count})
        yield view.violation("one order of all deliveries", seen, node=node, message=id)


def cycle_among(
    after: Mapping[MessageId, Mapping[MessageId, Pid]], stuck: set[MessageId]
) -> tuple[MessageId, Pid, str]:
    """A message on a cycle, a node that delivers on it, and the way round; every stuck message has one before it.

    `after` names, for what some node delivers next after a message, the first node that does.
    """
    before = {follower: (id, node) for id in sorted(stuck) for follower, node in after.get(id, {}).items()}
    id = min(stuck)
    walked: dict[MessageId, int] = {}
    path: list[tuple[MessageId, Pid]] = []
    while id not in walked:
        walked[id] = len(path)
        earlier, node = before[id]
        path.append((id, node))
        id = earlier
    round_trip = [f"{passed} (node {node})" for passed, node in reversed(path[walked[id] :])]
    return id, path[-1][1], " before ".join([str(id), *round_trip])


@states("The logs of a group's members are prefixes of one another.", "section 5, no gaps")
def group_logs_are_prefixes(view: View) -> Iterator[Violation]:
    heads: list[list[Log]] = [[] for _ in view.groups]
    for log in view.logs:
        heads[log.group].append(log)
    for logs in heads:
        sequences = [(log, [d.id for d in next(log.segments())[1]]) for log in logs]
        longest_log, longest = max(sequences, key=lambda pair: len(pair[1]))
        for log, ids in sequences:
            if ids == longest[: len(ids)]:
                continue
            place = next(i for i, (mine, its) in enumerate(zip(ids, longest, strict=False)) if mine != its)
            yield view.violation(
                f"{longest[place]} as delivery {place + 1}, as at node {longest_log.node}", f"{ids[place]}",
                node=log.node, message=ids[place],
            )  # fmt: skip


@states("Below its last global timestamp, a log has every message that is addressed to its group.",
        "section 5, no gaps", WITH_GTS)  # fmt: skip
def no_gaps(view: View) -> Iterator[Violation]:
    for log in view.logs:
        stamps, order = view.order_of[log.group]
        for rests_on, deliveries in log.segments():
            start = bisect_right(stamps, rests_on) if rests_on else 0
            ids = [d.id for d in deliveries]
            if ids == order[start : start + len(ids)]:
                continue
            present = set(ids)
            last = max(d.gts for d in deliveries)
            for id in order[start : bisect_right(stamps, last)]:
                if id not in present:
                    yield view.violation(
                        f"it at {show_timestamp(view.gts_of[id])}, before {show_timestamp(last)}", "no delivery of it",
                        node=log.node, message=id,
                    )  # fmt: skip


@states("Messages of one client session arrive in the order of their seq, none left out.", "section 5, FIFO",
        PROMISED_FIFO)  # fmt: skip
def fifo(view: View) -> Iterator[Violation]:
    streams: dict[tuple[int, tuple[int, int]], list[int]] = {}
    for id, submitted in view.multicasts.items():
        if id not in view.refused:
            for group in submitted.dest:
                streams.setdefault((group, id[:2]), []).append(id.seq)
    for stream in streams.values():
        stream.sort()
    for log in view.logs:
        places: dict[tuple[int, int], int] = {}
        for rests_on, deliveries in log.segments():
            for id in view.covered(log.group, rests_on) if rests_on else ():
                stream = streams.get((log.group, id[:2]), [])
                places[id[:2]] = max(places.get(id[:2], 0), bisect_right(stream, id.seq))
            for d in deliveries:
                yield from _next_in_stream(view, d, streams.get((log.group, d.id[:2]), []), places)


def _next_in_stream(
    view: View, d: Delivery, stream: list[int], places: dict[tuple[int, int], int]
) -> Iterator[Violation]:
    place = places.get(d.id[:2], 0)
    if place < len(stream) and stream[place] == d.id.seq:
        places[d.id[:2]] = place + 1
        return
    expected = f"seq {stream[place]}" if place < len(stream) else "nothing more"
    yield view.violation(f"{expected} of this session next", f"seq {d.id.seq}", node=d.node, message=d.id)
    places[d.id[:2]] = bisect_right(stream, d.id.seq)
