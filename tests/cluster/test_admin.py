"""The admin port: it says how the node is, also when its loop hangs, to few at a time, and changes nothing by a GET."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.inprocess import Line, Nodes, config_in, message, nodes_of, run, until

from braidcast.cli.registry import protocol_named
from braidcast.cluster import admin as admin_module
from braidcast.cluster.admin import CONNECTIONS_MAX, Admin
from braidcast.cluster.config import ClusterConfig, ConfigError, parse_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import free_ports
from braidcast.core.client import Reply
from braidcast.core.errors import BraidcastError

Answer = tuple[int, str]
CALM: dict[str, str | int] = {"suspect_ticks": 600_000_000, "heartbeat_ticks": 100_000}
"""However slow the machine is, nobody is suspected."""


def ask(admin: Admin, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
    """One request, in whatever thread but the loop's."""
    assert admin.server is not None
    connection = http.client.HTTPConnection("127.0.0.1", admin.server.server_port, timeout=20)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


async def get(admin: Admin, path: str, method: str = "GET", **headers: str) -> Answer:
    """The same from the loop."""
    return await asyncio.to_thread(ask, admin, path, method, {"X-" + name: value for name, value in headers.items()})


@asynccontextmanager
async def admin_of(nodes: Nodes, name: str) -> AsyncIterator[Admin]:
    admin = Admin(nodes[name], "127.0.0.1:0")
    admin.open()
    try:
        yield admin
    finally:
        admin.close()


def test_health_status_and_metrics_of_a_node_that_works(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2, options=CALM)) as nodes, admin_of(nodes, "n1") as admin:
            line = await Line.to(nodes, "n1")
            line.submit((0,), message(1))
            await line.hears(Reply)
            assert await get(admin, "/healthz") == (200, "ok\n")
            code, text = await get(admin, "/status?whatever")
            status = json.loads(text)
            assert (code, status["node"], [r["leader"] for r in status["replicas"]]) == (200, "n1", ["n1", "n1"])
            code, text = await get(admin, "/metrics")
            assert code == 200
            assert 'braidcast_leads{group="g0"} 1.0' in text
            assert 'braidcast_delivered_messages_total{group="g0"} 1.0' in text
            assert "process_resident_memory_bytes" in text
            assert (await get(admin, "/"))[0] == 404
            line.end()

    run(work())


def test_health_says_why_not_a_line_each(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2), "n2") as nodes, admin_of(nodes, "n2") as admin:
            line = "neither leads nor hears a leader\n"
            assert await get(admin, "/healthz") == (503, f"group g0: {line}group g1: {line}")

    run(work())


def test_health_says_that_the_loop_hangs_and_asks_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "ANSWER_S", 0.05)

    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes, admin_of(nodes, "n1") as admin:
            answers: list[Answer] = []
            paths = ("/healthz", "/status")
            asking = threading.Thread(target=lambda: answers.extend(ask(admin, path) for path in paths))
            asked = admin.asked
            asking.start()
            asking.join()  # the loop stands still until both have their answers
            assert answers == [(503, "the node's loop has not answered for 0.05 s\n")] * 2
            assert admin.asked == asked + 1
            monkeypatch.setattr(admin_module, "ANSWER_S", 20)
            assert (await get(admin, "/status"))[0] == 200, "it goes on, and so does this"

    run(work())


def test_the_oldest_connection_goes_when_there_are_too_many(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes, admin_of(nodes, "n1") as admin:
            assert admin.server is not None
            place = "127.0.0.1", admin.server.server_port
            silent = [socket.create_connection(place, 20) for _ in range(CONNECTIONS_MAX)]
            assert (await get(admin, "/status"))[0] == 200
            assert await asyncio.to_thread(silent[0].recv, 1) == b""
            for each in silent:
                each.close()

    run(work())


def test_who_says_nothing_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module.Handler, "timeout", 0.02)

    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes, admin_of(nodes, "n1") as admin:
            assert admin.server is not None
            with socket.create_connection(("127.0.0.1", admin.server.server_port), 20) as silent:
                silent.sendall(b"GET /status HT")
                assert await asyncio.to_thread(silent.recv, 1) == b""

    run(work())


@pytest.mark.parametrize(
    "said",
    [
        b"\x00\xff\r\n\r\n", b"GET " + b"/" * 100_000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 500,
        b"PUT /status HTTP/1.0\r\n\r\n",
    ],
    ids=["garbage", "endless line", "many headers", "unknown method"],
)
def test_what_is_no_request_harms_nobody(tmp_path: Path, said: bytes) -> None:
    def speak(place: tuple[str, int]) -> bytes:
        with socket.create_connection(place, 20) as stranger:
            try:
                stranger.sendall(said)
                return stranger.recv(20)
            except ConnectionError:
                return b""

    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes, admin_of(nodes, "n1") as admin:
            assert admin.server is not None
            answer = await asyncio.to_thread(speak, ("127.0.0.1", admin.server.server_port))
            assert not answer.startswith(b"HTTP/1.0 2")
            assert (await get(admin, "/status"))[0] == 200

    run(work())


def test_an_operator_says_who_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "ANSWER_S", 20)

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=CALM)) as nodes, admin_of(nodes, "n1") as admin:
            assert (await get(admin, "/lead?group=g0&node=n3", "POST"))[0] == 403
            code, why = await get(admin, "/lead?group=g0&node=n7", "POST", Braidcast="1")
            assert (code, why) == (409, "node n7 has no replica of group g0: choose n1 or n2 or n3\n")
            code, why = await get(admin, "/lead?group=g9&node=n3", "POST", Braidcast="1")
            assert (code, why.partition(":")[0]) == (409, "cluster local has no group 'g9'")
            assert (await get(admin, "/lead", "POST", Braidcast="1"))[0] == 404
            assert await get(admin, "/lead?group=g0&node=n1", "POST", Braidcast="1") == (200, "done\n")
            assert nodes["n1"].by_group[0].process.role == "leader"
            assert await get(admin, "/lead?group=g0&node=n3", "POST", Braidcast="1") == (200, "done\n")
            assert nodes["n3"].by_group[0].process.role == "leader"
            code, why = await get(admin, "/lead?group=g0&node=n2", "POST", Braidcast="1")
            assert (code, why.partition(":")[0]) == (409, "node n1 does not lead group g0")

    run(work())


def test_a_port_that_is_taken_is_an_error_of_one_line(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes, admin_of(nodes, "n1") as admin:
            assert admin.server is not None
            other = Admin(nodes["n1"], f"127.0.0.1:{admin.server.server_port}")
            with pytest.raises(BraidcastError, match=r"cannot listen at .* \(admin\).*is the port in use"):
                other.open()
            other.close()

    run(work())


def test_a_port_that_is_closed_is_free_again(tmp_path: Path) -> None:
    async def work() -> None:
        (port,) = free_ports(1)
        async with nodes_of(config_in(tmp_path), "n1") as nodes:
            for _ in range(2):
                admin = Admin(nodes["n1"], f"127.0.0.1:{port}")
                admin.open()
                assert (await get(admin, "/status"))[0] == 200
                admin.close()
            await until(lambda: not [t for t in threading.enumerate() if t.name == "admin"], "its thread to end")

    run(work())


def config_with(tmp_path: Path, first: str, more: str = "") -> ClusterConfig:
    """Three nodes, of which the first has that admin address."""
    text = render_local("whitebox", (7101, 7102, 7103)).replace(
        'data = "data/n1"', f'data = "data/n1"\nadmin = "{first}"{more}'
    )
    return parse_config(text, tmp_path / "cluster.toml", protocol_named)


@pytest.mark.parametrize(
    ("first", "more", "says"),
    [
        ("10.0.0.1:7201", "", "nodes.n1.admin is 10.0.0.1:7201, which others may reach: give a loopback address"),
        ("db-1:7201", "", 'or add admin_reach = "network"'),
        ("192.168.0.1:7201", '\nadmin_reach = "loopback"', "which others may reach"),
        ("127.0.0.1:7201", '\nadmin_reach = "yes"', 'takes "loopback" or "network"'),
    ],
)
def test_an_admin_port_that_others_reach_must_be_wanted(tmp_path: Path, first: str, more: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        config_with(tmp_path, first, more)


@pytest.mark.parametrize(
    ("first", "more"),
    [("127.0.0.1:7201", ""), ("[::1]:7201", ""), ("10.0.0.1:7201", '\nadmin_reach = "network"')],
)
def test_an_admin_port_is_there_when_it_is_set(tmp_path: Path, first: str, more: str) -> None:
    config = config_with(tmp_path, first, more)
    assert [node.admin for node in config.nodes.values()] == [first, None, None]
    assert config.fingerprint == config_with(tmp_path, "127.0.0.1:7999").fingerprint, "nobody need agree on it"


def test_two_nodes_cannot_have_one_admin_port(tmp_path: Path) -> None:
    text = render_local("whitebox", (7101, 7102, 7103), admin_ports=(7201, 7201, 7202))
    with pytest.raises(ConfigError, match=r"nodes n1 and n2 have one admin, 127\.0\.0\.1:7201: give each its own"):
        parse_config(text, tmp_path / "cluster.toml", protocol_named)
