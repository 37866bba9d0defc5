"""Genuineness: only the sender and the destinations of a message take part in ordering it (001, section II)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from braidcast.core.client import MessageId
from braidcast.core.topology import Pid
from braidcast.history.envelope import kind_name, reader, reads
from braidcast.history.event import RECEIVE, SEND
from braidcast.properties.property import PROMISED_GENUINE, states
from braidcast.properties.view import View
from braidcast.properties.violation import Violation


@states(
    "What names a message is sent and received only by its client and by members of its destinations.",
    "section 5, genuineness",
    PROMISED_GENUINE,
)
def genuineness(view: View) -> Iterator[Violation]:
    events = view.events
    involved = _involved(view)
    for name in (SEND, RECEIVE):
        for kind, at in view.kinds(name):
            if not reads(kind, "id"):
                continue
            get_id = reader(kind, "id")
            last: Any = None
            for position in at:
                event = events[position]
                if event.what is not last:  # or it is the same message to the next receiver
                    last = event.what
                    allowed = involved.get(get_id(last))
                if allowed is not None and not (event.node in allowed and event.peer in allowed):
                    outsider = event.peer if event.node in allowed else event.node
                    yield view.violation(
                        "only its client and destinations in its ordering", f"{name} {event.node} to {event.peer}"
                        if name == SEND else f"{name} {event.node} from {event.peer}",
                        node=outsider, message=get_id(event.what),
                    )  # fmt: skip


@states(
    "State transfer carries a message only to members of its destinations.",
    "section 5, genuineness",
    PROMISED_GENUINE,
)
def transfer_is_genuine(view: View) -> Iterator[Violation]:
    events = view.events
    involved = _involved(view)
    for kind, at in view.kinds(SEND):
        if isinstance(kind, type) and reads(kind, "id"):
            continue
        get_ids = reader(kind, "ids")
        for position in at:
            event = events[position]
            for id in get_ids(event.what) or ():
                allowed = involved.get(id)
                if allowed is not None and event.peer not in allowed:
                    yield view.violation(
                        "a transfer of it to its destinations only", f"one from node {event.node}",
                        node=event.peer, message=id,
                    )  # fmt: skip


@states(
    "Groups that no message addresses together exchange no messages.",
    "section 5, genuineness: a disjoint-groups run has zero cross traffic",
    PROMISED_GENUINE,
)
def no_cross_traffic(view: View) -> Iterator[Violation]:
    events, group_of = view.events, view.group_of
    pairs: dict[tuple[Pid, Pid | None], str] = {}
    for kind, at in view.kinds(SEND):
        if isinstance(kind, type) and reads(kind, "id"):
            continue  # what names a message is judged by `genuineness`
        name = kind_name(kind)
        for position in at:
            event = events[position]
            if isinstance(kind, type) or event.what.id is None:
                pairs[event.node, event.peer] = name
    related = {pair for dest in {m.dest for m in view.multicasts.values()} for pair in combinations(sorted(dest), 2)}
    for (node, peer), name in pairs.items():
        g, h = group_of.get(node), None if peer is None else group_of.get(peer)
        if g is not None and h is not None and g != h and (min(g, h), max(g, h)) not in related:
            yield view.violation(
                f"nothing between groups {g} and {h}, which share no message", f"{name} to node {peer}", node=node
            )


def _involved(view: View) -> dict[MessageId, frozenset[Pid]]:
    """Per message, the processes that may have a part in it."""
    members: dict[tuple[int, ...], frozenset[Pid]] = {}
    found: dict[MessageId, frozenset[Pid]] = {}
    for id, submitted in view.multicasts.items():
        key = (submitted.node, id.client, *submitted.dest)
        pids = members.get(key)
        if pids is None:
            own = [p for g in submitted.dest if g < len(view.groups) for p in view.groups[g]]
            pids = members[key] = frozenset([submitted.node, id.client, *own])
        found[id] = pids
    return found
