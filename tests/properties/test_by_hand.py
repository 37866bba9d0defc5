"""Corner cases of single properties, each as a history of a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.properties.histories import made

from braidcast.core.application import Delivered, Restored
from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId, Multicast, Refused
from braidcast.core.message import message
from braidcast.history.event import Event, History, Resumed
from braidcast.history.manifest import FIFO, GENUINE, Manifest
from braidcast.properties.check import check, judge_history
from braidcast.properties.sometimes import count_events, sometimes
from braidcast.protocols.whitebox.messages import AcceptAck, Accepted, Installed, Known, SessionsExpired

CLIENT = 100
Step = tuple[str, int, Any] | tuple[str, int, Any, int]


def unit(seq: int, *dest: int, first: int = 0, count: int = 0) -> Multicast:
    return Multicast(MessageId(CLIENT, 1, seq), dest, b"", 1, first, count)


def history(*steps: Step, sizes: Sequence[int] = (1, 1), **manifest: Any) -> History:
    """Process ids count from 0 over the groups; a step is (event, node, what, peer)."""
    groups, first = [], 0
    for size in sizes:
        groups.append(tuple(range(first, first + size)))
        first += size
    events = [
        Event(time, time, step[1], 0, step[0], step[3] if len(step) > 3 else None, step[2])
        for time, step in enumerate(steps)
    ]
    return History(Manifest("whitebox", tuple(groups), "by-hand", **manifest), events)


def submit(*units: Multicast) -> list[Step]:
    return [("multicast", CLIENT, m) for m in units]


def deliver(node: int, *steps: Multicast | tuple[Multicast, int]) -> list[Step]:
    pairs = [step if isinstance(step, tuple) else (step, 0) for step in steps]
    return [("deliver", node, Delivered(m, gts)) for m, gts in pairs]


def named(found: History) -> set[str]:
    return {violation.property for violation in check(found)}


A, B, C = unit(1, 0, 1, 2), unit(2, 0, 1, 2), unit(3, 0, 1, 2)


def test_an_empty_history_violates_nothing() -> None:
    assert check(history()) == []


def test_a_cycle_over_three_groups_that_no_pair_of_them_shows_is_found_without_timestamps() -> None:
    a, b, c = unit(1, 0, 2), unit(2, 0, 1), unit(3, 1, 2)
    steps = submit(a, b, c) + deliver(0, a, b) + deliver(1, b, c) + deliver(2, c, a)
    violations = check(history(*steps, sizes=(1, 1, 1)))
    assert [v.property for v in violations] == ["one_order"]
    assert violations[0].seen == "100.1.1 before 100.1.2 (node 0) before 100.1.3 (node 1) before 100.1.1 (node 2)"


def test_a_long_chain_of_deliveries_is_no_cycle_and_needs_no_deep_stack() -> None:
    units = [unit(seq, 0) for seq in range(1, 5000)]
    assert check(history(*submit(*units), *deliver(0, *units))) == []


def test_effects_lost_in_a_crash_are_delivered_again() -> None:
    steps = submit(A, B) + deliver(0, (A, 10), (B, 20)) + [("crash", 0, None), ("restart", 0, Resumed(10))]
    assert named(history(*steps, *deliver(0, (B, 20)), sizes=(1, 1, 1))) == set()


def test_effects_that_survived_a_crash_are_not_delivered_again() -> None:
    steps = submit(A, B) + deliver(0, (A, 10), (B, 20)) + [("crash", 0, None), ("restart", 0, None)]
    assert "no_duplicates" in named(history(*steps, *deliver(0, (B, 20)), sizes=(1, 1, 1)))


def test_what_was_lost_in_a_crash_was_seen_and_must_fit_the_order_all_the_same() -> None:
    steps = submit(A, B) + deliver(0, A, B) + [("restart", 0, Resumed(0))] + deliver(0, B, A)
    found = history(*steps, sizes=(1, 1, 1))
    assert "one_order" in named(found)


def test_a_process_that_did_not_deliver_again_what_it_lost_breaks_agreement() -> None:
    steps = submit(unit(1, 0)) + deliver(0, (unit(1, 0), 10)) + [("restart", 0, Resumed(0))]
    assert named(history(*steps, quiescent=True)) == {"agreement"}


def test_a_snapshot_stands_for_everything_up_to_its_gts() -> None:
    a, b, c = unit(1, 0), unit(2, 0), unit(3, 0)
    full = deliver(0, (a, 10), (b, 20), (c, 30))
    late = [("deliver", 1, Restored(20, b"")), *deliver(1, (c, 30))]
    assert check(history(*submit(a, b, c), *full, *late, sizes=(2,), quiescent=True)) == []


def test_a_snapshot_does_not_stand_for_what_comes_after_it() -> None:
    a, b, c = unit(1, 0), unit(2, 0), unit(3, 0)
    full = deliver(0, (a, 10), (b, 20), (c, 30))
    late = [("deliver", 1, Restored(10, b"")), *deliver(1, (c, 30))]
    assert named(history(*submit(a, b, c), *full, *late, sizes=(2,))) == {"no_gaps"}


def test_batches_in_a_snapshot_count_as_delivered() -> None:
    a, b = unit(1, 0, first=0, count=3), unit(2, 0, first=2, count=2)
    second = Delivered(b, 20, (0,))
    full = [*deliver(0, (a, 10)), ("deliver", 0, second)]
    late = [("deliver", 1, Restored(10, b"")), ("deliver", 1, second)]
    assert check(history(*submit(a, b), *full, *late, sizes=(2,))) == []


def test_a_message_addressed_here_and_delivered_elsewhere_below_the_last_gts_is_a_gap() -> None:
    a, b = unit(1, 0, 1), unit(2, 0)
    steps = submit(a, b) + deliver(1, (a, 10)) + deliver(0, (b, 20))
    assert named(history(*steps)) == {"no_gaps"}


def test_a_message_above_the_last_gts_is_no_gap_yet() -> None:
    a, b = unit(1, 0, 1), unit(2, 0)
    assert check(history(*submit(a, b), *deliver(1, (a, 30)), *deliver(0, (b, 20)))) == []


def test_nothing_need_be_delivered_before_the_run_is_quiescent() -> None:
    assert check(history(*submit(A), sizes=(1, 1, 1))) == []
    assert named(history(*submit(A), sizes=(1, 1, 1), quiescent=True)) == {"termination"}


def test_a_crashed_process_need_not_deliver() -> None:
    a = unit(1, 0)
    found = history(*submit(a), *deliver(0, (a, 10)), sizes=(3,), quiescent=True, crashed=(1, 2))
    assert check(found) == []


@pytest.mark.parametrize(
    "steps",
    [
        [("crash", CLIENT, None)],
        [("sessions_expired", 0, SessionsExpired(0, 1)), ("send", 0, Refused(A.id, 0, "expired"), CLIENT)],
    ],
    ids=["client crashed", "refused"],
)
def test_a_message_that_nobody_owes_an_answer_may_vanish(steps: list[Step]) -> None:
    assert check(history(*submit(A), *steps, sizes=(1, 1, 1), quiescent=True)) == []


@pytest.mark.parametrize(
    ("dest", "batch", "notes", "fine"),
    [
        ((0,), 0, [], False),
        ((0,), 5, [], False),
        ((1,), 0, [], True),
        ((0, 9), 0, [], True),
        ((), 0, [], True),
        ((0,), 1 << 21, [], True),
        ((0,), 0, [("sessions_expired", 1, SessionsExpired(0, 1))], True),
        ((0,), 0, [("sessions_expired", 3, SessionsExpired(1, 1))], False),
    ],
    ids=["nothing", "a batch", "not for this group", "no such group", "for nobody", "huge", "forgot", "others forgot"],
)
def test_a_refusal_needs_a_reason(dest: tuple[int, ...], batch: int, notes: list[Step], fine: bool) -> None:
    a = Multicast(MessageId(CLIENT, 1, 1), dest, b"", 1, 0, batch)
    refusal: Step = ("send", 0, Refused(a.id, 0, "no"), CLIENT)
    found = check(history(*submit(a), *notes, refusal, sizes=(3, 3)), only=["refused_for_a_reason"])
    assert (not found) == fine


def test_a_name_that_was_used_twice_may_be_refused() -> None:
    a, other = unit(1, 0), unit(1, 0, 1)
    assert check(history(*submit(a, other), ("send", 0, Refused(a.id, 0, "in use"), CLIENT), sizes=(3, 3))) == []


def test_payloads_are_judged_where_they_are_known() -> None:
    a = unit(1, 0)
    other = Multicast(a.id, a.dest, b"other")
    assert named(history(*submit(a), *deliver(0, (other, 10)))) == {"delivered_as_multicast"}
    assert "delivered_as_multicast" in judge_history(history(*submit(a), *deliver(0, (a, 10)))).judged
    assert "delivered_as_multicast" in judge_history(history(*deliver(0, (a, 10)))).skipped


def test_a_client_that_began_again_has_abandoned_what_it_sent_before() -> None:
    found = history(*submit(unit(1, 0)), quiescent=True)
    again = Multicast(MessageId(CLIENT, 2, 1), (0,))
    found.events.append(Event(9, 9, CLIENT, 1, "multicast", None, again))
    found.events.append(Event(9, 9, 0, 0, "deliver", None, Delivered(again, 10)))
    assert check(found) == []


def test_order_within_a_session_is_judged_only_where_it_is_promised() -> None:
    a, b = unit(1, 0), unit(2, 0)
    steps = submit(a, b) + deliver(0, (b, 10), (a, 20))
    assert check(history(*steps)) == []
    assert named(history(*steps, promises=(GENUINE, FIFO))) == {"fifo"}


def test_a_protocol_that_does_not_promise_genuineness_may_use_a_sequencer() -> None:
    a = unit(1, 0)
    steps = [*submit(a), ("send", CLIENT, a, 1), *deliver(0, (a, 10))]
    assert named(history(*steps)) == {"genuineness"}
    assert check(history(*steps, promises=())) == []


def test_an_acknowledgement_of_an_older_ballot_may_leave_after_a_newer_state_dropped_its_message() -> None:
    """Where the records of two steps went to disk together."""
    old, new = ballot(1, 0), ballot(2, 1)
    m = unit(1, 0)
    drop = made(Installed, ballot=new, dropped=(m.id,))
    accepted: Step = ("persist", 2, Accepted(m, 1024, 1))
    steps = [*submit(m), accepted, ("persist", 2, drop)]
    assert check(history(*steps, ("send", 2, AcceptAck(m.id, 0, (old,)), 0), sizes=(3,))) == []
    assert named(history(*steps, ("send", 2, AcceptAck(m.id, 0, (new,)), 1), sizes=(3,))) == {"persist_precedes_send"}


def test_a_message_may_be_accepted_by_installing_a_state() -> None:
    m, b = unit(1, 0), ballot(2, 1)
    state = made(Installed, ballot=b, known=(made(Known, id=m.id, dest=m.dest),))
    ack = ("send", 2, AcceptAck(m.id, 0, (b,)), 1)
    assert check(history(*submit(m), ("persist", 2, state), ack, sizes=(3,))) == []
    assert named(history(*submit(m), ack, sizes=(3,))) == {"persist_precedes_send"}


@message
class Accept:
    """Of a protocol that means something else by it."""

    instance: int
    value: bytes


@message
class Accepted2:
    """A record with nothing in it."""


def test_kinds_of_other_protocols_with_familiar_names_are_left_alone() -> None:
    steps: list[Step] = [("send", 0, Accept(1, b""), 1), ("persist", 0, Accepted2()), ("persist", 0, Accept(1, b""))]
    assert check(history(*steps, promises=())) == []


def test_a_campaign_that_never_saw_something_is_told_so() -> None:
    counts = count_events(history(*submit(A, B)))
    assert counts == {"multicast": 2}
    violations = sometimes(counts, ["multicast", "leading"], "night")
    assert [str(v) for v in violations] == [
        "sometimes: run night: expected `leading` at least once, saw none in the whole campaign"
    ]
