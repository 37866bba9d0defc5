"""The order of events, and when the loop stops."""

from __future__ import annotations

import gc

from braidcast.simulator.world import World


def test_events_of_one_tick_happen_in_the_order_of_scheduling() -> None:
    world, seen = World(), list[str]()
    world.call(5, seen.append, "later")
    world.call(3, seen.append, "a")
    world.call(3, lambda: world.call(3, seen.append, "scheduled meanwhile"))
    world.call(3, seen.append, "b")
    world.run()
    assert seen == ["a", "b", "scheduled meanwhile", "later"]
    assert world.now == 5


def test_run_stops_after_the_tick_it_is_given() -> None:
    world, seen = World(), list[int]()
    for when in (1, 2, 3):
        world.call(when, seen.append, when)
    world.run(until=2)
    assert seen == [1, 2]


def test_a_tick_that_feeds_itself_for_ever_comes_by_the_limit() -> None:
    world = World()

    def again() -> None:
        world.call(world.now, again)

    world.call(1, again)
    world.run(events_max=1000)
    assert (world.now, world.events) == (1, 1000)


def test_stop_ends_the_run_with_the_present_tick() -> None:
    world, seen = World(), list[str]()
    world.call(1, world.stop)
    world.call(1, seen.append, "same tick")
    world.call(2, seen.append, "next")
    world.run()
    assert seen == ["same tick"]


def test_the_collector_is_on_again_after_a_run_that_raised() -> None:
    world = World()
    world.call(1, [].pop)
    try:
        world.run()
    except IndexError:
        assert gc.isenabled()
