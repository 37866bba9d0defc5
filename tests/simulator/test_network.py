"""Sessions: order, loss, reconnection, partitions."""

from __future__ import annotations

from tests.simulator.toys import LISTENER, Noise, Numbered, listener, say, simulation

from braidcast.simulator.delays import Constant, Uniform
from braidcast.simulator.network import NetworkPlan, Regions

RANDOM = NetworkPlan(delay=Uniform(1, 50))
STEADY = NetworkPlan(delay=Constant(10), reconnect=Constant(20))


def test_a_link_with_random_delays_is_first_in_first_out() -> None:
    run = simulation(LISTENER, "2", network=RANDOM)
    for n in range(200):
        run.world.call(n, say, run, 0, 1, Numbered(n))
    run.world.run()
    heard = listener(run, 1)
    assert heard.numbers == list(range(200))
    assert len({at - n for at, _, n in heard.heard}) > 5


def test_a_broken_session_loses_what_is_in_flight_both_ways_and_tells_both_ends_of_the_next() -> None:
    run = simulation(LISTENER, "2", network=STEADY)
    say(run, 0, 1, Numbered(1))
    say(run, 1, 0, Numbered(2))
    run.world.call(5, run.network.break_session, 0, 1)
    run.world.call(6, say, run, 0, 1, Numbered(3))
    run.world.call(26, say, run, 0, 1, Numbered(4))
    run.world.run()
    assert listener(run, 0).numbers == []
    assert listener(run, 1).numbers == [4]
    assert listener(run, 0).sessions == [(25, 1)]
    assert listener(run, 1).sessions == [(25, 0)]
    assert run.network.lost == 3


def test_with_stale_some_messages_of_a_broken_session_arrive_late_and_some_twice() -> None:
    run = simulation(LISTENER, "2", network=NetworkPlan(delay=Uniform(1, 50), reconnect=Constant(2), stale=0.5))
    say(run, 0, 1, *(Numbered(n) for n in range(200)))
    run.world.call(0, run.network.break_session, 0, 1)
    run.world.call(3, say, run, 0, 1, Numbered(1000))
    run.world.run()
    numbers = listener(run, 1).numbers
    old = [n for n in numbers if n < 1000]
    assert 60 < len(set(old)) < 140
    assert len(old) > len(set(old))
    assert numbers.index(1000) < len(numbers) - 1


def test_a_two_way_partition_loses_both_directions_until_it_heals_with_a_new_session() -> None:
    run = simulation(LISTENER, "3", network=STEADY)
    cut = run.faults.directions((0,), one_way=False)
    run.network.block(cut)
    for sender, to in ((0, 1), (1, 0), (1, 2)):
        say(run, sender, to, Numbered(1))
    run.world.call(50, run.network.unblock, cut)
    run.world.call(80, say, run, 0, 1, Numbered(2))
    run.world.run()
    assert listener(run, 1).numbers == [2]
    assert listener(run, 0).numbers == []
    assert listener(run, 2).numbers == [1]
    assert [peer for _, peer in listener(run, 0).sessions] == [1, 2]
    assert listener(run, 1).sessions == [(70, 0)]


def test_a_one_way_partition_loses_one_direction_only() -> None:
    run = simulation(LISTENER, "2", network=STEADY)
    run.network.block(run.faults.directions((0,), one_way=True))
    say(run, 0, 1, Numbered(1))
    say(run, 1, 0, Numbered(2))
    run.world.run()
    assert (listener(run, 0).numbers, listener(run, 1).numbers) == ([2], [])


def test_overlapping_partitions_heal_when_the_last_one_does() -> None:
    run = simulation(LISTENER, "2", network=STEADY)
    run.network.block([(0, 1)])
    run.network.block([(0, 1)])
    run.network.unblock([(0, 1)])
    say(run, 0, 1, Numbered(1))
    run.world.run()
    assert listener(run, 1).numbers == []


def test_a_kind_of_message_can_be_lost_at_a_rate_while_others_arrive() -> None:
    run = simulation(LISTENER, "2", network=NetworkPlan(delay=Constant(1), lose={"Numbered": 0.25}))
    say(run, 0, 1, *(Numbered(n) for n in range(1000)))
    say(run, 0, 1, *(Noise(n) for n in range(1000)))
    run.world.run()
    assert 200 < run.network.lost < 300
    assert len(listener(run, 1).numbers) == 1000 - run.network.lost


def test_a_crash_loses_what_is_under_way_to_the_victim_and_a_suffix_of_what_it_sent() -> None:
    arrived = set()
    for seed in range(20):
        run = simulation(LISTENER, "2", seed=seed, network=NetworkPlan(delay=Uniform(1, 50), reconnect=Constant(200)))
        for n in range(50):
            run.world.call(n, say, run, 0, 1, Numbered(n))
            run.world.call(n, say, run, 1, 0, Numbered(n))
        run.world.call(50, run.nodes[0].crash)
        run.world.call(51, run.nodes[0].restart)
        run.world.run()
        numbers = listener(run, 1).numbers
        assert numbers == list(range(len(numbers)))
        assert listener(run, 0).numbers == []
        arrived.add(len(numbers))
    assert len(arrived) > 5


def test_delays_between_regions_come_from_the_matrix_and_single_links_before_it() -> None:
    regions = Regions({0: 0, 1: 1, 2: 1}, ((Constant(1), Constant(100)), (Constant(70), Constant(2))))
    plan = NetworkPlan(regions=regions, links={(0, 2): Constant(5)})
    run = simulation(LISTENER, "3", network=plan)
    for sender, to in ((0, 1), (1, 0), (1, 2), (0, 2)):
        say(run, sender, to, Numbered(0))
    run.world.run()
    assert [at for at, _, _ in listener(run, 0).heard] == [70]
    assert [at for at, _, _ in listener(run, 1).heard] == [100]
    assert [at for at, _, _ in listener(run, 2).heard] == [2, 5]


def test_sending_to_nobody_known_is_ignored() -> None:
    run = simulation(LISTENER, "1")
    say(run, 0, 4711, Numbered(0))
    run.world.run()
    assert run.world.events == 0
