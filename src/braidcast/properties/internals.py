"""Inside leader-based timestamp protocols: what makes the order come out right, visible before it goes wrong.

These read messages and records by kind and by the names of their fields, as the white-box protocol uses them
(paper 001, Figure 4); a protocol that has no such messages has nothing to be judged by.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from braidcast.core.ballots import Ballot, show_ballot
from braidcast.core.client import MessageId
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.core.topology import Group, Pid
from braidcast.history.envelope import kind_name, reader, reads
from braidcast.history.event import PERSIST, REPLY, RESTART, SEND
from braidcast.properties.property import WITH_BALLOTS, WITH_RECORDS, states
from braidcast.properties.view import REJOINS, View
from braidcast.properties.violation import Violation


@states("In one ballot a leader proposes one local timestamp per message.", "001, Invariant 1; section 5", WITH_RECORDS)
def one_lts_per_ballot(view: View) -> Iterator[Violation]:
    found: dict[tuple[MessageId, Group, Ballot], Timestamp] = {}
    for node, id, group, ballot, lts in view.proposals:
        first = found.setdefault((id, group, ballot), lts)
        if first != lts:
            yield view.violation(
                f"lts {show_timestamp(first)} as before in ballot {show_ballot(ballot)}", show_timestamp(lts),
                node=node, group=group, message=id,
            )  # fmt: skip


@states("In one ballot a leader proposes a local timestamp for one message.", "001, Figure 4 line 6", WITH_RECORDS)
def one_message_per_lts(view: View) -> Iterator[Violation]:
    found: dict[tuple[Timestamp, Group, Ballot], MessageId] = {}
    for node, id, group, ballot, lts in view.proposals:
        first = found.setdefault((lts, group, ballot), id)
        if first != id:
            yield view.violation(
                f"lts {show_timestamp(lts)} for {first} only, in ballot {show_ballot(ballot)}", f"it for {id} too",
                node=node, group=group, message=id,
            )  # fmt: skip


@states("Whoever names the global timestamp of a message names the same one.", "001, Invariant 3; section 5")
def one_gts_decided(view: View) -> Iterator[Violation]:
    found: dict[MessageId, Timestamp] = dict(view.gts_of)
    events = view.events
    for name in view.event_names:
        # Not notes: a process that crashed before its records were durable may have thought something that no other
        # ever heard of, and will find something else. What is received was sent; deliveries have their own property.
        if name not in (SEND, PERSIST, REPLY):
            continue
        for kind, at in view.kinds(name):
            if not (reads(kind, "id") and reads(kind, "gts")):
                continue
            get_id, get_gts = reader(kind, "id"), reader(kind, "gts")
            last: tuple[Any, Pid | None] = None, None
            for position in at:
                what, node = events[position].what, events[position].node
                if what is last[0] and node == last[1]:
                    continue  # the same message to the next receiver
                last = what, node
                gts, id = get_gts(what), get_id(what)
                if not gts or id is None:
                    continue
                first = found.setdefault(id, gts)
                if first != gts:
                    yield view.violation(
                        f"gts {show_timestamp(first)}", f"{show_timestamp(gts)} in {name} {kind_name(kind)}",
                        node=node, message=id,
                    )  # fmt: skip


@states("The ballots that a process keeps never fall, and it promises only higher ones.", "section 5", WITH_BALLOTS)
def ballots_rise(view: View) -> Iterator[Violation]:
    last: dict[Pid, Ballot] = {}
    for position, name, kind in view.in_order((PERSIST, ("started", "promised", "installed", "checkpoint")), REJOINS):
        event = view.events[position]
        if event.event == RESTART:
            last.pop(event.node, None)
            continue
        ballot = reader(kind, "ballot")(event.what)
        if ballot is None:
            continue
        before = last.get(event.node, -1)
        if ballot < before or (ballot == before and name == "promised"):
            yield view.violation(
                f"a ballot above {show_ballot(before)}", f"{name} {show_ballot(ballot)}", node=event.node
            )
        last[event.node] = max(before, ballot)


@states("The clock that a process keeps with what it accepts never falls.", "section 5; repair B2", WITH_BALLOTS)
def clocks_rise(view: View) -> Iterator[Violation]:
    last: dict[Pid, int] = {}
    for position, name, kind in view.in_order((PERSIST, ("accepted", "checkpoint")), REJOINS):
        event = view.events[position]
        if event.event == RESTART:
            last.pop(event.node, None)
            continue
        clock = reader(kind, "clock")(event.what)
        if clock is None:
            continue
        before = last.get(event.node, 0)
        if clock < before:
            yield view.violation(f"a clock of {before} or more", f"{clock} in {name}", node=event.node)
        last[event.node] = max(before, clock)
