"""Paper 001, Figure 4 lines 1-34: the normal case and retry, line by line, with B4, B6 and 1.2-1.8 of protocols.md."""

from __future__ import annotations

from tests.protocols.whitebox.harness import CLIENT, Bench, retry, ts, unit

from braidcast.core.application import Delivered
from braidcast.core.client import Reply
from braidcast.protocols.whitebox.entry import ACCEPTED, COMMITTED, PROPOSED
from braidcast.protocols.whitebox.messages import (
    Accept,
    AcceptAck,
    Accepted,
    Committed,
    Deliver,
    Forwarded,
    Marked,
    Retried,
    Retry,
)

# -- lines 3-9 --------------------------------------------------------------------------------------------------------


def test_fresh_message_gets_next_timestamp_line_6() -> None:
    """Lines 5-8: the clock goes up by one, the timestamp carries the group, the phase is PROPOSED."""
    bench = Bench(3, 3)
    first, second = unit(1, 0, 1), unit(2, 0, 1)
    bench.submit(first, 3)
    bench.submit(second, 3)
    assert [bench.entry(3, m).lts for m in (first, second)] == [ts(1, 1), ts(2, 1)]
    assert bench.entry(3, first).phase == PROPOSED
    assert bench[3].clock == 2


def test_accept_goes_to_every_member_of_every_destination_line_9() -> None:
    """Line 9; only the own group gets the body (1.4), and no group that is no destination hears of it (genuine)."""
    bench = Bench(3, 3, 3)
    m = unit(1, 0, 1)
    bench.submit(m, 0)
    receivers = {receiver: message.body for _, receiver, message in bench.queue}
    assert receivers == {1: m, 2: m, 3: None, 4: None, 5: None}


def test_only_a_leader_proposes_line_4() -> None:
    """Line 4: a follower passes a client's message on and gives it no timestamp."""
    bench = Bench(3)
    bench.submit(unit(1, 0), 1)
    assert not bench[1].entries
    assert not bench.in_flight(Accept)
    assert len(bench.in_flight(Forwarded, 1, 0)) == 1


def test_duplicate_multicast_resends_same_lts_line_9() -> None:
    """Lines 5 and 9, Invariant 1: asked again by another leader, p0 resends ACCEPT with the timestamp it gave."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m, 0)
    bench.submit(unit(2, 0, 1), 0)
    bench.step(0, 3, retry(bench, 3, m))
    assert [a.lts for a in bench.in_flight(Accept, 0, 1)] == [ts(1), ts(2), ts(1)]
    assert bench[0].clock == 2


def test_client_that_asks_again_too_soon_does_not_make_the_group_busier() -> None:
    """Not as line 9: the leader's own retry does that in time."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m, 0)
    bench.queue.clear()
    bench.submit(m, 0)
    assert not bench.queue
    assert bench[0].clock == 1


def test_retry_of_a_delivered_message_is_answered_with_the_same_lts_1_4() -> None:
    """1.4: the other group may not have it yet, so its leader gets an ACCEPT at the same lts even after delivery."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run()
    bench.step(0, 3, retry(bench, 3, m))
    assert [(a.lts, a.body) for a in bench.in_flight(Accept, 0, 3)] == [(ts(1), None)]


def test_client_that_asks_again_after_delivery_gets_a_reply_only() -> None:
    """1.4, 1.7: one reply proves delivery; the group is not bothered again."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    bench.submit(m)
    assert bench.told(Reply) == [Reply(m.id, 0, ts(1))] * 2
    assert not bench.queue


# -- lines 10-16 ------------------------------------------------------------------------------------------------------


def test_accept_waits_for_the_timestamps_of_every_group_line_10() -> None:
    """Line 10: nobody acknowledges before it holds an ACCEPT of each destination."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.deliver(0, 1, Accept)
    assert not bench.in_flight(AcceptAck, 1)
    bench.deliver(3, 1, Accept)
    assert len(bench.in_flight(AcceptAck, 1)) == 2
    assert bench.entry(1, m).phase == ACCEPTED


def test_clock_rises_to_the_highest_timestamp_before_acknowledging_line_14() -> None:
    """Lines 13-16, Invariant 2(c): the acknowledgement promises the clock, and it is durable with it (1.3)."""
    bench = Bench(3, 3)
    bench[3].clock = 40
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.deliver(kind=Accept)
    assert bench[1].clock == 41
    assert bench.records(1, Accepted) == [Accepted(m, ts(1), 41)]


def test_acknowledgement_goes_to_the_leader_of_every_group_line_16() -> None:
    """Line 16: tagged with the ballots of all groups, to their leaders."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.deliver(kind=Accept)
    vector = (bench[0].cballot, bench[3].cballot)
    found = [(receiver, ack) for sender, receiver, ack in bench.queue if sender == 1]
    assert found == [(0, AcceptAck(m.id, 0, vector)), (3, AcceptAck(m.id, 0, vector))]


def test_duplicate_accept_is_acknowledged_again_line_12() -> None:
    """B6: line 12 guards line 13 only; a repeated ACCEPT is acknowledged again and changes nothing."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    accept = bench.in_flight(Accept, 0, 1)[0]
    bench.deliver(0, 1, Accept)
    bench.step(1, 0, accept)
    assert len(bench.in_flight(AcceptAck, 1, 0)) == 2
    assert len(bench.records(1, Accepted)) == 1


def test_accept_of_a_lower_ballot_is_dropped_line_11() -> None:
    """Line 11, B6: an own-group ACCEPT below cballot is refused."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    stale = bench.in_flight(Accept, 0, 1)[0]
    bench.drop()
    bench.crash(0)
    bench.elect(1)
    bench.step(1, 0, stale)
    assert bench.refused(1, "accept of an old ballot") == 1
    assert not bench.in_flight(AcceptAck, 1)


def test_accept_of_higher_own_ballot_is_held_until_new_state_B6() -> None:
    """B6: the leader of a ballot that p2 has not joined proposes; p2 looks at it again after NEW_STATE."""
    bench = Bench(3)
    bench.nominate(1)
    bench.run(unless=lambda sender, receiver, message: receiver == 2)
    m = unit(1, 0)
    bench.submit(m, 1)
    accept = bench.in_flight(Accept, 1, 2)[0]
    bench.drop(kind=Accept)
    bench.step(2, 1, accept)
    assert not bench.in_flight(AcceptAck, 2)
    bench.run()
    assert bench[2].cballot == bench[1].cballot
    assert bench.order(2) == [1], "without the acknowledgement of p2 there is no quorum: p0 never got the ACCEPT"


def test_accept_of_an_old_remote_ballot_does_not_replace_a_newer_one_B6() -> None:
    """B6: per message and group only the ACCEPT of the highest ballot counts."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    old = bench.in_flight(Accept, 3, 0)[0]
    bench.drop()
    bench.crash(3)
    bench.elect(4)
    bench.submit(m, 4)
    bench.deliver(4, 0, Accept)
    bench.step(0, 3, old)
    assert bench.entry(0, m).accepts[1].ballot == bench[4].cballot
    assert bench.refused(0, "accept of an old ballot") == 1


# -- lines 17-23 ------------------------------------------------------------------------------------------------------


def test_quorum_of_one_group_does_not_commit_line_17() -> None:
    """Line 17: a quorum is needed in each destination group."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.deliver(kind=Accept)
    for sender in (1, 2):
        bench.deliver(sender, 0, AcceptAck)
    bench.deliver(3, 0, AcceptAck)
    assert bench.entry(0, m).phase == ACCEPTED
    bench.deliver(4, 0, AcceptAck)
    assert bench.entry(0, m).phase == COMMITTED
    assert bench.noted(0, Committed) == [Committed(m.id, ts(1, 1))]


def test_acknowledgements_of_another_vector_do_not_count_1_4() -> None:
    """1.4: acknowledgements count by the full vector of ballots; those of a mixture of ballots commit nothing."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.deliver(kind=Accept)
    bench.deliver(3, 0, AcceptAck)
    bench.deliver(1, 0, AcceptAck)
    other = AcceptAck(m.id, 1, (bench[0].cballot, bench[3].cballot + 1))
    bench.step(0, 4, other)
    assert bench.entry(0, m).phase == ACCEPTED


def test_leader_that_has_not_accepted_itself_does_not_commit_line_17() -> None:
    """Line 17 "including myself", B4: followers' quorums alone do not commit, the leader's clock is not up yet."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run(unless=lambda s, receiver, message: receiver == 0 and isinstance(message, Accept))
    assert bench.entry(0, m).phase == PROPOSED
    assert bench.order(3) == [1]
    bench.run()
    assert bench.order(0) == [1]


def test_global_timestamp_is_the_highest_local_one_line_19() -> None:
    """Line 19, Invariant 3(b): every group computes the same."""
    bench = Bench(3, 3)
    bench[3].clock = 9
    bench.submit(unit(1, 0, 1))
    bench.run()
    assert {d.gts for p in range(6) for d in bench.delivered[p]} == {ts(10, 1)}


def test_leader_clock_is_above_every_commit_before_the_next_proposal_B4() -> None:
    """B4, Invariant 5: after committing at 10 nothing gets a timestamp at or below it."""
    bench = Bench(3, 3)
    bench[3].clock = 9
    bench.submit(unit(1, 0, 1))
    bench.run()
    later = unit(2, 0)
    bench.submit(later)
    assert bench.entry(0, later).lts == ts(11)


def test_committed_message_waits_for_a_lower_proposal_line_21() -> None:
    """Line 21, the convoy: m commits at 10.1; an uncommitted one at 1.0 might still end below, so m waits."""
    bench = Bench(3, 3)
    bench[3].clock = 9
    first, second = unit(1, 0, 1), unit(2, 0, 1)
    bench.submit(first, 0)
    bench.submit(second)
    bench.run()
    assert bench.entry(0, second).phase == COMMITTED
    assert bench.order(0) == []
    bench.submit(first, 3)
    bench.run()
    assert bench.order(0) == bench.order(3) == [2, 1]


def test_delivery_is_in_the_order_of_global_timestamps_line_22() -> None:
    """Line 22, Ordering: two messages that commit in reverse are delivered by timestamp, in both groups."""
    bench = Bench(3, 3)
    bench.submit(unit(1, 0, 1), 0)
    bench.submit(unit(2, 0, 1), 0)
    bench.submit(unit(2, 0, 1), 3)
    bench.submit(unit(1, 0, 1), 3)
    bench.run()
    assert len({tuple(bench.order(p)) for p in range(6)}) == 1
    gts = [d.gts for d in bench.delivered[0]]
    assert gts == sorted(gts)


def test_leader_delivers_once_and_tells_its_group_line_23() -> None:
    """Lines 21-23: DELIVER goes to the own group only, with the timestamp of the delivery before (1.4)."""
    bench = Bench(3, 3)
    bench.submit(unit(1, 0, 1))
    bench.submit(unit(2, 0, 1))
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    assert {receiver for sender, receiver, _ in bench.queue if sender == 0} == {1, 2}
    first, second = bench.in_flight(Deliver, 0, 1)
    assert (first.prev_gts, second.prev_gts) == (0, first.gts)
    assert bench.order(0) == [1, 2]


# -- lines 24-31 ------------------------------------------------------------------------------------------------------


def test_follower_delivers_when_told_lines_26_31() -> None:
    """Lines 26-31, and the mark is durable with the delivery (1.3)."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    assert bench.delivered[1] == [Delivered(m, ts(1))]
    assert bench[1].max_delivered_gts == ts(1)
    assert bench.records(1, Marked) == [Marked(m.id, ts(1), ts(1))]


def test_second_deliver_is_refused_line_25() -> None:
    """Line 25, Integrity."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    deliver = bench.in_flight(Deliver, 0, 1)[0]
    bench.run()
    bench.step(1, 0, deliver)
    assert bench.order(1) == [1]
    assert bench.refused(1, "deliver again") == 1


def test_deliver_of_another_ballot_is_refused_line_25() -> None:
    """Line 25: what a deposed leader says comes too late."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    deliver = bench.in_flight(Deliver, 0, 2)[0]
    bench.drop()
    bench.nominate(1)
    bench.run(unless=lambda s, receiver, m: isinstance(m, Deliver))
    bench.step(2, 0, deliver)
    assert bench.refused(2, "deliver of another ballot") == 1


# -- lines 32-34 ------------------------------------------------------------------------------------------------------


def test_retry_completes_what_the_client_sent_to_one_group_only_line_34() -> None:
    """Lines 32-34, 1.7: the client died between its sends; the leader that has the message asks the others."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m, 0)
    bench.run()
    assert bench.order(0) == []
    bench.now += bench.options.retry_ticks
    bench[0].acked_at = dict.fromkeys((1, 2), bench.now)
    bench.beat(0)
    assert [bench.order(p) for p in range(6)] == [[1]] * 6
    assert Retried(m.id) in bench.notes[0]


def test_retry_asks_the_leader_first_and_then_everybody_1_4() -> None:
    """1.4: first whom one takes for the leader, and all members when that did not help; each wait is twice as long."""
    bench = Bench(3, 3)
    bench.submit(unit(1, 0, 1))
    bench.run()
    m = unit(2, 0, 1)
    bench.submit(m, 0)
    bench.queue.clear()
    leader, entry = bench[0], bench.entry(0, m)
    bench.now = entry.retry_at
    leader.out.now = bench.now
    leader.retry_stuck()
    bench._carry_out(0)
    assert [receiver for _, receiver, message in bench.queue if isinstance(message, Retry)] == [3]
    waited = entry.retry_at - bench.now
    bench.queue.clear()
    leader.retry(entry)
    bench._carry_out(0)
    assert [receiver for _, receiver, message in bench.queue if isinstance(message, Retry)] == [3, 4, 5]
    assert entry.retry_at - bench.now == 2 * waited


def test_retry_that_reaches_a_follower_is_refused_in_silence() -> None:
    """1.4: the leader asks all members, so one of them leads; a redirect would help nobody."""
    bench = Bench(3, 3)
    bench.step(1, 3, retry(bench, 3, unit(1, 0, 1)))
    assert bench.refused(1, "retry sent to a follower") == 1
    assert not bench.answers
    assert not bench.queue


def test_solo_message_takes_three_delays_to_leaders_and_four_to_followers() -> None:
    """Figure 5 and 1.9: MULTICAST, ACCEPT, ACCEPT_ACK; then DELIVER."""
    bench = Bench(3, 3)
    bench.submit(unit(1, 0, 1))
    bench.deliver()
    assert bench.order(0) == []
    bench.deliver()
    assert (bench.order(0), bench.order(3), bench.order(1)) == ([1], [1], [])
    bench.deliver()
    assert [bench.order(p) for p in range(6)] == [[1]] * 6


def test_early_followers_deliver_after_three_delays_1_8() -> None:
    """1.8: acknowledgements go to all, so followers deliver when their leader does."""
    bench = Bench(3, 3, follower_delivery="early")
    bench.submit(unit(1, 0, 1))
    bench.deliver()
    bench.deliver()
    assert [bench.order(p) for p in range(6)] == [[1]] * 6


def test_only_destinations_take_part() -> None:
    """Minimality (section II): groups that share nothing hear nothing."""
    bench = Bench(3, 3, 3)
    bench.submit(unit(1, 0, 2))
    while bench.queue:
        assert {p for flight in bench.queue for p in flight[:2]}.isdisjoint({3, 4, 5})
        bench.deliver()
    assert bench.told(Reply)
    assert all(pid in (0, 6) for pid, _ in bench.answers)
    assert CLIENT not in bench.topology.group_of
