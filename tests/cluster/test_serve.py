"""What keeps a node from starting is said in one line that says what to do."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.certificates import sign
from tests.cluster.inprocess import config_in, nodes_of, run, until

from braidcast.cli.registry import protocol_named
from braidcast.cluster import handing_over
from braidcast.cluster import serve as serve_module
from braidcast.cluster.authority import certify_cluster
from braidcast.cluster.config import ClusterConfig, load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.identity import open_identity
from braidcast.cluster.local import LocalCluster, free_ports
from braidcast.cluster.log import Log
from braidcast.cluster.logs import JsonLines
from braidcast.cluster.serve import NodeFailed, _serve_until, open_node, serve
from braidcast.core.errors import BraidcastError
from braidcast.settings import CLUSTER_FILE


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """`serve` is the program: it sets up the logging and the collector of its process."""
    root = logging.getLogger()
    handlers, level, thresholds = root.handlers[:], root.level, gc.get_threshold()
    yield
    root.handlers[:], root.level = handlers, level
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def refusal(config: ClusterConfig, name: str = "n1", *, rejoin: bool = False) -> str:
    with pytest.raises(BraidcastError) as refused:
        serve(config, name, rejoin=rejoin)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_unknown_node_is_refused(tmp_path: Path) -> None:
    assert "has no node 'n9': choose n1 or n2 or n3" in refusal(config_in(tmp_path), "n9")


def test_protocol_that_takes_nobody_back_refuses_to_rejoin(tmp_path: Path) -> None:
    config = config_in(tmp_path, groups=3, replicas=1, protocol="skeen")
    assert "skeen cannot take back a member that lost its disk" in refusal(config, rejoin=True)


def test_only_replica_of_a_group_refuses_to_rejoin(tmp_path: Path) -> None:
    assert "nobody can restore group g0" in refusal(config_in(tmp_path, replicas=1), rejoin=True)


def test_node_in_memory_that_ran_before_refuses_to_start_as_if_it_had_not(tmp_path: Path) -> None:
    config = config_in(tmp_path, cluster={"durability": "memory"})
    open_identity(config.nodes["n1"].data, config.name, config.fingerprint, "n1", in_memory=True)
    assert "start it with --rejoin if the others run" in refusal(config)


def test_node_without_its_certificates_is_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path, tls=True)
    (tmp_path / "certs" / "node-n1.pem").unlink()
    assert "node-n1.pem cannot be read" in refusal(config)


def test_hang_up_makes_a_node_look_for_new_certificates_at_once(tmp_path: Path) -> None:
    rare: dict[str, str | int] = {"ping_ms": 1_000_000, "silence_ms_max": 3_600_000}
    text = render_local("whitebox", free_ports(1), groups=1, replicas=1, tls=True, settings={"timing": rare})
    (tmp_path / CLUSTER_FILE).write_text(text)
    config = load_config(tmp_path / CLUSTER_FILE, protocol_named)
    certify_cluster(config)
    cluster = LocalCluster(config)
    cluster.start_all()
    try:
        cluster.wait_until(lambda: " is up at " in cluster.last_words("n1"), "the node")
        sign(tmp_path / "certs", "node-n1", "braidcast:node:n1", valid_days=(-1, 30))
        cluster.signal("n1", signal.SIGHUP)
        cluster.wait_until(lambda: "new certificates are in use" in cluster.last_words("n1"), "new certificates")
    finally:
        cluster.stop_all()


def test_address_in_use_and_log_in_use_are_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with socket.create_server(("127.0.0.1", config.nodes["n1"].port)):
        assert "is it running already, or is the port in use?" in refusal(config)
    text = config.path.with_name("with_admin.toml")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text.write_text(render_local("whitebox", free_ports(3), groups=1, admin_ports=(port + 1, port + 2, port)))
        assert "cannot listen at 127.0.0.1" in (why := refusal(load_config(text, protocol_named), "n3"))
        assert "(admin)" in why
    log = Log.open(config.nodes["n2"].data / "log")
    log.close()
    assert "has no identity.json but holds log" in refusal(config, "n2")


def test_node_that_cannot_read_its_journal_lets_go_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that goes on, somebody else may want to open it."""
    config, closed, close = config_in(tmp_path), list[str](), Log.close

    def note_and_close(log: Log) -> None:
        closed.append(log.id)
        close(log)

    monkeypatch.setattr(Log, "close", note_and_close)
    journal = config.journal_folder("n1", "g0")
    journal.mkdir(parents=True)
    open_identity(config.nodes["n1"].data.with_name("other"), config.name, config.fingerprint, "n1").path.rename(
        config.nodes["n1"].data / "identity.json"
    )
    (journal / "nonsense.journal").touch()
    with pytest.raises(BraidcastError, match="is not of this journal"):
        open_node(config, "n1")
    assert len(closed) == 1


def test_logs_are_as_the_configuration_says_or_the_command_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_module, "open_node", lambda *_, **__: None)
    monkeypatch.setattr(serve_module, "run", lambda serving: serving.close())

    def is_json() -> bool:
        (handler,) = logging.getLogger().handlers
        return isinstance(handler.formatter, JsonLines)

    plain, structured = config_in(tmp_path), config_in(tmp_path, cluster={"log": "json"})
    for config, log_format, expected in (
        (plain, None, False), (structured, None, True), (plain, "json", True), (structured, "text", False),
    ):  # fmt: skip
        serve(config, "n1", log_format=log_format)  # type: ignore[arg-type]  # a literal, in a tuple
        assert is_json() == expected


def test_told_once_a_node_hands_over_and_told_twice_it_stops_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "HAND_OVER_S", 600)

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options={"suspect_ticks": 600_000_000})) as nodes:
            for name in ("n2", "n3"):
                nodes.disks[name].hold()  # nobody will take over
            told = asyncio.Event()
            serving = asyncio.ensure_future(_serve_until(nodes["n1"], told))
            told.set()
            await until(lambda: not told.is_set(), "it to be heard")
            assert not serving.done()
            told.set()
            await asyncio.wait_for(serving, 20)
            assert nodes.running.pop("n1").over

    run(work())


def test_a_node_that_fails_hands_nothing_over(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path), "n1") as nodes:
            serving = asyncio.ensure_future(_serve_until(nodes["n1"], asyncio.Event()))
            nodes["n1"].fail("no more")
            with pytest.raises(NodeFailed, match="no more"):
                await asyncio.wait_for(serving, 20)
            nodes.running.pop("n1")

    run(work())
