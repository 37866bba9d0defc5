"""Inputs, timers, clocks, pauses, the cost of the CPU; the application above."""

from __future__ import annotations

import pickle
from typing import Any

from tests.simulator.toys import (
    LISTENER,
    STORE,
    Ask,
    Numbered,
    Tick,
    gts_applied,
    listener,
    say,
    simulation,
    store,
)  # fmt: skip

from braidcast.core.application import Restored
from braidcast.core.client import Multicast
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.clocks import Clock, ClockPlan
from braidcast.simulator.delays import Constant
from braidcast.simulator.load import ClientPlan, Submission
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.run import Simulation

FAST = NetworkPlan(delay=Constant(1), reconnect=Constant(1))
STEADY = NetworkPlan(delay=Constant(10))


def set_timer(run: Simulation, pid: int, name: str, after: int | None, spread: int = 0) -> None:
    node = run.nodes[pid]
    if after is None:
        node.out.cancel_timer(Tick(name))
    else:
        node.out.set_timer(Tick(name), after, spread)
    node.release()


def fired(run: Simulation, pid: int = 0) -> list[tuple[int, str]]:
    return [(at, name) for at, _, name in listener(run, pid).ticks]


def test_timers_fire_when_due_and_an_equal_one_replaces_the_pending_one_later_or_earlier() -> None:
    run = simulation(LISTENER, "1")
    for name, after in (("a", 10), ("later", 10), ("earlier", 40)):
        set_timer(run, 0, name, after)
    run.world.call(5, set_timer, run, 0, "later", 20)
    run.world.call(5, set_timer, run, 0, "earlier", 3)
    run.world.run()
    assert fired(run) == [(8, "earlier"), (10, "a"), (25, "later")]


def test_a_cancelled_timer_does_not_fire_and_can_be_set_again() -> None:
    run = simulation(LISTENER, "1")
    set_timer(run, 0, "a", 10)
    run.world.call(5, set_timer, run, 0, "a", None)
    run.world.call(6, set_timer, run, 0, "a", 30)
    run.world.run()
    assert fired(run) == [(36, "a")]


def test_the_spread_of_a_timer_is_drawn_within_its_bounds() -> None:
    times = set()
    for seed in range(40):
        run = simulation(LISTENER, "1", seed=seed)
        set_timer(run, 0, "a", 10, spread=5)
        run.world.run()
        times.add(fired(run)[0][0])
    assert times == set(range(10, 16))


def test_a_crash_voids_timers_and_a_restart_begins_a_new_incarnation() -> None:
    run = simulation(LISTENER, "1")
    set_timer(run, 0, "a", 10)
    run.world.call(5, run.nodes[0].crash)
    run.world.call(6, run.nodes[0].restart)
    run.world.run()
    assert fired(run) == []
    assert run.nodes[0].incarnation == 1


def test_a_paused_node_handles_inputs_in_order_and_timers_late_when_it_resumes() -> None:
    run = simulation(LISTENER, "2", network=STEADY)
    set_timer(run, 1, "a", 12)
    say(run, 0, 1, Numbered(1), Numbered(2))
    run.world.call(5, run.nodes[1].pause)
    run.world.call(100, run.nodes[1].resume)
    run.world.run()
    assert listener(run, 1).heard == [(100, 0, 1), (100, 0, 2)]
    assert fired(run, 1) == [(100, "a")]


def test_a_timer_that_ran_out_during_a_pause_can_still_be_cancelled_by_what_was_waiting() -> None:
    run = simulation(LISTENER, "1")
    set_timer(run, 0, "a", 12)
    run.world.call(5, run.nodes[0].pause)
    run.world.call(50, set_timer, run, 0, "a", None)
    run.world.call(100, run.nodes[0].resume)
    run.world.run()
    assert fired(run) == []


def test_inputs_wait_for_the_cpu_one_after_another() -> None:
    run = simulation(LISTENER, "2", network=STEADY, cpu=7)
    say(run, 0, 1, *(Numbered(n) for n in range(3)))
    run.world.run()
    assert [at for at, _, _ in listener(run, 1).heard] == [17, 24, 31]


def test_a_crash_loses_inputs_that_wait_for_the_cpu() -> None:
    run = simulation(LISTENER, "2", network=STEADY, cpu=7)
    say(run, 0, 1, *(Numbered(n) for n in range(3)))
    run.world.call(18, run.nodes[1].crash)
    run.world.call(19, run.nodes[1].restart)
    run.world.run()
    assert listener(run, 1).heard == []


def test_wall_clocks_are_off_drift_and_step_back_while_monotonic_time_is_shared() -> None:
    run = simulation(LISTENER, "2", clocks=ClockPlan({1: 1000}, {1: 100_000}))
    for pid in (0, 1):
        for name, after in (("a", 100), ("b", 300)):
            set_timer(run, pid, name, after)
    clock = run.nodes[1].clock
    assert isinstance(clock, Clock)
    run.world.call(200, clock.step, -700)
    run.world.run()
    assert [(at, wall) for at, wall, _ in listener(run, 0).ticks] == [(100, 100), (300, 300)]
    assert [(at, wall) for at, wall, _ in listener(run, 1).ticks] == [(100, 1110), (300, 630)]


def stores(**settings: Any) -> Simulation:
    load = tuple(Submission(at, 1000, (0,)) for at in range(0, 40, 4))
    return simulation(STORE, "1", network=FAST, load=load, clients=ClientPlan(timeout=50), **settings)


def test_an_atomic_application_loses_nothing_and_sees_nothing_twice() -> None:
    run = stores()
    run.world.call(20, run.nodes[0].crash)
    run.world.call(22, run.nodes[0].restart)
    run.finish()
    assert gts_applied(run) == list(range(1, 11))
    assert run.result().counters["delivered_again"] == 0


def test_a_lagging_application_loses_effects_and_gets_them_again_exactly_once_and_in_order() -> None:
    run = stores(application=ApplicationPlan(lag=10))
    run.world.call(20, run.nodes[0].crash)
    run.world.run(20)
    durable = gts_applied(run)
    assert durable == [1, 2, 3]
    assert run.nodes[0].application.seen == 3
    run.world.call(22, run.nodes[0].restart)
    run.finish()
    assert gts_applied(run) == list(range(1, 11))
    assert run.result().counters["delivered_again"] == 2


def test_the_process_knows_how_far_the_durable_effects_of_the_application_reach() -> None:
    run = stores(application=ApplicationPlan(lag=10))
    run.world.run(10)
    assert (gts_applied(run), run.nodes[0].out.applied) == ([1, 2, 3], 0)
    run.world.run(11)
    assert run.nodes[0].out.applied == 3


def test_a_lagging_application_can_flush_every_few_deliveries() -> None:
    run = stores(application=ApplicationPlan(lag=10_000, every=4))
    run.world.run(26)
    assert (gts_applied(run)[-1], run.nodes[0].out.applied) == (7, 4)


def test_a_wanted_snapshot_is_the_state_at_its_place_in_the_order_even_if_it_takes_long() -> None:
    run = stores(application=ApplicationPlan(snapshot=15))
    run.world.call(10, run.nodes[0].receive, 1000, Ask())
    run.finish()
    (snapshot,) = store(run).snapshots
    assert snapshot.gts == 3
    assert [delivery.gts for delivery in pickle.loads(snapshot.state)] == [1, 2, 3]


def test_restored_replaces_the_state_of_the_application_and_moves_its_mark() -> None:
    run = stores()
    run.finish()
    other = simulation(STORE, "1")
    other.nodes[0].receive(0, Restored(17, run.nodes[0].application.state()))
    assert gts_applied(other) == gts_applied(run)
    assert other.nodes[0].out.applied == 17
    assert other.nodes[0].application.mark == 17


def test_what_a_down_node_is_sent_is_lost() -> None:
    run = simulation(LISTENER, "2", network=STEADY)
    run.nodes[1].crash()
    say(run, 0, 1, Numbered(1))
    run.world.run()
    assert run.network.lost == 1


def test_a_multicast_is_unknown_to_a_listener_and_counted_as_refused() -> None:
    run = simulation(LISTENER, "1", load=(Submission(0, 1000, (0,)),))
    run.world.run(50)
    assert run.result().refused == {"no handler": 1}
    assert isinstance(run.clients[1000].submitted[0], Multicast)
