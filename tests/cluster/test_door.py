"""The front door: who is let in, what clients may ask for, and what they are told."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.inprocess import ANY, CLIENT, STEADY, Line, config_in, message, nodes_of, run, turns, until

from braidcast.core.client import Multicast, Redirect, Refused, Reply
from braidcast.core.errors import BraidcastError
from braidcast.protocols.whitebox.messages import Heartbeat
from braidcast.wire.codec import Codec
from braidcast.wire.connection import Connection
from braidcast.wire.handshake import ClientHello, TurnedAway, Welcome
from braidcast.wire.service import Deliveries, Status, StatusWanted, Subscribe, SubscriptionEnded, Unsubscribe


def test_client_is_welcomed_with_all_it_needs_to_know(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2), "n1") as nodes:
            line = await Line.to(nodes, "n1", ClientHello("local", CLIENT))
            assert isinstance(line.answer, Welcome)
            assert [(group.name, group.pids) for group in line.answer.groups] == [("g0", (0, 1, 2)), ("g1", (3, 4, 5))]
            assert [(node.name, node.pids) for node in line.answer.nodes][2] == ("n3", (2, 5))
            line.end()

    run(work())


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (ClientHello("shop", CLIENT), "this is cluster local, not shop"),
        (ClientHello("", 0), "0 is not the id of a client"),
        (ClientHello("", -1), "-1 is not the id of a client"),
    ],
)
def test_client_that_does_not_belong_here_is_turned_away(tmp_path: Path, hello: ClientHello, why: str) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes:
            line = await Line.to(nodes, "n1", hello)
            assert line.answer == TurnedAway(why, True)
            await until(lambda: line.ended, "the end")
            assert nodes["n1"].refused == {"client turned away": 1}

    run(work())


def test_connections_have_a_limit_and_little_time_to_say_who_they_are(tmp_path: Path) -> None:
    timing: dict[str, str | int] = {"handshake_ms_max": 30, "ping_ms": 10, "silence_ms_max": 60_000}

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, timing=timing), "n1") as nodes:
            nodes["n1"].door.strangers_max = 2
            here = nodes.config.nodes["n1"]
            loop = asyncio.get_running_loop()
            silent = [Connection(ANY, lambda *_: None, lambda *_: None) for _ in range(3)]
            for connection in silent:
                await loop.create_connection(lambda made=connection: made, here.host, here.port)  # type: ignore[misc]  # a default is not inferred
            await until(lambda: not any(connection.alive for connection in silent), "their ends")
            assert nodes["n1"].refused == {"connection without a handshake": 3}
            line = await Line.to(nodes, "n1")
            assert isinstance(line.answer, Welcome)
            line.end()

    run(work())


def test_peer_gets_in_however_many_clients_and_nameless_connections_there_are(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path, limits={"connections_max": 3})
        async with nodes_of(config, "n1", "n2") as nodes:
            node = nodes["n2"]
            tails = [await Line.to(nodes, "n2") for _ in range(3)]
            more = await Line.to(nodes, "n2")
            assert "as many as it takes (connections_max)" in more.answer.why
            node.door.strangers_max = 2
            here, loop = config.nodes["n2"], asyncio.get_running_loop()
            silent = [Connection(ANY, lambda *_: None, lambda *_: None) for _ in range(5)]
            for connection in silent:
                await loop.create_connection(lambda made=connection: made, here.host, here.port)  # type: ignore[misc]  # a default is not inferred
            await nodes.stop("n1")
            await nodes.start("n1")
            await nodes.connected()
            for tail in tails:
                assert not tail.ended
                tail.end()
            for connection in silent:
                connection.end("the test is over")

    run(work())


def test_what_is_no_socket_or_has_an_owner_is_not_removed_for_one(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path, replicas=1, unix=True)
        path = config.nodes["n1"].unix
        assert path is not None
        path.parent.mkdir(parents=True)
        path.write_text("precious")
        with pytest.raises(BraidcastError, match="is no socket"):
            async with nodes_of(config):
                pass
        assert path.read_text() == "precious"
        path.unlink()
        with socket.socket(socket.AF_UNIX) as owner:
            owner.bind(str(path))
            owner.listen()
            with pytest.raises(BraidcastError, match="somebody listens at"):
                async with nodes_of(config):
                    pass
        async with nodes_of(config) as nodes:  # what a killed node leaves behind
            line = await Line.to(nodes, "n1")
            assert isinstance(line.answer, Welcome)
            line.end()

    run(work())


def test_what_a_client_may_not_ask_for_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, limits={"payload_bytes_max": 100})) as nodes:
            leader = await nodes.led(0)
            name = nodes.node_of(leader).name
            line = await Line.to(nodes, name)
            line.submit(
                (leader.pid,), message(1, client=CLIENT + 1), message(2, size=101), message(3, dest=(7,)),
                message(4, dest=()), message(5),
            )  # fmt: skip
            assert [r.id.seq for r in await line.hears(Reply)] == [5]
            whys = [(r.id.seq, r.why) for r in line.heard(Refused)]
            assert whys == [
                (1, "in another client's name"), (2, "too large: 101 bytes, at most 100"),
                (3, "impossible destinations"), (4, "impossible destinations"),
            ]  # fmt: skip
            assert nodes[name].refused["client: in another client's name"] == 1
            line.end()

    run(work())


def test_message_that_is_no_clients_ends_the_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes:
            line = await Line.to(nodes, "n1")
            line.say([(0, (0,), Heartbeat(0, 0, 0, (), 0))], Codec((Heartbeat, Multicast)))
            await until(lambda: line.ended, "the end")
            assert nodes["n1"].refused == {"undecodable frame of a client": 1}
            assert len(nodes["n1"].clients) == 0

    run(work())


def test_follower_points_to_the_leader_and_passes_the_message_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path)) as nodes:
            leader = await nodes.led(0)
            other = next(replica for replica in nodes.replicas(0) if replica is not leader)
            line = await Line.to(nodes, nodes.node_of(other).name)
            line.submit((other.pid,), message(1))
            await line.hears(Redirect)
            assert await nodes.delivered_everywhere(0, 1) == [b"1"]
            line.end()

    run(work())


def test_subscriber_gets_what_is_kept_then_what_happens_until_it_has_enough(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            line = await Line.to(nodes, "n1")
            line.submit((0,), *[message(number) for number in range(1, 11)])
            await line.hears(Reply, 10)
            third = nodes["n1"].by_group[0].journal.read(0, 3)[-1].gts
            line.say([(CLIENT, (), Subscribe(0, third)), (CLIENT, (), Subscribe(9, 0))])
            await line.hears(Deliveries)
            assert line.heard(SubscriptionEnded) == [SubscriptionEnded(9, "node n1 has no replica of that group")]
            line.submit((0,), message(11))
            await line.hears(Reply, 11)
            await until(lambda: len(followed(line)) == 8, "all from the fourth on")
            assert followed(line) == [b"4", b"5", b"6", b"7", b"8", b"9", b"10", b"11"]
            line.say([(CLIENT, (), Unsubscribe(0))])
            line.submit((0,), message(12))
            await line.hears(Reply, 12)
            await turns()
            assert len(followed(line)) == 8
            line.end()

    run(work())


def followed(line: Line) -> list[bytes]:
    return [entry.payload for deliveries in line.heard(Deliveries) for entry in deliveries.entries]


def test_subscriber_that_asks_for_what_is_gone_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(
            tmp_path, replicas=1, cluster={"durability": "memory"}, limits={"journal_bytes_max": 4_096}
        )
        async with nodes_of(config) as nodes:
            line = await Line.to(nodes, "n1")
            line.submit((0,), *[message(number, size=500) for number in range(1, 31)])
            await line.hears(Reply, 30)
            line.say([(CLIENT, (), Subscribe(0, 0))])
            (ended,) = await line.hears(SubscriptionEnded)
            assert "no longer kept here" in ended.why
            assert not line.ended
            line.end()

    run(work())


def test_client_with_two_connections_is_answered_on_both_and_forgotten_with_the_last(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            node = nodes["n1"]
            first, second = await Line.to(nodes, "n1"), await Line.to(nodes, "n1")
            assert len(node.clients) == 2
            first.submit((0,), message(1))
            await first.hears(Reply)
            await second.hears(Reply)
            first.end()
            await until(lambda: len(node.clients) == 1, "the first to be gone")
            second.submit((0,), message(2))
            await second.hears(Reply, 2)
            second.end()
            await until(lambda: node.clients.sessions == {}, "both to be gone")

    run(work())


def test_status_tells_of_replicas_peers_clients_and_what_was_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2, options=STEADY), "n1", "n2") as nodes:
            await nodes.led(0)
            line = await Line.to(nodes, "n1")
            line.submit((0,), message(1))
            await line.hears(Reply)
            line.say([(CLIENT, (), StatusWanted())])
            (answer,) = await line.hears(Status)
            status: dict[str, Any] = json.loads(answer.text)
            assert (status["cluster"], status["node"], status["incarnation"]) == ("local", "n1", 1)
            assert status["disk"] | {"commits": 0, "log_bytes": 0} == {
                "lack": "", "checkpoint_waits": False, "commits": 0, "log_bytes": 0,
            }  # fmt: skip
            assert [(r["group"], r["pid"], r["delivered"]) for r in status["replicas"]] == [("g0", 0, 1), ("g1", 3, 0)]
            assert [(p["node"], p["connected"]) for p in status["peers"]] == [("n2", True), ("n3", False)]
            assert "does not answer" in status["peers"][1]["trouble"]
            assert status["clients"] == 1
            assert status["reads_clients"]
            line.end()

    run(work())
