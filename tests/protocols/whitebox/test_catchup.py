"""Catch-up (1.4): resends from the log, snapshots below what is collected, both in pieces."""

from __future__ import annotations

from tests.protocols.whitebox.harness import Bench, retry, ts, unit

from braidcast.core.application import Delivered, Restored, Snapshot, SnapshotWanted
from braidcast.core.client import Reply
from braidcast.protocols.whitebox.messages import (
    Beat,
    CatchUp,
    CaughtUp,
    Deliver,
    Heartbeat,
    Redelivered,
    Resend,
    SnapshotChunk,
    SnapshotInstalled,
    Transferred,
)


def laggard(count: int = 4, **options: int) -> Bench:
    """p2 was away while `count` messages were delivered and, for laggards do not hold it up, collected."""
    bench = Bench(3, laggard_entries=1, **options)
    bench.down.add(2)
    for seq in range(1, count + 1):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.beat(0)
    bench.beat(0)
    assert bench[0].collected == ts(count)
    bench.down.clear()
    return bench


def test_leader_resends_above_the_followers_mark() -> None:
    bench = Bench(3)
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.step(0, 1, CatchUp(bench[0].cballot, ts(1)))
    resend = bench.in_flight(Resend, 0, 1)[0]
    assert [known.body for known in resend.known] == [unit(2, 0), unit(3, 0)]
    assert (resend.prev_gts, resend.upto) == (ts(1), ts(3))


def test_resend_comes_in_pieces_and_the_follower_asks_on() -> None:
    bench = Bench(3, chunk_entries=2)
    for seq in range(1, 6):
        bench.submit(unit(seq, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    bench.beat(0)
    assert bench.order(2) == [1, 2, 3, 4, 5]
    assert [note.count for note in bench.noted(2, CaughtUp)] == [2, 2, 1]


def test_resend_delivers_nothing_twice() -> None:
    bench = Bench(3)
    for seq in (1, 2):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.step(0, 1, CatchUp(bench[0].cballot, 0))
    bench.run()
    assert bench.order(1) == [1, 2]
    assert len(bench.noted(1, Redelivered)) == 2
    assert not bench.noted(1, CaughtUp)


def test_resend_beyond_the_mark_is_not_applied() -> None:
    """Gap-proof: a piece whose predecessor is missing makes the follower ask from where it is."""
    bench = Bench(3)
    for seq in (1, 2):
        bench.submit(unit(seq, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    bench.step(0, 2, CatchUp(bench[0].cballot, ts(1)))
    bench.deliver(0, 2, Resend)
    assert bench.order(2) == []
    assert bench.in_flight(CatchUp, 2) == [CatchUp(bench[2].cballot, 0)]


def test_follower_that_is_up_to_date_gets_nothing() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run()
    bench.step(0, 1, CatchUp(bench[0].cballot, ts(1)))
    assert not bench.queue


def test_catch_up_is_answered_by_the_leader_of_that_ballot_only() -> None:
    bench = Bench(3)
    bench.step(1, 2, CatchUp(bench[1].cballot, 0))
    bench.step(0, 2, CatchUp(bench[0].cballot + 1, 0))
    assert bench.refused(1, "catch-up from another ballot") == 1
    assert bench.refused(0, "catch-up from another ballot") == 1


def test_snapshot_follows_collected_log() -> None:
    """1.4: below what is collected the log says nothing; the application is asked for its state as it is now."""
    bench = laggard()
    bench.fire(0, Beat())
    bench.deliver(0, 2, Heartbeat)
    bench.deliver(2, 0, CatchUp)
    assert bench.delivered[0][-1] == SnapshotWanted(ts(4))
    assert not bench.in_flight(Resend)
    bench.step(0, 0, Snapshot(ts(4), b"state"))
    bench.run()
    assert bench.delivered[2] == [Restored(ts(4), b"state")]
    assert bench[2].max_delivered_gts == ts(4)
    assert bench.noted(2, SnapshotInstalled) == [SnapshotInstalled(0, ts(4))]


def test_snapshot_brings_the_dedup_table() -> None:
    """1.4: or p2, once it leads, would order again what it never saw."""
    bench = laggard()
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b"state"))
    bench.run()
    bench.elect(2)
    bench.answers.clear()
    bench.submit(unit(1, 0), 2)
    assert bench.told(Reply) == [Reply(unit(1, 0).id, 0, ts(1))]


def test_snapshot_in_pieces_is_installed_when_all_came() -> None:
    bench = laggard(chunk_bytes=2)
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b"abcde"))
    chunks = bench.in_flight(SnapshotChunk, 0, 2)
    assert [chunk.state for chunk in chunks] == [b"ab", b"cd", b"e", b""]
    assert [len(chunk.dedup.sessions) for chunk in chunks] == [0, 0, 0, 1]
    bench.queue.clear()
    for chunk in (chunks[3], chunks[2], chunks[0], chunks[0]):
        bench.step(2, 0, chunk)
        assert bench.delivered[2] == []
    bench.step(2, 0, chunks[1])
    assert bench.delivered[2] == [Restored(ts(4), b"abcde")]


def test_pieces_of_two_snapshots_are_not_mixed() -> None:
    bench = laggard(chunk_bytes=2)
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b"abcd"))
    old = bench.in_flight(SnapshotChunk, 0, 2)
    bench.queue.clear()
    bench.now += bench[0].options.retry_ticks
    bench.step(0, 2, CatchUp(bench[0].cballot, 0))
    bench.step(0, 0, Snapshot(ts(4), b"wxyz"))
    new = bench.in_flight(SnapshotChunk, 0, 2)
    for chunk in (old[0], *new[1:]):
        bench.step(2, 0, chunk)
    assert bench.delivered[2] == []
    bench.step(2, 0, new[0])
    assert bench.delivered[2] == [Restored(ts(4), b"wxyz")]


def test_empty_application_is_a_snapshot_all_the_same() -> None:
    bench = laggard()
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b""))
    bench.run()
    assert bench.delivered[2] == [Restored(ts(4), b"")]


def test_one_snapshot_serves_everybody_who_asks_meanwhile() -> None:
    bench = Bench(5, laggard_entries=1)
    bench.down |= {3, 4}
    for seq in (1, 2, 3):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.beat(0)
    bench.beat(0)
    bench.down.clear()
    bench.beat(0)
    assert bench.delivered[0].count(SnapshotWanted(ts(3))) == 1
    bench.step(0, 0, Snapshot(ts(3), b"s"))
    bench.run()
    assert bench[3].max_delivered_gts == bench[4].max_delivered_gts == ts(3)


def test_what_was_delivered_after_the_snapshot_is_resent() -> None:
    bench = laggard()
    bench.beat(0)
    bench.submit(unit(5, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    bench.step(0, 0, Snapshot(ts(4), b"state"))
    bench.run()
    assert bench.delivered[2] == [Restored(ts(4), b"state"), Delivered(unit(5, 0), ts(5))]


def test_snapshot_nobody_asked_for_or_of_another_mark_is_refused() -> None:
    bench = laggard()
    bench.step(0, 0, Snapshot(ts(4), b"x"))
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(3), b"x"))
    assert bench.refused(0, "snapshot that nobody asked for") == 2
    assert not bench.in_flight(SnapshotChunk)


def test_snapshot_after_leading_goes_nowhere() -> None:
    bench = laggard()
    bench.beat(0)
    bench.elect(1)
    bench.step(0, 0, Snapshot(ts(4), b"x"))
    assert bench.refused(0, "snapshot that nobody asked for") == 1
    assert not bench.in_flight(SnapshotChunk, 0)


def test_snapshot_that_is_not_needed_is_refused() -> None:
    bench = laggard()
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b"x"))
    chunk = bench.in_flight(SnapshotChunk, 0, 2)[0]
    bench.run()
    bench.step(2, 0, chunk)
    assert bench.refused(2, "snapshot that is not needed") == 1


def test_installed_snapshot_is_durable_and_restored_again_after_a_restart() -> None:
    """1.3: it stays in the log until the application's own state is durable."""
    bench = laggard()
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b"state"))
    bench.run()
    assert len(bench.records(2, Transferred)) == 1
    bench.delivered[2].clear()
    bench.restart(2, applied=0)
    assert bench.delivered[2] == [Restored(ts(4), b"state")]
    bench.delivered[2].clear()
    bench.restart(2, applied=ts(4))
    assert bench.delivered[2] == []


def test_snapshot_carries_what_other_groups_may_still_ask_for() -> None:
    """B2, 1.6 (b): m is delivered here but not known to be stable in group 1; p2 must be able to answer for it."""
    bench = Bench(3, 3, laggard_entries=1)
    bench.down.add(2)
    shared = unit(1, 0, 1)
    bench.submit(shared)
    for seq in (2, 3, 4):
        bench.submit(unit(seq, 0))
    bench.run()
    for _ in range(3):
        bench.fire(0, Beat())
        bench.run(unless=lambda s, receiver, m: receiver >= 3)
    bench.down.clear()
    bench.fire(0, Beat())
    bench.run(unless=lambda s, receiver, m: receiver >= 3)
    assert isinstance(bench.delivered[0][-1], SnapshotWanted)
    bench.step(0, 0, Snapshot(ts(4), b"state"))
    bench.run(unless=lambda s, receiver, m: receiver >= 3)
    assert bench.entry(2, shared).body == shared
    bench.drop()
    bench.down = {0}
    bench.elect(2)
    bench.step(2, 3, retry(bench, 3, shared))
    assert [a.lts for _, r, a in bench.queue if r == 3 and hasattr(a, "lts")] == [bench.entry(0, shared).lts]


def test_deliver_after_a_snapshot_fits_on() -> None:
    bench = laggard()
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b"state"))
    bench.run()
    bench.submit(unit(5, 0))
    bench.run(unless=lambda s, receiver, m: isinstance(m, CatchUp))
    assert bench.order(2) == [5]
    assert not bench.in_flight(CatchUp)
    assert not bench.in_flight(Deliver)


def test_early_follower_gives_up_what_a_snapshot_holds_and_goes_on() -> None:
    """What waited for its place in the order here is in the snapshot; it must not be delivered after it."""
    bench = Bench(3, 3, follower_delivery="early", laggard_entries=1)
    waiting = unit(1, 0, 1)
    bench.submit(waiting, 0)
    bench.deliver(0, 2)
    bench.submit(waiting, 3)
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    for seq in (2, 3, 4):
        bench.submit(unit(seq, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    for _ in range(5):
        bench.fire(3, Beat())
        bench.fire(0, Beat())
        bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    assert len(bench[2].pending) == 1
    bench.beat(0)
    bench.step(0, 0, Snapshot(bench[0].max_delivered_gts, b"state"))
    bench.run()
    assert len(bench[2].pending) == 0
    bench.submit(unit(5, 0))
    bench.run()
    assert bench.order(2) == [5]


def test_a_snapshot_on_its_way_is_not_asked_for_again() -> None:
    """A slow transfer would otherwise start over with every heartbeat, and never end."""
    bench = laggard(chunk_bytes=2)
    bench.beat(0)
    bench.step(0, 0, Snapshot(ts(4), b"abcd"))
    bench.step(0, 2, CatchUp(bench[0].cballot, 0))
    assert bench[0].snapshot_base is None, "the application is not asked again while the pieces travel"
    bench.now += bench[0].options.retry_ticks
    bench.step(0, 2, CatchUp(bench[0].cballot, 0))
    assert bench[0].snapshot_base is not None, "they were lost"
