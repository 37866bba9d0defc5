"""Beginning, restart and checkpoint (1.3): what is durable comes back, from the log as from a checkpoint."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.protocols.whitebox.harness import Bench, unit

from braidcast.cli.registry import WHITEBOX
from braidcast.core.errors import TopologyError
from braidcast.core.process import Outbox
from braidcast.core.timestamps import clock_of
from braidcast.core.topology import Topology
from braidcast.protocols.whitebox import Options, WhiteBox
from braidcast.protocols.whitebox.messages import Beat, Checkpoint, Known, Started, Suspect, Sweep
from braidcast.simulator.delays import Uniform
from braidcast.simulator.disk import DiskPlan
from braidcast.simulator.faults import FaultRates
from braidcast.simulator.load import Load
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.run import Simulation


def test_groups_must_be_odd() -> None:
    with pytest.raises(TopologyError, match=r"^group 0 has 2 members, but whitebox needs 2f \+ 1: use 1, 3, 5 or 7$"):
        WhiteBox(Outbox(0), Topology.of_sizes(2), Options())


def test_first_life_is_written_down_before_anything_is_said() -> None:
    """A second first life of p0 would give the timestamps of ballot 0 to other messages."""
    bench = Bench(3)
    assert [bench.logs[p] for p in range(3)] == [[Started(0)]] * 3


def test_first_timers() -> None:
    bench = Bench(3)
    assert set(bench.timers[0]) == {Beat(), Sweep()}
    assert set(bench.timers[1]) == {Suspect(), Sweep()}


def test_process_that_crashed_before_it_did_anything_does_not_lead() -> None:
    bench = Bench(3)
    bench.restart(0)
    assert bench[0].role == "follower"
    assert bench.logs[0] == [Started(0)]


def test_leader_that_lost_an_undurable_start_begins_anew() -> None:
    """Nothing of the first life can have left if its first record did not become durable."""
    bench = Bench(3)
    bench.logs[0].clear()
    process = bench.revived(0)
    assert not bench.logs[0]
    assert process.ballot == 0


def durable(process: WhiteBox) -> Checkpoint:
    (record,) = process.checkpoint()
    assert isinstance(record, Checkpoint)
    return record


def what_must_last(r: Checkpoint) -> Checkpoint:
    """Without what need not be durable (1.3): a leader's clock before its ACCEPT, and its timestamps' numbers."""
    known = tuple(Known(k.id, k.dest, k.phase, k.lts, k.gts, k.body) for k in r.known)
    return Checkpoint(r.ballot, r.cballot, 0, r.gts, r.collected, known, r.repeated, r.dedup, None)


def test_restart_brings_back_what_was_durable() -> None:
    bench = Bench(3, 3)
    for seq in range(1, 6):
        bench.submit(unit(seq, 0, 1, batch_first=seq, batch_count=2))
    bench.run()
    before = {p: what_must_last(durable(bench[p])) for p in range(6)}
    for pid in range(6):
        bench.restart(pid)
    assert {p: what_must_last(durable(bench[p])) for p in range(6)} == before


def test_checkpoint_replaces_the_log_and_delivers_again_the_same() -> None:
    bench = Bench(3)
    for seq in range(1, 6):
        bench.submit(unit(seq, 0, batch_first=seq, batch_count=2))
    bench.run()
    before = list(bench.delivered[1])
    bench.logs[1] = list(bench[1].checkpoint())
    bench.delivered[1].clear()
    bench.restart(1)
    assert bench.delivered[1] == before


def test_process_that_restarts_from_a_checkpoint_goes_on() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run()
    for pid in range(3):
        bench.logs[pid] = list(bench[pid].checkpoint())
        bench.restart(pid)
    bench.elect(2)
    bench.submit(unit(1, 0), 2)
    bench.submit(unit(2, 0), 2)
    bench.run()
    assert [d.multicast.id.seq for d in bench.delivered[0]] == [1, 1, 2], "1 again, as nothing was applied"


def test_early_follower_does_not_deliver_early_in_the_ballot_of_its_former_life_1_8() -> None:
    """It cannot know which timestamps it missed meanwhile; from the next ballot on it counts again."""
    bench = Bench(3, follower_delivery="early")
    bench.restart(2, applied=0)
    bench.submit(unit(1, 0))
    bench.deliver()
    bench.deliver()
    assert (bench.order(1), bench.order(2)) == ([1], [])
    bench.run()
    assert bench.order(2) == [1]
    bench.elect(1)
    bench.submit(unit(2, 0), 1)
    bench.deliver()
    bench.deliver()
    assert bench.order(2) == [1, 2]


def test_role_is_the_status() -> None:
    bench = Bench(3)
    bench.nominate(1)
    assert [bench[p].role for p in range(3)] == ["leader", "recovering", "follower"]


# -- random runs ------------------------------------------------------------------------------------------------------


def faulty_run(seed: int) -> Simulation:
    """A run with crashes, partitions, torn disks, collection and snapshots; no log is replaced during it."""
    random = Random(seed)
    variant = random.choice(WHITEBOX.variants)
    options = WHITEBOX.paced(WHITEBOX.parse_options(variant), 10)
    simulation = Simulation(
        SimulationPlan(
            WHITEBOX,
            Topology.parse(random.choice(["1x3", "2x3", "3+1"])),
            options,
            seed=seed,
            network=NetworkPlan(delay=Uniform(1, 20)),
            disk=DiskPlan(fsync=random.choice([0, 7])),
            load=Load(messages=25, batches=0.4, duplicates=0.2, payload_bytes=4),
            faults=FaultRates(end=3_000, crashes=2, leader_crashes=2, partitions=1, breaks=2),
            record=False,
        )
    )
    simulation.start()
    return simulation


def recovered(simulation: Simulation, pid: int, records: list[Any]) -> Checkpoint:
    node = simulation.nodes[pid]
    out = Outbox(pid)
    out.now = node.out.now
    process = WhiteBox(out, simulation.plan.topology, simulation.options)
    process.recover(records)
    return durable(process)


@pytest.mark.parametrize("seed", range(24))
def test_log_and_checkpoint_recover_the_same_in_runs_with_faults(seed: int) -> None:
    """recover(checkpoint()) equals recover(log), at several moments of the run; what is not durable is not counted."""
    simulation = faulty_run(seed)
    for _ in range(8):
        simulation.world.run(simulation.world.now + 400, 1_000_000)
        for pid, node in simulation.nodes.items():
            from_log = recovered(simulation, pid, node.disk.log)
            assert recovered(simulation, pid, [from_log]) == from_log


@pytest.mark.parametrize("seed", range(24))
def test_log_recovers_the_state_before_in_runs_with_faults(seed: int) -> None:
    """recover(log) equals the process whose log it is, once its disk has nothing left to write."""
    simulation = faulty_run(seed)
    simulation.finish()
    assert simulation.quiescent
    for pid, node in simulation.nodes.items():
        assert isinstance(node.process, WhiteBox)
        assert node.disk.syncing is None
        back, live = recovered(simulation, pid, node.disk.log), durable(node.process)
        assert what_must_last(back) == what_must_last(live)
        assert clock_of(live.gts) <= back.clock <= live.clock
        assert live.snapshot in (back.snapshot, None), "given up once the application's own state is durable"
