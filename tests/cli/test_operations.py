"""What an operator does to a cluster of real processes: look, move leaders, read its files, back it up, restore it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.test_backup import SHARED, write

from braidcast.cli.main import run
from braidcast.cli.registry import protocol_named
from braidcast.client.status import NodeStatus
from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster
from braidcast.settings import CLUSTER_FILE

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path, capsys: Captured) -> Iterator[Path]:
    data = tmp_path / "shop"
    assert run(["up", "--groups", "2", "--data", str(data)]) == 0
    capsys.readouterr()
    yield data
    run(["down", "--data", str(data)])


def out(capsys: Captured) -> list[str]:
    return capsys.readouterr().out.splitlines()


def leaders(where: list[str], capsys: Captured) -> dict[str, str]:
    """Who leads which group, as every node says that knows one."""
    run(["status", *where, "--json"])
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    return {r["group"]: name for name, answer in nodes.items() if answer for r in answer["replicas"] if r["leads"]}


def test_a_cluster_is_watched_led_dumped_backed_up_and_restored(
    cluster: Path, tmp_path: Path, capsys: Captured
) -> None:
    where = ["--cluster", str(cluster)]
    assert run(["send", *where, "--to", "g0,g1", "one"]) == run(["send", *where, "--to", "g1", "two"]) == 0
    capsys.readouterr()

    to = next(name for name in ("n2", "n3") if leaders(where, capsys)["g0"] != name)
    assert run(["lead", *where, "g0", to]) == 0
    assert out(capsys) == [f"node {to} leads group g0"]
    assert leaders(where, capsys)["g0"] == to
    assert run(["lead", *where, "g0", to]) == 0
    assert out(capsys) == [f"node {to} leads group g0 already"]

    assert run(["status", *where, "--wait", "20"]) == 0
    capsys.readouterr()
    assert run(["status", *where, "--watch", "--times", "2", "--every", "0.01"]) == 0
    assert sum(line.startswith("node  address") for line in out(capsys)) == 2
    assert run(["top", *where, "--times", "1", "--every", "0.01", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["replicas"]) == 6

    data = cluster / "data" / "n1"
    assert run(["dump", str(data), "--journal", "g1", "--json"]) == 0
    assert [json.loads(line)["payload"] for line in out(capsys)] == ["one", "two"]
    assert run(["dump", str(data), "--process", "0", "--json"]) == 0
    assert {json.loads(line)["process"] for line in out(capsys)} == {0}
    assert run(["dump", str(data), "--last", "1"]) == 0
    assert len(out(capsys)) == 1

    file = tmp_path / "shop.backup"
    assert run(["backup", *where, "--out", str(file), "--json"]) == 0
    taken = json.loads(capsys.readouterr().out)
    assert (taken["entries"], taken["is_complete"]) == (3, True)
    assert run(["dump", str(file)]) == 0
    assert [line.split()[0] for line in out(capsys)] == ["g0", "g1", "g1"]
    assert run(["backup", *where, "g0", "--out", str(tmp_path / "g0.backup")]) == 0
    assert out(capsys)[-1].startswith("without g1: a cluster is restored from a backup of all of its groups")

    assert run(["down", "--data", str(cluster)]) == 0
    again = tmp_path / "again"
    again.mkdir()
    again.joinpath(CLUSTER_FILE).write_text((cluster / CLUSTER_FILE).read_text().replace('"local"', '"again"'))
    assert run(["restore", str(file), "--cluster", str(again)]) == 0
    assert run(["up", "--data", str(again)]) == 0
    try:
        where = ["--cluster", str(again)]
        assert run(["send", *where, "--to", "g0,g1", "three"]) == 0
        capsys.readouterr()
        assert run(["tail", *where, "g1", "--no-follow", "--json"]) == 0
        entries = [json.loads(line) for line in out(capsys)]
        assert [(e["index"], e["payload"]) for e in entries] == [(1, "one"), (2, "two"), (3, "three")]
    finally:
        run(["down", "--data", str(again)])


def test_a_node_that_is_told_to_stop_lets_others_lead_first(cluster: Path, capsys: Captured) -> None:
    where = ["--cluster", str(cluster)]
    processes = LocalCluster(load_config(cluster / CLUSTER_FILE, protocol_named))
    assert run(["status", *where, "--wait", "20"]) == 0
    capsys.readouterr()
    first = leaders(where, capsys)["g0"]
    processes.stop(first)
    assert "others lead group g0 after" in processes.nodes[first].output.read_text()
    assert leaders(where, capsys)["g0"] != first
    assert run(["status", *where, "--wait", "0"]) == 1


def refused(arguments: list[str], capsys: Captured) -> str:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = [line for line in said.err.splitlines() if "does not answer: waiting" not in line]
    return line


def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / CLUSTER_FILE
    file.write_text(render_local("whitebox", (7101, 7102, 7103), groups=2))
    where = ["--cluster", str(file)]
    good = write(tmp_path / "good", SHARED)
    (tmp_path / "bad").write_bytes(good.read_bytes()[:-1])
    (tmp_path / "no").write_text("hello")
    for arguments, says in (
        (["lead", *where, "g0", "n9"], "has no node 'n9'"),
        (["lead", *where, "g9", "n1"], "has no group 'g9'"),
        (["lead", *where, "g0", "n1"], "group g0 has no leader that could hand it over"),
        (["backup", *where], "give --out FILE to write a backup, or --check FILE"),
        (["backup", *where, "g9", "--out", str(tmp_path / "x")], "has no group 'g9'"),
        (["backup", *where, "--out", str(tmp_path / "x")], "no replica of group g0 answers"),
        (["backup", *where, "--out", str(tmp_path / "no")], "no is no backup, and is not replaced by one"),
        (["backup", "--check", str(tmp_path / "bad")], "is not whole; use another one"),
        (["restore", str(tmp_path / "bad"), *where], "is not whole; use another one"),
        (["restore", str(tmp_path / "none"), *where], "cannot be read: No such file"),
        (["dump", str(tmp_path)], "has no identity.json: give the data directory of a node"),
        (["dump", str(tmp_path / "no")], "is no backup: give one, or the data directory of a node"),
        (["dump", str(tmp_path / "none")], "has no identity.json"),
    ):
        assert says in refused(arguments, capsys), arguments


def test_a_dump_of_something_torn_says_so_and_leaves_with_1(tmp_path: Path, capsys: Captured) -> None:
    config = tmp_path / CLUSTER_FILE
    config.write_text(render_local("whitebox", (7101,), groups=2, replicas=1))
    assert run(["restore", str(write(tmp_path / "b", SHARED)), "--cluster", str(config)]) == 0
    (journal,) = (tmp_path / "data" / "n1" / "journal" / "g0").iterdir()
    journal.write_bytes(journal.read_bytes()[:-1])
    capsys.readouterr()
    assert run(["dump", str(tmp_path / "data" / "n1"), "--journal", "g0"]) == 1
    assert "cannot be read: torn by a crash" in capsys.readouterr().err
    assert run(["dump", str(tmp_path / "data" / "n1"), "--json"]) == 0
    records: list[dict[str, Any]] = [json.loads(line) for line in out(capsys)]
    assert [(r["process"], r["kind"], r["gts"]) for r in records] == [(0, "Checkpoint", 30), (1, "Checkpoint", 40)]


def test_a_leader_without_an_admin_port_cannot_be_asked(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / CLUSTER_FILE
    file.write_text(render_local("whitebox", (7101, 7102, 7103), groups=1))

    async def answer(*_: object, **__: object) -> list[NodeStatus]:
        return [NodeStatus("n1", "", {"replicas": [{"group": "g0", "role": "leader"}]}, "")]

    monkeypatch.setattr("braidcast.cli.leading.ask_each", answer)
    assert "has no admin port: add admin =" in refused(["lead", "--cluster", str(file), "g0", "n2"], capsys)
    text = render_local("whitebox", (7101, 7102, 7103), groups=1, admin_ports=(1, 2, 3))
    file.write_text(text)
    assert "run this on its machine" in refused(["lead", "--cluster", str(file), "g0", "n2"], capsys)
