"""Between nodes: who is taken for whom, what is refused, and who must stop."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cluster.inprocess import CLIENT, STEADY, Line, Nodes, config_in, message, nodes_of, run, turns, until

from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.peers import Peers
from braidcast.core.application import Connected, Snapshot
from braidcast.core.message import message as declared
from braidcast.protocols.whitebox.messages import Beat, Heartbeat
from braidcast.wire.codec import Codec
from braidcast.wire.handshake import Hello, TurnedAway

FROM_NODES = Codec((Heartbeat, Connected, Snapshot, Beat))


def hello(nodes: Nodes, node: str = "n1", **other: Any) -> Hello:
    """What a node would say to n2."""
    config = nodes.config
    said = Hello(config.name, config.fingerprint, node, f"disk of {node}", 1, 1, False, "n2")
    return msgspec.structs.replace(said, **other)  # type: ignore[type-var]  # a message is a struct here


async def answer(nodes: Nodes, said: Hello) -> Any:
    line = await Line.to(nodes, "n2", said)
    line.end()
    return line.answer


@pytest.mark.parametrize(
    ("other", "why", "final"),
    [
        ({"cluster": "shop"}, "node n1 is of cluster shop, this is local", False),
        ({"fingerprint": "0123"}, "has other groups, members or protocol options", False),
        ({"to": "n3"}, "this is node n2, not n3: correct its address", False),
        ({"node": "n7"}, "node n2 expects no connection from n7", False),
        ({"node": "n3"}, "node n2 expects no connection from n3", False),
    ],
)
def test_stranger_is_turned_away_with_the_reason(
    tmp_path: Path, other: dict[str, str], why: str, final: bool
) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            no = await answer(nodes, hello(nodes, **other))
            assert isinstance(no, TurnedAway)
            assert why in no.why
            assert no.final == final
            assert not nodes["n2"].peers.all["n1"].connected

    run(work())


def test_old_sessions_and_old_lives_are_turned_away(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            assert isinstance(await answer(nodes, hello(nodes, incarnation=2, session=5)), Hello)
            for session in (5, 4):
                old = await answer(nodes, hello(nodes, incarnation=2, session=session))
                assert old == TurnedAway("an old session", False)
            for number, life in ((1, ""), (2, "another")):
                old = await answer(nodes, hello(nodes, incarnation=number, session=9, life=life))
                assert "node n1 runs on an older copy of its disk" in old.why
                assert f"its start {number} comes after start 2" in old.why
                assert not old.final
            assert isinstance(await answer(nodes, hello(nodes, incarnation=2, session=6)), Hello)
            assert isinstance(await answer(nodes, hello(nodes, incarnation=3, session=1)), Hello)

    run(work())


@pytest.mark.parametrize("copied", ["n1", "n3"])
@pytest.mark.parametrize("lives", [1, 2])
def test_node_on_an_older_copy_of_its_disk_is_turned_away_and_both_sides_say_once_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, copied: str, lives: int
) -> None:
    """n1 dials and n3 is dialled. After one life the copy counts up to the same start as the disk did."""

    async def work() -> None:
        config = config_in(tmp_path, timing={"reconnect_ms_max": 50})
        disk, copy = config.nodes[copied].data, tmp_path / "copy"
        async with nodes_of(config) as nodes:
            await nodes.stop(copied)
            shutil.copytree(disk, copy)
            for _ in range(lives):
                await nodes.start(copied)
                await nodes.connected()
                await nodes.stop(copied)
            shutil.rmtree(disk)
            copy.rename(disk)
            caplog.clear()
            await nodes.start(copied)
            others = [name for name in nodes.running if name != copied]
            refused = [nodes[name].refused for name in others]
            await until(lambda: all(each.get("peer turned away", 0) >= 3 for each in refused), "it tries again")
            assert not any(nodes[name].peers.all[copied].connected for name in others)
            assert all("move that copy away" in nodes[copied].peers.all[name].trouble for name in others)
        said = [record.getMessage() for record in caplog.records if "an older copy of its disk" in record.getMessage()]
        assert len([line for line in said if "turned this node away" in line]) == 2, "by each of the others, once"
        assert len(said) == 4, "and each of them says so itself, once"

    run(work())


def test_newer_session_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            first = await Line.to(nodes, "n2", hello(nodes))
            second = await Line.to(nodes, "n2", hello(nodes, session=2))
            await until(lambda: first.ended, "the end of the first")
            assert not second.ended
            assert nodes["n2"].peers.all["n1"].sessions == 2
            second.end()

    run(work())


def test_peer_with_another_disk_is_turned_away_for_good_unless_it_rejoins(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            assert isinstance(await answer(nodes, hello(nodes)), Hello)
            no = await answer(nodes, hello(nodes, disk="new", incarnation=7))
            assert "--rejoin" in no.why
            assert no.final
            assert isinstance(await answer(nodes, hello(nodes, disk="new", incarnation=7, rejoins=True)), Hello)
            old = await answer(nodes, hello(nodes, incarnation=9))
            assert "this is the old one" in old.why
            assert old.final
            await nodes.stop()
            await nodes.start("n2")
            assert "this is the old one" in (await answer(nodes, hello(nodes, incarnation=9))).why, "it remembers"

    run(work())


def test_disk_that_cannot_be_remembered_is_not_taken(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            identity = nodes["n2"].identity
            identity.path = tmp_path / "gone" / "identity.json"
            no = await answer(nodes, hello(nodes))
            assert "cannot remember the disk of n1" in no.why
            assert not no.final
            assert "n1" not in identity.peers

    run(work())


def test_node_with_another_configuration_stops_nobody(tmp_path: Path) -> None:
    """Nobody can tell which of the two is wrong, and the healthy ones must go on."""

    async def work() -> None:
        config = config_in(tmp_path)
        other = config_in(tmp_path / "other", options={"retry_ticks": 50_000})
        stranger = moved(other, config)
        async with nodes_of(config, "n1", "n2") as nodes, nodes_of(stranger, "n3") as strangers:
            await trouble(nodes, "n3", "give all nodes the same configuration")
            await turns()
            for node in (nodes["n1"], nodes["n2"], strangers["n3"]):
                assert node.failure is not None
                assert not node.failure.done()

    run(work())


async def trouble(nodes: Nodes, peer: str, why: str) -> None:
    """Wait until n1 says so of a peer."""
    await until(lambda: why in nodes["n1"].peers.all[peer].trouble, why)


def moved(other: ClusterConfig, config: ClusterConfig) -> ClusterConfig:
    """The other configuration, at the addresses of this one."""
    nodes = {
        name: replace(node, address=config.nodes[name].address) for name, node in other.nodes.items()
    }
    return replace(other, nodes=nodes)


def test_wrong_address_of_a_peer_costs_nobody_a_session(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path)
        astray = replace(config.nodes["n3"], address=config.nodes["n2"].address)
        wrong = replace(config, nodes={**config.nodes, "n3": astray})
        async with nodes_of(config, "n2") as nodes, nodes_of(wrong, "n1") as misled:
            await trouble(misled, "n3", "this is node n2, not n3")
            await until(lambda: nodes["n2"].peers.all["n1"].connected, "the session with n2")
            assert nodes["n2"].peers.all["n1"].sessions == 1

    run(work())


def test_node_that_lost_its_disk_stops(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path)
        async with nodes_of(config) as nodes:
            await nodes.stop("n1")
            data = config.nodes["n1"].data
            data.rename(data.with_name("lost"))
            await nodes.start("n1")
            failure = nodes["n1"].failure
            assert failure is not None
            assert "--rejoin" in await failure

    run(work())


def test_what_a_peer_may_not_say_is_refused_and_counted(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2), "n2") as nodes:
            node = nodes["n2"]
            line = await Line.to(nodes, "n2", hello(nodes))
            beat = Heartbeat(0, 0, 0, (), 0)
            line.say([(2, (1,), beat), (0, (99, -1), beat)], FROM_NODES)
            await until(lambda: len(node.refused) == 2, "both")
            assert node.refused == {"message in another's name": 1, "message for a process that is not here": 2}
            assert not line.ended
            line.end()

    run(work())


@declared
class Unheard:
    """No message of the protocol."""


@pytest.mark.parametrize("word", [Connected(0), Snapshot(1024, b""), Beat(), Unheard()])
def test_word_of_the_driver_or_of_nobody_ends_the_session(tmp_path: Path, word: object) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            line = await Line.to(nodes, "n2", hello(nodes))
            line.say([(0, (1,), word)], FROM_NODES)
            await until(lambda: line.ended, "the end")
            assert nodes["n2"].refused == {"undecodable frame of a peer": 1}

    run(work())


def test_client_is_no_peer(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            line = await Line.to(nodes, "n2")
            line.say([(0, (1,), Heartbeat(0, 0, 0, (), 0))], FROM_NODES)
            await until(lambda: line.ended, "the end")
            assert nodes["n2"].refused == {"undecodable frame of a client": 1}
            assert CLIENT not in nodes["n2"].clients.sessions

    run(work())


def test_silent_peer_loses_its_session(tmp_path: Path) -> None:
    async def work() -> None:
        timing: dict[str, str | int] = {"ping_ms": 5, "silence_ms_max": 20}
        async with nodes_of(config_in(tmp_path, timing=timing), "n2") as nodes:
            line = await Line.to(nodes, "n2", hello(nodes))
            await until(lambda: line.ended, "the end")
            await until(lambda: nodes["n2"].peers.all["n1"].trouble, "the reason")
            assert nodes["n2"].peers.all["n1"].trouble == "the other side is silent"

    run(work())


def test_who_turns_a_peer_away_can_say_why_and_logs_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n2") as nodes:
            for _ in range(3):
                await answer(nodes, hello(nodes, fingerprint="0123"))
            assert "give all nodes the same configuration" in nodes["n2"].peers.all["n1"].trouble
            await answer(nodes, hello(nodes, to="n3"))
            lines = [r.message for r in caplog.records if "turned away" in r.message]
            assert len(lines) == 2

    run(work())


def test_dialling_goes_on_whatever_one_attempt_ends_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        config = config_in(tmp_path)
        with monkeypatch.context() as broken:
            def never(*_: object) -> None:
                raise UnicodeError("label too long")

            broken.setattr(Peers, "_open", never)
            async with nodes_of(config, "n1") as nodes:
                await trouble(nodes, "n2", "cannot be dialled: UnicodeError")
                broken.undo()
                await nodes.start("n2")
                await nodes.connected()

    run(work())


def test_error_in_a_step_at_a_new_session_ends_the_node(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes:
            node = nodes["n1"]

            def wrong(sender: int, message: object) -> None:
                raise KeyError("half of a step")

            node.by_group[0].step = wrong
            await nodes.start("n2")
            assert node.failure is not None
            assert "half of a step" in await node.failure

    run(work())


def test_replicas_go_on_after_a_session_broke(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=STEADY)) as nodes:
            leader = await nodes.led(0)
            line = await Line.to(nodes, nodes.node_of(leader).name)
            for number in range(1, 6):
                for node in nodes.running.values():
                    for peer in node.peers.all.values():
                        if peer.connection is not None:
                            peer.connection.end("cut by the test")
                line.submit((leader.pid,), message(number))
                await nodes.connected()
            await nodes.delivered_everywhere(0, 5)
            line.end()

    run(work())
