"""Rejoining: a member that lost its disk has no vote until it is restored, and is restored safely.

The schedules in which each rule is needed are scenarios: `tests/scenarios/rejoin_*` and `disk_lost*`.
"""

from __future__ import annotations

from tests.protocols.whitebox.harness import Bench, unit

from braidcast.core.application import Connected
from braidcast.core.ballots import ballot
from braidcast.protocols.whitebox import WhiteBox
from braidcast.protocols.whitebox.messages import (
    Beat,
    Forgot,
    Installed,
    NewLeader,
    NewLeaderAck,
    NewState,
    PreVote,
    Promised,
    Rejoin,
    Rejoined,
    StateRegained,
    Suspect,
)


def lose_disk(bench: Bench, pid: int, life: int = 7) -> WhiteBox:
    """`pid` comes back with an empty disk, and an operator said so."""
    bench.crash(pid)
    bench.logs[pid].clear()
    bench.delivered[pid].clear()
    bench.down.discard(pid)
    process = bench._create(pid)
    process.rejoin(life)
    process.start()
    bench._carry_out(pid)
    return process


def test_member_without_its_disk_says_so_to_whoever_it_connects_to_and_to_every_heartbeat() -> None:
    bench = Bench(3)
    lose_disk(bench, 1)
    assert bench.records(1, Forgot) == [Forgot(7)]
    bench.step(1, 1, Connected(2))
    assert bench.in_flight(Rejoin, 1, 2) == [Rejoin(7)]
    bench.fire(0, Beat())
    bench.deliver(0, 1)
    assert bench.in_flight(Rejoin, 1, 0) == [Rejoin(7)]


def test_member_without_its_disk_neither_votes_nor_stands_nor_acknowledges() -> None:
    bench = Bench(3)
    lose_disk(bench, 1)
    assert bench[1].role == "rejoining"
    bench.step(1, 2, NewLeader(ballot(1, 2), 0))
    bench.step(1, 2, PreVote(ballot(1, 2), 0))
    bench.fire(1, Suspect())
    bench.submit(unit(1, 0))
    bench.deliver(0, 1)
    assert not [flight for flight in bench.queue if flight[0] == 1]
    assert not bench.records(1, Promised)
    assert bench.refused(1, "vote of a member that lost its disk") == 2


def test_group_of_three_goes_on_with_two_and_restores_the_third_with_all_it_had() -> None:
    bench = Bench(3)
    for seq in (1, 2):
        bench.submit(unit(seq, 0))
    bench.run()
    lose_disk(bench, 1)
    bench.submit(unit(3, 0))
    bench.run()
    assert bench.order(0) == [1, 2, 3]
    assert bench.order(1) == []
    bench.beat(0)
    bench.beat(0)
    assert bench[0].ballot == ballot(1, 0)
    assert bench[1].role == "follower"
    assert bench.order(1) == [1, 2, 3]
    assert bench.noted(1, StateRegained) == [StateRegained(0, ballot(1, 0), 0)]


def test_leader_begins_a_ballot_after_it_heard_of_the_loss_and_once_only() -> None:
    bench = Bench(3)
    lose_disk(bench, 1)
    bench.step(0, 1, Rejoin(7))
    bench.step(0, 1, Rejoin(7))
    assert bench[0].ballot == ballot(1, 0)
    bench.run()
    bench.step(0, 1, Rejoin(7))
    assert bench[0].ballot == ballot(1, 0)
    assert bench.in_flight(NewState, 0, 1)  # again, as its first answer may have been lost


def test_leader_waits_for_the_votes_of_all_others_in_a_group_of_five() -> None:
    bench = Bench(5)
    lose_disk(bench, 1)
    bench.step(0, 1, Rejoin(7))
    bench.run(unless=lambda sender, receiver, message: receiver == 4)
    assert bench[0].role == "leader"
    assert bench[1].role == "rejoining"
    bench.run()
    assert bench[1].role == "follower"


def test_leader_begins_no_ballot_while_another_member_is_not_heard() -> None:
    bench = Bench(3)
    lose_disk(bench, 1)
    bench.now = 10_000
    bench[0].acked_at[2] = 0
    bench.step(0, 1, Rejoin(7))
    assert bench[0].role == "leader"
    assert bench[0].ballot == ballot(0, 0)


def test_state_for_another_life_is_refused() -> None:
    bench = Bench(3)
    lose_disk(bench, 1)
    bench.step(1, 0, NewState(ballot(1, 0), 1, 0, 1, 0, (), (), 0, (), 0, life=6))
    bench.step(1, 0, NewState(ballot(1, 0), 1, 0, 1, 0, (), (), 0, (), 0))
    assert bench[1].role == "rejoining"
    assert bench.refused(1, "state without a vote") == 2
    bench.step(1, 0, NewState(ballot(1, 0), 1, 0, 1, 0, (), (), 0, (), 0, life=7))
    assert bench[1].role == "follower"
    assert bench.records(1, Installed)
    assert bench.records(1, Rejoined) == [Rejoined(0)]


def test_restored_member_votes_when_it_has_delivered_what_its_leader_had_collected() -> None:
    bench = Bench(3)
    lose_disk(bench, 1)
    bench.step(1, 0, NewState(ballot(1, 0), 1, 0, 1, 5, (), (), 0, (), 2048, life=7))
    assert bench[1].status == "follower"
    assert bench[1].role == "rejoining"
    bench.step(1, 2, NewLeader(ballot(2, 2), 4096))
    assert not bench.in_flight(NewLeaderAck, 1)


def test_restart_before_the_restoration_changes_nothing() -> None:
    bench = Bench(3)
    lose_disk(bench, 1)
    bench.restart(1)
    assert bench[1].role == "rejoining"
    bench.beat(0)
    bench.beat(0)
    assert bench[1].role == "follower"
    bench.restart(1)
    assert bench[1].role == "follower"


def test_two_of_five_that_lost_their_disks_are_restored_by_the_other_three() -> None:
    bench = Bench(5)
    bench.submit(unit(1, 0))
    bench.run()
    lose_disk(bench, 1, life=7)
    lose_disk(bench, 2, life=8)
    for _ in range(3):
        bench.beat(0)
    assert [bench[p].role for p in range(5)] == ["leader"] + ["follower"] * 4
    assert [bench.order(p) for p in (1, 2)] == [[1], [1]]
    assert {type(record) for record in bench.logs[2][:1]} == {Forgot}
    assert bench.in_flight(Rejoin) == []
