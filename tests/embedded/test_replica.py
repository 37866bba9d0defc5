"""A node inside an application: submissions and their results, errors, and how it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.cluster.inprocess import config_in, run, turns, until
from tests.embedded.machines import Lives, Tape, cluster_in, replicas_of

from braidcast.client.client import Client
from braidcast.client.errors import MessageNotPermitted, TimedOut, UnknownGroup
from braidcast.client.subscriber import Subscriber
from braidcast.cluster.serve import NodeFailed
from braidcast.core.errors import BraidcastError
from braidcast.embedded.errors import NotHosted
from braidcast.embedded.replica import Replica

NODES = ("n1", "n2", "n3")


def test_results_come_back_by_group_and_every_replica_has_the_same_state(tmp_path: Path) -> None:
    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path, groups=2), *NODES, groups=("g0", "g1")) as lives:
            first = await lives["n1"].submit(b"to both", to={"g0", "g1"})
            assert first.results == {"g0": 1, "g1": 1}
            second = await lives["n2"].submit(b"to one", to="g1")
            assert (second.result, second.receipt.timestamp > first.receipt.timestamp) == (2, True)
            many = await asyncio.gather(*[lives["n3"].submit(b"%d" % n, to=["g0", "g1"]) for n in range(50)])
            assert [each.results["g0"] for each in many] == list(range(2, 52))
            assert [each.results["g1"] for each in many] == list(range(3, 53))
            assert await lives.same(51) == [b"to both", *[b"%d" % n for n in range(50)]]
            assert (await lives.same(52, "g1"))[:2] == [b"to both", b"to one"]
            with pytest.raises(BraidcastError, match="2 results: ask for one"):
                _ = first.result

    run(work())


def test_group_without_a_state_machine_here_gives_only_the_receipt(tmp_path: Path) -> None:
    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path, groups=2, replicas=1), "n1") as lives:
            applied = await lives["n1"].submit(b"m", to={"g0", "g1"})
            assert applied.results == {"g0": 1}
            assert applied.receipt.timestamp
            assert (await lives["n1"].submit(b"m", to="g1")).results == {}
            with pytest.raises(NotHosted, match="group g1 has no state machine at node n1: g0 have"):
                lives["n1"].read("g1")

    run(work())


def test_subscribers_and_clients_use_the_node_as_ever(tmp_path: Path) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path, replicas=1)
        async with replicas_of(file, "n1") as lives:
            async with Client.connect(file) as client:
                await client.multicast(b"from a client", to="g0")
            await lives["n1"].submit(b"from inside", to="g0")
            async with Subscriber.connect(file, group="g0") as deliveries:
                assert [d.payload for d in await deliveries.take(2)] == [b"from a client", b"from inside"]
            assert lives.tape("n1").tape == [b"from a client", b"from inside"]

    run(work())


def test_replica_submits_as_its_client_and_with_that_ones_rights_when_there_is_tls(tmp_path: Path) -> None:
    clients = {"shop": {"send": ["g0"]}, "guest": {"send": ["g1"]}}

    async def work() -> None:
        config = config_in(tmp_path, groups=2, replicas=1, tls=True, clients=clients)
        async with Replica(config.path, node="n1", applications={"g0": Tape()}, identity="shop") as replica:
            assert (await replica.submit(b"m", to="g0")).result == 1
            with pytest.raises(MessageNotPermitted, match="g1"):
                await replica.submit(b"m", to="g1")
        with pytest.raises(BraidcastError, match="stranger"):
            async with Replica(config.path, node="n1", applications={"g0": Tape()}, identity="stranger"):
                pass

    run(work())


def test_barrier_is_seen_by_no_state_machine_and_what_was_receipted_before_is_there_after_it(tmp_path: Path) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path)
        async with replicas_of(file, *NODES) as lives, Client.connect(file) as client:
            for number in range(1, 21):
                await client.multicast(b"%d" % number, to="g0")
                reader = NODES[number % 3]
                receipt = await lives[reader].barrier("g0")
                assert receipt.timestamp
                assert len(lives.tape(reader).tape) == number

    run(work())


def test_what_apply_raises_is_raised_at_the_caller_and_everybody_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path, groups=2), *NODES, groups=("g0", "g1")) as lives:
            with pytest.raises(KeyError, match="raise this") as caught:
                await lives["n2"].submit(b"raise this", to={"g0", "g1"})
            assert "raised by the state machine of group g0 at timestamp" in caught.value.__notes__[0]
            assert (await lives["n2"].submit(b"after", to={"g0", "g1"})).results == {"g0": 2, "g1": 2}
            assert await lives.same(2) == [b"raise this", b"after"]
            assert [lives[name].hosted["g1"].raised for name in NODES] == [1, 1, 1]

    run(work())
    assert "group g0, timestamp" in caplog.text
    assert "applying it raised KeyError('raise this')" in caplog.text


def test_what_depends_on_the_machine_ends_the_node_and_is_applied_again_after_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path)
        async with replicas_of(file, *NODES) as lives:
            await lives["n1"].submit(b"before", to="g0")
            await lives.same(1)
            lives.tape("n3").breaks = MemoryError("no more")
            await lives["n1"].submit(b"too much", to="g0")
            with pytest.raises(NodeFailed, match="n3 cannot go on: Tape of group g0 cannot apply a message: MemoryErr"):
                await lives.ended("n3")
            await lives.start("n3")
            assert await lives.same(2) == [b"before", b"too much"]

    run(work())


def test_block_of_a_replica_whose_node_fails_is_left_with_the_reason(tmp_path: Path) -> None:
    async def work() -> None:
        lives = Lives(cluster_in(tmp_path, replicas=1), ("g0",))
        await lives.start("n1")
        node = lives["n1"].node
        assert node is not None
        node.fail("the disk is on fire")
        with pytest.raises(NodeFailed, match="disk is on fire"):
            await lives.ended("n1")
        await turns(3)  # nothing is left of the cancellation

    run(work())


def test_cancellation_from_outside_stays_one_although_the_node_failed_too(tmp_path: Path) -> None:
    async def inside() -> None:
        async with Replica(cluster_in(tmp_path, replicas=1), node="n1", applications={"g0": Tape()}) as replica:
            assert replica.node is not None
            replica.node.fail("the disk is on fire")
            current = asyncio.current_task()
            assert current is not None
            asyncio.get_running_loop().call_soon(current.cancel)
            await asyncio.Event().wait()

    async def work() -> None:
        task = asyncio.create_task(inside())
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())


def test_leaving_waits_for_results_and_nothing_is_left_running(tmp_path: Path) -> None:
    async def work() -> None:
        before = asyncio.all_tasks()
        async with replicas_of(cluster_in(tmp_path, replicas=1), "n1") as lives:
            tasks = [asyncio.create_task(lives["n1"].submit(b"%d" % n, to="g0")) for n in range(20)]
            await turns(1)
        assert [task.result().result for task in tasks] == list(range(1, 21))
        await until(lambda: asyncio.all_tasks() == before, "the end of all tasks")

    run(work())


def test_submission_that_is_not_delivered_in_time_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path), "n1") as lives:
            with pytest.raises(TimedOut, match="not delivered in time"):
                await lives["n1"].submit(b"alone", to="g0", timeout=0.05)

    run(work())


def test_what_cannot_be_hosted_is_said_in_a_line_before_anything_starts(tmp_path: Path) -> None:
    class Waits(Tape):
        async def apply(self, delivery: object) -> None: ...

    file = cluster_in(tmp_path, groups=2, replicas=1)
    tape = Tape()

    async def refused(match: str, kind: type[BraidcastError] = BraidcastError, **given: object) -> None:
        arguments = {"node": "n1", "applications": {"g0": Tape()}, **given}
        with pytest.raises(kind, match=match):
            await Replica(file, **arguments).__aenter__()  # type: ignore[arg-type]  # the test gives what is wrong, too

    async def work() -> None:
        await refused("no group 'g7' in this cluster: it has g0, g1", UnknownGroup, applications={"g7": Tape()})
        await refused("no node 'n7'", node="n7")
        await refused("two groups have the same state machine", applications={"g0": tape, "g1": tape})
        await refused("apply of group g0 is asynchronous", applications={"g0": Waits()})
        await refused("its only replica", rejoin=True)
        replica = Replica(file, node="n1", applications={"g0": Tape()})
        with pytest.raises(BraidcastError, match="not open: use it inside"):
            await replica.submit(b"m", to="g0")
        assert not (tmp_path / "data").exists()
        async with replica:
            with pytest.raises(UnknownGroup):
                await replica.submit(b"m", to="g7")
            await refused("in use by another process: node n1 runs already")
        with pytest.raises(BraidcastError, match="open already: make another one"):
            await replica.__aenter__()

    run(work())


def test_group_that_another_node_has_is_not_hosted_here(tmp_path: Path) -> None:
    file = cluster_in(tmp_path, groups=2, replicas=1)
    text = file.read_text().replace('g1 = ["n1"]', 'g1 = ["n2"]')
    file.write_text(text + '\n[nodes.n2]\naddress = "127.0.0.1:1"\n')

    async def work() -> None:
        with pytest.raises(NotHosted, match="node n1 has no replica of group g1: it has g0"):
            await Replica(file, node="n1", applications={"g1": Tape()}).__aenter__()

    run(work())
