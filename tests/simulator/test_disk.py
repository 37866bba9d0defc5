"""Group commit, crashes, torn records, checkpoints."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.simulator.toys import STORE, Counted, gts_applied, simulation, store

from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Batch
from braidcast.simulator.delays import Constant
from braidcast.simulator.disk import Disk, DiskPlan, frame, read_frames
from braidcast.simulator.load import ClientPlan, Load, Submission
from braidcast.simulator.network import NetworkPlan

CLIENT = 1000
FAST = NetworkPlan(delay=Constant(1), reconnect=Constant(1))


def submissions(*times: int) -> tuple[Submission, ...]:
    return tuple(Submission(at, CLIENT, (0,)) for at in times)


def test_frames_are_read_back() -> None:
    data = frame([Counted(1), Counted(2)]) + frame([Counted(3)])
    assert read_frames(data) == ([Counted(1), Counted(2), Counted(3)], False)


def test_a_frame_cut_at_any_byte_is_detected_and_dropped_whole() -> None:
    whole, last = frame([Counted(1)]), frame([Counted(2), Counted(3)])
    for cut in range(1, len(last)):
        assert read_frames(whole + last[:cut]) == ([Counted(1)], True)


def test_a_frame_with_a_flipped_bit_is_detected() -> None:
    data = bytearray(frame([Counted(1)]))
    data[-2] ^= 4
    assert read_frames(bytes(data)) == ([], True)


def crashed(seed: int, *, torn: bool = True) -> tuple[list[Any], int]:
    """A sync of two steps is running and one more step waits, each with two records."""
    disk = Disk(DiskPlan(fsync=5, torn=torn), Random(seed))
    disk.append([Counted(0)])
    disk.ends = [2, 4]
    disk.begin_sync(Batch([Counted(n) for n in (1, 2, 3, 4)], [], [], []), None)
    disk.ends = [2]
    disk.crash([Counted(5), Counted(6)])
    return disk.log, disk.torn_frames


def test_a_crash_leaves_what_was_synced_and_any_prefix_of_whole_steps() -> None:
    lengths = set()
    for seed in range(60):
        log, _ = crashed(seed)
        assert log == [Counted(n) for n in range(len(log))]
        lengths.add(len(log))
    assert lengths == {1, 3, 5, 7}


def test_some_crashes_leave_a_torn_frame() -> None:
    assert {crashed(seed)[1] for seed in range(30)} == {0, 1}


def test_without_torn_writes_a_crash_leaves_what_was_synced_and_nothing_else() -> None:
    assert all(crashed(seed, torn=False) == ([Counted(0)], 0) for seed in range(10))


def test_nothing_leaves_before_its_records_are_durable_and_steps_meanwhile_join_the_next_commit() -> None:
    run = simulation(STORE, "1", network=FAST, disk=DiskPlan(fsync=10), load=submissions(0, 3, 5))
    run.world.run(10)
    assert (gts_applied(run), run.nodes[0].disk.log) == ([], [])
    run.world.run(11)
    assert gts_applied(run) == [1]
    run.world.run(20)
    assert gts_applied(run) == [1]
    run.world.run(21)
    assert gts_applied(run) == [1, 2, 3]
    run.world.run(22)
    assert sorted(run.clients[CLIENT].latencies.values()) == [12, 17, 19]


@pytest.mark.parametrize("seed", range(8))
def test_after_a_crash_during_a_sync_everything_is_applied_once_and_in_order(seed: int) -> None:
    run = simulation(
        STORE, "1", seed=seed, network=FAST, disk=DiskPlan(fsync=10), load=submissions(*range(0, 60, 3)),
        clients=ClientPlan(timeout=30),
    )  # fmt: skip
    for at in (17, 33, 58):
        run.world.call(at, run.nodes[0].crash)
        run.world.call(at + 4, run.nodes[0].restart)
    run.finish()
    assert run.quiescent
    assert gts_applied(run) == list(range(1, 21))


def test_unsynced_records_can_be_lost_and_unreleased_ones_can_survive() -> None:
    survived = set()
    for seed in range(20):
        run = simulation(STORE, "1", seed=seed, network=FAST, disk=DiskPlan(fsync=10), load=submissions(0))
        run.world.call(5, run.nodes[0].crash)
        run.world.run(5)
        assert gts_applied(run) == []
        survived.add(len(run.nodes[0].disk.log))
    assert survived == {0, 2}


@pytest.mark.parametrize("fsync", [0, 4])
def test_recovery_from_checkpoints_is_the_same_as_from_the_whole_log(fsync: int) -> None:
    logs = {}
    for every in (0, 6):
        run = simulation(
            STORE, "1", network=FAST, disk=DiskPlan(fsync=fsync, checkpoint_every=every, torn=False),
            load=Load(clients=1, messages=40, gap=Constant(2)), clients=ClientPlan(timeout=30),
        )  # fmt: skip
        run.world.call(50, run.nodes[0].crash)
        run.world.call(55, run.nodes[0].restart)
        run.finish()
        assert run.quiescent
        logs[every] = len(run.nodes[0].disk.log)
        recovered = STORE.make(type(run.nodes[0].out)(0), run.plan.topology, None)
        recovered.recover(run.nodes[0].disk.log)
        assert recovered.order == store(run).order  # type: ignore[attr-defined]  # it is a Store
        assert gts_applied(run) == list(range(1, 41))
    assert logs[6] < logs[0]


def test_a_crash_while_a_checkpoint_is_written_leaves_the_old_log_or_the_whole_new_one() -> None:
    found = set()
    for seed in range(20):
        disk = Disk(DiskPlan(fsync=5, checkpoint_every=1), Random(seed))
        disk.append([Counted(0), Counted(1)])
        disk.ends = [1]
        disk.begin_sync(Batch([Counted(2)], [], [], []), [Counted(2)])
        disk.crash([])
        found.add(tuple(disk.log))
    assert found == {(Counted(0), Counted(1)), (Counted(2),)}


def test_a_process_without_checkpoints_keeps_its_whole_log() -> None:
    from tests.simulator.toys import LISTENER

    run = simulation(LISTENER, "1", disk=DiskPlan(checkpoint_every=1))
    run.nodes[0].out.persist(Counted(1))
    run.nodes[0].release()
    assert run.nodes[0].disk.log == [Counted(1)]


def test_a_multicast_can_be_framed() -> None:
    multicast = Multicast(MessageId(1, 2, 3), (0, 1), b"x")
    assert read_frames(frame([multicast])) == ([multicast], False)
