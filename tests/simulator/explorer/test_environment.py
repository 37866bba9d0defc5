"""What the environment may do: budgets of timers, crashes, stops, lost sessions, submissions, clock steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from braidcast.core.application import Connected, Restored, Snapshot, SnapshotWanted
from braidcast.core.client import Multicast
from braidcast.core.errors import OptionError
from braidcast.core.message import message
from braidcast.core.process import Outbox, Process
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Pid, Topology
from braidcast.simulator.explorer import Report, Setup, explore, submit


@dataclass(frozen=True)
class Options:
    """None."""


@message
class Copy:
    """To all others: what a client sent."""

    body: bytes


@message
class Tick:
    """Timer."""


@message
class Written:
    """Record."""

    body: bytes


@message
class Got:
    """Delivery."""

    what: str


class Parrot(Process):
    """Repeats everything to everybody, remembers on disk what clients sent, and tells what happens to it."""

    __slots__ = ("bodies", "topology")

    def __init__(self, out: Outbox, topology: Topology, options: Options) -> None:
        super().__init__(out)
        self.topology = topology
        self.bodies: list[bytes] = []

    def start(self, applied: int = 0) -> None:
        self.set_timer(Tick(), 10)
        if self.bodies:
            self.deliver(Got(f"kept {len(self.bodies)}"))

    def on_multicast(self, sender: Pid, m: Multicast) -> None:
        self.bodies.append(m.payload)
        self.persist(Written(m.payload))
        self.send(self.topology.pids, Copy(m.payload))

    def redo_written(self, r: Written) -> None:
        self.bodies.append(r.body)

    def on_copy(self, sender: Pid, c: Copy) -> None:
        self.deliver(Got(f"{c.body.decode()} from {sender}"))

    def on_tick(self, sender: Pid, t: Tick) -> None:
        self.deliver(Got(f"tick at {self.out.wall}"))

    def on_connected(self, sender: Pid, c: Connected) -> None:
        self.deliver(Got(f"connected to {c.peer}"))


class Photographer(Parrot):
    """Takes a snapshot of the application when something comes, and restores it at once."""

    __slots__ = ()

    def on_copy(self, sender: Pid, c: Copy) -> None:
        self.deliver(Got("before"))
        self.deliver(SnapshotWanted(1))
        self.deliver(Got("after"))

    def on_snapshot(self, sender: Pid, s: Snapshot) -> None:
        self.deliver(Restored(s.gts, s.state))


def protocol(make: Callable[..., Process] = Parrot) -> Protocol:
    return Protocol("parrot", "for tests", make, Options, suspicion=Tick)


PAIR = Topology.of_sizes(2)


def outcomes(setup: Setup) -> set[tuple[tuple[str, ...], ...]]:
    report: Report = explore(setup, invariants=[])
    assert report.exhausted
    bounded = explore(setup, invariants=[], delays=12)
    assert set(bounded.terminal) == set(report.terminal), "with delays enough both searches find the same"
    return {tuple(tuple(got.what for got in log) for log in outcome) for outcome in report.terminal}


def to_first(count: int, **budgets: Any) -> Setup:
    submissions = tuple(s for s in submit(PAIR, count) if s.to == 0)
    return Setup(protocol(), PAIR, submissions=submissions, **budgets)


def test_nothing_fires_and_nobody_crashes_unless_asked_for() -> None:
    assert outcomes(to_first(1)) == {(("m1 from 0",), ("m1 from 0",))}


def test_channels_are_fifo_and_clients_are_independent() -> None:
    assert outcomes(to_first(2)) == {
        (("m1 from 0", "m2 from 0"), ("m1 from 0", "m2 from 0")),
        (("m2 from 0", "m1 from 0"), ("m2 from 0", "m1 from 0")),
    }


def test_an_election_is_one_suspicion_at_any_moment_at_any_process() -> None:
    tick = "tick at 1000000000"
    assert outcomes(to_first(1, elections=1)) == {
        (("m1 from 0",), ("m1 from 0",)),
        ((tick, "m1 from 0"), ("m1 from 0",)),
        (("m1 from 0", tick), ("m1 from 0",)),
        (("m1 from 0",), (tick, "m1 from 0")),
        (("m1 from 0",), ("m1 from 0", tick)),
    }


def test_a_protocol_without_suspicion_has_no_elections() -> None:
    leaderless = Protocol("parrot", "for tests", Parrot, Options)
    with pytest.raises(OptionError, match="no elections"):
        explore(Setup(leaderless, PAIR, elections=1))


def test_a_timer_without_limit_must_fire_before_a_state_is_final() -> None:
    found = outcomes(to_first(1, timers={"Tick": None}))
    assert all(sum("tick" in got for got in log) == 1 for outcome in found for log in outcome)


def test_a_crash_loses_what_is_in_flight_to_the_victim_and_keeps_its_records() -> None:
    found = outcomes(to_first(1, crashes=1))
    assert ((), ()) in found, "the client's copy is lost"
    assert (("m1 from 0",), ()) in found, "the copy to the other is lost"
    assert (("m1 from 0", "kept 1"), ("m1 from 0",)) in found, "what the victim sent stays in flight"
    assert len(found) == 4


def test_a_process_that_stops_gets_nothing_any_more() -> None:
    found = outcomes(to_first(1, stops=1))
    assert found == {((), ()), (("m1 from 0",), ()), (("m1 from 0",), ("m1 from 0",))}


def test_a_lost_session_loses_what_is_in_flight_on_it() -> None:
    assert outcomes(to_first(1, losses=1)) == {(("m1 from 0",), ()), (("m1 from 0",), ("m1 from 0",))}


def test_both_ends_hear_of_a_new_session_if_asked_for() -> None:
    found = outcomes(to_first(1, losses=1, connected=True))
    assert (("m1 from 0", "connected to 1"), ("connected to 0",)) in found
    assert (("connected to 1", "m1 from 0"), ("connected to 0", "m1 from 0")) in found
    assert (("connected to 1", "m1 from 0"), ("m1 from 0", "connected to 0")) not in found, "it comes first"


def test_a_client_may_submit_again() -> None:
    found = outcomes(to_first(1, crashes=1, resubmissions=1))
    assert (("m1 from 0", "kept 1", "m1 from 0"), ("m1 from 0", "m1 from 0")) in found


def test_wall_clocks_go_through_their_readings() -> None:
    found = outcomes(Setup(protocol(), PAIR, timers={"Tick": 1}, walls={0: (20, 10)}))
    assert found == {
        ((), ()),
        (("tick at 20",), ()),
        (("tick at 10",), ()),
        ((), ("tick at 1000000000",)),
    }


def test_a_snapshot_is_the_state_at_its_place_among_the_deliveries() -> None:
    setup = Setup(protocol(Photographer), PAIR, submissions=submit(PAIR, [(0,)])[:1])
    report = explore(setup, invariants=[])
    assert {outcome[1] for outcome in report.terminal} == {(Got("before"),)}


class NothingDelivered:
    """A property that is false."""

    name = "nothing delivered"
    at_end = False

    def observe(self, process: Process, log: tuple[Any, ...]) -> int:
        return len(log)

    def judge(self, seen: Mapping[Pid, int], stopped: frozenset[Pid]) -> Iterator[str]:
        if any(seen.values()):
            yield f"{sum(seen.values())} deliveries"


def test_a_counterexample_is_a_shortest_one() -> None:
    report = explore(to_first(2), invariants=[NothingDelivered()])
    (violation,) = report.violations
    assert (violation.property, violation.what) == ("nothing delivered", "1 deliveries")
    assert violation.schedule() == "step 0 <- 1000 Multicast\n"


class Clumsy(Parrot):
    """Cannot count to two."""

    __slots__ = ()

    def on_copy(self, sender: Pid, c: Copy) -> None:
        if len(self.bodies) == 2:
            raise ValueError("two")


def test_an_exception_in_a_step_is_a_finding_with_its_schedule() -> None:
    topology = Topology.of_sizes(1)
    report = explore(Setup(protocol(Clumsy), topology, submissions=submit(topology, 2)), invariants=[])
    (violation,) = report.violations
    assert violation.what == "process 0 raised ValueError: two"
    assert len(violation.moves) == 2
