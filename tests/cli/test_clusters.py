"""The commands that run a real local cluster, as a person would type them."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from braidcast.cli.main import run
from braidcast.cli.registry import protocol_named
from braidcast.client.follower import Follower
from braidcast.cluster.config import load_config
from braidcast.cluster.local import LocalCluster, node_command
from braidcast.history.store import read_history
from braidcast.properties.check import check
from braidcast.settings import CLUSTER_FILE
from braidcast.wire.service import JournalEntry


@pytest.fixture
def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Path]:
    data = tmp_path / "shop"
    assert run(["up", "--groups", "accounts,stock", "--data", str(data), "--history"]) == 0
    assert "send    braidcast send" in capsys.readouterr().out
    yield data
    run(["down", "--data", str(data)])


def test_up_send_tail_status_down_and_a_history_that_holds(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--cluster", str(cluster)]
    assert run(["send", *where, "--to", "accounts,stock", "one", "two", "--json"]) == 0
    assert run(["send", *where, "--to", "stock", "three"]) == 0
    sent = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["timestamp"] > 0 for line in sent[:2]] == [True, True]
    assert "delivered at" in sent[2]

    assert run(["tail", *where, "stock", "--no-follow", "--json"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [entry["payload"] for entry in entries] == ["one", "two", "three"]
    assert [(entry["index"], entry["part"]) for entry in entries] == [(1, 0), (1, 1), (2, 0)]
    assert run(["tail", *where, "accounts", "--count", "1", "--after", entries[0]["checkpoint"]]) == 0
    assert capsys.readouterr().out.split()[-1] == "two"

    assert run(["status", *where, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["silent"], found["leaderless"]) == ([], [])
    assert sorted(found["nodes"]) == ["n1", "n2", "n3"]

    assert run(["down", "--data", str(cluster), "--json"]) == 0
    stopped = json.loads(capsys.readouterr().out)
    assert sorted(stopped["stopped"]) == ["n1", "n2", "n3"]
    assert stopped["killed"] == []
    history = read_history(cluster / "history")
    assert len(history.events) == stopped["events"]
    assert check(history) == []


def test_a_cluster_that_was_stopped_goes_on_where_it_was(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--cluster", str(cluster)]
    assert run(["send", *where, "--to", "stock", "before"]) == 0
    assert run(["down", "--data", str(cluster)]) == 0
    assert run(["up", "--data", str(cluster)]) == 0
    assert run(["send", *where, "--to", "stock", "after"]) == 0
    capsys.readouterr()
    assert run(["tail", *where, "stock", "--no-follow", "--json"]) == 0
    assert [json.loads(line)["payload"] for line in capsys.readouterr().out.splitlines()] == ["before", "after"]


def test_unknown_group_and_absent_cluster_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--cluster", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "braidcast up" in error
    assert run(["up", "--groups", "2", "--replicas", "2", "--data", str(tmp_path / "even")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "even" / "cluster.toml").exists()


def test_group_that_does_not_exist_is_named(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["send", "--cluster", str(cluster), "--to", "accounts,shop", "x"]) == 2
    assert "no group 'shop'" in capsys.readouterr().err
    assert run(["tail", "--cluster", str(cluster), "shop"]) == 2
    assert "no group 'shop'" in capsys.readouterr().err


def test_cluster_that_does_not_run_is_said_so(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["down", "--data", str(cluster)])
    capsys.readouterr()
    assert run(["send", "--cluster", str(cluster), "--to", "stock", "x"]) == 2
    error = capsys.readouterr().err
    assert "are the nodes running?" in error
    assert error.count("\n") == 1


# -- nodes that do not come, and nodes that nobody knows of -----------------------------------------------------------


def local(data: Path) -> LocalCluster:
    return LocalCluster(load_config(data / CLUSTER_FILE, protocol_named))


def test_nodes_that_serve_go_on_when_another_does_not_start(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = local(cluster)
    before = known.running()
    known.kill("n2")
    (cluster / "data" / "n2" / "identity.json").write_text("{")
    capsys.readouterr()
    assert run(["up", "--data", str(cluster)]) == 1
    said = capsys.readouterr().out
    assert "node n2: " in said
    assert "identity.json is damaged" in said
    assert "2 of 3 nodes answer" in said
    assert " are up" not in said
    assert known.running() == {name: pid for name, pid in before.items() if name != "n2"}
    assert run(["send", "--cluster", str(cluster), "--to", "accounts", "x"]) == 0


def test_node_that_hangs_is_not_up_and_is_named(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = local(cluster)
    known.signal("n1", signal.SIGSTOP)
    known.wait_until(lambda: known.nodes["n1"].is_paused, "the pause")
    capsys.readouterr()
    try:
        assert run(["up", "--data", str(cluster), "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert list(found["missing"]) == ["n1"]
        assert "is paused (SIGSTOP)" in found["missing"]["n1"]
        assert run(["status", "--cluster", str(cluster)]) == 1
        assert "node n1 at 127.0.0.1" in capsys.readouterr().err
        assert run(["send", "--cluster", str(cluster), "--to", "stock", "x"]) == 0
        assert run(["seal", str(cluster)]) == 2
        assert "still runs" in capsys.readouterr().err
    finally:
        known.signal("n1", signal.SIGCONT)
    assert len(known.running()) == 3


def test_nodes_whose_pid_files_are_lost_are_found_by_up_and_by_down(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = local(cluster)
    processes = known.running()
    for node in known.nodes.values():
        node.pid_file.unlink()
    capsys.readouterr()
    assert run(["up", "--data", str(cluster)]) == 0
    said = capsys.readouterr().out
    assert f"node n1 was running already, as process {processes['n1']}" in said
    assert "3 nodes were up already" in said
    assert known.running() == processes
    for node in known.nodes.values():
        node.pid_file.unlink()
    assert run(["down", "--data", str(cluster), "--json"]) == 0
    assert sorted(json.loads(capsys.readouterr().out)["stopped"]) == ["n1", "n2", "n3"]


def test_node_of_another_directory_at_the_same_address_is_an_error(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / CLUSTER_FILE).write_text((cluster / CLUSTER_FILE).read_text())
    assert run(["up", "--data", str(other)]) == 2
    assert f"was not started from {other}" in capsys.readouterr().err
    assert local(other).running() == {}
    assert len(local(cluster).running()) == 3


def test_history_is_of_all_lives_also_when_a_node_was_killed_between(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--cluster", str(cluster)]
    assert run(["send", *where, "--to", "accounts,stock", "one"]) == 0
    local(cluster).kill("n3")
    assert run(["send", *where, "--to", "accounts,stock", "two"]) == 0
    assert run(["down", "--data", str(cluster)]) == 0
    first = read_history(cluster / "history").events
    assert run(["up", "--data", str(cluster)]) == 0
    assert run(["send", *where, "--to", "stock", "three"]) == 0
    assert run(["down", "--data", str(cluster)]) == 0
    history = read_history(cluster / "history")
    assert check(history) == []
    assert [event.t_mono for event in history.events][: len(first)] == [event.t_mono for event in first]
    capsys.readouterr()
    assert run(["seal", str(cluster / CLUSTER_FILE), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == len(history.events) > len(first)
    assert run(["seal", str(cluster / "history"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == len(history.events)


def test_cluster_whose_configuration_is_broken_can_be_stopped(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = local(cluster)
    (cluster / CLUSTER_FILE).write_text((cluster / CLUSTER_FILE).read_text() + "typo")
    capsys.readouterr()
    assert run(["down", "--data", str(cluster), "--json"]) == 0
    captured = capsys.readouterr()
    assert sorted(json.loads(captured.out)["stopped"]) == ["n1", "n2", "n3"]
    assert "stopping the nodes whose process ids" in captured.err
    assert known.running() == {}


def test_cluster_in_memory_that_was_stopped_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(tmp_path / "memory")
    try:
        assert run(["up", "--groups", "1", "--data", data, "--durability", "memory"]) == 0
    finally:
        assert run(["down", "--data", data]) == 0
    capsys.readouterr()
    assert run(["up", "--data", data]) == 2
    error = capsys.readouterr().err
    assert "is lost. Begin a new one" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("groups", "says"), [("0", "at least one group"), ("a,a", "twice"), ("a, a", "twice")])
def test_groups_that_cannot_be_are_refused(
    groups: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["up", "--groups", groups, "--data", str(tmp_path / "no")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


# -- messages by hand -------------------------------------------------------------------------------------------------


def test_nothing_to_send_is_nothing_sent(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert run(["send", "--cluster", str(cluster), "--to", "stock"]) == 0


@pytest.mark.parametrize("after", ["-5", "99999999999999999999999"])
def test_timestamp_that_cannot_be_is_refused(after: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tail", "stock", "--after", after]) == 2
    error = capsys.readouterr().err
    assert "is not a checkpoint" in error
    assert error.count("\n") == 1


def test_tail_ends_with_all_there_is_though_nodes_pause_meanwhile(
    cluster: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every entry comes after a silence in which nodes seemed to have no more."""
    where = ["--cluster", str(cluster)]
    assert run(["send", *where, "--to", "stock", "one", "two", "three"]) == 0
    steps = Follower.__aiter__

    async def haltingly(self: Follower) -> AsyncIterator[JournalEntry]:
        async for entry in steps(self):
            await asyncio.wait((asyncio.get_running_loop().create_future(),), timeout=0.5)
            yield entry

    monkeypatch.setattr(Follower, "__aiter__", haltingly)
    capsys.readouterr()
    assert run(["tail", *where, "stock", "--no-follow"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["one", "two", "three"]
    assert run(["tail", *where, "accounts", "--no-follow"]) == 0
    assert capsys.readouterr().out == ""


def test_tail_says_that_no_replica_of_the_group_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "spread"
    assert run(["up", "--groups", "2", "--replicas", "1", "--layout", "spread", "--data", str(data)]) == 0
    try:
        local(data).kill("g1-1")
        assert run(["tail", "g1", "--no-follow", "--cluster", str(data)]) == 1
        assert "no replica of group g1 answers" in capsys.readouterr().err
    finally:
        assert run(["down", "--data", str(data)]) == 0


def test_reader_that_goes_away_is_no_failure(cluster: Path) -> None:
    where = ["--cluster", str(cluster)]
    assert run(["send", *where, "--to", "stock", *map(str, range(200))]) == 0
    command = [sys.executable, "-m", "braidcast", "tail", "stock", "--no-follow", *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pipesize=4096) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        tail.stdout.readline()
        tail.stdout.close()
        assert (tail.stderr.read(), tail.wait()) == (b"", 0)


def test_status_says_why_a_node_is_turned_away(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["down", "--data", str(cluster)]) == 0
    known = local(cluster)
    other = cluster / "cluster-n3.toml"
    options = '[cluster.options]\nfollower_delivery = "early"\n\n[groups]'
    other.write_text((cluster / CLUSTER_FILE).read_text().replace("[groups]", options))
    shutil.rmtree(cluster / "data" / "n3")
    known.commands["n3"] = node_command(other, "n3")
    known.start("n3")
    capsys.readouterr()
    assert run(["up", "--data", str(cluster)]) == 1
    assert "no session with n3 (" in capsys.readouterr().out
    assert run(["status", "--cluster", str(cluster)]) == 0
    assert "fingerprint" in capsys.readouterr().out
