"""What clients see of a group, and what comes early or never: the rest of `ordering.py` (1.4, 1.6, 1.7)."""

from __future__ import annotations

import pytest
from tests.protocols.whitebox.harness import CLIENT, Bench, retry, ts, unit

from braidcast.core.application import Connected
from braidcast.core.ballots import ballot
from braidcast.core.client import Multicast, Redirect, Refused, Reply
from braidcast.protocols.whitebox.entry import PROPOSED
from braidcast.protocols.whitebox.messages import Accept, AcceptAck, Beat, Deliver, Forwarded, NewState, Retry, Sweep


def test_follower_forwards_once_and_redirects_the_client_1_7() -> None:
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m, 2)
    assert bench.in_flight(Forwarded, 2, 0) == [Forwarded(m)]
    assert bench.answers == [(2, Redirect(m.id, 0, ballot(0, 0)))]
    bench.run()
    assert bench.told(Reply) == [Reply(m.id, 0, ts(1))]


def test_forwarded_message_goes_no_further_1_7() -> None:
    """A follower that has voted meanwhile no longer leads: what was forwarded to it ends there."""
    bench = Bench(3)
    bench.submit(unit(1, 0), 2)
    bench.nominate(1)
    bench.deliver(1, 0)
    bench.drop(receiver=1)
    bench.deliver(2, 0, Forwarded)
    assert bench.refused(0, "forwarded to a follower") == 1
    assert not bench.in_flight(Forwarded)


def test_process_that_votes_redirects_without_forwarding() -> None:
    """There is no leader to forward to; the client tries the leader of the ballot it is told, or everybody."""
    bench = Bench(3)
    bench.nominate(1)
    bench.submit(unit(1, 0), 1)
    assert not bench.in_flight(Forwarded)
    assert bench.told(Redirect) == [Redirect(unit(1, 0).id, 0, ballot(0, 0))]


def test_follower_that_delivered_replies_itself_1_7() -> None:
    """1.7: one reply from any deliverer proves delivery."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    bench.submit(m, 2)
    assert bench.answers[-1] == (2, Reply(m.id, 0, ts(1)))
    assert not bench.queue


def test_message_to_other_groups_is_refused_and_the_client_told() -> None:
    bench = Bench(3, 3)
    m = unit(1, 1)
    bench.submit(m, 0)
    assert bench.told(Refused) == [Refused(m.id, 0, "impossible destinations")]
    assert bench.refused(0, "multicast: impossible destinations") == 1
    assert m.id not in bench[0].entries


def test_message_to_groups_that_do_not_exist_or_in_disorder_is_refused() -> None:
    bench = Bench(3, 3)
    for dest in ((0, 7), (1, 0), (0, 0), (-1, 0), ()):
        bench.submit(Multicast(unit(1).id, dest), 0)
    assert [r.why for r in bench.told(Refused)] == ["impossible destinations"] * 5
    assert bench[0].clock == 0


def test_same_id_with_other_destinations_is_refused() -> None:
    """An id names one message. A remote ACCEPT has told p0 that it is for groups 0 and 1."""
    bench = Bench(3, 3)
    bench.submit(unit(1, 0, 1), 3)
    bench.deliver(3, 0, Accept)
    bench.submit(unit(1, 0), 0)
    assert [r.why for r in bench.told(Refused)] == ["the id is in use with other destinations"]


def test_remote_timestamp_may_come_before_the_message_itself() -> None:
    """Channels of different senders are not ordered: the ACCEPT waits for the MULTICAST, at leader and followers."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m, 3)
    bench.deliver(3)
    bench.submit(m, 0)
    bench.run()
    assert [bench.order(p) for p in range(6)] == [[1]] * 6


def test_acknowledgements_may_come_before_the_last_accept() -> None:
    """Line 17: whichever comes last commits; p3's own ACCEPT of group 0 is late."""
    bench = Bench(3, 3)
    bench.submit(unit(1, 0, 1))
    bench.run(unless=lambda sender, receiver, m: (sender, receiver) == (0, 3) and isinstance(m, Accept))
    assert bench.order(3) == []
    bench.run()
    assert bench.order(3) == [1]


def test_sweep_forgets_what_came_early_for_a_message_that_never_came() -> None:
    """Bounded memory; if the message comes after all, a retry brings the rest."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m, 3)
    bench.deliver(3)
    bench.queue.clear()
    assert m.id in bench[1].entries
    bench.now = bench.options.forget_ticks + 1
    for pid in (0, 1, 2):
        bench.fire(pid, Sweep())
        assert m.id not in bench[pid].entries
    bench.submit(m, 0)
    bench.step(3, 0, retry(bench, 0, m))  # the retry of group 0's leader, or of group 3's own
    bench.run()
    assert bench.order(1) == [1]


def test_sweep_comes_back_by_itself() -> None:
    bench = Bench(3)
    bench.fire(0, Sweep())
    assert bench.timers[0][Sweep()] == (4_000, 8_000)


def test_reconnection_to_a_destination_retries_with_the_next_heartbeat_1_4() -> None:
    """1.4: what was in flight to p3 may be lost, so m is not left to its time-out."""
    bench = Bench(3, 3)
    m, alone = unit(1, 0, 1), unit(2, 0)
    bench.submit(m, 0)
    bench.submit(alone, 0)
    bench.queue.clear()
    bench.step(0, 0, Connected(3))
    bench.step(0, 0, Connected(4))
    assert not bench.queue, "once, however many sessions come back"
    bench.fire(0, Beat())
    assert [r.body for r in bench.in_flight(Retry, 0, 3)] == [m]
    assert {a.id for a in bench.in_flight(Accept)} == {m.id}, "the other message is not for that group"


@pytest.mark.parametrize(
    ("sizes", "beats"),
    [
        ((4, 4, 1), [[1, 2], [3]]),
        ((9, 4, 4, 1), [[1], [2, 3], [4]]),
        ((0, 0, 0, 0, 0), [[1, 2, 3, 4, 5]]),
        ((1, 1, 1, 1, 1, 1, 1, 1, 1), [[1, 2, 3, 4, 5, 6, 7, 8], [9]]),
        ((0,) * 258, [[*range(1, 257)], [257, 258]]),
    ],
    ids=["a share each", "one that is larger than a share", "nothing", "small ones", "many"],
)
def test_heartbeat_retries_four_chunks_of_payload_or_256_messages_and_the_next_one_the_rest_decision_0012(
    sizes: tuple[int, ...], beats: list[list[int]]
) -> None:
    bench = Bench(3, 3, chunk_bytes=2)
    for seq, size in enumerate(sizes, 1):
        bench.submit(unit(seq, 0, 1, payload=bytes(size)), 0)
    bench.queue.clear()
    bench.step(0, 0, Connected(3))
    for retried in beats:
        bench.fire(0, Beat())
        assert [r.body.id.seq for r in bench.in_flight(Retry, 0, 3)] == retried, "by local timestamp"
        bench.queue.clear()
    bench.fire(0, Beat())
    assert not bench.in_flight(Retry), "none twice before it is due again"


def test_reconnection_to_a_client_or_at_a_follower_does_nothing() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.queue.clear()
    bench.step(0, 0, Connected(CLIENT))
    bench.step(1, 1, Connected(0))
    assert not bench.queue


def test_collected_message_is_not_accepted_again() -> None:
    """1.6: an ACCEPT that comes after the message is gone finds its tombstone."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    accept = bench.in_flight(Accept, 0, 1)[0]
    bench.run()
    bench.beat(0)
    bench.beat(0)
    assert m.id not in bench[1].entries
    bench.step(1, 0, accept)
    assert bench.refused(1, "accept of a collected message") == 1
    assert m.id not in bench[1].entries


def test_early_acknowledgement_of_an_unknown_message_is_kept_1_8() -> None:
    """1.8: acknowledgements go to all and may overtake the ACCEPT; only then does p2 know the destinations."""
    bench = Bench(3, 3, follower_delivery="early")
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run(unless=lambda s, receiver, message: receiver == 2 and isinstance(message, Accept | Deliver))
    assert bench.entry(2, m).dest == ()
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    assert bench.order(2) == [1]


def test_late_acknowledgement_is_counted_as_unknown_without_early_delivery() -> None:
    bench = Bench(3)
    bench.step(0, 1, AcceptAck(unit(9, 0).id, 0, (bench[0].cballot,)))
    assert bench.refused(0, "acknowledgement of an unknown message") == 1


def test_early_follower_tracks_proposals_of_its_leader_only_1_8() -> None:
    """1.8: "no PROPOSED tracking breaks by run 33"."""
    bench = Bench(3, 3, follower_delivery="early")
    m = unit(1, 0, 1)
    bench.submit(m, 0)
    bench.submit(m, 3)
    bench.deliver(3, 1, Accept)
    assert not bench[1].pending
    bench.deliver(0, 1, Accept)
    assert len(bench[1].pending) == 1
    other = unit(2, 0, 1)
    bench.submit(other, 0)
    bench.deliver(0, 2, Accept)
    assert bench.entry(2, other).phase == PROPOSED


def test_early_proposal_is_not_reported_to_a_candidate_1_8() -> None:
    """1.8: "a follower's PROPOSED is never reported as ACCEPTED"."""
    bench = Bench(3, 3, follower_delivery="early")
    bench.submit(unit(1, 0, 1), 0)
    bench.deliver(0, kind=Accept)
    bench.crash(0)
    bench.nominate(1)
    bench.run(unless=lambda s, r, message: isinstance(message, NewState))
    assert [state.known for state in bench.in_flight(NewState)] == [()]
