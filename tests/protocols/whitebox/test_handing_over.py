"""Planned hand-over: who is asked, who obeys, and that the group waits for a few hops and for no time-out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.protocols.whitebox.harness import CLIENT, Bench, ts, unit

from braidcast.cli.registry import WHITEBOX
from braidcast.core.application import Delivered, HandOver
from braidcast.core.ballots import ballot
from braidcast.core.process import Standing
from braidcast.protocols.whitebox.messages import HeartbeatAck, NewLeader, PreVote, TakeOver, TookOver
from braidcast.simulator.scenario_text import parse_scenario
from braidcast.simulator.scenarios import run_scenario

HOP = 10
SUSPECT = 20 * HOP
"""What `paced 10` makes of it."""


def hand_over(bench: Bench, pid: int, to: int | None = None) -> None:
    """An operator says so, and everything that follows happens."""
    bench.step(pid, pid, HandOver(to))
    bench.run()


def test_another_leads_without_suspicion_or_prevote() -> None:
    bench = Bench(3, prevote=True)
    bench.step(0, 0, HandOver())
    assert bench[0].role == "leader"
    assert bench.in_flight(TakeOver) == [TakeOver(ballot(0, 0))]
    bench.deliver(kind=TakeOver)
    assert bench.in_flight(NewLeader, 1, 0)
    assert not bench.in_flight(PreVote)
    assert bench[0].role == "leader", "until the other's ballot reaches it"
    bench.run()
    assert [bench[p].role for p in (0, 1, 2)] == ["follower", "leader", "follower"]
    assert bench.noted(1, TookOver) == [TookOver(0, ballot(1, 1))]


def test_the_follower_whose_application_is_furthest_is_asked() -> None:
    bench = Bench(3)
    bench.step(0, 1, HeartbeatAck(ballot(0, 0), ts(3)))
    bench.step(0, 2, HeartbeatAck(ballot(0, 0), ts(4)))
    bench.step(0, 0, HandOver())
    assert bench.in_flight(TakeOver, 0, 2)
    assert not bench.in_flight(TakeOver, 0, 1)


def test_an_operator_names_who_is_to_lead() -> None:
    bench = Bench(3)
    hand_over(bench, 0, 2)
    assert bench[2].role == "leader"


@pytest.mark.parametrize("to", [0, 7, CLIENT])
def test_nobody_is_asked_who_is_no_other_member(to: int) -> None:
    bench = Bench(3)
    hand_over(bench, 0, to)
    assert bench.refused(0, "nobody to hand over to") == 1
    assert bench[0].role == "leader"


def test_a_follower_that_was_not_heard_for_two_heartbeats_is_not_asked() -> None:
    bench = Bench(3)
    bench.now = 2 * bench.options.heartbeat_ticks + 1
    bench.step(0, 2, HeartbeatAck(ballot(0, 0), 0))
    bench.step(0, 0, HandOver(1))
    assert bench.refused(0, "nobody to hand over to") == 1
    hand_over(bench, 0)
    assert bench[2].role == "leader"


def test_a_member_that_lost_its_disk_is_not_asked() -> None:
    bench = Bench(3)
    bench[0].forgetful[1] = 7, ballot(0, 0)
    hand_over(bench, 0)
    assert bench[2].role == "leader"


def test_a_group_of_one_has_nobody_to_hand_over_to() -> None:
    bench = Bench(1)
    hand_over(bench, 0)
    assert bench.refused(0, "nobody to hand over to") == 1


def test_the_word_comes_from_the_driver_and_means_the_leader() -> None:
    bench = Bench(3)
    bench.step(0, 1, HandOver())
    bench.step(0, CLIENT, HandOver())
    bench.step(1, 1, HandOver())
    assert bench.refused(0, "driver's word from another process") == 2
    assert bench.refused(1, "hand-over by another than the leader") == 1
    assert not bench.queue


def test_only_the_leader_of_the_present_ballot_is_obeyed_and_only_by_a_follower() -> None:
    bench = Bench(3)
    for sender, b in ((2, ballot(0, 0)), (CLIENT, ballot(0, CLIENT)), (0, ballot(1, 2))):
        bench.step(1, sender, TakeOver(b))
    assert bench.refused(1, "take-over from another than the leader") == 3
    bench.step(1, 0, TakeOver(ballot(1, 0)))
    hand_over(bench, 0, 2)
    bench.step(1, 0, TakeOver(ballot(0, 0)))
    assert bench.refused(1, "take-over by another than a follower") == 2
    assert [bench[p].role for p in (0, 1, 2)] == ["follower", "follower", "leader"]


def test_a_second_word_during_the_vote_changes_nothing() -> None:
    bench = Bench(3)
    bench.step(0, 0, HandOver(1))
    bench.step(0, 0, HandOver(1))
    bench.run()
    assert bench.refused(1, "take-over by another than a follower") == 1
    assert bench[1].cballot == ballot(1, 1)


def test_what_was_proposed_meanwhile_is_proposed_again_in_its_order() -> None:
    bench = Bench(3)
    bench.step(0, 0, HandOver(1))
    bench.deliver(kind=TakeOver)
    bench.submit(unit(1, 0), 0)
    bench.submit(unit(2, 0), 0)
    bench.run()
    assert [bench.order(p) for p in (0, 1, 2)] == [[1, 2]] * 3


def test_where_a_process_stands() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run()
    bench.step(0, 1, HeartbeatAck(ballot(0, 0), ts(1)))
    assert bench[0].standing == Standing(0, 0, 0, ts(1), ts(1), ((1, ts(1)), (2, 0)))
    bench.beat(0)
    assert bench[1].standing == Standing(0, 0, 0, ts(1), ts(1))
    bench.now += bench.options.suspect_ticks + 1
    bench.out(1).now = bench.now
    assert bench[1].standing.leader is None, "it has not heard of it for too long"
    bench.nominate(1)
    assert bench[1].standing == Standing(None, 0, ballot(1, 1), ts(1), ts(1))


def test_who_has_sent_its_state_is_followed_from_its_first_heartbeat_on() -> None:
    bench = Bench(3)
    bench.beat(0)
    bench.now += 10
    hand_over(bench, 0, 1)
    assert bench[0].role == "follower"
    assert bench[0].standing.leader is None
    bench.now += 10
    bench.beat(1)
    assert bench[0].standing.leader == 1


def test_a_new_cluster_continues_above_all_that_was_ordered_and_refuses_old_sessions() -> None:
    bench = Bench(3)
    for pid in (0, 1, 2):
        bench.logs[pid] = list(bench[pid].continuing(ts(5), ts(1000), session=7))
        bench.restart(pid, applied=ts(5))
        assert bench[pid].can_resume(ts(5))
    assert bench[0].role == "follower", "nobody leads ballot 1 either"
    bench.elect(2)
    bench.submit(unit(1, 0, session=6), 2)
    bench.submit(unit(1, 0, session=7), 2)
    bench.run()
    assert bench.refused(2, "multicast: expired session") == 1
    deliveries = [d for d in bench.delivered[1] if isinstance(d, Delivered)]
    assert [(d.multicast.id.session, d.gts > ts(1000)) for d in deliveries] == [(7, True)]


def rolling_restart(*, handing_over: bool) -> int:
    """Three machines with a replica of each of two groups, restarted one after the other under a steady load: the
    longest time for which a group delivered nothing."""
    lines = ["protocol whitebox", "paced 10", "topology 2x3", "delta 10", "delay default 10", "grace 40000"]
    for number in range(480):
        dest = ("0", "1", "0 1")[number % 3]
        lines.append(f"at {100 + 5 * number} client{number + 1} multicasts m{number} to {dest} via all")
    for machine, at in enumerate((600, 1200, 1800)):
        for pid in (machine, 3 + machine):
            if handing_over:
                lines.append(f"at {at} hand over {pid}")
            lines.append(f"at {at + 8 * HOP} crash {pid} for 100")
    lines += ["expect no violations", "expect quiescent"]
    outcome = run_scenario(parse_scenario("\n".join(lines)), WHITEBOX)
    assert not outcome.unmet
    longest = 0
    for group in (0, 1):
        times = sorted({row.at for row in outcome.rows if row.group == group and row.at <= 2500})
        longest = max(longest, *[later - earlier for earlier, later in pairwise(times)])
    return longest


def test_a_rolling_restart_with_hand_over_has_no_gap_like_a_suspicion() -> None:
    """The gap is five hops of election and what a message takes then; without, it is one to two time-outs."""
    assert rolling_restart(handing_over=True) < SUSPECT // 2
    assert rolling_restart(handing_over=False) > SUSPECT
