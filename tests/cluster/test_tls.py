"""Hostile and mistaken peers at the door of a node with TLS: refused, counted, and of no consequence to others."""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import pytest
from tests.certificates import certificates, credentials, dialling, sign
from tests.cluster.inprocess import ANY, Line, Nodes, config_in, nodes_of, run, until
from tests.fuzz.stage import too_long

from braidcast.client.places import Place, link_to
from braidcast.cluster.authority import certify
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.door import TLS_ONLY
from braidcast.cluster.node import Node
from braidcast.core.client import MessageId, Multicast, Refused, Reply
from braidcast.core.errors import BraidcastError
from braidcast.core.topology import Pid
from braidcast.settings.tls import Credentials
from braidcast.wire.codec import Codec
from braidcast.wire.connection import Connection
from braidcast.wire.frames import VERSION, FrameReader, frame
from braidcast.wire.handshake import HANDSHAKE, ClientHello, Hello, TurnedAway, Welcome
from braidcast.wire.service import FROM_CLIENTS
from braidcast.wire.subject import new_client_id
from braidcast.wire.tls import TlsEnd

SOME: dict[str, int | Sequence[str]] = {"send": ["g0"], "read": ["g0"]}
LOOKS_OFTEN: dict[str, str | int] = {"ping_ms": 20, "silence_ms_max": 60_000}


def certs(config: ClusterConfig) -> Path:
    assert config.tls is not None
    return config.tls.authority.parent


class Good:
    """A client that behaves, and is served whatever others do."""

    def __init__(self, line: Line, id: Pid) -> None:
        self.line, self.id, self.sent = line, id, 0

    @classmethod
    async def at(cls, nodes: Nodes, name: str = "n1") -> Good:
        id = new_client_id("admin")
        tls = certificates(certs(nodes.config), "client-admin").dial(name)
        return cls(await Line.to(nodes, name, ClientHello("", id), tls), id)

    async def goes_on(self) -> None:
        """One message more is sent and answered, over the connection that there was in the beginning."""
        self.sent += 1
        message = Multicast(MessageId(self.id, 1, self.sent), (0,), b"x")
        self.line.say([(self.id, (0,), message)], Codec((Multicast, *FROM_CLIENTS)))
        await self.line.hears(Reply, self.sent)


@asynccontextmanager
async def guarded(folder: Path, timing: dict[str, str | int] | None = None) -> AsyncIterator[tuple[Nodes, Good]]:
    """A node of one with TLS, and a good client that is served before and after."""
    config = config_in(folder, replicas=1, tls=True, clients={"alice": SOME, "bob": SOME}, timing=timing)
    async with nodes_of(config) as nodes:
        good = await Good.at(nodes)
        await good.goes_on()
        yield nodes, good
        await good.goes_on()
        good.line.end()


# -- those who are not let in -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Somebody who is not let in: how they come, what they say first, and what they are counted as."""

    counted: str
    tls: Callable[[Path], TlsEnd | None]
    said: Callable[[ClusterConfig], bytes] | None = None
    """The stream after the TLS handshake; None: a hello as client alice."""
    answer: str = ""
    """Why they are turned away, if they are told in words of our own."""


def hello_as(node: str) -> Callable[[ClusterConfig], bytes]:
    def said(config: ClusterConfig) -> bytes:
        hello = Hello(config.name, config.fingerprint, node, "disk", 1, 99, False, "n1")
        return frame(0, HANDSHAKE.encode(hello))

    return said


def client_hello(name: str = "") -> Callable[[ClusterConfig], bytes]:
    return lambda config: frame(0, HANDSHAKE.encode(ClientHello("", new_client_id(name))))


def of_another_version(config: ClusterConfig) -> bytes:
    head = struct.pack("<2sBxII", b"bc", VERSION + 1, 0, 0)
    return head + crc32(b"", crc32(head)).to_bytes(4, "little")


def shows(stem: str) -> Callable[[Path], TlsEnd]:
    return lambda folder: certificates(folder, stem).dial()


def shows_other(folder: Path) -> TlsEnd:
    certify(folder / "others", clients=["alice"])
    known, other = credentials(folder, "client-alice"), credentials(folder / "others", "client-alice")
    return dialling(replace(other, authority=known.authority))


def shows_signed(*uris: str, valid_days: tuple[int, int] = (-1, 1)) -> Callable[[Path], TlsEnd]:
    return lambda folder: dialling(sign(folder, "odd", *uris, valid_days=valid_days))


ALICE, NOBODY = "braidcast:client:alice", lambda folder: None
CASES = {
    "plain garbage": Case("no TLS of a stranger", NOBODY, lambda config: b"GET / HTTP/1.1\r\n\r\n"),
    "plain client": Case("no TLS of a stranger", NOBODY, client_hello(), "this cluster speaks TLS only"),
    "plain node": Case("no TLS of a stranger", NOBODY, hello_as("n2"), "this cluster speaks TLS only"),
    "TLS garbage": Case("broken TLS of a stranger", NOBODY, lambda config: b"\x16\x03\x01\x02\0" + bytes(600)),
    "no certificate": Case(
        "no certificate of a stranger",
        lambda folder: dialling(credentials(folder, "client-alice"), shows=False),
    ),
    "another authority": Case("certificate of another authority of a stranger", shows_other),
    "expired": Case("expired certificate of a stranger", shows_signed(ALICE, valid_days=(-9, -1))),
    "not valid yet": Case("certificate of the future of a stranger", shows_signed(ALICE, valid_days=(1, 9))),
    "nameless": Case("nameless certificate of a stranger", shows_signed()),
    "two names": Case("nameless certificate of a stranger", shows_signed(ALICE, "braidcast:client:bob")),
    "garbage inside": Case("foreign frame of a stranger", shows("client-alice"), lambda config: b"garbage" * 9),
    "frame too large": Case("frame too large of a stranger", shows("client-alice"), lambda config: too_long(0)),
    "wrong version": Case("frame of another format of a stranger", shows("client-alice"), of_another_version),
    "no rights": Case(
        "client without rights", shows_signed("braidcast:client:mallory"), client_hello("mallory"),
        "client mallory has no rights in cluster local: add them under [clients.mallory]",
    ),
    "id of another client": Case(
        "client with the id of another", shows("client-alice"), client_hello("bob"), "is not an id of client alice",
    ),
    "id without a name": Case(
        "client with the id of another", shows("client-alice"), client_hello(), "is not an id of client alice",
    ),
    "node as a client": Case(
        "client with the certificate of a node", shows("node-n1"), client_hello("n1"),
        "node n1 is no client: use the certificate of one",
    ),
    "client as a node": Case(
        "peer with the certificate of another", shows("client-alice"), hello_as("n1"), "client alice is not node n1",
    ),
    "client of a node's name as that node": Case(
        "peer with the certificate of another", shows_signed("braidcast:client:n1"), hello_as("n1"),
        "client n1 is not node n1",
    ),
    "node as another node": Case(
        "peer with the certificate of another", shows_signed("braidcast:node:n2"), hello_as("n1"),
        "node n2 is not node n1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_is_not_let_in_is_counted_once_and_a_good_client_goes_on(tmp_path: Path, case: Case) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as (nodes, good):
            line = Line(case.tls(certs(nodes.config)))
            await connect(nodes, line.connection)
            write(line.connection, (case.said or client_hello("alice"))(nodes.config))
            await until(lambda: line.ended, "the end")
            assert nodes["n1"].refused == {case.counted: 1}
            if case.answer:
                assert isinstance(line.answer, TurnedAway)
                assert case.answer in line.answer.why
            assert not nodes["n1"].door.strangers
            await good.goes_on()

    run(work())


async def connect(nodes: Nodes, connection: Connection) -> None:
    here = nodes.config.nodes["n1"]
    await asyncio.get_running_loop().create_connection(lambda: connection, here.host, here.port)


def write(connection: Connection, said: bytes) -> None:
    """As it is, and inside TLS if there is any."""
    if connection.tls is None:
        return connection._write(said)
    connection.tls.seal(said)
    connection._write(connection.tls.put_out())


def test_no_turning_away_in_plain_words_is_final() -> None:
    """Anybody can write plain words: no node may stop, and no client give up, because of them."""
    (body,) = FrameReader(len(TLS_ONLY)).feed(TLS_ONLY)
    no = HANDSHAKE.decode_one(body)
    assert isinstance(no, TurnedAway)
    assert not no.final


def test_handshakes_that_never_end_are_ended_and_the_oldest_goes_when_there_are_too_many(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path, timing={**LOOKS_OFTEN, "handshake_ms_max": 500}) as (nodes, good):
            door = nodes["n1"].door
            door.strangers_max = 2
            ends = [certificates(certs(nodes.config), "client-alice").dial() for _ in range(3)]
            slow = [Connection(ANY, lambda *_: None, lambda *_: None) for _ in range(3)]
            for connection, end in zip(slow, ends, strict=True):
                end.begin()
                await connect(nodes, connection)
                said = end.put_out()
                connection._write(said[:20])
            await until(lambda: len(door.strangers) == 2, "the oldest to go")
            await good.goes_on()
            drops = iter(said[20:-1])  # a byte now and then, and never the last one

            def are_gone() -> bool:
                last = slow[2].transport
                if last is not None and not last.is_closing() and (drop := next(drops, None)) is not None:
                    last.write(bytes([drop]))
                return not any(connection.alive for connection in slow)

            await until(are_gone, "their ends")
            assert nodes["n1"].refused == {"connection without a handshake": 3}

    run(work())


def test_client_that_speaks_in_another_s_name_is_refused_on_its_own_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as (nodes, good):
            mine = new_client_id("alice")
            tls = certificates(certs(nodes.config), "client-alice").dial("n1")
            line = await Line.to(nodes, "n1", ClientHello("", mine), tls)
            assert isinstance(line.answer, Welcome)
            forged = Multicast(MessageId(good.id, 1, good.sent + 1), (0,), b"not his")
            line.say([(good.id, (0,), forged), (mine, (0,), Multicast(MessageId(mine, 1, 1), (0,), b"hers"))])
            await line.hears(Reply)
            assert nodes["n1"].refused == {"client: in another client's name": 1}
            assert [refused.why for refused in line.heard(Refused)] == ["in another client's name"]
            await good.goes_on()
            assert good.line.heard(Refused) == []
            line.end()

    run(work())


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_nodes_with_tls_agree_also_over_unix_sockets(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, tls=True, unix=True)) as nodes:
            leader = await nodes.led(0)
            good = await Good.at(nodes, nodes.node_of(leader).name)
            for _ in range(3):
                good.sent += 1
                message = Multicast(MessageId(good.id, 1, good.sent), (0,), b"%d" % good.sent)
                good.line.say([(good.id, (leader.pid,), message)])
            await good.line.hears(Reply, 3)
            assert await nodes.delivered_everywhere(0, 3) == [b"1", b"2", b"3"]
            assert all(status["tls"]["trouble"] == "" for status in map(nodes.status, nodes.running))
            good.line.end()

    run(work())


def test_session_of_a_node_that_is_replayed_is_refused_also_with_its_own_certificate(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, tls=True), "n1", "n2") as nodes:
            config, peer = nodes.config, nodes["n2"].peers.all["n1"]
            hello = Hello(
                config.name, config.fingerprint, "n1", peer.disk, peer.incarnation, peer.session, False, "n2",
                nodes["n1"].peers.life,
            )  # fmt: skip
            line = await Line.to(nodes, "n2", hello, certificates(certs(config), "node-n1").dial("n2"))
            assert line.answer == TurnedAway("an old session", False)
            await until(lambda: line.ended, "the end")
            assert nodes["n2"].refused == {"peer turned away": 1}
            assert peer.connected

    run(work())


def test_node_dials_nobody_but_the_node_it_means(tmp_path: Path) -> None:
    """Somebody at the address of n2 has a certificate of the authority, but that of n3."""

    async def work() -> None:
        config = config_in(tmp_path, tls=True)
        async with nodes_of(config, "n1") as nodes:
            there = config.nodes["n2"]
            heard: list[bytes] = []

            def accept() -> Connection:
                tls = certificates(certs(config), "node-n3").accept()
                return Connection(ANY, lambda _, body: heard.append(body), lambda *_: None, tls=tls)

            server = await asyncio.get_running_loop().create_server(accept, there.host, there.port)
            try:
                peer = nodes["n1"].peers.all["n2"]
                await until(lambda: "has the certificate of node n3, not of node n2" in peer.trouble, "the refusal")
                assert nodes["n1"].refused["certificate of another of a peer"] >= 1
                link = await link_to(place_with(config, "client-admin"), 1)
                await until(lambda: "node n3, not of node n2" in link.lines["n2"].trouble, "the same at a client")
                await link.close()
                assert heard == []
            finally:
                server.close()

    run(work())


def place_with(config: ClusterConfig, stem: str) -> Place:
    return Place((config.nodes["n1"].address,), "", certificates(certs(config), stem))


def test_client_that_lives_on_takes_new_certificates_when_it_connects_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path) as (nodes, _):
            place = place_with(nodes.config, "client-alice")
            link = await link_to(place, 1)
            assert place.certificates is not None
            before = place.certificates.until
            sign(certs(nodes.config), "client-alice", "braidcast:client:alice", valid_days=(-1, 3))
            (line,) = link.lines.values()
            assert line.connection is not None
            line.connection.end("cut")
            await until(lambda: line.connection is not None, "another connection")
            assert place.certificates.until != before
            await link.close()

    run(work())


def test_node_without_tls_is_told_and_does_not_stop(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path, tls=True)
        plain = replace(config, tls=None)
        async with nodes_of(config, "n2") as nodes, nodes_of(plain, "n1") as others:
            peer = others["n1"].peers.all["n2"]
            await until(lambda: "this cluster speaks TLS only" in peer.trouble, "the answer")
            assert nodes["n2"].refused["no TLS of a stranger"] >= 1
            assert others["n1"].failure is not None
            assert not others["n1"].failure.done()

    run(work())


def test_node_with_the_certificate_of_another_or_none_does_not_start(tmp_path: Path) -> None:
    async def work(wrong: Credentials | None, why: str) -> None:
        config = config_in(tmp_path, replicas=1, tls=True)
        if wrong is not None:
            node = replace(config.nodes["n1"], certificate=wrong.certificate, key=wrong.key)
            config = replace(config, nodes={"n1": node})
        else:
            credentials(certs(config), "node-n1").key.unlink()
        with pytest.raises(BraidcastError, match=why):
            async with nodes_of(config):
                pass
        shutil.rmtree(tmp_path)

    certify(tmp_path.parent / "elsewhere", ["n2"])
    run(work(credentials(tmp_path.parent / "elsewhere", "node-n2"), "must name node n1, and names node n2"))
    tmp_path.mkdir()
    run(work(None, "node-n1.key cannot be read"))


# -- certificates that change -----------------------------------------------------------------------------------------


def test_new_certificates_are_used_without_a_restart_and_broken_ones_are_not(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded(tmp_path, timing=LOOKS_OFTEN) as (nodes, _):
            folder, node = certs(nodes.config), nodes["n1"]
            mine = credentials(folder, "node-n1")

            def until_of(node: Node) -> str:
                return str(nodes.status("n1")["tls"]["until"])

            before, key = until_of(node), mine.key.read_text()
            mine.key.write_text("broken")
            await until(lambda: nodes.status("n1")["tls"]["trouble"], "the trouble")
            assert "is not the private key" in nodes.status("n1")["tls"]["trouble"]
            (await Good.at(nodes)).line.end()  # newcomers still get in
            mine.key.write_text(key)
            await until(lambda: not nodes.status("n1")["tls"]["trouble"], "the end of it")
            sign(folder, "node-n1", "braidcast:node:n1", valid_days=(-1, 30))
            await until(lambda: until_of(node) != before, "the new certificate")
            newcomer = await Good.at(nodes)
            await newcomer.goes_on()
            newcomer.line.end()

    run(work())
