"""`braidcast verify`: what it prints and writes, and that misuse is one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.test_masters import free_port
from tests.spark.verdicts import a_history, tampered, written

from braidcast.cli.main import run
from braidcast.history.event import History
from braidcast.history.store import HistoryWriter, read_history, write_history
from braidcast.properties.check import PROPERTIES
from braidcast.spark import session
from braidcast.spark.java import NoJava
from braidcast.spark.schemas import RUNS, VERDICTS

Captured = pytest.CaptureFixture[str]


def error_of(capsys: Captured, *arguments: str) -> str:
    assert run(["verify", *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1), captured.err
    return captured.err


def without_a_process(history: History, folder: Path) -> int:
    """Write what is left if the file of one process is lost before the history is made; which one."""
    silent = history.manifest.topology[0][-1]
    write_history(History(history.manifest, [e for e in history.events if e.node != silent]), folder)
    return silent


def test_a_run_and_a_tampered_copy_of_it_get_the_promised_verdicts(
    spark: SparkSession, tmp_path: Path, capsys: Captured
) -> None:
    good, bad, silent, out = (tmp_path / name for name in ("good [1]", "bad%20?+é", "silent", "verdict"))
    assert run(["sim", "--protocol", "whitebox", "--scenario", "solo", "--history", str(good)]) == 0
    write_history(tampered("swap_two_deliveries", 1)[0], bad)
    mute = without_a_process(a_history(8), silent)
    capsys.readouterr()

    assert run(["verify", str(good), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {*found} == {"runs", "events", "deliveries", "properties", "seconds"}
    assert (found["runs"], found["deliveries"]) == (1, 6)
    assert {*found["properties"]} == {*PROPERTIES}
    assert found["properties"]["one_order"] == {"checked": True, "violations": 0}
    assert found["properties"]["fifo"] == {"checked": False, "violations": 0}

    assert run(["verify", str(good), str(bad), str(silent), "--out", str(out)]) == 1
    shown = capsys.readouterr().out
    assert "gts_increases" in shown
    assert "judged in 2 of 3: it judges protocols that promise FIFO" in shown
    assert f"look closer: braidcast explain {bad} " in shown
    assert f"NOTE  {silent} has no event of process {mute}: it never ran, or its file is missing" in shown
    assert RUNS.check(spark.read.parquet(str(out / "runs"))).count() == 3
    verdicts = VERDICTS.check(spark.read.parquet(str(out / "verdicts"))).collect()
    summary = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    counts = {name: found["violations"] for name, found in summary["properties"].items() if found["violations"]}
    assert counts == {name: sum(v.property == name for v in verdicts) for name in counts}
    assert {v.history for v in verdicts} == {1, 2}
    assert summary["properties"]["gts_increases"]["examples"][0]["directory"] == str(bad)


def test_a_history_that_lacks_files_is_refused_or_judged_in_part(
    spark: SparkSession, tmp_path: Path, capsys: Captured
) -> None:
    whole = a_history(8)
    cut, gone = tmp_path / "runs" / "cut", tmp_path / "runs" / "gone"
    for folder in (cut, gone):
        written([whole], folder)
        for name in ("manifest.json", "events"):
            shutil.move(folder / "00000" / name, folder / name)
        (folder / "00000").rmdir()
    _split(gone)
    (gone / "events" / "part-00001.parquet").unlink()
    assert "part-00001.parquet is missing, but the manifest lists it" in error_of(capsys, str(tmp_path / "runs"))
    _split(cut)
    torn = cut / "events" / "part-00001.parquet"
    torn.write_bytes(torn.read_bytes()[:-50])
    assert "part-00001.parquet is damaged" in error_of(capsys, str(cut))

    assert run(["verify", str(tmp_path / "runs"), "--partial", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [note.rpartition("judged in part: ")[1] for note in found["notes"] if "part-00001" in note] == [
        "judged in part: "
    ] * 2
    assert found["properties"]["one_gts_per_message"]["checked"]
    assert not found["properties"]["agreement"]["checked"], "what is missing may be the delivery"


def _split(folder: Path) -> None:
    """Write a history anew, as two files."""
    history = read_history(folder)
    half = len(history.events) // 2 + 1
    with HistoryWriter(
        folder, history.manifest, overwrite=True, rows_per_group=half, rows_per_file=half
    ) as writer:
        writer.extend(history.events)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "nowhere is not a directory: give the directory of a recorded run"),
        (["empty"], "empty has no manifest.json"),
        (["run", "run"], "run is named twice"),
        (["run", "--master", "nonsense"], "'nonsense' is no master URL"),
        (["run", "--master", "spark://127.0.0.1:PORT"], "no Spark master answers at 127.0.0.1:"),
        (["run", "--out", "run"], "run holds something else"),
        (["run", "--out", "run/manifest.json"], "is a file: name a directory"),
    ],
)
def test_misuse_is_one_line_and_said_before_spark_starts(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_history(a_history(1), tmp_path / "run")
    assert says in error_of(capsys, *(argument.replace("PORT", str(free_port())) for argument in arguments))


def test_a_machine_without_java_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def nothing() -> None:
        raise NoJava("there is no Java that Spark can run on: install Java 17 or 21")

    monkeypatch.setattr(session, "find_java", nothing)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    write_history(a_history(1), tmp_path / "run")
    assert "no Java that Spark can run on: install" in error_of(capsys, str(tmp_path / "run"))


def test_a_page_that_was_changed_on_disk_is_one_line(spark: SparkSession, tmp_path: Path, capsys: Captured) -> None:
    write_history(a_history(1), tmp_path / "run")
    (part,) = (tmp_path / "run" / "events").iterdir()
    bytes_of = bytearray(part.read_bytes())
    bytes_of[300:1300] = bytes(1000)
    part.write_bytes(bytes_of)
    assert "part-00000.parquet" in error_of(capsys, str(tmp_path / "run"))


def test_events_of_another_run_than_the_manifest_says_are_refused(
    spark: SparkSession, tmp_path: Path, capsys: Captured
) -> None:
    write_history(a_history(1), tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace('"made-1"', '"other"'), encoding="utf-8")
    says = "has events of run 'made-1' of whitebox, but its manifest is of 'other' of whitebox"
    assert says in error_of(capsys, str(tmp_path / "run"))
