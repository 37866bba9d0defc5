"""A message that is malformed, misdirected or stale is refused and counted; it never raises.

The first tests are what once did raise. The last ones throw random messages of every kind at groups in every state.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocols.whitebox.harness import CLIENT, Bench, ts, unit

from braidcast.core.application import Connected, HandOver, Snapshot
from braidcast.core.ballots import ballot, leader_of
from braidcast.core.client import MessageId, Multicast, Redirect, Reply
from braidcast.protocols.parts.dedup import DedupState
from braidcast.protocols.whitebox import messages as kinds
from braidcast.protocols.whitebox.messages import (
    Accept,
    AcceptAck,
    Beat,
    Bodies,
    CatchUp,
    Deliver,
    Heartbeat,
    HeartbeatAck,
    Known,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    PreVote,
    PreVoteAck,
    Pull,
    Resend,
    SnapshotChunk,
    Stable,
    Suspect,
    Sweep,
    TakeOver,
)


def test_unknown_kind_is_refused() -> None:
    bench = Bench(3)
    bench.step(0, 1, Reply(unit(1).id, 0, 1))
    bench.step(0, 1, "not even a message")
    assert bench.refused(0, "no handler") == 2


def test_id_used_with_two_sets_of_destinations_brings_no_node_down() -> None:
    """A careless client: group 0 hears of m for (0, 1), group 2 for (0, 2)."""
    bench = Bench(3, 3, 3)
    bench.submit(unit(1, 0, 1), 0)
    bench.submit(unit(1, 0, 2), 6)
    bench.run()
    assert bench.refused(0, "accept with other destinations") == 1
    assert bench.order(0) == []


@pytest.mark.parametrize("dest", [(0, 99), (1, 0), (-1, 0), (0, 0), ()])
def test_accept_for_impossible_destinations_is_refused(dest: tuple[int, ...]) -> None:
    bench = Bench(3, 3)
    bench.step(1, 0, Accept(unit(1).id, dest, 0, bench[0].cballot, ts(1), None))
    assert bench.refused(1, "accept for another group") == 1
    assert not bench[1].entries


def test_accept_of_a_group_that_is_no_destination_is_refused() -> None:
    """Also for a message that is known and delivered, of which no ACCEPT is kept any more."""
    bench = Bench(3, 3)
    m = unit(1, 0)
    bench.submit(m)
    bench.step(1, 3, Accept(m.id, (0,), 1, bench[3].cballot, ts(1), None))
    bench.run()
    bench.step(1, 3, Accept(m.id, (0,), 1, bench[3].cballot, ts(1), None))
    assert sum(bench.out(1).refused.values()) == 2


def test_accept_in_the_name_of_another_leader_or_group_is_refused() -> None:
    bench = Bench(3, 3)
    accept = Accept(unit(1).id, (0, 1), 0, bench[0].cballot, ts(1), None)
    for sender in (1, 3, CLIENT):
        bench.step(2, sender, accept)
    bench.step(2, 3, Accept(unit(1).id, (0, 1), 0, bench[3].cballot, ts(1), None))
    assert bench.refused(2, "accept from another than its leader") == 4


@pytest.mark.parametrize("sender", [CLIENT, 10**12, 3])
def test_acknowledgement_from_outside_the_group_is_refused(sender: int) -> None:
    """Acknowledgements are bits of an int: a huge process id must not become a huge int."""
    bench = Bench(3, 3)
    m = unit(1, 0)
    bench.submit(m)
    bench.step(0, sender, AcceptAck(m.id, 0, (bench[0].cballot,)))
    assert bench.refused(0, "acknowledgement for another group") == 1


@pytest.mark.parametrize("mode", ["leader", "early"])
def test_acknowledgement_of_no_ballots_does_not_commit(mode: str) -> None:
    bench = Bench(3, follower_delivery=mode)
    m = unit(1, 0)
    bench.step(0, 2, AcceptAck(m.id, 0, ()))
    bench.submit(m)
    bench.step(0, 2, AcceptAck(m.id, 0, ()))
    assert bench.order(0) == []


@pytest.mark.parametrize("sender", [2, 3, CLIENT])
def test_only_the_leader_tells_a_follower_what_to_deliver(sender: int) -> None:
    bench = Bench(3, 3)
    m = unit(1, 0)
    bench.submit(m)
    bench.deliver(0, 1, Accept)
    b = bench[1].cballot
    bench.step(1, sender, Deliver(m.id, b, ts(1), ts(1), 0))
    bench.step(1, sender, Resend(b, 0, ts(1), (Known(m.id, (0,), 3, ts(1), ts(1), m),)))
    bench.step(1, sender, SnapshotChunk(b, ts(9), 1, 0, 1, b"evil", (), DedupState(), 0))
    assert bench.delivered[1] == []
    assert sum(bench.out(1).refused.values()) == 3


def test_resend_without_a_body_is_refused() -> None:
    bench = Bench(3)
    bench.step(1, 0, Resend(bench[0].cballot, 0, ts(1), (Known(unit(1).id, (0,), 3, ts(1), ts(1)),)))
    assert bench.refused(1, "resend without what is missing") == 1


@pytest.mark.parametrize(("part", "parts"), [(0, 0), (5, 1), (-1, 1), (1, -1)])
def test_impossible_pieces_are_refused(part: int, parts: int) -> None:
    bench = Bench(3)
    bench.step(2, 0, SnapshotChunk(bench[0].cballot, ts(9), 1, part, parts, b"", (), DedupState(), 0))
    bench.nominate(1)
    bench.deliver(1, 2)
    bench.step(2, 1, NewState(ballot(1, 1), 1, part, parts, 0, (), (), 0, (), 0))
    assert sum(bench.out(2).refused.values()) == 2
    assert bench[2].role == "recovering"


def test_pieces_that_disagree_on_their_number_are_not_put_together() -> None:
    bench = Bench(3)
    bench.nominate(1)
    bench.deliver(1, 2)
    bench.step(2, 1, NewState(ballot(1, 1), 1, 2, 3, 0, (), (), 0, (), 0))
    bench.step(2, 1, NewState(ballot(1, 1), 1, 0, 2, 0, (), (), 0, (), 0))
    assert bench[2].role == "recovering"
    bench.step(2, 1, NewState(ballot(1, 1), 1, 1, 2, 0, (), (), 0, (), 0))
    assert bench[2].role == "follower"


@pytest.mark.parametrize("message", [Suspect(), Beat(), Sweep(), Connected(3), HandOver(), Snapshot(0, b"")])
@pytest.mark.parametrize("sender", [1, 3, CLIENT])
def test_timers_and_the_drivers_words_come_from_nobody_else(message: Any, sender: int) -> None:
    bench = Bench(3, 3)
    bench.submit(unit(1, 0, 1), 0)
    bench.queue.clear()
    timers = dict(bench.timers[0]), dict(bench.timers[2])
    bench.step(0, sender, message)
    bench.step(2, sender, message)
    assert (bench.timers[0], bench.timers[2]) == timers
    assert not bench.queue
    assert [bench[p].role for p in (0, 2)] == ["leader", "follower"]


def _outsiders_words(b: int) -> list[Any]:
    return [
        CatchUp(b, 0), HeartbeatAck(b, 0), HeartbeatAck(b + 100, 0), Heartbeat(b, 0, 0, ()), Stable(0, 9, True, b),
        TakeOver(b),
        PreVote(b, 0), PreVoteAck(b, True, b), NewLeader(b + 1, 0), NewLeaderAck(b, b, 0, 0, 0, ()),
        NewState(b, 1, 0, 1, 0, (), (), 0, (), 0), NewStateAck(b, 0), Pull(b, (unit(1).id,)), Bodies(b, ()),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", range(len(_outsiders_words(0))))
def test_what_is_said_inside_a_group_is_refused_from_outside(kind: int) -> None:
    """Another group's leader and a client speak as if they were members: nothing changes but the count."""
    for sender in (3, CLIENT):
        for receiver in (0, 1):
            bench = Bench(3, 3)
            bench.submit(unit(1, 0))
            bench.run()
            before = list(bench[receiver].checkpoint())
            bench.step(receiver, sender, _outsiders_words(bench[0].cballot)[kind])
            assert sum(bench.out(receiver).refused.values()) == 1
            assert list(bench[receiver].checkpoint()) == before
            assert not bench.queue


class Noise:
    """Random messages of every kind, with values that occur in such runs and a few that must not."""

    def __init__(self, bench: Bench, random: Random) -> None:
        self.bench = bench
        self.random = random

    def pick(self, *values: Any) -> Any:
        return self.random.choice(values)

    def ballot(self) -> int:
        process = self.bench[self.pick(*self.bench.topology.pids)]
        return int(self.pick(process.ballot, process.cballot, process.max_ballot, ballot(9, 1), 0, -1))

    def ts(self) -> int:
        return int(self.pick(0, ts(1), ts(2), ts(3, 1), ts(self.random.randrange(9)), -1, 1 << 60))

    def dest(self) -> tuple[int, ...]:
        return tuple(self.pick((0,), (1,), (0, 1), (0, 1), (), (1, 0), (0, 99), (-1, 0), (0, 0)))

    def id(self) -> MessageId:
        return MessageId(CLIENT, 1, self.random.randrange(1, 6))

    def multicast(self) -> Multicast:
        first, count = self.pick((0, 0), (0, 3), (2, 3), (5, -2), (-4, 2))
        return Multicast(self.id(), self.dest(), b"x", self.pick(1, 1, 3, -1, 99), first, count)

    def known(self) -> tuple[Known, ...]:
        body = self.pick(None, self.multicast())
        phase, number = self.pick(0, 1, 2, 3, 4, 9), self.pick(0, 1, 5)
        known = Known(self.id(), self.dest(), phase, self.ts(), self.ts(), body, number)
        return tuple(self.pick((), (known,), (known, known)))

    def vector(self) -> tuple[int, ...]:
        now = tuple(self.bench[members[0]].cballot for members in self.bench.topology.groups)
        return tuple(self.pick((), now, now[:1], (self.ballot(),), (self.ballot(), self.ballot())))

    def message(self) -> Any:
        b, t, i, n = self.ballot(), self.ts(), self.id(), self.random.randrange(-1, 4)
        group = self.pick(0, 1, 99, -1)
        return self.pick(
            self.multicast(),
            kinds.Forwarded(self.multicast()),
            Accept(i, self.dest(), group, b, t, self.pick(None, self.multicast()), n),
            AcceptAck(i, group, self.vector(), n),
            Deliver(i, b, t, self.ts(), self.ts()),
            CatchUp(b, t),
            Resend(b, t, self.ts(), self.known()),
            SnapshotChunk(b, t, n, n, self.random.randrange(-1, 4), b"s", self.known(), DedupState(), self.ts()),
            PreVote(b, t),
            PreVoteAck(b, bool(n), self.ballot()),
            NewLeader(b, t),
            kinds.Nack(b, self.ballot()),
            NewLeaderAck(b, self.ballot(), n, t, self.ts(), self.known()),
            Pull(b, (i, self.id())),
            Bodies(b, (self.multicast(),)),
            NewState(b, n, n, self.random.randrange(-1, 4), n, self.known(), (i,), n, (n,), t),
            NewStateAck(b, t),
            Heartbeat(b, t, self.ts(), ((group, t, b),)),
            HeartbeatAck(b, t),
            Stable(group, t, bool(n), b),
            TakeOver(b),
            kinds.Retry(self.multicast(), b, t),
            Redirect(i, 0, b),
            Connected(self.pick(0, 3, CLIENT, -1)),
            HandOver(self.pick(0, 3, CLIENT, None)),
            Snapshot(t, b"s"),
            Suspect(),
            Beat(),
            Sweep(),
        )

    def sender(self, receiver: int, message: Any) -> int:
        """Mostly one who could have said it: the leader of the ballot it names."""
        leader = leader_of(getattr(message, "ballot", -1))
        if leader in self.bench[receiver].others and self.random.random() < 0.7:
            return leader
        others = [p for p in (*self.bench.topology.pids, CLIENT, 1 << 40) if p != receiver]
        return int(self.random.choice(others))


def _ordinary_move(bench: Bench, noise: Noise, random: Random) -> None:
    move = random.randrange(8)
    pid = random.choice(bench.topology.pids)
    if move < 3:
        bench.submit(unit(random.randrange(1, 6), *random.choice([(0,), (1,), (0, 1)])))
    elif move < 6:
        bench.run(unless=lambda *_: random.random() < 0.3)
    elif move == 6:
        bench.now += random.randrange(300)
        bench.fire(pid, random.choice([Suspect(), Beat(), Sweep()]))
    else:
        bench.restart(pid)


@pytest.mark.parametrize("mode", ["leader", "early"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_outsiders_noise_never_raises(mode: str, seed: int) -> None:
    """From clients and other groups: anything at all, at any time, in between ordinary life and restarts."""
    random = Random(seed)
    bench = Bench(3, 3, follower_delivery=mode, laggard_entries=2)
    noise = Noise(bench, random)
    for _ in range(80):
        if random.random() < 0.3:
            _ordinary_move(bench, noise, random)
        receiver = random.choice(bench.topology.pids)
        strangers = [p for p in (CLIENT, 1 << 40, *bench.topology.pids) if p not in bench[receiver].peers]
        bench.step(receiver, random.choice(strangers), noise.message())


@pytest.mark.parametrize("mode", ["leader", "early"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_noise_from_anybody_never_raises(mode: str, seed: int) -> None:
    """Members of the own group included: what they say may be nonsense, but no node falls over it."""
    random = Random(seed)
    bench = Bench(3, 3, follower_delivery=mode, laggard_entries=2)
    noise = Noise(bench, random)
    for _ in range(80):
        receiver = random.choice(bench.topology.pids)
        message = noise.message()
        bench.step(receiver, noise.sender(receiver, message), message)
        if random.random() < 0.2:
            bench.submit(unit(random.randrange(1, 6), *random.choice([(0,), (1,), (0, 1)])))
        if random.random() < 0.1:
            bench.nominate(random.choice(bench.topology.pids))
