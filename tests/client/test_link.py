"""The link: connections to all nodes, made again when they end, and one clear error when nobody can be talked to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.fakes import CLIENT, NODES, welcome_of
from tests.virtual_loop import VirtualLoop, VirtualTransport

from braidcast.client.errors import ClusterUnreachable
from braidcast.client.link import (
    CONNECT_S,
    HEAD_START_S,
    PAUSE_S_MAX,
    PULSE_S,
    SILENT_PULSES_MAX,
    TO_CLIENT,
    TO_NODE,
    Link,
)
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.wire.frames import FrameReader, frame
from braidcast.wire.handshake import HANDSHAKE, ClientHello, TurnedAway

ID = MessageId(CLIENT, 1, 1)


class FakeNode(asyncio.Protocol):
    """One connection, at a node that answers a hello with `answer` and then what it is told."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.reader = FrameReader(1 << 20)
        self.heard: list[bytes] = []
        self.frames: list[int] = []
        self.number = 0
        self.transport: VirtualTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, VirtualTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        bodies = self.reader.feed(data)
        self.frames += [len(body) for body in bodies]
        first = not self.heard
        self.heard += bodies
        if first and self.answer is not None:
            self.write(self.answer)

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def say(self, body: bytes) -> None:
        """After the handshake."""
        self.number += 1
        self.write(frame(self.number, body))

    def lose(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    @property
    def messages(self) -> list[Any]:
        """All that it was told since the hello."""
        return [message for body in self.heard[1:] for _, _, message in TO_NODE.decode(body)]


class Stage:
    """Nodes n1 to n3, and a client."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.nodes: dict[str, list[FakeNode]] = {node.name: [] for node in NODES}
        self.link = Link([node.address for node in NODES], CLIENT)
        self.heard: list[tuple[str, Any]] = []
        self.link.listen(Reply, lambda line, sender, message: self.heard.append((line.node.name, message)))

    def listen(self, name: str, answer: bytes | None = b"", **changed: Any) -> None:
        if answer == b"":
            answer = frame(0, HANDSHAKE.encode(welcome_of(name, **changed)))
        host, port = self.address(name)

        def accept() -> FakeNode:
            self.nodes[name].append(FakeNode(answer))
            return self.nodes[name][-1]

        self.loop.listeners[host, port] = accept

    def stop(self, name: str) -> None:
        del self.loop.listeners[self.address(name)]

    def address(self, name: str) -> tuple[str, int]:
        host, _, port = next(node.address for node in NODES if node.name == name).rpartition(":")
        return host, int(port)

    def connected(self) -> list[str]:
        return [name for name, line in self.link.lines.items() if line.connection is not None]

    def close(self) -> None:
        self.loop.run(self.link.close())
        self.loop.calm()


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    for node in NODES:
        made.listen(node.name)
    return made


def test_first_node_that_answers_tells_of_all_the_others(stage: Stage) -> None:
    stage.stop("n1")
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    assert stage.connected() == ["n2", "n3"]
    assert stage.link.groups == {"a": 0, "b": 1}
    assert HANDSHAKE.decode_one(stage.nodes["n2"][0].heard[0]) == ClientHello("", CLIENT)
    stage.listen("n1")
    stage.loop.until(lambda: len(stage.connected()) == 3, 2 * PAUSE_S_MAX)
    stage.close()


def test_message_goes_as_one_item_to_each_node_that_hosts_its_receivers(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    with stage.loop.running():
        stage.link.send((0, 3, 4), Multicast(ID, (0, 1)))
    stage.loop.settle()
    receivers = {
        name: [to for _, to, _ in TO_NODE.decode(nodes[-1].heard[-1])]
        for name, nodes in stage.nodes.items() if len(nodes[-1].heard) > 1
    }  # fmt: skip
    assert receivers == {"n1": [(0, 3)], "n2": [(4,)]}
    stage.close()


def test_what_does_not_fit_into_one_frame_leaves_in_several(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    with stage.loop.running():
        for _ in range(100):
            stage.link.send((0,), Multicast(ID, (0,), bytes(1000)))
    stage.loop.settle()
    node = stage.nodes["n1"][0]
    assert len(node.messages) == 100
    assert max(node.frames) <= 1 << 16
    assert stage.connected() == ["n1", "n2", "n3"]
    stage.close()


def test_connection_that_ends_is_made_again_and_those_who_listen_hear_of_it(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    again: list[str] = []
    stage.link.on_connected.append(lambda line: again.append(line.node.name))
    stage.nodes["n1"][0].lose()
    stage.loop.settle()
    assert stage.connected() == ["n2", "n3"]
    stage.loop.until(lambda: again == ["n1"], PAUSE_S_MAX)
    stage.nodes["n1"][1].say(TO_CLIENT.encode([(0, (CLIENT,), Reply(ID, 0, 5))]))
    stage.loop.settle()
    assert stage.heard == [("n1", Reply(ID, 0, 5))]
    stage.close()


def test_node_that_stays_away_is_tried_less_and_less_often(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    tries = []
    stage.stop("n2")
    stage.nodes["n2"][0].lose()
    create = stage.loop.create_connection

    async def counted(*given: Any, **more: Any) -> Any:
        tries.append(stage.loop.now)
        return await create(*given, **more)

    stage.loop.create_connection = counted  # type: ignore[method-assign]
    stage.loop.advance(60)
    assert 40 < len(tries) < 140
    assert stage.link.lines["n2"].trouble.startswith("nobody listens")
    stage.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a frame of braidcast"),
        (frame(0, b"garbage"), "a message that cannot be read"),
        (frame(0, HANDSHAKE.encode(TurnedAway("this is cluster shop", True))), "this is cluster shop"),
        (frame(0, HANDSHAKE.encode(ClientHello("", 1))), "what answers is no node of braidcast"),
        (None, "no answer in time"),
        (frame(0, HANDSHAKE.encode(welcome_of("n9"))), "a cluster that cannot be"),
        (frame(0, HANDSHAKE.encode(welcome_of("n1", nodes=NODES[:1]))), "a cluster that cannot be"),
    ],
    ids=["http", "garbage", "turned away", "hello", "silence", "unknown node", "missing nodes"],
)
def test_node_that_answers_what_it_should_not_is_one_clear_error(answer: bytes | None, error: str) -> None:
    stage = Stage()
    stage.listen("n1", answer)
    with pytest.raises(ClusterUnreachable) as found:
        stage.loop.run(stage.link.open())
    assert f"127.0.0.1:7101: {error}" in str(found.value).replace("what answers describes ", "")
    assert "nobody listens at 127.0.0.1:7102" in str(found.value)
    stage.loop.calm()


def test_node_that_hangs_costs_its_head_start_and_the_first_that_welcomes_is_taken(stage: Stage) -> None:
    began = stage.loop.now
    for name in ("n1", "n2"):
        stage.listen(name, None)
    stage.loop.run(stage.link.open())
    assert stage.loop.now - began == pytest.approx(2 * HEAD_START_S)
    stage.loop.settle()
    assert stage.connected() == ["n3"]
    for name in ("n1", "n2"):
        first = stage.nodes[name][0].transport
        assert first is not None
        assert first.ended == "lost", "no attempt is left behind"
    stage.close()
    stage.loop.calm()


def test_node_that_refuses_at_once_costs_no_head_start(stage: Stage) -> None:
    began = stage.loop.now
    stage.stop("n1")
    stage.stop("n2")
    stage.loop.run(stage.link.open())
    assert stage.loop.now == began
    stage.close()


def test_slow_node_that_answers_first_after_all_is_taken_and_the_other_attempt_ended(stage: Stage) -> None:
    stage.listen("n1", None)
    stage.listen("n2", None)
    answer = frame(0, HANDSHAKE.encode(welcome_of("n1")))
    stage.loop.call_later(1.5 * HEAD_START_S, lambda: stage.nodes["n1"][0].write(answer))
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    assert stage.connected()[0] == "n1"
    assert len(stage.nodes["n1"]) == 1
    second = stage.nodes["n2"][0].transport
    assert second is not None
    assert second.ended == "lost"
    stage.close()


def test_two_nodes_that_answer_at_once_are_not_both_kept(stage: Stage) -> None:
    for name in ("n1", "n2"):
        stage.listen(name, None)

    def answer() -> None:
        for name in ("n2", "n1"):
            stage.nodes[name][0].write(frame(0, HANDSHAKE.encode(welcome_of(name))))
        for name in ("n1", "n2", "n3"):
            stage.listen(name, None)

    stage.loop.call_later(1.5 * HEAD_START_S, answer)
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    first, second = (stage.nodes[name][0].transport for name in ("n1", "n2"))
    assert first is not None
    assert second is not None
    assert [first.ended, second.ended].count("lost") == 1
    stage.close()


def test_open_that_is_cancelled_leaves_no_attempt_behind(stage: Stage) -> None:
    stage.listen("n1", None)
    task = stage.loop.create_task(stage.link.open())
    stage.loop.advance(HEAD_START_S / 2)
    task.cancel()
    stage.loop.settle()
    first = stage.nodes["n1"][0].transport
    assert first is not None
    assert first.ended == "lost"
    assert task.cancelled()
    assert not stage.nodes["n2"]
    stage.loop.calm()


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":7101", "localhost:http", "localhost:70000", "h:-1"])
def test_what_is_no_address_is_one_clear_error(address: str) -> None:
    stage = Stage()
    stage.link.addresses = [address]
    with pytest.raises(ClusterUnreachable, match=r"is not an address: write host:port|has no valid port"):
        stage.loop.run(stage.link.open())


def test_garbage_after_the_handshake_ends_that_connection_only(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    stage.nodes["n2"][0].say(b"garbage")
    stage.loop.settle()
    assert stage.connected() == ["n1", "n3"]
    assert "cannot be read" in stage.link.lines["n2"].trouble
    stage.close()


def test_another_cluster_that_answers_in_a_node_s_place_is_not_talked_to(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    stage.stop("n2")
    stage.listen("n2", fingerprint="another")
    stage.nodes["n2"][0].lose()
    stage.loop.advance(CONNECT_S)
    assert stage.connected() == ["n1", "n3"]
    assert "answers in its place" in stage.link.lines["n2"].trouble
    stage.close()


def test_node_that_falls_silent_loses_its_connection(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    first = stage.nodes["n1"][0]
    stage.loop.advance((SILENT_PULSES_MAX + 3) * PULSE_S)
    assert first.transport is not None
    assert first.transport.ended == "lost"
    assert len(stage.nodes["n1"]) == 2
    stage.close()


def test_what_goes_to_a_node_without_a_connection_is_dropped_and_not_kept(stage: Stage) -> None:
    stage.stop("n2")
    stage.loop.run(stage.link.open())
    with stage.loop.running():
        stage.link.send((1,), Multicast(ID, (0,)))
    stage.loop.settle()
    assert stage.link.lines["n2"].outgoing == []
    stage.close()


def test_open_within_waits_for_nodes_that_are_starting_and_gives_up_in_time() -> None:
    stage = Stage()
    stage.loop.call_later(2, stage.listen, "n3")
    stage.loop.run(stage.link.open_within(5))
    assert stage.connected() == ["n3"]
    stage.close()
    never = Stage()
    with pytest.raises(ClusterUnreachable, match="are the nodes running"):
        never.loop.run(never.link.open_within(5))


def test_close_ends_every_connection_and_makes_none_again(stage: Stage) -> None:
    stage.loop.run(stage.link.open())
    stage.loop.settle()
    stage.close()
    made = sum(map(len, stage.nodes.values()))
    stage.loop.advance(10)
    assert stage.connected() == []
    assert sum(map(len, stage.nodes.values())) == made
