"""Processes of a local cluster: found by their files, and never taken for somebody else's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.inprocess import config_in

from braidcast.cluster.local import LocalCluster, free_ports


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    made = LocalCluster(config_in(tmp_path))
    (tmp_path / "run").mkdir()
    return made


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "4194305", "99999999999999999999", "mine"])
def test_file_that_names_no_node_names_no_process(cluster: LocalCluster, text: str) -> None:
    """A number below 1 would stand for many processes, and this one has only been given the number of a node."""
    cluster.nodes["n1"].pid_file.write_text(f"{os.getpid()}" if text == "mine" else text)
    assert cluster.nodes["n1"].pid is None
    assert cluster.running() == {}
    cluster.signal("n1", 9)
    assert cluster.stop_all() == []
    assert not cluster.nodes["n1"].pid_file.exists()


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_process_counts_only_with_the_name_and_the_configuration(
    cluster: LocalCluster, tmp_path: Path, place: str
) -> None:
    path = cluster.config.path if place == "here" else tmp_path.parent / "other.toml"
    command = [sys.executable, "-c", "input()", "--config", str(path), "--id", "n1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        cluster.nodes["n1"].pid_file.write_text(f"{process.pid}\n")
        cluster.nodes["n2"].pid_file.write_text(f"{process.pid}\n")
        here = {"n1": process.pid} if place == "here" else {}
        cluster.wait_until(lambda: b"--id" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), "the command")
        assert cluster.running() == here
        process.communicate(b"\n")
    assert cluster.running() == {}


def test_free_ports_are_free_and_different() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))


def test_last_words_of_a_node_that_said_nothing_are_empty(cluster: LocalCluster) -> None:
    assert cluster.last_words("n1") == ""
    cluster.nodes["n1"].output.write_text("one\ntwo\n")
    assert cluster.last_words("n1") == "two"
