"""Leader recovery beyond the figure: restarts of candidates and leaders (1.3), lost answers, late votes (B5)."""

from __future__ import annotations

from tests.protocols.whitebox.harness import Bench, unit

from braidcast.core.ballots import ballot
from braidcast.protocols.whitebox.messages import (
    Accept,
    Bodies,
    Deliver,
    Nack,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Pull,
    Resend,
)


def test_leader_never_resumes_in_old_cballot_after_restart() -> None:
    """1.3: p0 restarts as a follower of its own ballot, and neither proposes nor beats before a new one (run 195)."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run()
    bench.restart(0)
    assert (bench[0].role, bench[0].cballot) == ("follower", ballot(0, 0))
    bench.submit(unit(2, 0), 0)
    assert not bench.in_flight(Accept)
    bench.elect(0)
    assert bench[0].cballot == ballot(1, 0)


def test_promise_survives_a_restart_1_3() -> None:
    """1.3: "a forgotten promise breaks by run 3025": p2 promised 1@1 and must not vote for 1@0 later."""
    bench = Bench(3)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    bench.restart(2)
    assert (bench[2].role, bench[2].ballot) == ("recovering", ballot(1, 1))
    bench.step(2, 0, NewLeader(ballot(1, 0), 0))
    assert bench.in_flight(Nack, 2, 0) == [Nack(ballot(1, 0), ballot(1, 1))]


def test_accepted_survives_a_restart_1_3() -> None:
    """1.3: "forgetting ACCEPTED breaks by run 7"; p1 and p2 accepted, both restart, p0 is gone."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run(unless=lambda s, receiver, message: receiver in (0, 1, 2) and isinstance(message, Deliver))
    bench.crash(0)
    for pid in (1, 2):
        bench.restart(pid)
    bench.elect(1)
    assert bench.order(1) == bench.order(3) == [1]
    assert bench.delivered[1] == bench.delivered[3]


def test_candidate_that_restarts_survives_the_votes_for_its_old_ballot() -> None:
    """Its ballot is still its own and it is RECOVERING; its own vote is gone. Found by the explorer: it raised."""
    bench = Bench(3)
    bench.nominate(1)
    bench.restart(1)
    bench.run()
    bench.elect(1)
    assert bench[1].role == "leader"


def test_lost_new_state_ack_is_sent_again() -> None:
    bench = Bench(3)
    bench.nominate(1)
    bench.run(unless=lambda s, r, message: isinstance(message, NewState))
    state = bench.in_flight(NewState, 1, 2)[0]
    bench.deliver(1, 2, NewState)
    bench.drop(kind=NewStateAck)
    bench.step(2, 1, state)
    assert bench.in_flight(NewStateAck, 2, 1) == [NewStateAck(ballot(1, 1), 0)]


def test_state_of_a_superseded_ballot_is_nacked() -> None:
    bench = Bench(3)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    bench.nominate(0) if bench[0].role != "leader" else bench.step(2, 0, NewLeader(ballot(2, 0), 0))
    bench.deliver(1, 2, NewState)
    assert bench.in_flight(Nack, 2, 1) == [Nack(ballot(1, 1), ballot(2, 0))]


def test_newer_transfer_replaces_the_pieces_of_an_older_one() -> None:
    """`serial` tells two transfers in one ballot apart: pieces of both must not be mixed."""
    bench = Bench(3, chunk_entries=1)
    bench.down.add(2)
    for seq in (1, 2):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.elect(1)
    bench.down.clear()
    bench.step(2, 1, NewLeader(bench[1].cballot, 0))
    vote = bench.in_flight(NewLeaderAck, 2, 1)[0]
    bench.step(1, 2, vote)
    bench.step(1, 2, vote)
    first, _, third, fourth = bench.in_flight(NewState, 1, 2)
    bench.queue.clear()
    bench.step(2, 1, first)
    bench.step(2, 1, fourth)
    assert bench[2].role == "recovering"
    bench.step(2, 1, first)
    assert bench.refused(2, "piece of an older state") == 1
    bench.step(2, 1, third)
    assert bench[2].role == "follower"


def test_vote_after_the_state_is_put_together_only_asks_for_it_B3() -> None:
    bench = Bench(3)
    bench.nominate(1)
    bench.run(unless=lambda s, receiver, m: receiver == 0)
    assert bench[1].role == "leader"
    bench.run()
    assert bench[0].cballot == ballot(1, 1)
    assert len([r for r in bench.logs[1] if type(r).__name__ == "Installed"]) == 1


def test_late_joiner_gets_bodies_of_messages_it_never_saw() -> None:
    """NEW_STATE carries the bodies that the vote did not report; deliveries come by RESEND."""
    bench = Bench(3, 3)
    bench.down.add(2)
    delivered, accepted = unit(1, 0), unit(2, 0, 1)
    bench.submit(delivered)
    bench.run()
    bench.submit(accepted, 0, 3)
    bench.run(unless=lambda s, r, message: type(message).__name__ == "AcceptAck")
    bench.queue.clear()
    bench.down.add(0)
    bench.down.discard(2)
    bench.nominate(1)
    bench.run(unless=lambda s, receiver, m: receiver >= 3)
    assert bench.entry(2, accepted).body == accepted
    assert bench.order(2) == [1]


def test_bodies_may_come_from_several_voters() -> None:
    """p3 and p4 accepted different messages; the candidate asks each for what it reported."""
    bench = Bench(5)
    one, two = unit(1, 0), unit(2, 0)
    bench.submit(one)
    bench.submit(two)
    accepts = bench.in_flight(Accept, 0, 3)
    bench.queue.clear()
    bench.step(3, 0, accepts[0])
    bench.step(4, 0, accepts[1])
    bench.queue.clear()
    bench.down = {0, 2}
    bench.nominate(1)
    bench.deliver(kind=NewLeader)
    bench.deliver(kind=NewLeaderAck)
    assert [pull.ids for pull in bench.in_flight(Pull)] == [(one.id,), (two.id,)]
    bench.deliver(kind=Pull)
    bench.deliver(3, 1, Bodies)
    assert not bench.in_flight(NewState)
    bench.run()
    assert sorted(bench.order(1)) == [1, 2]


def test_bodies_for_an_older_ballot_are_refused() -> None:
    bench = Bench(3)
    bench.nominate(1)
    bench.step(1, 2, Bodies(ballot(0, 1), (unit(1, 0),)))
    assert bench.refused(1, "bodies of another ballot") == 1


def test_pull_of_something_unknown_is_answered_with_what_there_is() -> None:
    bench = Bench(3)
    bench.step(1, 2, Pull(ballot(3, 2), (unit(1, 0).id,)))
    assert bench.in_flight(Bodies, 1, 2) == [Bodies(ballot(3, 2), ())]


def test_tombstone_at_the_candidate_means_delivered_1_6() -> None:
    """1.6: m is collected at p1; p2 still reports it ACCEPTED; the new leader does not bring it back."""
    bench = Bench(3, laggard_entries=1)
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2 and isinstance(m, Deliver))
    bench.drop()
    bench.down.add(2)
    bench.beat(0)
    bench.beat(0)
    assert unit(1, 0).id not in bench[1].entries
    bench.down = {0}
    bench.nominate(1)
    bench.run(unless=lambda s, r, message: isinstance(message, Resend))
    assert bench[1].role == "leader"
    assert unit(1, 0).id not in bench[1].entries
    assert bench.order(1) == [1, 2, 3]


def test_acknowledgement_of_a_state_from_one_that_never_voted_is_refused() -> None:
    bench = Bench(5)
    bench.nominate(1)
    for voter in (2, 3):
        bench.deliver(1, voter, NewLeader)
    bench.deliver(kind=NewLeaderAck)
    bench.drop()
    bench.step(1, 4, NewStateAck(ballot(1, 1), 0))
    assert bench.refused(1, "acknowledgement out of turn") == 1


def test_two_candidates_end_with_one_leader() -> None:
    bench = Bench(3)
    bench.crash(0)
    bench.nominate(1)
    bench.nominate(2)
    bench.run()
    roles = sorted(bench[p].role for p in (1, 2))
    assert roles == ["follower", "leader"]
    assert bench[2].role == "leader", "the higher ballot wins"
