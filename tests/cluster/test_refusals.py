"""What a node refuses: it is counted by its reason, ends no more than it must, and never raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.fuzz.cluster import FRAME_BYTES_MAX, config_of, virtual
from tests.fuzz.stage import CLIENTS, Near, NodeStage, flipped, too_long
from tests.virtual_loop import VirtualLoop

from braidcast.client.link import TO_CLIENT
from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId, Multicast, Refused, Reply
from braidcast.core.timestamps import CLOCK_MAX, timestamp
from braidcast.protocols.parts.dedup import DedupState
from braidcast.protocols.whitebox.messages import (
    Accept,
    Bodies,
    Deliver,
    Forwarded,
    Heartbeat,
    Known,
    NewLeader,
    NewLeaderAck,
    NewState,
    Resend,
    SnapshotChunk,
)
from braidcast.wire.frames import FrameReader, frame
from braidcast.wire.handshake import HANDSHAKE, HANDSHAKE_BYTES_MAX, ClientHello, Hello, TurnedAway
from braidcast.wire.service import Status, StatusWanted

CONFIG = config_of("leader")
ID = MessageId(CLIENTS[0], 1, 1)
BODY = Multicast(ID, (0,), b"m")
OTHER = Multicast(MessageId(CLIENTS[0], 1, 2), (0,), b"m")
LTS = timestamp(1, 0)
FIRST = ballot(0, 0)
"""Led by process 0, which n1 hosts; n3 hosts 2 and 5."""


@pytest.fixture
def stage() -> Iterator[NodeStage]:
    """Node n3: the others dial it."""
    yield from staged("n3")


@pytest.fixture
def dialler() -> Iterator[NodeStage]:
    """Node n1: it dials the others."""
    yield from staged("n1")


def staged(name: str) -> Iterator[NodeStage]:
    loop = VirtualLoop()
    with virtual(loop), loop.running():
        made = NodeStage(loop, CONFIG, name)
        yield made
        made.check()


def near(stage: NodeStage, place: int) -> Near:
    found = stage.near_of(place)
    assert found is not None
    return found


def stranger(stage: NodeStage) -> Near:
    return near(stage, 4)


def tell(stage: NodeStage, place: int, *items: Any) -> None:
    near(stage, place).say(msgspec.msgpack.encode(list(items)))
    stage.loop.settle()


def hello(**changed: Any) -> bytes:
    said = {
        "cluster": CONFIG.name, "fingerprint": CONFIG.fingerprint, "node": "n1", "disk": "disk of n1",
        "incarnation": 1, "session": 99, "rejoins": False, **changed,
    }  # fmt: skip
    return HANDSHAKE.encode(Hello(**said))


def said(one: Near) -> list[Any]:
    """What the node said to a client."""
    found: list[Any] = []
    for body in FrameReader(FRAME_BYTES_MAX)._cut(bytes(one.transport.written))[0][1:]:
        found += [message for _, _, message in TO_CLIENT.decode(body)]
    return found


# -- strangers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "counted"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "foreign frame of a stranger"),
        (frame(1, hello()), "frame out of turn of a stranger"),
        (too_long(0), "frame too large of a stranger"),
        (flipped(frame(0, hello()), b"\xff\x00"), "frame with a wrong checksum of a stranger"),
        (frame(0, b"garbage"), "undecodable handshake"),
        (frame(0, HANDSHAKE.encode(TurnedAway("no", True))), "no handshake"),
        (frame(0, HANDSHAKE.encode(ClientHello("another", 1 << 62))), "client turned away"),
        (frame(0, HANDSHAKE.encode(ClientHello("", 1))), "client turned away"),
        (frame(0, HANDSHAKE.encode(ClientHello("", -1))), "client turned away"),
        (frame(0, hello(cluster="another")), "peer turned away"),
        (frame(0, hello(fingerprint="another")), "peer turned away"),
        (frame(0, hello(node="n9")), "peer turned away"),
        (frame(0, hello(node="n3")), "peer turned away"),
        (frame(0, hello(node="x" * 10_000)), "peer turned away"),
    ],
)
def test_stranger_that_says_anything_else_is_sent_away_and_counted_once(
    stage: NodeStage, data: bytes, counted: str
) -> None:
    one = stranger(stage)
    one.transport.take(data)
    stage.loop.settle()
    assert one.transport.ended in ("abort", "close")
    assert stage.node.refused == {counted: 1}


def test_peer_with_an_old_session_or_another_disk_is_turned_away_and_counted(stage: NodeStage) -> None:
    near(stage, 0)
    for changed in ({"session": 0}, {"session": 1}, {"disk": "another"}):
        one = stage._dial_node()
        one.say(hello(**changed))
        assert one.transport.ended == "close"
    assert stage.node.refused == {"peer turned away": 3}
    assert stage.node.peers.all["n1"].connected


def test_stranger_that_says_nothing_or_only_that_it_lives_is_sent_away_in_time(stage: NodeStage) -> None:
    silent, alive = near(stage, 4), near(stage, 5)
    for _ in range(6):
        alive.say(b"")
        stage.loop.advance(0.5)
    assert silent.transport.ended == alive.transport.ended == "abort"
    assert stage.node.refused == {"connection without a handshake": 2}


def test_of_too_many_nameless_connections_the_oldest_go(stage: NodeStage) -> None:
    most = stage.node.door.strangers_max
    made = [stage._dial_node() for _ in range(most + 3)]
    assert [one.transport.ended for one in made] == ["abort"] * 3 + [None] * most
    assert stage.node.refused == {"connection without a handshake": 3}
    assert len(stage.node.door.strangers) == most
    stage.transports += [one.transport for one in made]


def test_stranger_cannot_make_a_node_keep_more_than_a_handshake(stage: NodeStage) -> None:
    limit = stranger(stage).connection.reader.body_bytes_max
    assert limit <= min(HANDSHAKE_BYTES_MAX, FRAME_BYTES_MAX)
    assert near(stage, 2).connection.reader.body_bytes_max == FRAME_BYTES_MAX


# -- who is dialled ---------------------------------------------------------------------------------------------------


def dialled(stage: NodeStage) -> Near:
    found = stage._dialled_by_node(0)
    assert found is not None
    stage.transports.append(found.transport)
    return found


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        (b"garbage", "peer without a handshake"),
        (hello(node="n3"), "peer turned away"),
        (hello(node="n2", cluster="another"), "peer turned away"),
        (HANDSHAKE.encode(ClientHello("", 1)), "peer turned away"),
    ],
)
def test_wrong_answer_is_counted_and_what_came_with_it_is_nobody_s(
    dialler: NodeStage, answer: bytes, counted: str
) -> None:
    one = dialled(dialler)
    forged = msgspec.msgpack.encode([(1, (0,), NewLeader(ballot(5, 1), 0))])
    one.transport.take(frame(0, answer) + frame(1, forged))
    dialler.loop.settle()
    assert dialler.node.replicas[0].process.role == "leader"
    assert dialler.node.refused == {counted: 1}
    assert not dialler.node.peers.all["n2"].connected


def test_other_side_has_time_to_hear_that_it_is_turned_away_whatever_it_says_meanwhile(dialler: NodeStage) -> None:
    one = dialled(dialler)
    one.say(hello(node="n2", fingerprint="another"))
    for _ in range(3):
        one.say(b"what it says on")
    dialler.loop.settle()
    assert one.transport.ended is None
    dialler.loop.advance(CONFIG.timing.handshake_ms_max / 1000)
    assert one.transport.ended == "close"
    assert dialler.node.refused["peer turned away"] >= 1


def test_what_comes_right_behind_a_good_answer_is_heard(dialler: NodeStage) -> None:
    one = dialled(dialler)
    behind = msgspec.msgpack.encode([(1, (0,), NewLeader(ballot(5, 1), 0))])
    one.transport.take(frame(0, hello(node="n2", disk="disk of n2")) + frame(1, behind))
    dialler.loop.settle()
    assert dialler.node.replicas[0].process.role == "recovering"


# -- peers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "counted"),
    [
        (Accept(ID, (0,), 0, FIRST, LTS, OTHER, 1), "accept with the body of another message"),
        (Accept(ID, (0,), 0, FIRST, LTS + 1, BODY, 1), "accept with the timestamp of another group"),
        (Accept(ID, (0, 9), 0, FIRST, LTS, None, 1), "accept for another group"),
        (Accept(ID, (1,), 1, FIRST, LTS, None, 1), "accept from another than its leader"),
        (Forwarded(Multicast(MessageId(2, 1, 1), (0,))), "multicast in a process's name"),
        (Multicast(MessageId(0, 1, 1), (0,)), "multicast in a process's name"),
        (Resend(FIRST, 0, LTS, (Known(ID, (0,), 77, LTS, LTS, BODY),)), None),
        (Resend(FIRST, 0, LTS, (Known(ID, (0,), 3, LTS, 0, BODY),)), "resend of another group's messages"),
        (Resend(FIRST, 0, LTS, (Known(ID, (0,), 3, LTS, LTS, OTHER),)), "resend of another group's messages"),
        (SnapshotChunk(FIRST, LTS, 1, 0, 1, b"", (Known(ID, (0,), 3, LTS, LTS),), DedupState(), 0),
         "snapshot that cannot be"),
        (SnapshotChunk(FIRST, LTS, 1, 0, 1, b"", (), DedupState(batched=((1, 1, (3,)),)), 0),
         "snapshot that cannot be"),
        (SnapshotChunk(FIRST, LTS, 1, 3, 1, b"", (), DedupState(), 0), "snapshot that is not needed"),
        (Deliver(ID, ballot(3, 0), LTS, LTS, 0), "deliver of another ballot"),
        (Heartbeat(ballot(1, 1), 0, 0, ()), "heartbeat of another group"),
        (NewLeaderAck(ballot(1, 2), 0, 0, 0, 0, ()), "vote in another ballot"),
        (Bodies(FIRST, (BODY,)), "bodies of another ballot"),
    ],
)  # fmt: skip
def test_message_that_cannot_be_is_refused_by_the_process_and_counted(
    stage: NodeStage, message: Any, counted: str | None
) -> None:
    tell(stage, 0, (0, (2,), message))
    refused = stage.node.replicas[2].out.refused if counted else stage.node.refused
    assert refused == {counted or "undecodable frame of a peer": 1}


@pytest.mark.parametrize("again", ["deliver", "resend"])
def test_message_is_not_delivered_at_a_second_timestamp(stage: NodeStage, again: str) -> None:
    later = timestamp(5, 0)
    tell(stage, 0, (0, (2,), Accept(ID, (0,), 0, FIRST, LTS, BODY, 1)), (0, (2,), Deliver(ID, FIRST, LTS, LTS, 0)))
    if again == "deliver":
        tell(stage, 0, (0, (2,), Deliver(ID, FIRST, LTS, later, LTS)))
    else:
        tell(stage, 0, (0, (2,), Resend(FIRST, LTS, later, (Known(ID, (0,), 3, LTS, later, BODY),))))
    replica = stage.node.replicas[2]
    assert replica.out.refused == {f"{again} at a second timestamp": 1}
    assert (replica.journal.next, replica.journal.last_gts) == (2, LTS)


def test_state_without_a_body_that_is_missing_here_is_refused(stage: NodeStage) -> None:
    tell(stage, 0, (0, (2,), NewLeader(ballot(1, 0), 0)))
    known = (Known(ID, (0,), 2, LTS, 0),)
    tell(stage, 0, (0, (2,), NewState(ballot(1, 0), 1, 0, 1, 1, known, (), 0, (), 0)))
    assert stage.node.replicas[2].out.refused == {"state without what is missing": 1}


@pytest.mark.parametrize(
    "message",
    [
        ["Accept", ID, [0], 0, 0, (1 << 64) - 1, None, 1],
        ["Accept", ID, [0], 0, -1, LTS, None, 1],
        ["Nack", 0, (1 << 64) - 1],
        ["Heartbeat", 0, 0, 0, [[1 << 40, 0]], 0],
        ["NewState", 0, 1, 0, 1, CLOCK_MAX + 1, [], [], 0, [], 0, 0],
        ["Beat"],
        ["Connected", 1],
    ],
    ids=["timestamp", "ballot", "promise", "group", "clock", "timer", "word of the driver"],
)
def test_message_that_no_peer_may_send_ends_the_session_and_is_counted(stage: NodeStage, message: Any) -> None:
    tell(stage, 0, (0, (2,), message))
    assert stage.node.refused == {"undecodable frame of a peer": 1}
    assert not stage.node.peers.all["n1"].connected


def test_highest_timestamp_that_may_come_can_still_be_counted_on(dialler: NodeStage) -> None:
    highest = timestamp(CLOCK_MAX - 1, 1)
    two = Multicast(ID, (0, 1), b"m")
    tell(dialler, 2, (0, (0,), two))
    tell(dialler, 0, (1, (3,), NewLeader(ballot(1, 4), 0)))
    tell(dialler, 0, (4, (0,), Accept(ID, (0, 1), 1, ballot(1, 4), highest, None)))
    tell(dialler, 2, (0, (0,), OTHER))
    process: Any = dialler.node.replicas[0].process
    assert process.clock == CLOCK_MAX


def test_item_in_another_s_name_or_for_nobody_here_is_counted_and_the_rest_is_heard(stage: NodeStage) -> None:
    beat = Heartbeat(FIRST, 0, 0, ())
    tell(stage, 0, (7, (2,), beat), (1, (2,), beat), (0, (0, 77), beat), (0, (2,) * 9, beat), (0, (2,), beat))
    assert stage.node.refused == {
        "message in another's name": 2, "message for a process that is not here": 2, "more receivers than there are": 1,
    }  # fmt: skip
    assert stage.node.peers.all["n1"].connected


def test_bad_frame_and_silence_of_a_peer_are_counted(stage: NodeStage) -> None:
    near(stage, 0).transport.take(b"x" * 40)
    near(stage, 1)
    stage.loop.advance(5)
    assert stage.node.refused == {"foreign frame of a peer": 1, "silent of a peer": 1}


def test_snapshot_that_cannot_be_read_stops_the_node_with_a_sentence(stage: NodeStage) -> None:
    tell(stage, 0, (0, (2,), SnapshotChunk(FIRST, LTS, 1, 0, 1, b"garbage", (), DedupState(), 0)))
    assert stage.node.refused == {"snapshot that cannot be read": 1}
    assert stage.node.failure is not None
    assert stage.node.failure.result().startswith("a snapshot that cannot be read")


# -- clients ----------------------------------------------------------------------------------------------------------


def test_client_s_mistakes_are_answered_and_counted_and_its_connection_stays(dialler: NodeStage) -> None:
    foreign = Multicast(MessageId(CLIENTS[1], 1, 1), (0,))
    large = Multicast(MessageId(CLIENTS[0], 1, 2), (0,), bytes(1025))
    impossible = Multicast(MessageId(CLIENTS[0], 1, 3), (0, 7))
    tell(dialler, 2, (0, (0,), foreign), (0, (0,), large), (0, (0,), impossible), (0, (77,), BODY), (0, (0,) * 9, BODY))
    assert dialler.node.refused == {
        "client: in another client's name": 1, "client: too large": 1, "client: process that is not here": 1,
        "client: more receivers than there are": 1,
    }  # fmt: skip
    answers = said(near(dialler, 2))
    assert [type(answer) for answer in answers] == [Refused, Refused, Refused]


def test_status_is_said_once_however_often_one_frame_asks(stage: NodeStage) -> None:
    tell(stage, 2, *[(0, (), StatusWanted())] * 500)
    assert [type(answer) for answer in said(near(stage, 2))] == [Status]


def test_bad_frame_of_a_client_and_one_that_does_not_read_are_counted(stage: NodeStage) -> None:
    near(stage, 2).transport.take(b"x" * 40)
    slow = near(stage, 3)
    slow.transport.unread = 1 << 30
    slow.say(msgspec.msgpack.encode([(0, (), StatusWanted())]))
    stage.loop.settle()
    assert stage.node.refused == {"foreign frame of a client": 1, "does not read of a client": 1}


def test_client_may_not_speak_for_a_process(stage: NodeStage) -> None:
    tell(stage, 2, (0, (2,), Reply(ID, 0, 1)))
    assert stage.node.refused == {"undecodable frame of a client": 1}
