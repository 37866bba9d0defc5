"""A node among others: nothing leaves before it is durable, commits are shared, clocks may jump, and it stops."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.inprocess import CLIENT, STEADY, Line, Nodes, config_in, message, nodes_of, run, turns, until

from braidcast.cluster import node as node_module
from braidcast.core.client import Reply
from braidcast.wire.clocks import wall_us
from braidcast.wire.service import Deliveries, Subscribe


def quiet(folder: Path, **more: int) -> dict[str, str | int]:
    """Options under which a leader says nothing by itself while a test looks."""
    return {"heartbeat_ticks": 3_600_000_000, "suspect_ticks": 7_200_000_000, "retry_ticks": 3_600_000_000, **more}


def test_three_nodes_agree_on_messages_to_one_and_to_two_groups(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2, unix=True, options=STEADY)) as nodes:
            line = await Line.to(nodes, "n1")
            for number in range(1, 31):
                line.submit((0, 3), message(number, dest=((0,), (1,), (0, 1))[number % 3]))
            await line.hears(Reply, 40)
            first, second = await nodes.delivered_everywhere(0, 20), await nodes.delivered_everywhere(1, 20)
            shared = {f"{number}".encode() for number in range(2, 31, 3)}
            assert [payload for payload in first if payload in shared] == [p for p in second if p in shared]
            line.end()

    run(work())


def test_leader_proposes_while_its_disk_works_and_nothing_else_leaves_it(tmp_path: Path) -> None:
    """ACCEPT rests on nothing recorded (protocols.md 1.3); the reply and the delivery rest on the acceptance."""

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=quiet(tmp_path))) as nodes:
            node, disk = nodes["n1"], nodes.disks["n1"]
            line = await Line.to(nodes, "n1")
            line.say([(CLIENT, (), Subscribe(0, 0))])
            await until(lambda: node.clients.following, "the subscription")
            disk.hold()
            syncs, sent = disk.syncs, sent_frames(nodes, "n1")
            line.submit((0,), message(1))
            await until(lambda: disk.syncs > syncs, "the commit to begin")
            line.submit((0,), message(2))
            await turns()
            assert sent_frames(nodes, "n1") == sent + 2, "the first ACCEPT, to both followers"
            assert line.bodies == [], "no reply and no delivery"
            assert node.by_group[0].journal.next == 1
            disk.release()
            await line.hears(Reply, 2)
            await until(lambda: sum(len(d.entries) for d in line.heard(Deliveries)) == 2, "both deliveries")
            line.end()

    run(work())


def test_deliveries_and_replies_do_not_wait_for_their_marks_and_their_durability_is_not_told_before(
    tmp_path: Path,
) -> None:
    """The second sync of the leader's disk never ends; by the log it has accepted the message, and not delivered it."""

    async def work() -> None:
        config = config_in(tmp_path, options=quiet(tmp_path))
        async with nodes_of(config) as nodes:
            node, disk = nodes["n1"], nodes.disks["n1"]
            assert node.durability is not None
            line = await Line.to(nodes, "n1")
            commits = node.durability.commits
            line.submit((0,), message(1))
            await until(lambda: node.durability is not None and node.durability.commits > commits, "the acceptance")
            disk.hold()
            await line.hears(Reply)
            await until(lambda: node.by_group[0].journal.next == 2, "the delivery")
            await nodes.delivered_everywhere(0, 1)
            process: Any = node.by_group[0].process
            assert [type(record).__name__ for record in node.by_group[0].out.records] == ["Marked"]
            assert process.told == 0
            line.end()

    run(work())


def test_delivery_whose_mark_was_lost_is_not_made_again_after_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path, options=quiet(tmp_path))
        async with nodes_of(config) as nodes:
            line = await Line.to(nodes, "n1")
            line.submit((0,), message(1))
            await line.hears(Reply)
            await nodes.delivered_everywhere(0, 1)
            line.end()
            await nodes.stop("n2")
            await nodes.start("n2")
            process: Any = nodes["n2"].by_group[0].process
            assert process.max_delivered_gts == 0, "nothing made the mark durable"
            assert nodes["n2"].by_group[0].journal.next == 2, "the journal has it"
            await until(lambda: nodes["n1"].reaches("n2"), "the new session")
            line = await Line.to(nodes, "n1")
            line.submit((0,), message(2))
            await until(lambda: nodes["n2"].by_group[0].journal.next == 3, "what came after it")
            assert len(await nodes.delivered_everywhere(0, 2)) == 2
            line.end()

    run(work())


def test_follower_acknowledges_nothing_before_its_commit_is_durable(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=quiet(tmp_path)), "n1", "n2") as nodes:
            disk = nodes.disks["n2"]
            line = await Line.to(nodes, "n1")
            disk.hold()
            syncs, sent = disk.syncs, sent_frames(nodes, "n2")
            line.submit((0,), message(1))
            await until(lambda: disk.syncs > syncs, "the commit of the follower")
            await turns()
            assert sent_frames(nodes, "n2") == sent
            assert line.heard(Reply) == [], "n3 is away, so the leader needs the word of n2"
            disk.release()
            await line.hears(Reply)
            line.end()

    run(work())


def sent_frames(nodes: Nodes, name: str) -> int:
    return sum(peer.connection.sent for peer in nodes[name].peers.all.values() if peer.connection is not None)


async def talk(nodes: Nodes, name: str, frames: int) -> None:
    """Wait until a node has said so much to the others."""
    before = sent_frames(nodes, name)
    await until(lambda: sent_frames(nodes, name) >= before + frames, f"{frames} frames of {name}")


def test_many_messages_share_one_commit_and_one_frame_per_peer(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2, options=quiet(tmp_path))) as nodes:
            node = nodes["n1"]
            assert node.durability is not None
            line = await Line.to(nodes, "n1")
            await until(lambda: node.durability is not None and not node.durability.busy, "the first commit")
            commits, sent = node.durability.commits, sent_frames(nodes, "n1")
            line.submit((0, 3), *[message(number, dest=(number % 2,)) for number in range(1, 501)])
            await line.hears(Reply, 500)
            # One commit to propose all, then one for each answer of a peer that delivers something.
            assert node.durability.commits - commits <= 8
            assert sent_frames(nodes, "n1") - sent <= 16
            line.end()

    run(work())


def test_turn_that_does_not_fit_into_a_frame_goes_in_several(tmp_path: Path) -> None:
    limits: dict[str, str | int] = {"payload_bytes_max": 20_000, "frame_bytes_max": 60_000}
    limits |= {"peer_buffer_bytes_max": 10_000_000, "client_buffer_bytes_max": 60_000}

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=quiet(tmp_path), limits=limits)) as nodes:
            line = await Line.to(nodes, "n1")
            line.say([(CLIENT, (), Subscribe(0, 0))])
            for number in range(1, 41):
                line.submit((0,), message(number, size=20_000))
            await nodes.delivered_everywhere(0, 40)
            assert all(peer.sessions == 1 for peer in nodes["n1"].peers.all.values()), "no frame was too large"
            await until(lambda: sum(len(d.entries) for d in line.heard(Deliveries)) == 40, "all at the subscriber")
            assert all(len(body) <= 60_000 for body in line.bodies)
            line.end()

    run(work())


def test_wall_clock_that_jumps_by_hours_changes_neither_order_nor_timers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = 3_600_000_000
    now = wall_us()

    async def work() -> None:
        async with nodes_of(config_in(tmp_path)) as nodes:
            leader = await nodes.led(0)
            line = await Line.to(nodes, "n1")
            for number, jump in enumerate((0, 5, -7, 3, -100, 1_000), 1):
                monkeypatch.setattr(node_module, "wall_us", lambda jump=jump: now + jump * hours)
                line.submit((leader.pid,), message(number))
                await line.hears(Reply, number)
                await talk(nodes, "n1", 8)  # some heartbeats
                assert nodes.leader(0) is leader
            assert await nodes.delivered_everywhere(0, 6) == [b"1", b"2", b"3", b"4", b"5", b"6"]
            line.end()

    run(work())


def test_restarted_cluster_has_what_it_acknowledged_and_goes_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2)) as nodes:
            for life in range(3):
                leader = await nodes.led(0)
                line = await Line.to(nodes, nodes.node_of(leader).name)
                line.submit((leader.pid,), *[message(10 * life + number) for number in range(1, 11)])
                await line.hears(Reply, 10)
                line.end()
                await nodes.delivered_everywhere(0, 10 * life + 10)
                await nodes.stop()
                await nodes.start()
                assert await nodes.delivered_everywhere(0, 10 * life + 10) == [
                    f"{number}".encode() for number in range(1, 10 * life + 11)
                ]

    run(work())


def test_log_is_checkpointed_when_it_has_grown_and_the_checkpoint_recovers(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path, replicas=1, limits={"checkpoint_bytes_min": 2_000, "segment_bytes": 4_096})
        async with nodes_of(config) as nodes:
            line = await Line.to(nodes, "n1")
            for number in range(1, 201):
                line.submit((0,), message(number))
                if number % 40 == 0:
                    await line.hears(Reply, number)
            line.end()
            durability = nodes["n1"].durability
            assert durability is not None
            assert durability.wal.checkpoint_bytes > 0
            await nodes.stop()
            await nodes.start()
            assert await nodes.delivered_everywhere(0, 200) == [f"{number}".encode() for number in range(1, 201)]

    run(work())


def test_disk_that_fails_a_sync_ends_the_node_and_nothing_leaves_any_more(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            node, line = nodes["n1"], await Line.to(nodes, "n1")
            nodes.disks["n1"].broken = True
            line.submit((0,), message(1))
            assert node.failure is not None
            assert "nobody knows what it holds" in await node.failure
            line.submit((0,), message(2))
            await turns()
            assert line.bodies == []
            assert node.by_group[0].journal.next == 1
            line.end()

    run(work())


def test_journal_that_cannot_be_written_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            node, line = nodes["n1"], await Line.to(nodes, "n1")

            def fail() -> None:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            monkeypatch.setattr(node.by_group[0].journal, "write", fail)
            line.submit((0,), message(1))
            assert node.failure is not None
            assert "n1 cannot go on" in await node.failure
            await turns()
            assert line.heard(Reply) == []
            line.end()

    run(work())


def test_process_that_raises_ends_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A step done by half must not be followed by others."""

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            node, line = nodes["n1"], await Line.to(nodes, "n1")

            def fail(sender: int, message: object) -> None:
                raise AssertionError("a leader has the body of what it proposed")

            monkeypatch.setattr(node.by_group[0], "step", fail)
            line.submit((0,), message(1))
            assert node.failure is not None
            assert "AssertionError" in await node.failure
            line.end()

    run(work())
    assert "an error that should not be" in caplog.text


def test_lost_journal_is_not_begun_anew_when_what_it_held_is_forgotten(tmp_path: Path) -> None:
    """Otherwise its entries would get other numbers than those of the other replicas."""

    async def work() -> None:
        config = config_in(tmp_path)
        async with nodes_of(config) as nodes:
            leader = await nodes.led(0)
            line = await Line.to(nodes, nodes.node_of(leader).name)
            line.submit((leader.pid,), *[message(number) for number in range(1, 11)])
            await nodes.delivered_everywhere(0, 10)
            await until(lambda: all(not r.process.delivered_log for r in nodes.replicas(0)), "collection")  # type: ignore[attr-defined]  # a whitebox process
            line.end()
            await nodes.stop("n3")
            for path in (config.nodes["n3"].data / "journal" / "g0").iterdir():
                path.unlink()
            with pytest.raises(Exception, match=r"journal of process 2 .* rejoin"):
                await nodes.start("n3")

    run(work())


def test_damage_of_a_journal_that_cannot_be_made_up_for_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """In its last frame it could be a torn end; but what follows is collected, so it was durable."""

    async def work() -> None:
        config = config_in(tmp_path)
        async with nodes_of(config) as nodes:
            leader = await nodes.led(0)
            line = await Line.to(nodes, nodes.node_of(leader).name)
            line.submit((leader.pid,), *[message(number) for number in range(1, 11)])
            await nodes.delivered_everywhere(0, 10)
            await until(lambda: all(not r.process.delivered_log for r in nodes.replicas(0)), "collection")  # type: ignore[attr-defined]  # a whitebox process
            line.end()
            assert nodes.status("n3")["replicas"][0]["journal_damage"] == ""
            await nodes.stop("n3")
            (path,) = (config.nodes["n3"].data / "journal" / "g0").iterdir()
            data = bytearray(path.read_bytes())
            data[-2] ^= 1
            path.write_bytes(data)
            with pytest.raises(Exception, match=rf"journal of process 2 .*byte \d+ of {path}.* rejoin"):
                await nodes.start("n3")
            assert path.read_bytes() == data

    run(work())


def test_stopped_node_leaves_nothing_running(tmp_path: Path) -> None:
    async def work() -> None:
        before = asyncio.all_tasks()
        async with nodes_of(config_in(tmp_path)) as nodes:
            line = await Line.to(nodes, "n1")
            nodes.disks["n1"].hold()
            line.submit((0,), message(1))
            await turns(5)
        await until(lambda: line.ended, "the end of the connection")
        assert asyncio.all_tasks() == before

    run(work())


def test_node_in_memory_needs_no_disk(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, cluster={"durability": "memory"})) as nodes:
            leader = await nodes.led(0)
            line = await Line.to(nodes, nodes.node_of(leader).name)
            line.submit((leader.pid,), message(1))
            await line.hears(Reply)
            assert await nodes.delivered_everywhere(0, 1) == [b"1"]
            assert nodes.status("n1")["disk"] is None
            line.end()

    run(work())


def test_replica_that_lost_its_session_catches_up_by_snapshot(tmp_path: Path) -> None:
    options: dict[str, str | int] = {"laggard_entries": 5, "chunk_entries": 2, "chunk_bytes": 100}

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=options)) as nodes:
            await nodes.stop("n3")
            leader = await nodes.led(0)
            line = await Line.to(nodes, nodes.node_of(leader).name)
            for number in range(1, 41):
                line.submit((leader.pid,), message(number))
            await line.hears(Reply, 40)
            await until(lambda: len(leader.process.delivered_log) < 20, "collection without the laggard")  # type: ignore[attr-defined]  # a whitebox process
            await nodes.start("n3")
            assert await nodes.delivered_everywhere(0, 40) == [f"{number}".encode() for number in range(1, 41)]
            journal = nodes["n3"].by_group[0].journal
            await until(lambda: journal.mark == journal.last_gts, "the snapshot to be durable")
            await nodes.stop("n3")
            await nodes.start("n3")
            assert nodes["n3"].by_group[0].journal.next == 41
            line.end()

    run(work())
