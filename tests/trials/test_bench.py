"""The measurements run and print what they promise; what the figures are is nobody's test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from braidcast.cli.main import run
from braidcast.cluster.local import NodeProcess, processes_in, wait_until


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, float]:
    assert run(["bench", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("layout", "durability", "processes", "more"),
    [("colocated", "disk", 3, ["--tls", "--history"]), ("spread", "memory", 9, ["--history"])],
)
def test_bench_cluster_prints_rate_latency_cpu_and_processes(
    layout: str, durability: str, processes: int, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = figures(
        capsys, *f"cluster --destinations 2 --outstanding 8 --batch 4 --seconds 0.5 --layout {layout}".split(),
        "--durability", durability, *more,
    )  # fmt: skip
    assert {"messages_per_s", "latency_ms_p50", "latency_ms_p99", "cpu_s_per_1000", "processes"} <= found.keys()
    assert found["processes"] == processes
    assert found["messages_per_s"] > 0
    assert 0 < found["latency_ms_p50"] <= found["latency_ms_p99"]


def test_bench_endurance_looks_at_the_memory_of_the_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "endurance", "--messages", "2000", "--batch", "10", "--outstanding", "20")
    assert found["messages"] >= 2000
    assert found["rss_mib_last_quarter"] > 0


def test_bench_failover_kills_leaders_and_judges_what_comes_after(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "failover", "--rounds", "1", "--rate", "100")
    assert (found["rounds"], found["violations"], found["lost"]) == (1, 0, 0)
    assert 0 < found["leader_ms_p50"] <= found["drain_ms_max"]


def test_bench_that_is_told_to_stop_leaves_no_node_and_no_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "braidcast", *"bench cluster --layout colocated --seconds 300".split()]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def nodes() -> list[NodeProcess]:
        folders = list(tmp_path.glob("braidcast-bench-*"))
        return [node for folder in folders for node in processes_in(folder) if node.pid is not None]

    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as bench:
        wait_until(lambda: len(nodes()) == 3, "the nodes", 30)
        running = nodes()
        bench.send_signal(signal.SIGTERM)
        _, error = bench.communicate(timeout=60)
    assert (bench.returncode, error.strip()) == (130, b"braidcast: interrupted")
    assert [node.pid for node in running] == [None] * 3
    assert list(tmp_path.glob("braidcast-bench-*")) == []
