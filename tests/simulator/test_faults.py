"""Faults: who may be down at a time, what is drawn, and that everything is over in time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulator.toys import LISTENER, listener, simulation

from braidcast.cli.registry import WHITEBOX
from braidcast.core.topology import Topology
from braidcast.simulator.faults import Fault, FaultRates, draw_faults

MANY = FaultRates(
    end=5000, crashes=6, leader_crashes=6, group_crashes=2, total_crashes=2, breaks=6, partitions=3, one_ways=3,
    pauses=3, clock_steps=3, disk_losses=3, hand_overs=3,
)  # fmt: skip


def test_never_more_than_a_minority_of_a_group_crashes_unless_the_fault_says_so() -> None:
    run = simulation(LISTENER, "5", faults=tuple(Fault(10 + p, "crash", (p,), ticks=100) for p in range(5)))
    run.world.run(50)
    assert [pid for pid in run.nodes if not run.nodes[pid].up] == [0, 1]
    forced = simulation(LISTENER, "3", faults=(Fault(10, "crash_group", ticks=100),))
    forced.world.run(50)
    assert not any(node.up for node in forced.nodes.values())


def test_a_group_of_one_crashes_only_when_the_fault_is_about_groups() -> None:
    run = simulation(LISTENER, "1+3", faults=(Fault(10, "crash", (0,), ticks=9), Fault(20, "crash_all", ticks=9)))
    run.world.run(15)
    assert run.nodes[0].up
    run.world.run(25)
    assert not run.nodes[0].up
    run.world.run()
    assert run.nodes[0].up
    assert run.faults.counts == {"crash_all": 1}


def test_the_leader_of_the_moment_crashes() -> None:
    run = simulation(WHITEBOX, "2x3", faults=(Fault(10, "crash_leader", group=1, ticks=10_000_000),))
    run.world.run(10)
    assert not run.nodes[3].up
    run.world.run(5_000_000)
    assert run.faults.leader_of(1) in (4, 5)


def test_a_disk_is_lost_only_while_the_rest_of_its_group_remembers() -> None:
    losses = [Fault(at, "lose_disk", (pid,), ticks=50) for at, pid in ((10, 0), (20, 1), (30, 3), (90, 1), (5000, 1))]
    run = simulation(WHITEBOX, "3+1", faults=tuple(losses))
    run.world.run(40)
    assert [pid for pid in run.nodes if not run.nodes[pid].up] == [0]
    run.world.run(100)
    assert run.nodes[0].process.role == "rejoining"
    assert run.faults.counts == {"lose_disk": 1}


def test_drawn_faults_are_the_same_for_a_seed_and_all_over_in_time() -> None:
    topology = Topology.parse("2x3")
    drawn = draw_faults(MANY, topology, Random(3))
    assert drawn == draw_faults(MANY, topology, Random(3))
    assert all(fault.at + fault.ticks <= MANY.end for fault in drawn if fault.kind != "clock")
    assert len({fault.kind for fault in drawn}) == 11


def test_after_the_last_fault_everybody_is_up_connected_and_awake() -> None:
    for seed in range(10):
        run = simulation(LISTENER, "2x3", seed=seed, faults=replace(MANY, disk_losses=0))  # a listener cannot rejoin
        run.finish()
        run.world.run()
        assert run.faults.active == 0
        assert all(node.up and not node.paused for node in run.nodes.values())
        assert not run.network.blocked
        assert not run.network.broken


def test_without_rates_nothing_goes_wrong() -> None:
    assert draw_faults(FaultRates(), Topology.parse("3"), Random(1)) == ()


def test_both_ends_learn_of_the_session_after_a_restart() -> None:
    run = simulation(LISTENER, "2", faults=(Fault(10, "crash", (0,), ticks=50, forced=True),))
    run.world.run()
    assert listener(run, 0).sessions == [(80, 1)]
    assert listener(run, 1).sessions == [(80, 0)]
