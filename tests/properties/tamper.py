"""Ways to make a correct history wrong, each with the property that must notice."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.properties.histories import changed

from braidcast.core.client import MessageId, Refused
from braidcast.history.event import Event, History

Tampering = Callable[[Random, History], History | None]
"""None where the history has nothing that could be made wrong in this way."""
TAMPERINGS: dict[str, tuple[str, Tampering]] = {}
"""By name, with the property that must notice."""
OUTSIDER = 900


def breaks(property: str) -> Callable[[Tampering], Tampering]:
    def register(tampering: Tampering) -> Tampering:
        TAMPERINGS[tampering.__name__] = (property, tampering)
        return tampering

    return register


def where(history: History, event: str, kind: str | None = None, node: int | None = None) -> list[int]:
    return [
        place
        for place, e in enumerate(history.events)
        if e.event == event and (kind is None or type(e.what).__name__ == kind) and (node is None or e.node == node)
    ]


def deliveries(history: History) -> dict[int, list[int]]:
    """Per node, where it delivers; only of nodes whose log never lost or skipped anything."""
    events = history.events
    odd = {e.node for e in events if e.event == "restart" or type(e.what).__name__ == "Restored"}
    nodes = sorted({e.node for e in events if e.event == "deliver"} - odd)
    return {node: where(history, "deliver", "Delivered", node) for node in nodes}


def with_events(history: History, events: list[Event]) -> History:
    return History(history.manifest, events)


def with_what(history: History, changes: dict[int, Any]) -> History:
    events = [changed(e, what=changes[place]) if place in changes else e for place, e in enumerate(history.events)]
    return with_events(history, events)


def without(history: History, *places: int) -> History:
    return with_events(history, [e for place, e in enumerate(history.events) if place not in places])


def moved(history: History, place: int, to: int) -> History:
    events = list(history.events)
    events.insert(to, events.pop(place))
    return with_events(history, events)


def inserted(history: History, place: int, event: Event) -> History:
    return with_events(history, [*history.events[:place], event, *history.events[place:]])


def pick_pair(random: Random, history: History, shared_by: int = 1) -> tuple[int, int] | None:
    """Where some node makes two deliveries in a row, both of which `shared_by` nodes make."""
    count: dict[MessageId, int] = {}
    found = deliveries(history)
    for places in found.values():
        for place in places:
            id = history.events[place].what.multicast.id
            count[id] = count.get(id, 0) + 1
    pairs = [
        pair
        for places in found.values()
        for pair in itertools.pairwise(places)
        if all(count[history.events[place].what.multicast.id] >= shared_by for place in pair)
    ]
    return random.choice(pairs) if pairs else None


def swapped(random: Random, history: History, shared_by: int = 1) -> History | None:
    pair = pick_pair(random, history, shared_by)
    if pair is None:
        return None
    first, second = pair
    return with_what(history, {first: history.events[second].what, second: history.events[first].what})


# -- integrity --------------------------------------------------------------------------------------------------------


@breaks("delivered_was_multicast")
def forget_a_multicast(random: Random, history: History) -> History | None:
    return without(history, random.choice(where(history, "multicast")))


@breaks("delivered_was_multicast")
def deliver_with_other_destinations(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "deliver", "Delivered"))
    what = history.events[place].what
    dest = (*what.multicast.dest, 7)
    return with_what(history, {place: changed(what, multicast=changed(what.multicast, dest=dest))})


@breaks("delivered_was_multicast")
def deliver_another_batch(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "deliver", "Delivered"))
    what = history.events[place].what
    unit = changed(what.multicast, batch_count=what.multicast.batch_count + 1)
    return with_what(history, {place: changed(what, multicast=unit)})


@breaks("delivered_as_multicast")
def deliver_another_payload(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "deliver", "Delivered"))
    what = history.events[place].what
    other = changed(what.multicast, payload=what.multicast.payload + b"!")
    return with_what(history, {place: changed(what, multicast=other)})


@breaks("refused_for_a_reason")
def refuse_what_is_possible(random: Random, history: History) -> History | None:
    event = history.events[random.choice(where(history, "multicast"))]
    id, group = event.what.id, event.what.dest[0]
    refused = Refused(id, group, "out of spirits")
    sent = changed(event, event="send", node=history.manifest.topology[group][0], peer=event.node, what=refused)
    return inserted(history, len(history.events), sent)


@breaks("delivered_where_addressed")
def deliver_in_a_group_that_is_no_destination(random: Random, history: History) -> History | None:
    groups = history.manifest.topology
    for place in where(history, "deliver", "Delivered"):
        event = history.events[place]
        strange = [g for g in range(len(groups)) if g not in event.what.multicast.dest]
        if strange:
            return inserted(history, len(history.events), changed(event, node=groups[strange[0]][0]))
    return None


@breaks("delivered_where_addressed")
def deliver_at_a_process_of_nogroup_of(random: Random, history: History) -> History | None:
    event = history.events[random.choice(where(history, "deliver", "Delivered"))]
    return inserted(history, len(history.events), changed(event, node=OUTSIDER))


@breaks("no_duplicates")
def deliver_twice_at_once(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "deliver", "Delivered"))
    return inserted(history, place, history.events[place])


@breaks("no_duplicates")
def deliver_again_in_a_later_incarnation(random: Random, history: History) -> History | None:
    event = history.events[random.choice(where(history, "deliver", "Delivered"))]
    later = max(e.incarnation for e in history.events if e.node == event.node) + 1
    lived = changed(history.events[-1], node=event.node, incarnation=later, event="restart", peer=None, what=None)
    return with_events(history, [*history.events, lived, changed(event, incarnation=later)])


@breaks("no_duplicates")
def deliver_what_the_snapshot_has(random: Random, history: History) -> History | None:
    for place in where(history, "deliver", "Restored"):
        restored = history.events[place]
        for e in history.events[:place]:
            if type(e.what).__name__ == "Delivered" and e.what.gts == restored.what.gts:
                return inserted(history, place + 1, changed(e, node=restored.node))
    return None


@breaks("batch_messages_once")
def repeat_a_message_of_a_batch(random: Random, history: History) -> History | None:
    for place in where(history, "deliver", "Delivered"):
        if (what := history.events[place].what).repeated:
            return with_what(history, {place: changed(what, repeated=())})
    return None


@breaks("batch_messages_once")
def skip_a_new_message_of_a_batch(random: Random, history: History) -> History | None:
    for place in where(history, "deliver", "Delivered"):
        what = history.events[place].what
        if what.multicast.batch_count and 0 not in what.repeated:
            return with_what(history, {place: changed(what, repeated=(0, *what.repeated))})
    return None


@breaks("replies_are_true")
def reply_with_another_gts(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "reply"))
    what = history.events[place].what
    return with_what(history, {place: changed(what, gts=what.gts + 1)})


@breaks("replies_are_true")
def reply_for_a_group_that_has_nothing(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "reply"))
    return with_what(history, {place: changed(history.events[place].what, group=9)})


# -- order ------------------------------------------------------------------------------------------------------------


@breaks("gts_increases")
def swap_two_deliveries(random: Random, history: History) -> History | None:
    return swapped(random, history)


@breaks("group_logs_are_prefixes")
def swap_two_deliveries_of_agroup_of(random: Random, history: History) -> History | None:
    sizes = {len(members) for members in history.manifest.topology}
    return swapped(random, history) if min(sizes) > 1 else None


@breaks("one_order")
def swap_two_deliveries_that_others_make(random: Random, history: History) -> History | None:
    """With timestamps that say nothing."""
    sizes = {len(members) for members in history.manifest.topology}
    found = swapped(random, history, shared_by=2) if len(sizes) == 1 and min(sizes) > 1 else None
    if found is None:
        return None
    return with_what(
        found, {place: changed(found.events[place].what, gts=0) for place in where(found, "deliver", "Delivered")}
    )


@breaks("one_gts_per_message")
def deliver_at_another_gts(random: Random, history: History) -> History | None:
    count: dict[MessageId, list[int]] = {}
    for place in where(history, "deliver", "Delivered"):
        count.setdefault(history.events[place].what.multicast.id, []).append(place)
    shared = [places for places in count.values() if len(places) > 1]
    if not shared:
        return None
    place = random.choice(random.choice(shared))
    what = history.events[place].what
    return with_what(history, {place: changed(what, gts=what.gts + 1)})


@breaks("one_message_per_gts")
def deliver_two_messages_at_one_gts(random: Random, history: History) -> History | None:
    ids = sorted({history.events[place].what.multicast.id for place in where(history, "deliver", "Delivered")})
    if len(ids) < 2:
        return None
    first, second = random.sample(ids, 2)
    places = where(history, "deliver", "Delivered")
    gts = next(e.what.gts for e in map(history.events.__getitem__, places) if e.what.multicast.id == first)
    mine = [place for place in places if history.events[place].what.multicast.id == second]
    return with_what(history, {place: changed(history.events[place].what, gts=gts) for place in mine})


@breaks("no_gaps")
def leave_out_a_delivery(random: Random, history: History) -> History | None:
    nodes = [
        places
        for node, places in deliveries(history).items()
        if len(places) > 1 and len([p for p in history.manifest.topology if node in p and len(p) > 1])
    ]
    return without(history, random.choice(random.choice(nodes)[:-1])) if nodes else None


@breaks("no_gaps")
def restore_too_little(random: Random, history: History) -> History | None:
    """The snapshot lacks its last message."""
    for place in where(history, "deliver", "Restored"):
        event = history.events[place]
        later = [p for p in where(history, "deliver", "Delivered", event.node) if p > place]
        if later and not where(history, "restart", None, event.node):
            return with_what(history, {place: changed(event.what, gts=event.what.gts - 1)})
    return None


@breaks("gts_increases")
def restore_the_past(random: Random, history: History) -> History | None:
    for place in where(history, "deliver", "Restored"):
        event = history.events[place]
        if any(p < place for p in where(history, "deliver", "Delivered", event.node)) and not where(
            history, "restart", None, event.node
        ):
            return with_what(history, {place: changed(event.what, gts=1)})
    return None


@breaks("fifo")
def swap_two_deliveries_of_a_client(random: Random, history: History) -> History | None:
    for places in deliveries(history).values():
        for first, second in itertools.pairwise(places):
            a, b = history.events[first].what, history.events[second].what
            if a.multicast.id.client == b.multicast.id.client:
                return with_what(history, {first: b, second: a})
    return None


# -- agreement --------------------------------------------------------------------------------------------------------


@breaks("agreement")
def leave_out_the_last_delivery(random: Random, history: History) -> History | None:
    nodes = [
        places
        for places in deliveries(history).values()
        if places and len(history.events[places[-1]].what.multicast.dest) > 1
    ]
    return without(history, random.choice(nodes)[-1]) if nodes else None


@breaks("agreement")
def only_who_crashed_delivered(random: Random, history: History) -> History | None:
    groups, found = history.manifest.topology, deliveries(history)
    for node, places in found.items():
        if places and history.events[places[-1]].what.multicast.dest == (group_of(history, node),):
            others = [p for p in groups[group_of(history, node)] if p != node]
            if others and all(p in found for p in others):
                id = history.events[places[-1]].what.multicast.id
                gone = [p for n in others for p in found[n] if history.events[p].what.multicast.id == id]
                manifest = replace(history.manifest, crashed=(node,))
                return History(manifest, without(history, *gone).events)
    return None


@breaks("termination")
def deliver_a_message_nowhere(random: Random, history: History) -> History | None:
    if len(deliveries(history)) < len([p for members in history.manifest.topology for p in members]):
        return None
    place = random.choice(where(history, "multicast"))
    id = history.events[place].what.id
    gone = [p for p in where(history, "deliver", "Delivered") if history.events[p].what.multicast.id == id]
    return without(history, *gone)


def group_of(history: History, node: int) -> int:
    return next(g for g, members in enumerate(history.manifest.topology) if node in members)
