"""`braidcast check`: what it says of a history, and that a damaged one is misuse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.properties.histories import correct_history
from tests.properties.tamper import TAMPERINGS

from braidcast.cli.main import run
from braidcast.history.event import History
from braidcast.history.store import write_history
from braidcast.properties.check import PROPERTIES

Captured = pytest.CaptureFixture[str]


def written(history: History, folder: Path) -> str:
    write_history(history, folder)
    return str(folder)


def test_a_run_of_the_simulator_is_judged_from_its_directory(tmp_path: Path, capsys: Captured) -> None:
    assert run(["sim", "--protocol", "whitebox", "--scenario", "solo", "--history", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert run(["check", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {*found} == {"runs", "events", "deliveries", "properties", "seconds"}
    assert (found["runs"], found["deliveries"]) == (1, 6)
    assert {*found["properties"]} == {*PROPERTIES}
    assert found["properties"]["one_order"] == {"checked": True, "violations": 0}
    assert found["properties"]["fifo"] == {"checked": False, "violations": 0}


def test_what_could_not_be_judged_says_why(tmp_path: Path, capsys: Captured) -> None:
    whole = correct_history(1)
    restless = History(replace(whole.manifest, quiescent=False), whole.events)
    assert run(["check", written(whole, tmp_path / "a"), written(restless, tmp_path / "b")]) == 0
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "judged in 1 of 2: it judges quiescent runs" in shown["termination"]
    assert shown["one_order"].split()[1:] == ["judged", "0"]
    assert run(["check", str(tmp_path / "b")]) == 0
    assert "skipped: it judges quiescent runs" in capsys.readouterr().out


def test_violations_are_counted_and_told_five_of_each(tmp_path: Path, capsys: Captured) -> None:
    history = correct_history(1, messages=9)
    bare = History(history.manifest, [event for event in history.events if event.event != "multicast"])
    assert run(["check", written(bare, tmp_path / "run")]) == 1
    out = capsys.readouterr().out
    assert out.count("VIOLATION  delivered_was_multicast") == 5
    assert "more of delivered_was_multicast" in out
    assert run(["check", str(tmp_path / "run"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["properties"]["delivered_was_multicast"]["violations"] > 5


def test_a_tampered_payload_is_found_from_its_digest(tmp_path: Path, capsys: Captured) -> None:
    tampered = TAMPERINGS["deliver_another_payload"][1](Random(1), correct_history(1))
    assert tampered is not None
    assert run(["check", written(tampered, tmp_path / "run")]) == 1
    assert "VIOLATION  delivered_as_multicast" in capsys.readouterr().out


def test_a_damaged_or_foreign_directory_is_one_line_and_status_two(tmp_path: Path, capsys: Captured) -> None:
    good = written(correct_history(1), tmp_path / "run")
    (tmp_path / "foreign").mkdir()
    for bad in ("foreign", "nowhere"):
        assert run(["check", good, str(tmp_path / bad)]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert str(tmp_path / bad) in captured.err
    (part,) = (tmp_path / "run" / "events").iterdir()
    part.write_bytes(part.read_bytes()[:-100])
    assert run(["check", good]) == 2
    assert "is damaged" in capsys.readouterr().err
