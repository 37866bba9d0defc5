"""More ways to make a correct history wrong: those that no delivery shows."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.properties.histories import changed, made
from tests.properties.tamper import (
    OUTSIDER,
    breaks,
    deliveries,
    group_of,
    inserted,
    moved,
    where,
    with_events,
    with_what,
    without,
)

from braidcast.core.ballots import ballot
from braidcast.history.event import Event, History, Resumed
from braidcast.protocols.whitebox.messages import HeartbeatAck

# -- genuineness ------------------------------------------------------------------------------------------------------


@breaks("genuineness")
def send_to_a_stranger(random: Random, history: History) -> History | None:
    places = where(history, "send", random.choice(("Accept", "AcceptAck", "Multicast")))
    if not places:
        return None
    place = random.choice(places)
    return inserted(history, place, changed(history.events[place], peer=OUTSIDER))


@breaks("genuineness")
def receive_as_a_stranger(random: Random, history: History) -> History | None:
    place = random.choice(where(history, "receive"))
    event = history.events[place]
    if not hasattr(event.what, "id"):
        return None
    return inserted(history, place, changed(event, node=OUTSIDER))


@breaks("transfer_is_genuine")
def transfer_to_a_stranger(random: Random, history: History) -> History | None:
    for place in where(history, "send", "NewState"):
        event = history.events[place]
        if event.what.known:
            return inserted(history, place, changed(event, peer=OUTSIDER))
    return None


@breaks("no_cross_traffic")
def talk_to_a_group_that_shares_nothing(random: Random, history: History) -> History | None:
    groups = history.manifest.topology
    dests = {e.what.dest for e in history.events if e.event == "multicast"}
    for g in range(len(groups)):
        for h in range(g):
            if not any(g in dest and h in dest for dest in dests):
                beat = Event(0, 0, groups[g][0], 0, "send", groups[h][0], made(HeartbeatAck))
                return inserted(history, 0, beat)
    return None


# -- internals --------------------------------------------------------------------------------------------------------


@breaks("one_lts_per_ballot")
def propose_again_with_a_fresh_lts(random: Random, history: History) -> History | None:
    places = where(history, "send", "Accept")
    if not places:
        return None
    event = history.events[random.choice(places)]
    return inserted(
        history, len(history.events), changed(event, what=changed(event.what, lts=event.what.lts + (1 << 30)))
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
    event, kind = random.choice([("send", "Deliver"), ("persist", "Marked")])
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
        return inserted(history, place + 1, changed(event, what=changed(event.what, ballot=ballot(0, 0))))
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
    return inserted(history, last + 1, changed(history.events[last], what=changed(history.events[last].what, clock=1)))


def accepted(history: History, ack: Event) -> list[int]:
    """Where its sender accepted what an acknowledgement is about."""
    places = where(history, "persist", "Accepted", ack.node)
    return [place for place in places if history.events[place].what.body.id == ack.what.id]


# -- durability -------------------------------------------------------------------------------------------------------


@breaks("persist_precedes_send")
def acknowledge_without_accepting(random: Random, history: History) -> History | None:
    sent = where(history, "send", "AcceptAck")
    if not sent:
        return None
    ack = history.events[random.choice(sent)]
    found = [
        p for p in where(history, "persist", "Accepted", ack.node) if history.events[p].what.body.id == ack.what.id
    ]
    return without(history, *found)


@breaks("persist_precedes_send")
def acknowledge_before_accepting(random: Random, history: History) -> History | None:
    sent = where(history, "send", "AcceptAck")
    if not sent:
        return None
    ack = history.events[random.choice(sent)]
    found = [
        p for p in where(history, "persist", "Accepted", ack.node) if history.events[p].what.body.id == ack.what.id
    ]
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
    found = [
        p for p in where(history, "persist", "Accepted", ack.node) if history.events[p].what.body.id == ack.what.id
    ]
    what = history.events[found[0]].what
    return with_what(history, {found[0]: changed(what, lts=what.lts + (1 << 30))})


@breaks("persist_precedes_send")
def acknowledge_what_was_dropped(random: Random, history: History) -> History | None:
    for place in where(history, "persist", "Installed"):
        event = history.events[place]
        acks = [p for p in where(history, "send", "AcceptAck", event.node) if p > place]
        if acks:
            id = history.events[acks[0]].what.id
            drop = changed(event, what=changed(event.what, dropped=(id,)))
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
def deliver_what_is_not_on_disk(random: Random, history: History) -> History | None:
    wholes = [*where(history, "persist", "Transferred"), *where(history, "persist", "Installed")]
    brought = {history.events[p].node for p in [*wholes, *where(history, "recovered")]}
    places = [p for p in where(history, "persist", "Marked") if history.events[p].node not in brought]
    if not places or len(where(history, "persist", "Accepted")) == 1:
        return None  # without the only one it is no history of this protocol
    mark = history.events[random.choice(places)]
    records = [*where(history, "persist", "Accepted", mark.node), *where(history, "persist", "Marked", mark.node)]
    return without(history, *[p for p in records if id_of(history.events[p].what) == mark.what.id])


def id_of(record: Any) -> Any:
    return record.body.id if hasattr(record, "body") else record.id


@breaks("persist_precedes_send")
def tell_of_a_mark_that_is_not_on_disk(random: Random, history: History) -> History | None:
    for place in where(history, "send", "HeartbeatAck"):
        ack = history.events[place]
        marks = [p for p in where(history, "persist", "Marked", ack.node) if history.events[p].what.gts == ack.what.gts]
        wholes = [*where(history, "persist", "Transferred", ack.node), *where(history, "recovered", None, ack.node)]
        if marks and not wholes:
            return moved(history, marks[0], place)
    return None


@breaks("persist_precedes_delivery")
def restore_without_a_transfer(random: Random, history: History) -> History | None:
    places = where(history, "persist", "Transferred")
    return without(history, random.choice(places)) if places else None


@breaks("durable_is_recovered")
def forget_what_was_accepted(random: Random, history: History) -> History | None:
    decided = {history.events[p].what.id: history.events[p].what.gts for p in where(history, "committed")}
    for place in where(history, "recovered"):
        what = history.events[place].what
        kept = tuple([known for known in what.known if decided[known.id] <= what.gts])
        if len(kept) < len(what.known):
            return with_what(history, {place: changed(what, known=kept)})
    return None


@breaks("durable_is_recovered")
def forget_what_was_delivered(random: Random, history: History) -> History | None:
    for place in where(history, "recovered"):
        what = history.events[place].what
        if any(p < place for p in where(history, "persist", "Marked", history.events[place].node)):
            return with_what(history, {place: changed(what, gts=0)})
    return None


@breaks("durable_is_recovered")
def forget_a_promise(random: Random, history: History) -> History | None:
    for place in where(history, "recovered"):
        what = history.events[place].what
        if where(history, "persist", "Promised", history.events[place].node) and what.ballot > ballot(1, 0):
            return with_what(history, {place: changed(what, ballot=ballot(0, 0), cballot=ballot(0, 0))})
    return None


def lost_and_done_again(history: History, event: str, kind: str, **lost: Any) -> History | None:
    """The disk of a node holds less when it restarts, and what it had done because of that it does once more."""
    for place in where(history, "recovered"):
        node, what = history.events[place].node, history.events[place].what
        before = [p for p in where(history, event, kind, node) if p < place]
        if before:
            shorter = changed(history.events[place], what=changed(what, **lost))
            again = history.events[before[-1]]
            return with_events(history, [*history.events[:place], shorter, changed(again, what=changed(again.what))])
    return None


@breaks("persist_precedes_send")
def acknowledge_what_was_lost_in_a_restart(random: Random, history: History) -> History | None:
    return lost_and_done_again(history, "send", "AcceptAck", known=())


@breaks("persist_precedes_delivery")
def deliver_what_was_lost_in_a_restart(random: Random, history: History) -> History | None:
    return lost_and_done_again(history, "deliver", "Delivered", gts=0, known=())


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
        if places and len(history.manifest.topology[group_of(history, node)]) > 1:
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
            lost = changed(event, event="restart", incarnation=9, peer=None, what=Resumed(0))
            return inserted(history, len(history.events), lost)
    return None


@breaks("stable_reports_are_true")
def report_stability_too_early(random: Random, history: History) -> History | None:
    places = [p for p in where(history, "send", "Stable") if history.events[p].what.gts]
    return moved(history, random.choice(places), 1) if places else None
