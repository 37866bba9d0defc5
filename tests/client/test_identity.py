"""Clients of a cluster with TLS: who they are, what they are told when they may not, and their state files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import certificates, credentials, sign
from tests.cluster.inprocess import ANY, Nodes, config_in, nodes_of, run

from braidcast import Client, ClusterUnreachable, MessageRefused, NotPermitted, StateUnusable, Subscriber
from braidcast.client.places import place_of
from braidcast.client.status import statuses
from braidcast.cluster.authority import certify
from braidcast.cluster.config_text import render_local
from braidcast.wire.connection import Connection
from braidcast.wire.handshake import HANDSHAKE, GroupInfo, NodeInfo, Welcome
from braidcast.wire.subject import is_id_of

RIGHTS: dict[str, Any] = {"alice": {"send": ["g0"], "read": ["g0"]}, "bob": {"send": ["g0", "g1"]}}
QUICK = 0.3


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[Nodes, Path]]:
    """A node with TLS and two groups, and its configuration as a file."""
    config = config_in(folder, groups=2, replicas=1, tls=True, clients=RIGHTS)
    async with nodes_of(config) as nodes:
        yield nodes, config.path


def test_client_is_who_it_says_or_who_the_configuration_says(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as (nodes, file):
            address, certs = nodes.config.nodes["n1"].address, tmp_path / "certs"
            for where, identity, name in (
                (file, None, "admin"), (file, "alice", "alice"), (tmp_path, "alice", "alice"),
                (address, credentials(certs, "client-alice"), "alice"), (file, credentials(certs, "client-bob"), "bob"),
            ):  # fmt: skip
                async with Client.connect(where, identity=identity) as client:
                    assert is_id_of(client.id, name)
                    await client.multicast(name.encode(), to="g0")
            async with Subscriber.connect(file, group="g0", identity="alice") as deliveries:
                names = [(await anext(deliveries)).payload for _ in range(5)]
            assert names == [b"admin", b"alice", b"alice", b"alice", b"bob"]
            assert nodes["n1"].refused == {}

    run(work())


def test_what_a_client_may_not_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as (nodes, file):
            async with Client.connect(file, identity="alice") as client:
                with pytest.raises(NotPermitted, match="client alice may not send to group g1") as caught:
                    await client.multicast(b"x", to={"g0", "g1"})
                assert isinstance(caught.value, MessageRefused)
                await client.multicast(b"still welcome", to="g0")
            async with Subscriber.connect(file, group="g1", identity="alice") as deliveries:
                for _ in range(2):
                    with pytest.raises(NotPermitted, match="client alice may not read group g1"):
                        await anext(deliveries)
            place = place_of(file, "alice")
            (status,) = await statuses(place.addresses, place.name, certificates=place.certificates)
            assert (status.answer, status.trouble) == (None, "not permitted: client alice may not ask for the status")
            assert nodes["n1"].refused == {"client: not permitted": 3}

    run(work())


@pytest.mark.parametrize(
    ("identity", "why"),
    [
        ("mallory", "client mallory has no rights in cluster local"),
        ("carol", "client-carol.pem cannot be read"),
        ("eve", "must name client eve, and names client alice"),
    ],
)
def test_client_that_is_not_let_in_is_told_at_once(tmp_path: Path, identity: str, why: str) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as (_, file):
            certify(tmp_path / "certs", clients=["mallory"])
            sign(tmp_path / "certs", "client-eve", "braidcast:client:alice")
            with pytest.raises(ClusterUnreachable, match=why) as caught:
                async with Client.connect(file, identity=identity):
                    pass
            assert caught.value.is_final

    run(work())


def test_client_without_tls_is_told_what_is_missing(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as (nodes, _):
            with pytest.raises(ClusterUnreachable, match="this cluster speaks TLS only"):
                async with Client.connect(nodes.config.nodes["n1"].address, connect_timeout=QUICK):
                    pass

    run(work())


def test_client_with_tls_says_nothing_to_a_node_without(tmp_path: Path) -> None:
    async def work() -> None:
        certify(tmp_path / "certs", clients=["alice"])
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            address, alice = nodes.config.nodes["n1"].address, credentials(tmp_path / "certs", "client-alice")
            with pytest.raises(ClusterUnreachable, match="closed by the other side before the two agreed on TLS"):
                async with Client.connect(address, identity=alice, connect_timeout=QUICK):
                    pass
            assert set(nodes["n1"].refused) == {"foreign frame of a stranger"}

    run(work())


def test_identity_that_cannot_be_shown_is_an_error_before_anything_is_dialled(tmp_path: Path) -> None:
    plain, secure = tmp_path / "plain.toml", tmp_path / "secure.toml"
    plain.write_text(render_local("whitebox", [7101], groups=1, replicas=1))
    text = render_local("whitebox", [7101], groups=1, replicas=1, tls=True)
    secure.write_text(text.replace('identity = "admin"\n', ""))
    for where, identity, why in (
        (str(plain), "alice", "has no \\[tls\\], so nobody can show to be client alice"),
        ("localhost:7101", "alice", "addresses do not say where the certificate of client alice is"),
        (str(secure), None, "asks for a certificate: say with `identity` which client this is: admin"),
        (str(secure), "admin", "client-admin.pem cannot be read"),
    ):
        with pytest.raises(ClusterUnreachable, match=why):
            place_of(where, identity)


def test_own_paths_of_a_client_count(tmp_path: Path) -> None:
    certify(tmp_path / "certs", clients=["admin", "alice"])
    own = {"certificate": "mine.pem", "key": "mine.key"}
    (tmp_path / "certs" / "client-alice.pem").rename(tmp_path / "mine.pem")
    (tmp_path / "certs" / "client-alice.key").rename(tmp_path / "mine.key")
    file = tmp_path / "c.toml"
    file.write_text(render_local("whitebox", [1], groups=1, replicas=1, tls=True, settings={"clients.alice": own}))
    certificates = place_of(file, "alice").certificates
    assert certificates is not None
    assert certificates.credentials.certificate == tmp_path / "mine.pem"


def test_state_is_that_of_one_client(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path) as (_, file):
            state = tmp_path / "state"
            async with Client.connect(file, identity="alice", state=state) as client:
                id = client.id
            async with Client.connect(file, identity="alice", state=state) as client:
                assert client.id == id
            with pytest.raises(StateUnusable, match="is not the state of client bob"):
                async with Client.connect(file, identity="bob", state=state):
                    pass

    run(work())


def test_node_that_calls_itself_another_is_not_talked_to(tmp_path: Path) -> None:
    """Any node of the cluster may answer at an address; but then it is the one that its certificate names."""

    async def work() -> None:
        certify(tmp_path, ["n1", "n2"], ["alice"])

        def on_body(connection: Connection, body: bytes) -> None:
            nodes = (NodeInfo("n1", "127.0.0.1:1", (0,)),)
            welcome = Welcome("shop", "f", "n1", (GroupInfo("g0", 0, (0,)),), nodes, 1 << 20, 1 << 10)
            connection.send(HANDSHAKE.encode(welcome))

        def accept() -> Connection:
            return Connection(ANY, on_body, lambda *_: None, tls=certificates(tmp_path, "node-n2").accept())

        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            with pytest.raises(ClusterUnreachable, match="node n2 calls itself node n1"):
                async with Client.connect(address, identity=credentials(tmp_path, "client-alice"), connect_timeout=0):
                    pass
        finally:
            server.close()

    run(work())
