"""Ways to make a correct history wrong, each with the property that must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId
from braidcast.history.event import Event, History, Resumed
from tests.properties.histories import changed

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
        if e.event == event
        and (kind is None or type(e.what).__name__ == kind)
        and (node is None or e.node == node)
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
    events = [e._replace(what=changes[place]) if place in changes else e for place, e in enumerate(history.events)]
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
        for pair in zip(places, places[1:], strict=False)
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


@breaks("delivered_where_addressed")
def deliver_in_a_group_that_is_no_destination(random: Random, history: History) -> History | None:
    groups = history.manifest.topology
    for place in where(history, "deliver", "Delivered"):
        event = history.events[place]
        strange = [g for g in range(len(groups)) if g not in event.what.multicast.dest]
        if strange:
            return inserted(history, len(history.events), event._replace(node=groups[strange[0]][0]))
    return None


@breaks("delivered_where_addressed")
def deliver_at_a_process_of_no_group(random: Random, history: History) -> History | None:
    event = history.events[random.choice(where(history, "deliver", "Delivered"))]
    return inserted(history, len(history.events), event._replace(node=OUTSIDER))


@breaks("no_duplicates")
def deliver_twice_at_once(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "deliver", "Delivered"))
    return inserted(history, place, history.events[place])


@breaks("no_duplicates")
def deliver_again_in_a_later_incarnation(random: Random, history: History) -> History | None:
    event = history.events[random.choice(where(history, "deliver", "Delivered"))]
    later = max(e.incarnation for e in history.events if e.node == event.node) + 1
    lived = history.events[-1]._replace(node=event.node, incarnation=later, event="restart", peer=None, what=None)
    return with_events(history, [*history.events, lived, event._replace(incarnation=later)])


@breaks("no_duplicates")
def deliver_what_the_snapshot_has(random: Random, history: History) -> History | None:
    for place in where(history, "deliver", "Restored"):
        restored = history.events[place]
        for e in history.events[:place]:
            if type(e.what).__name__ == "Delivered" and e.what.gts == restored.what.gts:
                return inserted(history, place + 1, e._replace(node=restored.node))
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
def swap_two_deliveries_of_a_group(random: Random, history: History) -> History | None:
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
        for first, second in zip(places, places[1:], strict=False):
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
        if places and history.events[places[-1]].what.multicast.dest == (_group(history, node),):
            others = [p for p in groups[_group(history, node)] if p != node]
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


# -- genuineness ------------------------------------------------------------------------------------------------------


@breaks("genuineness")
def send_to_a_stranger(random: Random, history: History) -> History | None:
    places = where(history, "send", random.choice(("Accept", "AcceptAck", "Multicast")))
    if not places:
        return None
    place = random.choice(places)
    return inserted(history, place, history.events[place]._replace(peer=OUTSIDER))


@breaks("genuineness")
def receive_as_a_stranger(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "receive"))
    event = history.events[place]
    if not hasattr(event.what, "id"):
        return None
    return inserted(history, place, event._replace(node=OUTSIDER))


@breaks("transfer_is_genuine")
def transfer_to_a_stranger(random: Random, history: History) -> History | None:
    for place in where(history, "send", "NewState"):
        event = history.events[place]
        if event.what.known:
            return inserted(history, place, event._replace(peer=OUTSIDER))
    return None


@breaks("no_cross_traffic")
def talk_to_a_group_that_shares_nothing(random: Random, history: History) -> History | None:
    groups = history.manifest.topology
    dests = {e.what.dest for e in history.events if e.event == "multicast"}
    for g in range(len(groups)):
        for h in range(g):
            if not any(g in dest and h in dest for dest in dests):
                for place in where(history, "send", "HeartbeatAck"):
                    event = history.events[place]._replace(node=groups[g][0], peer=groups[h][0])
                    return inserted(history, place, event)
    return None


# -- internals --------------------------------------------------------------------------------------------------------


@breaks("one_lts_per_ballot")
def propose_again_with_a_fresh_lts(random: Random, history: History) -> History | None:
    places = where(history, "send", "Accept")
    if not places:
        return None
    event = history.events[random.choice(places)]
    return inserted(
        history, len(history.events), event._replace(what=changed(event.what, lts=event.what.lts + (1 << 30)))
    )


@breaks("one_message_per_lts")
def propose_two_messages_at_one_lts(random: Random, history: History) -> History | None:
    for place in where(history, "send", "Accept"):
        a = history.events[place].what
        for other in where(history, "send", "Accept"):
            b = history.events[other].what
            if a.id != b.id and (a.group, a.ballot) == (b.group, b.ballot):
                return with_what(history, {other: changed(b, lts=a.lts)})
    return None


@breaks("one_gts_decided")
def decide_another_gts(random: Random, history: History) -> History | None:
    event, kind = random.choice([("send", "Deliver"), ("persist", "Marked"), ("committed", "Committed")])
    places = where(history, event, kind)
    if not places:
        return None
    place = random.choice(places)
    what = history.events[place].what
    return with_what(history, {place: changed(what, gts=what.gts + 1)})


@breaks("ballots_rise")
def promise_a_lower_ballot(random: Random, history: History) -> History | None:
    for place in where(history, "persist", "Promised"):
        event = history.events[place]
        return inserted(history, place + 1, event._replace(what=changed(event.what, ballot=ballot(0, 0))))
    return None


@breaks("ballots_rise")
def promise_the_same_ballot_twice(random: Random, history: History) -> History | None:
    for place in where(history, "persist", "Promised"):
        return inserted(history, place, history.events[place])
    return None


@breaks("clocks_rise")
def let_a_clock_fall(random: Random, history: History) -> History | None:
    places = where(history, "persist", "Accepted")
    node = history.events[places[0]].node
    last = where(history, "persist", "Accepted", node)[-1]
    if history.events[last].what.clock < 2:
        return None
    return inserted(
        history, last + 1, history.events[last]._replace(what=changed(history.events[last].what, clock=1))
    )


# -- durability -------------------------------------------------------------------------------------------------------


@breaks("persist_precedes_send")
def acknowledge_without_accepting(random: Random, history: History) -> History | None:
    sent = where(history, "send", "AcceptAck")
    if not sent:
        return None
    ack = history.events[random.choice(sent)]
    found = [p for p in where(history, "persist", "Accepted", ack.node) if history.events[p].what.body.id == ack.what.id]
    return without(history, *found)


@breaks("persist_precedes_send")
def acknowledge_before_accepting(random: Random, history: History) -> History | None:
    sent = where(history, "send", "AcceptAck")
    if not sent:
        return None
    ack = history.events[random.choice(sent)]
    found = [p for p in where(history, "persist", "Accepted", ack.node) if history.events[p].what.body.id == ack.what.id]
    last = max(p for p in where(history, "send", "AcceptAck", ack.node) if history.events[p].what.id == ack.what.id)
    return moved(history, found[0], last)


@breaks("persist_precedes_send")
def accept_at_another_lts(random: Random, history: History) -> History | None:
    sent = where(history, "send", "AcceptAck")
    if not sent:
        return None
    ack = history.events[random.choice(sent)]
    if len(history.manifest.topology[ack.what.group]) == 1 and len(ack.what.vector) == 1:
        return None
    found = [p for p in where(history, "persist", "Accepted", ack.node) if history.events[p].what.body.id == ack.what.id]
    what = history.events[found[0]].what
    return with_what(history, {found[0]: changed(what, lts=what.lts + (1 << 30))})


@breaks("persist_precedes_send")
def acknowledge_what_was_dropped(random: Random, history: History) -> History | None:
    for place in where(history, "persist", "Installed"):
        event = history.events[place]
        acks = [p for p in where(history, "send", "AcceptAck", event.node) if p > place]
        if acks:
            id = history.events[acks[0]].what.id
            drop = event._replace(what=changed(event.what, dropped=(id,)))
            return inserted(history, acks[0], drop)
    return None


@breaks("persist_precedes_send")
def vote_without_a_promise(random: Random, history: History) -> History | None:
    places = where(history, "persist", "Promised")
    return without(history, random.choice(places)) if places else None


@breaks("persist_precedes_send")
def acknowledge_a_state_that_is_not_installed(random: Random, history: History) -> History | None:
    acks = where(history, "send", "NewStateAck")
    if not acks:
        return None
    node = history.events[random.choice(acks)].node
    return without(history, *where(history, "persist", "Installed", node))


@breaks("persist_precedes_delivery")
def deliver_without_a_mark(random: Random, history: History) -> History | None:
    transferred = {history.events[p].node for p in where(history, "persist", "Transferred")}
    places = [p for p in where(history, "persist", "Marked") if history.events[p].node not in transferred]
    return without(history, random.choice(places)) if places else None


@breaks("persist_precedes_delivery")
def restore_without_a_transfer(random: Random, history: History) -> History | None:
    places = where(history, "persist", "Transferred")
    return without(history, random.choice(places)) if places else None


# -- collection -------------------------------------------------------------------------------------------------------


@breaks("collected_here_is_stable_elsewhere")
def collect_before_the_others_delivered(random: Random, history: History) -> History | None:
    for place in where(history, "collected"):
        note = history.events[place]
        submitted = next(e.what for e in history.events if e.event == "multicast" and e.what.id == note.what.id)
        if len(submitted.dest) > 1:
            mine = [p for p in where(history, "deliver", "Delivered") if history.events[p].what.gts == note.what.gts]
            first = min(mine)
            if history.events[first].node == note.node:
                return moved(history, place, first + 1)
    return None


@breaks("collected_here_is_delivered_here")
def collect_before_delivering(random: Random, history: History) -> History | None:
    return moved(history, random.choice(where(history, "collected")), len(history.manifest.topology))


@breaks("collected_here_is_delivered_here")
def leave_a_member_behind(random: Random, history: History) -> History | None:
    """Its group forgets what it never got."""
    for node, places in deliveries(history).items():
        if places and len(history.manifest.topology[_group(history, node)]) > 1:
            mine = where(history, "collected", None, node)
            return without(history, places[-1], *mine)
    return None


@breaks("durable_reports_are_true")
def report_more_than_there_is(random: Random, history: History) -> History | None:
    places = where(history, "send", "HeartbeatAck")
    if not places:
        return None
    place = random.choice(places)
    what = history.events[place].what
    return with_what(history, {place: changed(what, gts=what.gts + (1 << 30))})


@breaks("durable_reports_are_true")
def lose_what_was_reported(random: Random, history: History) -> History | None:
    for place in where(history, "send", "HeartbeatAck"):
        event = history.events[place]
        if event.what.gts:
            lost = event._replace(event="restart", incarnation=9, peer=None, what=Resumed(0))
            return inserted(history, len(history.events), lost)
    return None


@breaks("stable_reports_are_true")
def report_stability_too_early(random: Random, history: History) -> History | None:
    places = [p for p in where(history, "send", "Stable") if history.events[p].what.gts]
    return moved(history, random.choice(places), 1) if places else None


def _group(history: History, node: int) -> int:
    return next(g for g, members in enumerate(history.manifest.topology) if node in members)
