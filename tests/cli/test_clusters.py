"""The commands that run a real local cluster, as a person would type them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from braidcast.cli.main import run
from braidcast.history.store import read_history
from braidcast.properties.check import check


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
