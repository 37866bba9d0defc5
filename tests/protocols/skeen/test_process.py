"""Skeen's protocol against Figure 1 of paper 001, line by line; each process is a group of its own."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.errors import TopologyError
from braidcast.core.process import Outbox
from braidcast.core.timestamps import timestamp as ts
from braidcast.core.topology import Topology
from braidcast.protocols.skeen import Options, Propose, Skeen

CLIENT = 100


def unit(seq: int, *dest: int) -> Multicast:
    return Multicast(MessageId(CLIENT, 1, seq), dest)


class Bench:
    """Processes in memory; what they send waits in `queue` until the test delivers it."""

    def __init__(self, groups: int) -> None:
        self.topology = Topology.of_sizes(*[1] * groups)
        self.processes = [Skeen(Outbox(p), self.topology, Options()) for p in range(groups)]
        self.queue: list[tuple[int, int, Any]] = []
        self.replies: list[tuple[int, Reply]] = []
        self.delivered: list[list[Delivered]] = [[] for _ in range(groups)]

    def step(self, pid: int, sender: int, message: Any) -> None:
        self.processes[pid].step(sender, message)
        batch = self.processes[pid].out.take()
        self.delivered[pid] += batch.delivered
        for to, sent in batch.sent:
            for receiver in to:
                if receiver not in self.topology.group_of:
                    self.replies.append((pid, sent))
                elif receiver != pid:
                    self.queue.append((pid, receiver, sent))

    def submit(self, m: Multicast, *pids: int) -> None:
        for pid in pids or m.dest:
            self.step(pid, CLIENT, m)

    def deliver(self, sender: int, receiver: int) -> None:
        flight = next(f for f in self.queue if f[:2] == (sender, receiver))
        self.queue.remove(flight)
        self.step(receiver, sender, flight[2])

    def run(self) -> None:
        while self.queue:
            sender, receiver, message = self.queue.pop(0)
            self.step(receiver, sender, message)

    def order(self, pid: int) -> list[int]:
        return [d.multicast.id.seq for d in self.delivered[pid]]

    def refused(self, pid: int) -> dict[str, int]:
        return self.processes[pid].out.refused


def test_groups_must_be_single_processes() -> None:
    with pytest.raises(TopologyError, match=r"^group 0 has 3 members, but skeen works with groups of one: use 3x1$"):
        Skeen(Outbox(0), Topology.of_sizes(3), Options())


def test_fresh_message_gets_the_next_timestamp_lines_9_10() -> None:
    bench = Bench(2)
    bench.submit(unit(1, 0, 1), 1)
    bench.submit(unit(2, 0, 1), 1)
    assert [message.lts for _, _, message in bench.queue] == [ts(1, 1), ts(2, 1)]
    assert bench.processes[1].clock == 2


def test_proposal_goes_to_every_destination_and_nobody_else_line_12() -> None:
    bench = Bench(4)
    m = unit(1, 0, 2, 3)
    bench.submit(m, 2)
    assert bench.queue == [(2, q, Propose(m.id, (0, 2, 3), 2, ts(1, 2))) for q in (0, 3)]


def test_nothing_is_committed_before_every_group_proposed_line_13() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0, 1, 2))
    bench.deliver(1, 0)
    assert bench.order(0) == []
    bench.deliver(2, 0)
    assert bench.order(0) == [1]


def test_global_timestamp_is_the_highest_proposal_line_14() -> None:
    bench = Bench(2)
    bench.processes[1].clock = 6
    bench.submit(unit(1, 0, 1))
    bench.run()
    assert [d.gts for pid in (0, 1) for d in bench.delivered[pid]] == [ts(7, 1)] * 2


def test_clock_rises_to_the_global_timestamp_line_15() -> None:
    """And so what comes later ends above."""
    bench = Bench(2)
    bench.processes[1].clock = 6
    bench.submit(unit(1, 0, 1))
    bench.run()
    assert bench.processes[0].clock == 7
    bench.submit(unit(2, 0))
    assert bench.delivered[0][-1].gts == ts(8, 0)


def test_committed_message_waits_for_a_lower_proposal_line_17() -> None:
    """Figure 2, the convoy effect: m' was proposed at p0 below the global timestamp of m and is not committed."""
    bench = Bench(2)
    bench.processes[1].clock = 6
    bench.submit(unit(1, 0, 1))
    bench.submit(unit(2, 0, 1), 0)
    bench.deliver(1, 0)
    assert bench.order(0) == []
    bench.submit(unit(2, 0, 1), 1)
    bench.run()
    assert bench.order(0) == bench.order(1) == [1, 2]


def test_delivery_is_in_the_order_of_global_timestamps_line_20() -> None:
    bench = Bench(2)
    one, two = unit(1, 0, 1), unit(2, 0, 1)
    bench.submit(one, 0)
    bench.submit(two, 0)
    bench.submit(two, 1)
    bench.submit(one, 1)
    bench.run()
    assert bench.delivered[0] == bench.delivered[1]
    gts = [d.gts for d in bench.delivered[0]]
    assert gts == sorted(gts)


def test_proposal_may_come_before_the_message_itself() -> None:
    bench = Bench(2)
    bench.submit(unit(1, 0, 1), 1)
    bench.deliver(1, 0)
    bench.submit(unit(1, 0, 1), 0)
    assert bench.order(0) == [1]


def test_message_for_one_group_is_delivered_at_once() -> None:
    bench = Bench(2)
    m = unit(1, 0)
    bench.submit(m)
    assert bench.delivered[0] == [Delivered(m, ts(1, 0))]
    assert bench.replies == [(0, Reply(m.id, 0, ts(1, 0)))]
    assert not bench.queue


def test_solo_message_takes_two_delays() -> None:
    """MULTICAST, PROPOSE."""
    bench = Bench(2)
    bench.submit(unit(1, 0, 1))
    bench.deliver(0, 1)
    bench.deliver(1, 0)
    assert (bench.order(0), bench.order(1)) == ([1], [1])


def test_duplicate_under_way_is_refused() -> None:
    bench = Bench(2)
    m = unit(1, 0, 1)
    bench.submit(m, 0, 0)
    assert bench.refused(0) == {"multicast twice": 1}
    assert bench.processes[0].clock == 1


def test_duplicate_after_delivery_is_answered_and_not_ordered_again() -> None:
    bench = Bench(2)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run()
    bench.submit(m, 0)
    bench.run()
    assert bench.replies.count((0, Reply(m.id, 0, ts(1, 1)))) == 2
    assert bench.order(0) == [1]


def test_message_for_other_groups_is_refused() -> None:
    bench = Bench(2)
    bench.submit(unit(1, 1), 0)
    assert bench.refused(0) == {"multicast to impossible destinations": 1}


@pytest.mark.parametrize("dest", [(0, 99), (1, 0), (-1, 0), (0, 0), ()])
def test_message_for_impossible_destinations_is_refused(dest: tuple[int, ...]) -> None:
    bench = Bench(2)
    bench.submit(unit(1, *dest), 0)
    bench.step(0, 1, Propose(unit(1).id, dest, 1, ts(1, 1)))
    assert sum(bench.refused(0).values()) == 2
    assert not bench.processes[0].entries


def test_id_with_other_destinations_is_refused() -> None:
    """A careless client: group 0 hears of m for (0, 1), group 2 for (0, 2)."""
    bench = Bench(3)
    bench.submit(unit(1, 0, 1), 0)
    bench.submit(unit(1, 0, 2), 2, 0)
    bench.run()
    assert sum(bench.refused(0).values()) == 2
    assert bench.order(0) == []


def test_proposal_of_the_wrong_sender_is_refused() -> None:
    bench = Bench(3)
    for sender in (2, CLIENT):
        bench.step(0, sender, Propose(unit(1).id, (0, 1), 1, ts(1, 1)))
    assert bench.refused(0) == {"proposal for another group": 2}
    assert not bench.processes[0].entries


def test_second_proposal_is_refused() -> None:
    bench = Bench(3)
    m = unit(1, 0, 1, 2)
    proposal = Propose(m.id, m.dest, 1, ts(9, 1))
    bench.step(0, 1, proposal)
    bench.step(0, 1, proposal)
    assert bench.refused(0) == {"proposal twice": 1}


def test_proposal_after_delivery_is_refused_and_leaves_nothing_behind() -> None:
    bench = Bench(2)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run()
    bench.step(0, 1, Propose(m.id, m.dest, 1, ts(9, 1)))
    assert sum(bench.refused(0).values()) == 1
    assert not bench.processes[0].entries


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_any_schedule_gives_one_order(seed: int) -> None:
    """Ordering, Integrity and Termination over random destinations and random schedules of FIFO channels."""
    random = Random(seed)
    bench = Bench(3)
    left = [(p, unit(seq, *d)) for seq in range(1, 8) for d in [_some_groups(random)] for p in d]
    sent = list(left)
    random.shuffle(left)
    while left or bench.queue:
        if left and (not bench.queue or random.random() < 0.4):
            pid, m = left.pop()
            bench.submit(m, pid)
        else:
            bench.deliver(*random.choice(bench.queue)[:2])
    for pid in range(3):
        gts = [d.gts for d in bench.delivered[pid]]
        assert gts == sorted(set(gts))
        assert sorted(bench.order(pid)) == sorted(m.id.seq for p, m in sent if p == pid)
        assert not bench.processes[pid].entries
    at = {(d.multicast.id, d.gts) for pid in range(3) for d in bench.delivered[pid]}
    assert len(at) == len({id for id, _ in at}), "one timestamp per message, everywhere"


def _some_groups(random: Random) -> tuple[int, ...]:
    return tuple(sorted(random.sample(range(3), random.randint(1, 3))))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_nonsense_never_raises(seed: int) -> None:
    """Malformed, misdirected, unknown: refused and counted, whoever sends it."""
    random = Random(seed)
    bench = Bench(3)
    dests = [(0,), (1,), (0, 1), (0, 1, 2), (), (1, 0), (0, 99), (-1, 0), (0, 0)]
    for _ in range(60):
        id, dest = MessageId(CLIENT, 1, random.randrange(5)), random.choice(dests)
        group, lts = random.choice([0, 1, 2, 99, -1]), random.choice([0, -5, 9, 1 << 60])
        message = random.choice([Multicast(id, dest), Propose(id, dest, group, lts)])
        pid = random.randrange(3)
        bench.step(pid, random.choice([p for p in (0, 1, 2, CLIENT, 1 << 40) if p != pid]), message)
        if bench.queue and random.random() < 0.5:
            bench.deliver(*bench.queue[0][:2])
