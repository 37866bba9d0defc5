"""Election (1.5): suspicion, PreVote, backing off, stepping down, stranded and late processes (B5)."""

from __future__ import annotations

from tests.protocols.whitebox.harness import CLIENT, Bench, unit

from braidcast.core.ballots import ballot
from braidcast.protocols.whitebox.messages import (
    Beat,
    CatchUp,
    Heartbeat,
    HeartbeatAck,
    Nack,
    NewLeader,
    NewLeaderAck,
    NewState,
    PreVote,
    PreVoteAck,
    Promised,
    SteppedDown,
    Suspect,
)


def voting(**options: int) -> Bench:
    """A group of three with PreVote."""
    return Bench(3, prevote=True, **options)


def test_first_member_leads_ballot_0_without_an_election() -> None:
    bench = Bench(3, 3)
    assert [bench[p].role for p in range(6)] == ["leader", "follower", "follower"] * 2
    assert not bench.queue


def test_follower_suspects_between_one_and_two_times_the_time_out() -> None:
    """1.5: uniform in [T, 2T]."""
    bench = Bench(3)
    assert bench.timers[1][Suspect()] == (200, 400)
    assert Suspect() not in bench.timers[0]


def test_heartbeat_puts_suspicion_off() -> None:
    bench = Bench(3)
    bench.now = 150
    bench.fire(0, Beat())
    bench.deliver(0, 1, Heartbeat)
    assert bench.timers[1][Suspect()] == (350, 550)


def test_prevote_disturbs_nobody() -> None:
    """1.5: PreVote changes no ballot and writes nothing."""
    bench = voting()
    bench.nominate(1)
    bench.deliver(kind=PreVote)
    assert bench[1].ballot == bench[2].ballot == ballot(0, 0)
    assert not bench.records(1, Promised)
    assert bench.timers[1][Suspect()][0] > bench.now


def test_prevote_is_denied_while_the_leader_is_heard() -> None:
    bench = voting()
    bench.beat(0)
    bench.now += bench.options.suspect_ticks
    bench.nominate(1)
    bench.deliver(1, 2, PreVote)
    bench.deliver(1, 0, PreVote)
    assert [ack.granted for ack in bench.in_flight(PreVoteAck)] == [False, False]
    bench.run()
    assert bench[0].role == "leader"


def test_prevote_is_granted_after_silence_and_leads_to_a_ballot() -> None:
    bench = voting()
    bench.beat(0)
    bench.crash(0)
    bench.now += bench.options.suspect_ticks + 1
    bench.elect(1)
    assert bench[1].role == "leader"
    assert bench[1].cballot == ballot(1, 1)


def test_prevote_of_the_present_leader_is_granted_by_a_follower_that_hears_it() -> None:
    """A leader that restarted asks to lead again: those who heard its former life do not hold that against it."""
    bench = voting()
    bench.beat(0)
    bench.restart(0)
    bench.elect(0)
    assert bench[0].role == "leader"
    assert bench[0].cballot == ballot(1, 0)


def test_prevote_is_denied_to_one_that_lacks_what_is_collected() -> None:
    """1.6: p2 would lead without messages that only a snapshot could bring it."""
    bench = voting(laggard_entries=1)
    bench.down.add(2)
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.beat(0)
    bench.beat(0)
    assert bench[1].collected
    bench.down.clear()
    bench.now += 1_000
    bench.nominate(2)
    bench.deliver(2, 1, PreVote)
    assert not bench.in_flight(PreVoteAck, 1, 2)[0].granted


def test_new_leader_is_nacked_when_it_lacks_what_is_collected() -> None:
    """The same without PreVote: safety must not depend on it."""
    bench = Bench(3, laggard_entries=1)
    bench.down.add(2)
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.beat(0)
    bench.beat(0)
    bench.down.clear()
    bench.nominate(2)
    bench.deliver(2, 1, NewLeader)
    assert bench.in_flight(Nack, 1, 2)
    assert bench[1].ballot == ballot(0, 0)


def test_answer_to_an_older_prevote_does_not_count() -> None:
    bench = voting()
    bench.crash(0)
    bench.nominate(1)
    bench.deliver(1, 2, PreVote)
    answer = bench.in_flight(PreVoteAck, 2, 1)[0]
    bench.step(1, 1, NewLeader(ballot(5, 1), 0))
    bench.step(1, 2, answer)
    assert bench.refused(1, "answer to another prevote") == 1


def test_grant_of_an_outsider_does_not_count() -> None:
    bench = voting()
    bench.nominate(1)
    bench.step(1, CLIENT, PreVoteAck(bench[1].prevote_ballot, True, 0))
    assert not bench.in_flight(NewLeader)


def test_backoff_doubles_with_every_failed_attempt() -> None:
    """1.5: and stays at thirty-two times."""
    bench = voting()
    waits = []
    for _ in range(6):
        bench.nominate(1)
        waits.append(bench.timers[1][Suspect()][0] - bench.now)
    assert waits == [400, 800, 1600, 3200, 6400, 6400]


def test_patience_stays_long_until_a_leadership_has_lasted() -> None:
    """A change of leadership that came from overload must not cause the next one."""
    bench = Bench(3)
    bench.elect(1)
    assert bench[2].patience() > bench.options.suspect_ticks
    bench.beat(1)
    assert bench[2].patience() > bench.options.suspect_ticks
    for _ in range(100):
        bench.now += bench.options.heartbeat_ticks
        bench.beat(1)
    assert [bench[p].patience() for p in range(3)] == [bench.options.suspect_ticks] * 3
    assert bench[1].role == "leader"


def test_heartbeat_ends_the_backoff() -> None:
    bench = voting()
    for _ in range(4):
        bench.nominate(1)
    bench.fire(0, Beat())
    bench.drop()
    bench.step(1, 0, Heartbeat(ballot(0, 0), 0, 0, ()))
    assert bench.timers[1][Suspect()] == (bench.now + 200, bench.now + 400)


def test_refused_candidate_aims_higher_the_next_time() -> None:
    """The answer to a PreVote says what the other has promised."""
    bench = voting()
    bench[2].ballot = bench[2].max_ballot = ballot(8, 2)
    bench.nominate(1)
    bench.deliver(1, 2, PreVote)
    bench.deliver(2, 1, PreVoteAck)
    assert bench[1].ballot == ballot(9, 1)


def test_leader_steps_down_without_a_quorum() -> None:
    """1.5: no answer for T, so it stops; it must ask for a new ballot to lead again."""
    bench = Bench(3)
    bench.now += bench.options.suspect_ticks + 1
    bench.fire(0, Beat())
    assert bench[0].role == "recovering"
    assert bench.noted(0, SteppedDown) == [SteppedDown(0, ballot(0, 0))]
    assert not bench.in_flight(Heartbeat)
    assert Suspect() in bench.timers[0]
    bench.elect(0)
    assert (bench[0].role, bench[0].cballot) == ("leader", ballot(1, 0))


def test_leader_with_a_quorum_goes_on_although_one_member_is_silent() -> None:
    bench = Bench(3)
    bench.crash(2)
    for _ in range(20):
        bench.now += bench.options.heartbeat_ticks
        bench.beat(0)
    assert bench[0].role == "leader"


def test_single_member_never_steps_down() -> None:
    bench = Bench(1)
    bench.now = 1_000_000
    bench.beat(0)
    assert bench[0].role == "leader"


def test_leader_goes_above_a_stranded_ballot_B5() -> None:
    """B5: p2 promised a ballot that nobody leads and ignores the leader's; its answer to a heartbeat says so."""
    bench = Bench(3)
    bench.nominate(2)
    bench.drop()
    bench.fire(0, Beat())
    bench.deliver(0, 2, Heartbeat)
    assert bench.in_flight(HeartbeatAck, 2, 0) == [HeartbeatAck(ballot(1, 2), 0)]
    bench.run()
    assert [bench[p].cballot for p in range(3)] == [ballot(2, 0)] * 3
    assert bench[0].role == "leader"


def test_process_that_missed_the_election_joins_late_B5() -> None:
    """B5: p2 hears a heartbeat of a ballot above its own and votes for it; the state comes as to any other voter."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    bench.down.add(2)
    bench.elect(1)
    bench.down.clear()
    bench.beat(1)
    assert bench[2].cballot == ballot(1, 1)
    assert bench.order(2) == [1]


def test_late_vote_is_sent_again_if_the_state_does_not_come() -> None:
    bench = Bench(3)
    bench.down.add(2)
    bench.elect(1)
    bench.down.clear()
    for _ in range(2):
        bench.fire(1, Beat())
        bench.deliver(1, 2, Heartbeat)
        assert len(bench.in_flight(NewLeaderAck, 2, 1)) == 1
        bench.drop()
    assert bench.records(2, Promised) == [Promised(ballot(1, 1))]


def test_late_vote_is_not_sent_again_while_pieces_of_the_state_arrive() -> None:
    bench = Bench(3, chunk_entries=1)
    bench.down.add(2)
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.elect(1)
    bench.down.clear()
    bench.fire(1, Beat())
    bench.deliver(1, 2, Heartbeat)
    bench.deliver(2, 1, NewLeaderAck)
    piece = bench.in_flight(NewState, 1, 2)[0]
    bench.drop()
    bench.step(2, 1, piece)
    bench.fire(1, Beat())
    bench.deliver(1, 2, Heartbeat)
    assert not bench.in_flight(NewLeaderAck)
    bench.fire(1, Beat())
    bench.deliver(1, 2, Heartbeat)
    assert len(bench.in_flight(NewLeaderAck)) == 1, "nothing came since the last heartbeat"


def test_deposed_leader_learns_of_the_new_ballot_from_a_heartbeat() -> None:
    bench = Bench(3)
    bench.down.add(0)
    bench.elect(1)
    bench.down.clear()
    bench.beat(1)
    assert [bench[p].role for p in range(3)] == ["follower", "leader", "follower"]


def test_heartbeat_shows_a_follower_what_it_missed() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    bench.fire(0, Beat())
    bench.deliver(0, 2, Heartbeat)
    assert len(bench.in_flight(CatchUp, 2, 0)) == 1
    bench.run()
    assert bench.order(2) == [1]


def test_leader_ignores_its_own_suspicion_and_a_follower_an_old_beat() -> None:
    bench = Bench(3)
    bench.fire(0, Suspect())
    bench.fire(1, Beat())
    assert not bench.queue
    assert bench[0].role == "leader"


def test_heartbeats_come_with_jitter() -> None:
    """So that leaders of several groups do not retry in step."""
    bench = Bench(3)
    bench.fire(0, Beat())
    assert bench.timers[0][Beat()] == (40, 50)
