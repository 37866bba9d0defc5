"""Flow control: memory is bounded whoever floods, is slow or is away; a full disk stops a node until there is room."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cluster.inprocess import CLIENT, STEADY, Line, Nodes, config_in, message, nodes_of, run, turns, until

from braidcast.cluster import clients, durability, journal_segments, peers
from braidcast.cluster.node import Node
from braidcast.cluster.replica import Replica
from braidcast.core.client import Refused, Reply
from braidcast.history import raw
from braidcast.wire.service import Deliveries, Status, StatusWanted, Subscribe

LIMIT = 40
FRAME = 5
"""Messages in one frame of a flood."""
SIZE = 8_000


def limited(**more: int) -> dict[str, str | int]:
    return {"pending_messages_max": LIMIT, **more}


def payloads(count: int, size: int = SIZE) -> list[bytes]:
    return [f"{number}".encode().ljust(size, b".") for number in range(1, count + 1)]


def flood(line: Line, pid: int, first: int, count: int, dest: Sequence[int] = (0,), size: int = SIZE) -> None:
    """So many messages, a few per frame, all at once."""
    for number in range(first, first + count, FRAME):
        line.submit((pid,), *[message(n, dest=tuple(dest), size=size) for n in range(number, number + FRAME)])


async def stopped(nodes: Nodes, name: str) -> None:
    """Wait until a node takes no more from clients, and see that it stays so."""
    node = nodes[name]
    def is_full() -> bool:
        return not node.clients.admits and max(r.process.backlog for r in node.replicas.values()) >= LIMIT

    await until(is_full, f"{name} to take no more")
    await turns()
    assert is_full()


def backlog(nodes: Nodes, group: int = 0) -> int:
    return max(replica.process.backlog for replica in nodes.replicas(group))


# -- floods ----------------------------------------------------------------------------------------------------------


def test_flood_of_a_group_without_quorum_waits_in_the_network_and_is_delivered_later(tmp_path: Path) -> None:
    config = config_in(tmp_path, unix=True, options=STEADY, limits=limited())

    async def work() -> None:
        async with nodes_of(config, "n1") as nodes:
            line = await Line.to(nodes, "n1")
            flood(line, 0, 1, 1_000)
            await stopped(nodes, "n1")
            assert LIMIT <= backlog(nodes) < LIMIT + FRAME
            assert line.connection.unread_bytes > 0, "the client feels it"
            assert not nodes.status("n1")["reads_clients"]
            await nodes.start("n2")
            await line.hears(Reply, 1_000)
            assert sorted(await nodes.delivered_everywhere(0, 1_000)) == sorted(payloads(1_000))
            assert nodes.status("n1")["reads_clients"]
            line.end()

    run(work())


def test_bytes_that_are_pending_are_bounded_on_every_node_while_a_group_is_down(tmp_path: Path) -> None:
    """2 MB is the limit, however few messages that are: the second group is not there, so that all of them wait."""
    limits: dict[str, str | int] = {"pending_bytes_max": 2_000_000, "payload_bytes_max": 100_000}
    options: dict[str, str | int] = {"retry_ticks": 10_000, **STEADY}
    config = config_in(tmp_path, groups=2, layout="spread", unix=True, options=options, limits=limits)

    async def work() -> None:
        async with nodes_of(config, "g0-1", "g0-2", "g0-3") as nodes:
            line = await Line.to(nodes, "g0-1")
            for number in range(1, 101):
                line.submit((0,), message(number, dest=(0, 1), size=100_000))
            node = nodes["g0-1"]
            leader = node.by_group[0].process
            await until(lambda: not node.clients.admits and leader.backlog_bytes >= 2_000_000, "the limit")
            await turns(1_000)
            assert leader.backlog == 20
            for other in nodes.running.values():
                assert held_bytes(other) <= 2_000_000
                assert all(peer.behind_bytes <= 4_000_000 for peer in other.peers.all.values())
            await nodes.start("g1-1", "g1-2")
            await nodes.delivered_everywhere(0, 100)
            assert leader.backlog_bytes == 0
            line.end()

    run(work())


def held_bytes(node: Node) -> int:
    """Payloads that a node's white-box processes have not delivered."""
    entries = [entry for r in node.replicas.values() for entry in r.process.entries.values()]  # type: ignore[attr-defined]  # only this process has entries
    return sum(len(entry.body.payload) for entry in entries if entry.body is not None and not entry.gts)


def test_flood_by_several_clients_at_once_stops_at_the_same_limit(tmp_path: Path) -> None:
    config = config_in(tmp_path, options=STEADY, limits=limited())

    async def work() -> None:
        async with nodes_of(config, "n1") as nodes:
            lines = [await Line.to(nodes, "n1") for _ in range(5)]
            for place, line in enumerate(lines):
                flood(line, 0, 1 + 100 * place, 100, size=10)
            await stopped(nodes, "n1")
            assert LIMIT <= backlog(nodes) < LIMIT + FRAME
            await nodes.start("n2")
            await nodes.delivered_everywhere(0, 500)
            for line in lines:
                line.end()

    run(work())


def test_flood_through_followers_stops_at_the_leader(tmp_path: Path) -> None:
    """Followers pass on what clients send them, and know nothing of what waits at the leader."""
    config = config_in(tmp_path, groups=2, replicas=3, layout="spread", options=STEADY, limits=limited())

    async def work() -> None:
        async with nodes_of(config, "g0-1", "g0-2", "g0-3") as nodes:
            line = await Line.to(nodes, "g0-2")
            flood(line, 1, 1, 500, dest=(0, 1), size=10)
            leader = nodes["g0-1"]
            await until(lambda: leader.refused.get("passed on while there was no room"), "the limit")
            await turns()
            assert backlog(nodes) == LIMIT
            await nodes.start("g1-1", "g1-2")
            await until(lambda: backlog(nodes) == 0, "what waited")
            line.submit((1,), message(501, dest=(0, 1)))
            await until(lambda: b"501" in nodes.delivered(0)[0], "the next one")
            line.end()

    run(work())


def test_new_leader_inherits_the_backlog_and_the_limit(tmp_path: Path) -> None:
    """Both groups accept the messages; the second has no quorum, so that they wait."""
    options: dict[str, str | int] = {"suspect_ticks": 400_000}
    config = config_in(tmp_path, groups=2, layout="spread", options=options, limits=limited())

    async def work() -> None:
        async with nodes_of(config, "g0-1", "g0-2", "g0-3", "g1-1") as nodes:
            lines = {name: await Line.to(nodes, name) for name in nodes.running}
            flood(lines["g1-1"], 3, 1, 200, dest=(0, 1), size=10)
            flood(lines["g0-1"], 0, 1, 200, dest=(0, 1), size=10)
            await until(lambda: all(accepted(replica) >= LIMIT for replica in nodes.replicas(0)), "acceptances")
            lines.pop("g0-1").end()
            await nodes.stop("g0-1")
            leader = await nodes.led(0)
            assert LIMIT <= leader.process.backlog < LIMIT + FRAME
            name = nodes.node_of(leader).name
            flood(lines[name], leader.pid, 1_001, 500, dest=(0, 1), size=10)
            await stopped(nodes, name)
            assert leader.process.backlog < LIMIT + FRAME
            await nodes.start("g1-2")
            await until(lambda: set(payloads(LIMIT, 10)) <= set(nodes.delivered(0)[0]), "what the first leader took")
            await until(lambda: nodes[name].clients.admits, "room for more")
            for line in lines.values():
                line.end()

    run(work())


def accepted(replica: Replica) -> int:
    """How many messages a white-box process has accepted."""
    return len(replica.process.uncommitted())  # type: ignore[attr-defined]  # any process has a backlog, only this one phases


def test_what_other_groups_bring_is_bounded_by_their_limits_and_blocks_nobody(tmp_path: Path) -> None:
    """A retry is always taken: two leaders that refused each other's messages would wait for ever."""
    options: dict[str, str | int] = {"heartbeat_ticks": 1_000, "retry_ticks": 1_000, **STEADY}
    config = config_in(tmp_path, groups=3, replicas=1, layout="spread", options=options, limits=limited())

    async def work() -> None:
        async with nodes_of(config, "g0-1", "g1-1") as nodes:
            lines = [await Line.to(nodes, name) for name in ("g0-1", "g1-1")]
            for pid, line in enumerate(lines):
                flood(line, pid, 1 + 1_000 * pid, 200, dest=(0, 1, 2), size=10)
            await stopped(nodes, "g0-1")
            await stopped(nodes, "g1-1")
            await until(lambda: backlog(nodes, 0) > 2 * LIMIT - FRAME < backlog(nodes, 1), "what the other has")
            await turns()
            assert max(backlog(nodes, 0), backlog(nodes, 1)) < 2 * (LIMIT + FRAME)
            await nodes.start("g2-1")
            orders = [await nodes.delivered_everywhere(group, 400) for group in range(3)]
            assert orders[0] == orders[1] == orders[2]
            for line in lines:
                line.end()

    run(work())


def test_refused_instead_of_waiting_if_the_configuration_says_so(tmp_path: Path) -> None:
    config = config_in(tmp_path, groups=2, layout="spread", cluster={"when_unavailable": "refuse"}, options=STEADY)

    async def work() -> None:
        async with nodes_of(config, "g0-1", "g0-2") as nodes:
            line = await Line.to(nodes, "g0-1")
            line.submit((0,), message(1, dest=(0, 1)), message(2), message(3, dest=(1,)))
            refused = await line.hears(Refused, 2)
            assert [r.id.seq for r in refused] == [1, 3]
            assert {r.why for r in refused} == {
                "unavailable: node g0-1 reaches no quorum of group g1, try again later"
            }
            assert [r.id.seq for r in await line.hears(Reply)] == [2]
            await nodes.start("g1-1", "g1-2")
            await nodes.connected()
            line.submit((0,), message(4, dest=(0, 1)))
            assert [r.id.seq for r in await line.hears(Reply, 2)] == [2, 4]
            line.end()

    run(work())


# -- those who do not read -------------------------------------------------------------------------------------------


def test_peer_that_does_not_read_loses_its_session_and_catches_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits: dict[str, str | int] = {
        "payload_bytes_max": SIZE, "frame_bytes_max": 400_000, "peer_buffer_bytes_max": 600_000,
    }  # fmt: skip
    config = config_in(tmp_path, unix=True, options={**STEADY, "chunk_bytes": 100_000}, limits=limits)

    async def work() -> None:
        async with nodes_of(config) as nodes:
            caplog.set_level(logging.INFO)
            peer = nodes["n1"].peers.all["n3"]
            deaf = nodes["n3"].peers.all["n1"].connection
            assert deaf is not None
            assert deaf.transport is not None
            deaf.transport.pause_reading()
            line = await Line.to(nodes, "n1")
            number = 1
            while peer.sessions == 1:
                flood(line, 0, number, FRAME)
                number += FRAME
                await line.hears(Reply, number - 1)
            ends = [record.message for record in caplog.records if "session ended" in record.message]
            assert "peer n3: session ended: the other side does not read" in ends[0]
            assert all("peer n2" not in end for end in ends)
            assert (await nodes.delivered_everywhere(0, number - 1))[-1] == payloads(number - 1)[-1]
            line.end()

    run(work())


def test_turn_with_more_than_the_buffer_for_a_peer_that_reads_costs_no_session(tmp_path: Path) -> None:
    """What one turn puts out is written as it is taken: 3 MB for each peer, with room for 0.4 MB."""
    limits: dict[str, str | int] = {
        "payload_bytes_max": 100_000, "frame_bytes_max": 200_000, "peer_buffer_bytes_max": 400_000,
    }  # fmt: skip
    config = config_in(tmp_path, unix=True, options={**STEADY, "chunk_bytes": 100_000}, limits=limits)

    async def work() -> None:
        async with nodes_of(config) as nodes:
            leader = await nodes.led(0)
            before = {name: sessions(nodes, name) for name in nodes.running}
            line = await Line.to(nodes, "n1")
            for number in range(1, 31):
                nodes["n1"].door.submit(nodes["n1"].clients.all()[0], (leader.pid,), message(number, size=100_000))
            nodes["n1"].wake()
            assert sorted(await nodes.delivered_everywhere(0, 30)) == sorted(payloads(30, 100_000))
            assert {name: sessions(nodes, name) for name in nodes.running} == before
            line.end()

    run(work())


def sessions(nodes: Nodes, name: str) -> list[int]:
    return [peer.sessions for peer in nodes[name].peers.all.values()]


def test_peer_that_takes_nothing_for_a_moment_loses_what_there_is_no_room_for_and_no_session(tmp_path: Path) -> None:
    limits: dict[str, str | int] = {
        "payload_bytes_max": SIZE, "frame_bytes_max": 400_000, "peer_buffer_bytes_max": 600_000,
    }  # fmt: skip
    timing: dict[str, str | int] = {"silence_ms_max": 60_000}
    config = config_in(
        tmp_path, unix=True, options={**STEADY, "chunk_bytes": 100_000}, limits=limits, timing=timing
    )  # fmt: skip

    async def work() -> None:
        async with nodes_of(config) as nodes:
            peer, other = nodes["n1"].peers.all["n3"], nodes["n3"].peers.all["n1"]
            before = peer.sessions
            assert other.connection is not None
            other.connection.set_reading(False)
            line = await Line.to(nodes, "n1")
            number = 1
            while not peer.lost:
                flood(line, 0, number, FRAME)
                number += FRAME
                await line.hears(Reply, number - 1)
                assert peer.behind_bytes < 600_000 + 10 * FRAME * SIZE
            flood(line, 0, number, 20 * FRAME)
            number += 20 * FRAME
            await line.hears(Reply, number - 1)
            assert peer.behind_bytes < 600_000 + 10 * FRAME * SIZE, "beyond the limit nothing is kept"
            other.connection.set_reading(True)
            await nodes.delivered_everywhere(0, number - 1)
            await until(lambda: not peer.lost, "word that something was lost")
            assert peer.sessions == before
            line.end()

    run(work())


def test_clients_wait_while_no_quorum_takes_what_it_is_sent(tmp_path: Path) -> None:
    config = config_in(tmp_path, options=STEADY)

    async def work() -> None:
        async with nodes_of(config) as nodes:
            node = nodes["n1"]
            first, second = node.peers.all.values()
            first.waiting_bytes = peers.CONGESTED_BYTES + 1
            assert node.admission.admit()
            second.waiting_bytes = peers.CONGESTED_BYTES + 1
            assert not node.admission.admit()
            first.waiting_bytes = second.waiting_bytes = 0
            assert node.admission.admit()

    run(work())


def test_subscriber_that_does_not_read_costs_a_bounded_buffer_and_gets_all_later(tmp_path: Path) -> None:
    config = config_in(tmp_path, replicas=1, unix=True)

    async def work() -> None:
        async with nodes_of(config) as nodes:
            subscriber, line = await Line.to(nodes, "n1"), await Line.to(nodes, "n1")
            subscriber.say([(CLIENT, (), Subscribe(0, 0))])
            await until(lambda: nodes["n1"].clients.following, "the subscription")
            subscriber.pause()
            for number in range(1, 1_001, 100):
                flood(line, 0, number, 100)
                await line.hears(Reply, number + 99)
            (session,) = nodes["n1"].clients.following
            assert 0 < session.connection.unread_bytes <= clients.UNREAD_BYTES_MAX + 2 * clients.BYTES_PER_FRAME
            subscriber.resume()
            entries = await until(lambda: (len(all_ := got(subscriber)) == 1_000 and all_) or None, "all entries")
            assert entries == payloads(1_000)
            line.end()
            subscriber.end()

    run(work())


def got(line: Line) -> list[bytes]:
    return [entry.payload for deliveries in line.heard(Deliveries) for entry in deliveries.entries]


# -- a full disk -----------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is looked at again before long."""
    monkeypatch.setattr(durability, "RETRY_S", 0.005)


@pytest.mark.usefixtures("soon")
def test_full_disk_stops_acknowledging_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1, limits=limited())) as nodes:
            line = await Line.to(nodes, "n1")
            line.submit((0,), message(1))
            await line.hears(Reply)
            nodes.disks["n1"].full = True
            flood(line, 0, 2, 200, size=10)
            await until(lambda: nodes.status("n1")["disk"]["lack"], "word of it")
            await turns()
            assert len(line.heard(Reply)) == 1
            assert len(nodes.delivered(0)[0]) == 1

            asking = await Line.to(nodes, "n1")
            asking.say([(CLIENT, (), StatusWanted())])
            (status,) = await asking.hears(Status)
            assert json.loads(status.text)["disk"]["lack"]
            assert not json.loads(status.text)["reads_clients"]
            asking.end()

            nodes.disks["n1"].full = False
            await line.hears(Reply, 201)
            assert not nodes.status("n1")["disk"]["lack"]
            before = await nodes.delivered_everywhere(0, 201)
            line.end()
            await nodes.stop()
            await nodes.start()
            assert await nodes.delivered_everywhere(0, 201) == before

    run(work())


@pytest.mark.usefixtures("soon")
def test_full_disk_of_a_follower_holds_back_nobody_and_takes_bounded_memory(tmp_path: Path) -> None:
    limits = limited(payload_bytes_max=SIZE, frame_bytes_max=50_000, peer_buffer_bytes_max=200_000)
    config = config_in(tmp_path, unix=True, options={**STEADY, "chunk_bytes": 30_000}, limits=limits)

    async def work() -> None:
        async with nodes_of(config) as nodes:
            follower = nodes["n3"]
            nodes.disks["n3"].full = True
            line = await Line.to(nodes, "n1")
            for number in range(1, 1_001, 20):
                flood(line, 0, number, 20)
                await line.hears(Reply, number + 19)
                held_back = follower.admission.held_back
                assert held_back < 3 * LIMIT, "a frame beyond the limit, and what the process says to it"
            assert follower.disk_lack
            assert not follower.peers.reading
            nodes.disks["n3"].full = False
            await nodes.delivered_everywhere(0, 1_000)
            assert follower.peers.reading
            line.end()

    run(work())


@pytest.mark.parametrize("what", ["journal", "history"])
def test_journal_or_history_without_room_stops_the_node_until_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def work() -> None:
        config = config_in(tmp_path, replicas=1, cluster={"history": "history"}, limits=limited())
        async with nodes_of(config) as nodes:
            line = await Line.to(nodes, "n1")

            def no_room(file: int, data: bytes, size: int) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            with monkeypatch.context() as full:
                full.setattr(journal_segments if what == "journal" else raw, "append_whole", no_room)
                flood(line, 0, 1, 200, size=10)
                await until(lambda: nodes.status("n1")["disk"]["lack"], "word of it")
                await turns()
                assert line.heard(Reply) == []
                assert nodes["n1"].by_group[0].journal.next <= LIMIT + FRAME + 1
            await line.hears(Reply, 200)
            assert not nodes.status("n1")["disk"]["lack"]
            line.end()
            await nodes.stop()
            await nodes.start()
            assert await nodes.delivered_everywhere(0, 200) == payloads(200, 10)

    run(work())
