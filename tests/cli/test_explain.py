"""`braidcast explain`: a message's life as a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from braidcast.cli.main import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def recorded(tmp_path: Path, capsys: Captured) -> str:
    assert run(["sim", "--protocol", "whitebox", "--scenario", "solo", "--history", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    return str(tmp_path / "run")


def test_the_life_of_a_message_is_told_across_processes(recorded: str, capsys: Captured) -> None:
    assert run(["explain", recorded, "1000.1.1", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert steps[0] | {"what": ""} == {
        "about": True, "t_mono": 0, "process": 1000, "incarnation": 0, "group": None, "role": None,
        "event": "multicast", "peer": None, "what": "",
    }  # fmt: skip
    assert {step["process"] for step in steps if step["event"] == "deliver"} == {0, 1, 2, 3, 4, 5}
    assert run(["explain", recorded, "1000.1.1"]) == 0
    out = capsys.readouterr().out
    assert "to groups 0, 1, delivered by 6 processes" in out
    for what in ("multicast", "accept, lts", "accept_ack", "committed, gts", "delivered, gts", "leader", "follower"):
        assert what in out


def test_neighbours_are_marked_by_a_dot(recorded: str, capsys: Captured) -> None:
    assert run(["explain", recorded, "1000.1.1", "--around", "1"]) == 0
    assert any(line.startswith(".") for line in capsys.readouterr().out.splitlines())


def test_a_message_that_nothing_is_about_is_said_and_leaves_with_one(recorded: str, capsys: Captured) -> None:
    assert run(["explain", recorded, "7.7.7"]) == 1
    assert "is about 7.7.7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("directory", "message", "says"),
    [("nowhere", "1.1.1", "is not a directory"), ("", "x", "'x' is not the id of a message: write client.session.seq")],
)
def test_misuse_is_one_line(directory: str, message: str, says: str, recorded: str, capsys: Captured) -> None:
    assert run(["explain", str(Path(recorded) / directory) if directory else recorded, message]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
