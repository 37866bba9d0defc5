"""Paper 001, Figure 4 lines 35-70: leader recovery, with B1-B9 and 1.3 of protocols.md."""

from __future__ import annotations

from tests.protocols.whitebox.harness import Bench, ts, unit

from braidcast.core.ballots import ballot
from braidcast.protocols.whitebox.entry import ACCEPTED, COMMITTED, START
from braidcast.protocols.whitebox.messages import (
    Accept,
    AcceptAck,
    Accepted,
    Bodies,
    Deliver,
    HeartbeatAck,
    Installed,
    Known,
    Leading,
    Nack,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Promised,
    Pull,
    Retried,
    Retry,
)

# -- lines 35-41 ------------------------------------------------------------------------------------------------------


def test_candidate_takes_a_ballot_of_its_own_above_all_it_has_seen_line_36() -> None:
    bench = Bench(3)
    bench[2].max_ballot = ballot(6, 1)
    bench.nominate(2)
    assert bench.in_flight(NewLeader, 2, 0) == [NewLeader(ballot(7, 2), 0)]


def test_candidate_joins_its_own_ballot_before_others_hear_of_it_B7() -> None:
    """B7, 1.3: Promised is in its log, and its own vote is counted, when NEWLEADER leaves."""
    bench = Bench(3)
    bench.nominate(1)
    assert bench.records(1, Promised) == [Promised(ballot(1, 1))]
    assert set(bench[1].votes) == {1}
    assert bench[1].role == "recovering"


def test_vote_is_durable_and_stops_normal_processing_lines_39_41() -> None:
    """Lines 39-41, 1.3: promise first; then neither ACCEPT nor DELIVER of the old ballot moves anything."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    assert bench.records(2, Promised) == [Promised(ballot(1, 1))]
    bench.deliver(0, 2, Accept)
    assert not bench.in_flight(AcceptAck, 2)
    assert not bench.records(2, Accepted)


def test_new_leader_at_or_below_the_promise_is_nacked_line_38() -> None:
    """Line 38; the answer says what stands in the way, so that the next attempt is above it (B5)."""
    bench = Bench(3)
    bench.nominate(2)
    bench.deliver(2, 0, NewLeader)
    bench.nominate(1)
    bench.deliver(1, 0, NewLeader)
    assert bench.in_flight(Nack, 0, 1) == [Nack(ballot(1, 1), ballot(1, 2))]
    bench.deliver(0, 1, Nack)
    assert bench[1].max_ballot == ballot(1, 2)


def test_vote_reports_accepted_and_committed_but_not_proposed_line_41() -> None:
    """Line 41, 1.3, 1.8: PROPOSED is nobody's business but the leader's."""
    bench = Bench(3, 3)
    accepted, proposed = unit(1, 0), unit(2, 0, 1)
    bench.submit(accepted)
    bench.run()
    bench.submit(proposed, 0)
    bench.nominate(1)
    bench.deliver(1, 0, NewLeader)
    vote = bench.in_flight(NewLeaderAck, 0, 1)[0]
    assert vote.known == (Known(accepted.id, (0,), COMMITTED, ts(1), ts(1), None, 1),)


# -- lines 42-56 ------------------------------------------------------------------------------------------------------


def test_no_state_before_a_quorum_of_votes_lines_42_43() -> None:
    bench = Bench(5)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    assert not bench.in_flight(NewState)
    bench.deliver(1, 3, NewLeader)
    bench.deliver(3, 1, NewLeaderAck)
    assert bench.in_flight(NewState)


def test_second_vote_of_one_process_does_not_count_twice_B3() -> None:
    """B3: votes count by sender."""
    bench = Bench(5)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    vote = bench.in_flight(NewLeaderAck, 2)[0]
    bench.step(1, 2, vote)
    bench.step(1, 2, vote)
    assert not bench.in_flight(NewState)


def test_third_new_leader_ack_does_not_change_the_state_B3() -> None:
    """B3 (D): p0 reports a message after p1 has put its state together; p1 keeps its state, p0 has to drop it."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.drop()
    assert bench.entry(0, m).phase == ACCEPTED
    bench.nominate(1)
    bench.deliver(kind=NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    first = bench.in_flight(NewState, 1, 2)
    bench.deliver(0, 1, NewLeaderAck)
    assert bench.in_flight(NewState, 1, 2) == first
    late = bench.in_flight(NewState, 1, 0)[0]
    assert (late.known, late.dropped) == ((), (m.id,))
    assert len(bench.records(1, Installed)) == 1


def test_committed_anywhere_is_committed_lines_47_50() -> None:
    """Lines 47-50, B8: even if the one who reports it has a lower cballot than others."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run(unless=lambda s, receiver, message: receiver == 2 or isinstance(message, Deliver))
    bench.queue.clear()
    assert bench.order(0) == [1]
    bench.elect(2)
    assert bench.entry(2, m).phase == COMMITTED
    assert [bench.order(p) for p in range(3)] == [[1]] * 3


def test_accepted_counts_only_from_those_in_the_newest_ballot_line_51() -> None:
    """Lines 45 and 51, Invariant 5: p0 accepted m in ballot 0; p1 led without it; p0, elected by p1, drops it."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.drop()
    assert bench.entry(0, m).phase == ACCEPTED
    bench.down = {0}
    bench.elect(1)
    bench.down = {2}
    bench.step(0, 1, HeartbeatAck(bench[1].ballot, 0))
    bench.run()
    assert (bench[0].role, bench[1].role) == ("leader", "follower")
    assert bench.entry(0, m).phase == START


def test_accepted_by_a_quorum_survives_a_leader_change_at_its_lts_line_53() -> None:
    """Lines 51-53, Invariant 2(a, b): then line 34 completes it at the same timestamp."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.deliver(kind=Accept)
    bench.drop(receiver=0)
    bench.crash(0)
    bench.run()
    bench.elect(1)
    assert [d.gts for d in bench.delivered[1]] == [ts(1, 1)]
    assert bench.entry(1, m).lts == ts(1)
    assert Retried(m.id) in bench.notes[1]


def test_clock_of_a_new_leader_is_the_highest_of_its_quorum_line_54() -> None:
    """Line 54, Invariant 2(c): p1 did not see m, which raised p2's clock to 41; nothing may come below it now."""
    bench = Bench(3, 3)
    bench[3].clock = 40
    bench.submit(unit(1, 0, 1))
    bench.run(unless=lambda s, receiver, m: receiver == 1)
    bench.crash(0)
    bench.drop(receiver=1)
    bench.elect(1)
    later = unit(2, 0)
    bench.submit(later, 1)
    assert bench.entry(1, later).lts >= ts(42)


def test_new_state_goes_to_the_voters_only_after_it_is_durable_line_56() -> None:
    """Lines 54-56, 1.3: Installed is in the candidate's log, with cballot = b."""
    bench = Bench(3)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    assert bench.records(1, Installed) == [Installed(ballot(1, 1), 0, (), ())]
    assert {receiver for _, receiver, m in bench.queue if isinstance(m, NewState)} == {2}
    assert bench[1].cballot == ballot(1, 1)


def test_candidate_pulls_missing_bodies() -> None:
    """1.5: votes carry no bodies; the candidate asks the one who reported the message."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run(unless=lambda s, receiver, message: receiver == 2 or isinstance(message, Deliver))
    bench.queue.clear()
    bench.down.add(1)
    bench.nominate(2)
    bench.deliver(2, 0, NewLeader)
    bench.deliver(0, 2, NewLeaderAck)
    assert bench.in_flight(Pull, 2, 0) == [Pull(ballot(1, 2), (m.id,))]
    assert not bench.in_flight(NewState)
    bench.deliver(kind=Pull)
    assert bench.in_flight(Bodies, 0, 2) == [Bodies(ballot(1, 2), (m,))]
    bench.run()
    assert bench.order(2) == [1]


def test_proposal_of_a_deposed_leader_vanishes_and_retry_brings_it_back_B9() -> None:
    """B9: p0 proposed, nobody accepted; in the new ballot p0 has it no more, and the client's retry starts anew."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m, 0)
    bench.drop()
    bench.elect(1)
    assert bench.entry(0, m).phase == START
    bench.submit(m, 1, 3)
    bench.run()
    assert [bench.order(p) for p in range(6)] == [[1]] * 6


def test_acknowledgement_to_a_deposed_leader_dies_line_18_B9() -> None:
    """B9, line 18: the quorum is complete but the leader has promised a higher ballot."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.deliver(kind=Accept)
    bench.nominate(1)
    bench.deliver(1, 0, NewLeader)
    bench.deliver(kind=AcceptAck)
    assert bench.entry(0, m).phase == ACCEPTED
    assert bench.order(0) == []


# -- lines 57-62 ------------------------------------------------------------------------------------------------------


def test_state_is_refused_without_a_vote_in_that_ballot_line_58() -> None:
    """Line 58: the state is relative to the vote, so without one it means nothing."""
    bench = Bench(3)
    bench.nominate(1)
    bench.deliver(1, 0, NewLeader)
    bench.deliver(0, 1, NewLeaderAck)
    state = bench.in_flight(NewState, 1, 0)[0]
    bench.step(2, 1, state)
    assert bench.refused(2, "state without a vote") == 1
    assert bench[2].cballot == ballot(0, 0)


def test_new_state_is_durable_before_it_is_acknowledged_lines_59_62() -> None:
    bench = Bench(3)
    bench.nominate(1)
    bench.deliver(kind=NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    bench.deliver(1, 2, NewState)
    assert bench.records(2, Installed) == [Installed(ballot(1, 1), 0, (), ())]
    assert (bench[2].role, bench[2].cballot) == ("follower", ballot(1, 1))
    assert bench.in_flight(NewStateAck, 2, 1) == [NewStateAck(ballot(1, 1), 0)]


def test_committed_is_sticky_B2() -> None:
    """B2: line 61 as printed would turn what p0 delivered back into ACCEPTED; here it stays, and so does its gts."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    bench.queue.clear()
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    assert bench.entry(1, m).phase == ACCEPTED
    bench.deliver(1, 0, NewLeader)
    bench.run(unless=lambda s, r, message: isinstance(message, Accept))
    assert bench[0].cballot == ballot(1, 1)
    assert (bench.entry(0, m).phase, bench.entry(0, m).gts) == (COMMITTED, ts(1))
    bench.run()
    assert [bench.order(p) for p in range(3)] == [[1]] * 3


def test_clock_does_not_go_back_with_a_new_state_B2() -> None:
    """B2: own clock 41, the new leader's is lower; the higher one stands."""
    bench = Bench(3)
    bench[0].clock = 41
    bench.down.add(0)
    bench.elect(1)
    bench.down.clear()
    bench.step(0, 1, NewLeader(bench[1].cballot, 0))
    bench.run()
    assert bench[0].cballot == bench[1].cballot
    assert bench[0].clock == 41


def test_leader_that_lost_its_delivers_delivers_again_in_its_next_ballot_B1() -> None:
    """B1: p0 commits and delivers m, its DELIVERs are lost; p1 leads; p0 leads again: the followers get m."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    bench.drop()
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    bench.run(unless=lambda s, r, message: isinstance(message, Accept))
    assert (bench[0].role, bench[1].role) == ("follower", "leader")
    bench.drop()
    bench.elect(0)
    assert [bench.order(p) for p in range(3)] == [[1]] * 3


def test_explicitly_dropped_message_is_dropped_durably_1_3() -> None:
    """1.3, 1.5: NEW_STATE is a difference, so what the follower must forget is said, and in its log."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.drop(receiver=1)
    bench.deliver(0, 2, Accept)
    bench.drop()
    bench.down.add(2)
    bench[0].entries[m.id].phase = START  # p0 never heard its own ACCEPT
    bench.elect(1)
    bench.down.clear()
    bench.step(2, 1, NewLeader(bench[1].cballot, 0))
    bench.run()
    assert bench.records(2, Installed)[-1].dropped == (m.id,)
    assert m.id not in {e.id for e in bench.revived(2).uncommitted()}


def test_new_state_is_installed_only_when_all_pieces_came() -> None:
    """1.5: pieces are installed together or not at all."""
    bench = Bench(3, chunk_entries=1)
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2 or isinstance(m, Deliver))
    bench.queue.clear()
    bench.nominate(1)
    bench.deliver(kind=NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    first, second, third = bench.in_flight(NewState, 1, 2)
    bench.step(2, 1, third)
    bench.step(2, 1, first)
    bench.step(2, 1, first)
    assert bench[2].role == "recovering"
    assert not bench.records(2, Installed)
    bench.step(2, 1, second)
    assert bench[2].role == "follower"
    assert len(bench[2].uncommitted()) == 3


# -- lines 63-70 ------------------------------------------------------------------------------------------------------


def test_leader_leads_only_once_a_quorum_has_its_state_lines_63_65() -> None:
    """Line 63, Invariant 5: "before the new leader starts multicast, it must bring a quorum in sync"."""
    bench = Bench(3)
    bench.nominate(1)
    bench.run(unless=lambda s, r, message: isinstance(message, NewStateAck))
    assert bench[1].role == "recovering"
    bench.submit(unit(1, 0), 1)
    assert not bench.in_flight(Accept)
    bench.deliver(2, 1, NewStateAck)
    assert bench[1].role == "leader"
    assert bench.noted(1, Leading) == [Leading(0, ballot(1, 1))]


def test_new_leader_brings_followers_what_they_missed_lines_66_68() -> None:
    """Lines 66-68, 1.4: only above each follower's mark, which NEWSTATE_ACK reports."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run()
    bench.submit(unit(2, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2 and isinstance(m, Deliver))
    bench.drop()
    bench.crash(0)
    bench.elect(1)
    assert bench.order(2) == [1, 2]
    assert [d.gts for d in bench.delivered[2]] == [ts(1), ts(2)]


def test_new_leader_retries_everything_accepted_at_once_1_4() -> None:
    """1.4: at once on becoming leader, to all members, because it cannot know who leads elsewhere."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.deliver(kind=Accept)
    bench.queue.clear()
    bench.crash(0)
    bench.nominate(1)
    bench.run(unless=lambda s, receiver, message: receiver >= 3)
    assert [receiver for _, receiver, message in bench.queue if isinstance(message, Retry)] == [3, 4, 5]


def test_group_of_one_elects_itself() -> None:
    """2f + 1 with f = 0: the quorum is the process itself."""
    bench = Bench(1)
    bench.submit(unit(1, 0))
    bench.crash(0)
    bench.restart(0)
    bench.elect(0)
    bench.submit(unit(2, 0))
    assert bench[0].role == "leader"
    assert bench.order(0)[-1] == 2
