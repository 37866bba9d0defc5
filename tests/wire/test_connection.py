"""A connection: bodies in order, one end with one reason, and limits on what it keeps."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest
from tests.virtual_loop import VirtualLoop, VirtualTransport

from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.frames import FrameReader, frame

LIMITS = ConnectionLimits(frame_bytes_max=1000, buffer_bytes_max=2000)


class Owner:
    """Who has a connection, and what it heard."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.ends: list[str] = []
        self.made = 0
        self.end_after: int | None = None
        self.connection: Connection | None = None

    def on_body(self, connection: Connection, body: bytes) -> None:
        self.bodies.append(body)
        if len(self.bodies) == self.end_after:
            connection.end("enough")

    def on_end(self, connection: Connection, why: str) -> None:
        self.ends.append(why)

    def on_made(self, connection: Connection) -> None:
        self.made += 1


class Stage:
    """A connection on a stream to nowhere."""

    def __init__(self) -> None:
        self.loop, self.owner = VirtualLoop(), Owner()
        self.connection = Connection(LIMITS, self.owner.on_body, self.owner.on_end, self.owner.on_made)
        self.transport = VirtualTransport(self.loop, self.connection)

    def make(self) -> None:
        self.connection.connection_made(self.transport)

    def sent(self) -> list[bytes]:
        """The bodies that left."""
        return FrameReader(1000).feed(bytes(self.transport.written))


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.make()
    return made


def test_owner_hears_each_body_in_order_and_nothing_of_the_empty_ones(stage: Stage) -> None:
    stage.transport.take(frame(0, b"a") + frame(1, b"") + frame(2, b"b")[:5])
    stage.transport.take(frame(2, b"b")[5:])
    assert stage.owner.bodies == [b"a", b"b"]
    assert stage.connection.alive
    assert stage.owner.made == 1


def test_bad_frame_ends_the_connection_once_with_its_fault_after_what_was_good(stage: Stage) -> None:
    stage.transport.take(frame(0, b"a") + frame(0, b"again"))
    stage.loop.settle()
    assert stage.owner.bodies == [b"a"]
    assert stage.owner.ends == ["frame number 0 instead of 1"]
    assert stage.connection.fault == "frame out of turn"
    assert stage.transport.ended == "abort"


def test_nothing_is_heard_after_the_owner_ended_it_in_the_middle_of_a_piece(stage: Stage) -> None:
    stage.owner.end_after = 1
    stage.transport.take(frame(0, b"a") + frame(1, b"b") + b"garbage that is long enough")
    stage.connection.data_received(frame(2, b"c"))
    assert stage.owner.bodies == [b"a"]
    assert stage.owner.ends == ["enough"]
    assert stage.connection.fault == ""


def test_loss_is_told_once_with_its_reason(stage: Stage) -> None:
    stage.transport.lose(ConnectionResetError("reset by peer"))
    stage.loop.settle()
    stage.connection.end("too late")
    assert stage.owner.ends == ["reset by peer"]
    assert not stage.connection.alive


def test_end_with_flush_closes_and_without_it_aborts(stage: Stage) -> None:
    stage.connection.end("done", flush=True)
    assert stage.transport.ended == "close"
    other = Stage()
    other.make()
    other.connection.end("done")
    assert other.transport.ended == "abort"


def test_stream_that_comes_after_the_end_is_cut_at_once() -> None:
    stage = Stage()
    stage.connection.end("no time left")
    stage.make()
    assert stage.transport.ended == "abort"
    assert stage.owner.made == 0
    assert stage.owner.ends == ["no time left"]


def test_frames_are_numbered_and_nothing_is_sent_before_the_stream_or_after_the_end() -> None:
    stage = Stage()
    stage.connection.send(b"early")
    stage.make()
    stage.connection.send(b"a")
    stage.connection.send(b"b")
    stage.connection.end("done", flush=True)
    stage.connection.send(b"late")
    assert stage.sent() == [b"a", b"b"]


def test_other_side_that_does_not_read_costs_its_connection_and_not_memory(stage: Stage) -> None:
    stage.transport.unread = 1500
    stage.connection.send(bytes(500))
    assert stage.connection.alive
    stage.connection.send(bytes(501))
    assert stage.connection.why == "the other side does not read: 1,500 bytes wait for it"
    assert stage.connection.fault == "does not read"
    assert len(stage.sent()) == 1


def test_owner_hears_when_there_is_room_again_and_pulses_tell_who_takes_nothing(stage: Stage) -> None:
    heard: list[str] = []
    stage.connection.on_drained = lambda: heard.append("room")
    stage.connection.send(bytes(500))
    stage.transport.unread = 400
    stage.connection.pulse(9)
    stage.connection.pulse(9)
    assert stage.connection.stalled_pulses == 1
    stage.transport.unread = 300
    stage.connection.pulse(9)
    assert stage.connection.stalled_pulses == 0
    stage.connection.resume_writing()
    stage.connection.end("over")
    stage.connection.resume_writing()
    assert heard == ["room"]


def test_pulse_shows_life_only_where_nothing_else_was_sent(stage: Stage) -> None:
    stage.connection.send(b"a")
    stage.connection.pulse(3)
    assert stage.connection.sent == 1
    stage.connection.pulse(3)
    assert stage.connection.sent == 2
    assert stage.sent() == [b"a"]


def test_silence_ends_the_connection_after_the_pulses_that_are_tolerated(stage: Stage) -> None:
    for _ in range(4):
        stage.connection.pulse(3)
    assert stage.connection.alive
    stage.connection.pulse(3)
    assert stage.connection.fault == "silent"
    assert stage.owner.ends == ["the other side is silent"]


def test_anything_that_arrives_breaks_the_silence(stage: Stage) -> None:
    for number in range(10):
        stage.transport.take(frame(number, b""))
        stage.connection.pulse(1)
        stage.connection.pulse(1)
    assert stage.connection.alive


def test_end_of_stream_lets_the_transport_close(stage: Stage) -> None:
    assert stage.connection.eof_received() is False
    assert isinstance(stage.connection, asyncio.Protocol)


class Bytes(bytearray):
    """Of which one can know whether they are still there."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What is part of a cycle stays."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("whole", [True, False])
def test_what_arrived_is_gone_with_the_connection_although_its_owner_knows_it_and_it_its_owner(whole: bool) -> None:
    owner, loop = Owner(), VirtualLoop()
    data = Bytes(b"x" * 900 if whole else frame(0, b"x" * 900)[:-1])
    owner.connection = connection = Connection(LIMITS, owner.on_body, owner.on_end)
    transport = VirtualTransport(loop, connection)
    connection.connection_made(transport)
    connection.data_received(data)  # type: ignore[arg-type]  # all that is asked of bytes
    if not whole:
        connection.connection_lost(None)
    loop.settle()
    assert len(owner.ends) == 1
    assert not connection.reader.buffer
    there, kept = weakref.ref(connection), weakref.ref(data)
    del owner, connection, data, transport.protocol  # real ones let go of theirs, too
    assert kept() is None
    assert there() is None, "a cycle"
