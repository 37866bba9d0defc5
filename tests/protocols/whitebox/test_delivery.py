"""Gap-proof delivery (1.4), early delivery (1.8), redelivery after a restart (1.3), repeated messages of batches."""

from __future__ import annotations

import pytest
from tests.protocols.whitebox.harness import Bench, ts, unit

from braidcast.core.application import Delivered, Restored
from braidcast.protocols.whitebox.messages import (
    Accept,
    AcceptAck,
    Accepted,
    Beat,
    CatchUp,
    Deliver,
    Marked,
    Redelivered,
)


def test_deliver_with_gap_asks_catch_up() -> None:
    """1.4: DELIVER(2) says that 1 came before; p1 has not delivered 1, so it asks instead of skipping it."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.submit(unit(2, 0))
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    first, second = bench.in_flight(Deliver, 0, 1)
    bench.drop(receiver=1)
    bench.step(1, 0, second)
    assert bench.order(1) == []
    assert bench.in_flight(CatchUp, 1, 0) == [CatchUp(bench[1].cballot, 0)]
    bench.run()
    assert bench.order(1) == [1, 2]
    assert first.gts < second.gts


def test_a_gap_is_asked_for_once() -> None:
    """Every DELIVER after the gap shows it; heartbeats ask again if the answer is lost."""
    bench = Bench(3)
    for seq in (1, 2, 3, 4):
        bench.submit(unit(seq, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 1 and isinstance(m, Deliver))
    delivers = bench.in_flight(Deliver, 0, 1)
    bench.drop(kind=Deliver)
    for deliver in delivers[1:]:
        bench.step(1, 0, deliver)
    assert len(bench.in_flight(CatchUp, 1, 0)) == 1
    bench.drop(kind=CatchUp)
    bench.fire(0, Beat())
    bench.run()
    assert bench.order(1) == [1, 2, 3, 4]


def test_deliver_of_a_message_whose_body_never_came_asks_catch_up() -> None:
    """A follower outside the quorum may have missed the ACCEPT altogether."""
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.drop(receiver=2)
    bench.run()
    assert bench.order(2) == [1]
    assert bench.records(2, Accepted)[0].body == unit(1, 0)


def test_deliver_of_a_message_not_accepted_writes_the_body_before_the_mark_1_3() -> None:
    """1.3: the log must hold the body of what it says was delivered."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run(unless=lambda sender, receiver, message: (sender, receiver) == (3, 2) and isinstance(message, Accept))
    assert bench.order(2) == [1]
    kinds = [type(record) for record in bench.logs[2]]
    assert kinds.index(Accepted) < kinds.index(Marked)


@pytest.mark.parametrize("mode", ["leader", "early"])
def test_all_members_deliver_the_same_order_and_the_same_timestamps(mode: str) -> None:
    bench = Bench(3, 3, follower_delivery=mode)
    for seq in range(1, 9):
        bench.submit(unit(seq, *((0, 1) if seq % 3 else (0,))))
        if seq % 2:
            bench.deliver()
    bench.run()
    assert {tuple(bench.delivered[p]) for p in (0, 1, 2)} == {tuple(bench.delivered[0])}
    assert {tuple(bench.delivered[p]) for p in (3, 4, 5)} == {tuple(bench.delivered[3])}
    assert len(bench.order(0)) == 8


def test_early_follower_waits_for_its_leaders_acknowledgement_1_8() -> None:
    """1.8: "no leader ACK breaks by run 1061": quorums without the leader's word do not deliver."""
    bench = Bench(5, 1, follower_delivery="early")
    bench.submit(unit(1, 0, 1))
    bench.run(
        unless=lambda sender, receiver, m: isinstance(m, Deliver)
        or (sender, receiver, type(m)) == (0, 4, AcceptAck)
    )
    assert bench.order(3) == [1]
    assert bench.order(4) == []
    bench.run()
    assert bench.order(4) == [1]


def test_early_follower_that_misses_a_timestamp_does_not_overtake_it_1_8() -> None:
    """1.8: the leader's acknowledgement counts its timestamps; p2 lacks the first ACCEPT, so it holds the second."""
    bench = Bench(3, 3, follower_delivery="early")
    bench[3].clock = 5
    bench.submit(unit(1, 0, 1), 0)
    bench.drop(0, 2, Accept)
    bench.submit(unit(2, 0), 0)
    bench.run(unless=lambda s, r, message: isinstance(message, Deliver))
    assert bench[2].gaps == {1}
    assert bench.order(2) == []
    bench.submit(unit(1, 0, 1), 3)
    bench.submit(unit(1, 0, 1), 0)
    bench.run()
    assert bench.order(2) == bench.order(0)
    assert bench[2].gaps == set()


def test_restart_delivers_again_what_the_application_had_not_applied_1_3() -> None:
    bench = Bench(3)
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.crash(1)
    bench.delivered[1].clear()
    bench.restart(1, applied=ts(1))
    assert bench.delivered[1] == [Delivered(unit(2, 0), ts(2)), Delivered(unit(3, 0), ts(3))]
    assert [note.gts for note in bench.noted(1, Redelivered)] == [ts(2), ts(3)]


def test_restart_with_everything_applied_delivers_nothing_again() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run()
    bench.delivered[1].clear()
    bench.restart(1, applied=ts(1))
    assert not bench.delivered[1]


def test_message_of_two_batches_is_marked_as_repeated_the_second_time() -> None:
    """1.7: a client that gave up on a batch puts its messages into another; the delivery says which to skip."""
    bench = Bench(3)
    bench.submit(unit(1, 0, batch_first=10, batch_count=4))
    bench.run()
    bench.submit(unit(2, 0, batch_first=12, batch_count=4))
    bench.run()
    assert [d.repeated for d in bench.delivered[0]] == [(), (0, 1)]
    assert bench.delivered[1] == bench.delivered[2] == bench.delivered[0]


def test_repeated_messages_are_the_same_after_a_restart() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0, batch_first=0, batch_count=3))
    bench.submit(unit(2, 0, batch_first=0, batch_count=5))
    bench.run()
    before = list(bench.delivered[1])
    bench.delivered[1].clear()
    bench.restart(1)
    assert bench.delivered[1] == before
    assert before[1].repeated == (0, 1, 2)
    assert not any(isinstance(d, Restored) for d in before)
