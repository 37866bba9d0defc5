"""A connection with TLS: the same as without, but for what travels."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from tests.certificates import certificates, credentials, dialling
from tests.virtual_loop import VirtualLoop, VirtualTransport

from braidcast.cluster.authority import certify
from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.frames import frame
from braidcast.wire.subject import Subject
from braidcast.wire.tls import TlsEnd

LIMITS = ConnectionLimits(frame_bytes_max=100_000, buffer_bytes_max=200_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certs")
    certify(made, ["n1"], ["alice"])
    return made


class Side:
    """One end, and what it heard."""

    def __init__(self, tls: TlsEnd | None) -> None:
        self.bodies: list[bytes] = []
        self.ends: list[str] = []
        self.connection = Connection(
            LIMITS, lambda _, body: self.bodies.append(body), lambda _, why: self.ends.append(why), tls=tls
        )


class Stream:
    """Both ends, and the network between them."""

    def __init__(self, dials: TlsEnd | None, answers: TlsEnd | None) -> None:
        self.loop = VirtualLoop()
        self.near, self.far = Side(dials), Side(answers)
        self.here = VirtualTransport(self.loop, self.near.connection)
        self.there = VirtualTransport(self.loop, self.far.connection)
        self.here.other, self.there.other = self.there, self.here
        self.far.connection.connection_made(self.there)
        self.near.connection.connection_made(self.here)


def test_bodies_of_both_sides_arrive_in_order_also_those_sent_before_the_handshake_is_over(folder: Path) -> None:
    stream = Stream(certificates(folder, "client-alice").dial("n1"), certificates(folder, "node-n1").accept())
    sent = [bytes([number]) * size for number, size in enumerate((1, 90_000, 17))]
    for body in sent:
        stream.near.connection.send(body)
        stream.far.connection.send(body[::-1])
    stream.loop.settle()
    stream.near.connection.send(b"last")
    stream.loop.settle()
    assert stream.far.bodies == [*sent, b"last"]
    assert stream.near.bodies == [body[::-1] for body in sent]
    assert stream.far.connection.subject == Subject("client", "alice")
    assert stream.near.ends == stream.far.ends == []


def test_wrong_frame_inside_ends_it_as_it_would_outside(folder: Path) -> None:
    stream = Stream(certificates(folder, "client-alice").dial("n1"), certificates(folder, "node-n1").accept())
    stream.loop.settle()
    tls = stream.near.connection.tls
    assert tls is not None
    tls.seal(frame(0, b"good") + b"garbage" * 9)
    stream.near.connection._write(tls.put_out())
    stream.loop.settle()
    assert stream.far.bodies == [b"good"]
    assert stream.far.connection.fault == "foreign frame"


def test_who_is_not_taken_is_told_and_the_end_says_why_on_both_sides(folder: Path) -> None:
    nameless = dialling(credentials(folder, "client-alice"), shows=False)
    stream = Stream(nameless, certificates(folder, "node-n1").accept())
    stream.near.connection.send(b"never heard")
    stream.loop.settle()
    assert stream.far.ends == ["the other side shows no certificate"]
    assert stream.far.connection.fault == "no certificate"
    assert stream.near.ends == ["the other side asks for a certificate"]
    assert stream.far.bodies == []


def test_who_speaks_no_tls_is_told_in_plain_words_and_nothing_else(folder: Path) -> None:
    stream = Stream(None, certificates(folder, "node-n1").accept())
    stream.far.connection.in_plain = frame(0, b"TLS only")
    stream.near.connection.send(b"hello")
    stream.loop.settle()
    assert stream.near.bodies == [b"TLS only"]
    assert stream.near.ends == ["closed by the other side"]
    assert stream.far.connection.fault == "no TLS"


def test_end_before_the_handshake_is_over_is_said_to_be_one(folder: Path) -> None:
    stream = Stream(certificates(folder, "client-alice").dial("n1"), None)
    stream.here.lose()
    stream.loop.settle()
    assert stream.near.ends == ["closed by the other side before the two agreed on TLS"]


def test_signs_of_life_to_one_who_takes_nothing_do_not_hide_that(folder: Path) -> None:
    """What is counted as written is what travels: a sealed sign of life is longer than a plain one."""
    stream = Stream(certificates(folder, "client-alice").dial("n1"), certificates(folder, "node-n1").accept())
    stream.loop.settle()
    near = stream.near.connection
    near.heard = True

    def takes_nothing(data: bytes | bytearray | memoryview) -> None:
        stream.here.unread += len(data)

    stream.here.write = takes_nothing  # type: ignore[method-assign]  # the other side has stopped reading
    near.send(b"waits")
    for expected in (0, 1, 2, 3):
        near.pulse(silent_pulses_max=100)
        assert near.stalled_pulses == expected


def test_nothing_that_travels_can_be_read(folder: Path) -> None:
    written = bytearray()
    stream = Stream(certificates(folder, "client-alice").dial("n1"), certificates(folder, "node-n1").accept())
    stream.loop.settle()
    write = stream.here.write

    def overheard(data: bytes | bytearray | memoryview) -> None:
        written.extend(data)
        write(data)

    stream.here.write = overheard  # type: ignore[method-assign]  # somebody listens on the way
    stream.near.connection.send(b"secret")
    stream.loop.settle()
    assert stream.far.bodies == [b"secret"]
    assert len(written) > len(frame(0, b"secret"))
    assert b"secret" not in written


@pytest.mark.parametrize("case", ["good", "no certificate", "another node", "plain"])
def test_connection_that_has_ended_is_gone_without_the_collector_and_so_is_its_tls(folder: Path, case: str) -> None:
    def dials() -> TlsEnd | None:
        if case == "no certificate":
            return dialling(credentials(folder, "client-alice"), shows=False)
        return None if case == "plain" else certificates(folder, "client-alice").dial("n2" if "node" in case else "n1")

    def ended() -> list[weakref.ref[Connection] | weakref.ref[TlsEnd]]:
        stream = Stream(dials(), certificates(folder, "node-n1").accept())
        connections = [stream.near.connection, stream.far.connection]
        ends = [weakref.ref(end) for connection in connections if (end := connection.tls) is not None]
        stream.near.connection.send(b"a")
        stream.loop.settle()
        for connection in connections:
            connection.end("the test is over")
        stream.loop.settle()
        for transport in (stream.here, stream.there):
            del transport.protocol  # real ones let go of theirs, too
        return [*ends, *map(weakref.ref, connections)]

    gc.collect()
    gc.disable()
    try:
        assert {there() for there in ended()} == {None}
    finally:
        gc.enable()
