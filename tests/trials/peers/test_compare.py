"""The comparison: every system that is installed answers a load, and what is said about them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from braidcast.cli.bench_peers import all_peers
from braidcast.cli.main import run
from braidcast.trials import load
from braidcast.trials.bench import ClusterLoad
from braidcast.trials.peers import etcd
from braidcast.trials.peers.compare import Comparison, compare, measure_peer, render_comparison
from braidcast.trials.peers.peer import Peer, PeerError, Servers, until

Captured = pytest.CaptureFixture[str]


class Echo:
    """A system in this process that acknowledges on the next turn of the loop."""

    durability, acknowledged, unit, remark = "nothing", "it was said", "words", "it is not one"

    def __init__(self, name: str, missing: str = "", error: Exception | None = None) -> None:
        self.name, self.why, self.error = name, missing, error
        self.folders: list[Path] = []
        self.stopped = 0

    def missing(self) -> str:
        return self.why

    def version(self) -> str:
        return "1"

    def start(self, folder: Path) -> None:
        self.folders.append(folder)

    def pids(self) -> Collection[int]:
        return [os.getpid()]

    async def connect(self, asked: ClusterLoad) -> Echo:
        return self

    def submit(self) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        if self.error is not None:
            done.set_exception(self.error)
        else:
            loop.call_soon(done.set_result, None)
        return done

    async def close(self) -> None:
        """Nothing is open."""

    def stop(self) -> None:
        self.stopped += 1


# One of each: they differ in a setting.
@pytest.mark.parametrize("peer", [peers[-1] for peers in all_peers().values()], ids=lambda peer: peer.name)
def test_every_system_that_is_installed_answers_a_load(peer: Peer) -> None:
    if why := peer.missing():
        pytest.skip(why)
    found = measure_peer(peer, ClusterLoad(1, outstanding=4, batch=2, seconds=0.3, warm_up_s=0.1))
    assert found["messages_per_s"] > 0
    assert 0 < found["latency_ms_p50"] <= found["latency_ms_p99"]
    assert not list(peer.pids()), "it was stopped"
    assert peer.version()


def test_systems_are_measured_in_turn_and_one_that_fails_or_is_missing_is_said_to_be() -> None:
    order: list[str] = []
    first, second = Echo("first"), Echo("second", error=ValueError("no room"))
    comparison = Comparison(
        [first, second, Echo("third", missing="not installed: apt-get install third")], [(1, 1), (2, 8)], 2, 0.01,
        warm_up_s=0.0,
    )  # fmt: skip
    found = compare(comparison, lambda _, what: order.append(what))
    assert comparison.steps == 8
    assert order == [
        f": {name} {load}" for load in ("W=1 B=1", "W=2 B=8") for _ in range(2) for name in ("first", "second")
    ]
    assert found["missing"] == {"third": "not installed: apt-get install third"}
    (one, _) = found["loads"][1]["rounds"]["first"]
    assert one["messages_per_s"] % 8 == 0 or one["messages_per_s"] > 8
    assert found["loads"][0]["rounds"]["second"] == [
        {"failed": "a unit of the load ended with ValueError: no room"}
    ] * 2
    assert first.stopped == second.stopped == 4
    assert not any(folder.exists() for folder in first.folders)


@pytest.mark.parametrize(
    ("drain_s", "says"),
    [(0.01, "1 units had no end 0.01 s after the load"), (5.0, "nothing was acknowledged while it was measured")],
)
def test_system_that_acknowledges_nothing_or_too_late_has_no_figures(
    drain_s: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Echo):
        def submit(self) -> asyncio.Future[Any]:
            done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            if drain_s > 1:
                asyncio.get_running_loop().call_later(0.1, done.set_result, None)
            return done

    monkeypatch.setattr(load, "DRAIN_S", drain_s)
    comparison = Comparison([Slow("slow")], [(1, 1)], 1, 0.01, warm_up_s=0.0)
    found = compare(comparison, lambda *_: None)
    assert found["loads"][0]["rounds"]["slow"] == [{"failed": says}]


def test_ratios_are_of_figures_of_one_round_and_the_range_is_shown() -> None:
    def figures(rate: int, p50: float) -> dict[str, Any]:
        return {
            "messages_per_s": rate, "latency_ms_p50": p50, "latency_ms_p99": 4.0, "cpu_s_per_1000": 0.5,
            "cpu_s_per_1000_client": 0.25,
        }  # fmt: skip

    peers = [
        {"name": name, "version": "1", "acknowledged": "yes", "survives": "all", "unit": "a batch", "remark": remark}
        for name, remark in (("a", ""), ("b", "it is slow"), ("c", ""))
    ]
    machine = {"processor": "P", "cores": 2, "memory_gib": 4, "kernel": "K", "python": "Py", "braidcast": "0"}
    rounds = {
        "a": [figures(100, 1.0), figures(200, 2.0), figures(400, 1.0)],
        "b": [figures(50, 2.0), figures(50, 2.0), figures(50, 4.0)],
        "c": [{"failed": "no"}] * 3,
    }
    text = render_comparison(
        {
            "machine": machine, "payload_bytes": 20, "seconds": 3.0, "rounds": 3, "peers": peers,
            "missing": {"d": "not installed"}, "loads": [{"outstanding": 1024, "batch": 16, "rounds": rounds}],
        }
    )  # fmt: skip
    assert "\n\nb: it is slow.\n\nd: not installed.\n\n### 1,024 under way, 16 in a unit\n\n" in text
    assert text.splitlines()[-5:] == [
        "| system | messages/s | p50 ms | p99 ms | CPU servers | CPU client | rate to a | p50 to a |",
        "|---|---:|---:|---:|---:|---:|---|---|",
        "| a | 200 | 1 | 4 | 0.5 | 0.25 | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |",
        "| b | 50 | 2 | 4 | 0.5 | 0.25 | 0.25 (0.12 to 0.50) | 2.00 (1.00 to 4.00) |",
        "| c | failed: no |  |  |  |  |  |  |",
    ]


def test_what_is_not_installed_is_said_with_what_installs_it(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd, "found", lambda _: None)
    assert run(["bench", "peers", "--only", "etcd"]) == 2
    missing, error = capsys.readouterr().err.splitlines()
    assert missing == "etcd: not installed: apt-get install etcd-server"
    assert error.startswith("braidcast: none of these systems is installed: there is nothing to measure (see ")


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", json.dumps({"machine": {}})])
def test_render_of_another_file_is_refused(text: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "x").write_text(text)
    assert run(["bench", "peers", "--render", str(tmp_path / "x")]) == 2
    assert "is not what `bench peers --json` prints: measure again" in capsys.readouterr().err


def test_server_that_ends_at_once_is_said_with_its_last_words(tmp_path: Path) -> None:
    servers = Servers()

    async def never() -> None:
        return None

    servers.start(tmp_path, ["sh", "-c", "echo first; echo no such port; exit 3"])
    with pytest.raises(PeerError, match="sh ended with 3: no such port"):
        asyncio.run(until(never, servers, "an answer"))
    servers.stop()
    assert servers.pids() == []


def test_request_of_etcd_is_written_as_protocol_buffers_are() -> None:
    assert etcd.field(1, b"key") == b"\x0a\x03key"
    assert etcd.field(2, b"x" * 300) == b"\x12\xac\x02" + b"x" * 300
