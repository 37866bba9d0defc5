"""The matrix: which cells there are, how a file of them goes on, and what is made of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from braidcast.cli.main import run
from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import ClusterConfig, parse_config
from braidcast.cluster.config_text import render_local
from braidcast.trials import matrix
from braidcast.trials.bench import ClusterLoad
from braidcast.trials.load import LoadFailed
from braidcast.trials.machine import commit_of, this_machine
from braidcast.trials.matrix import (
    Cell,
    MatrixFile,
    MatrixFileError,
    Setting,
    every_cell,
    filtered,
    plan_of,
    settings_for,
    usual_cells,
)
from braidcast.trials.tables import render_matrix

PLAIN = Cell("memory", "off", "off", 2, 64, 1)
SETTING = Setting("colocated", seconds=0.5)
Captured = pytest.CaptureFixture[str]


def line(cell: Cell, messages_per_s: int, p50: float = 0.5, cpu: float = 0.02) -> dict[str, Any]:
    figures = {
        "messages_per_s": messages_per_s, "latency_ms_p50": p50, "latency_ms_p99": 2 * p50, "cpu_s_per_1000": cpu,
        "processes": 3,
    }  # fmt: skip
    return {"cell": asdict(cell), "setting": asdict(SETTING), "machine": this_machine(), "figures": figures}


# -- cells -------------------------------------------------------------------------------------------------------------


def test_cells_are_every_load_in_memory_and_on_disk_and_on_disk_with_each_thing_switched_on() -> None:
    cells = usual_cells()
    assert len(every_cell()) == len(set(every_cell())) == 216
    assert len(cells) == len(set(cells)) == 108
    loads = set(product((1, 2, 3), (1, 64, 1024), (1, 16, 128)))
    for kind in (("memory", "off", "off"), ("disk", "off", "off"), ("disk", "on", "off"), ("disk", "off", "on")):
        found = {(c.destinations, c.outstanding, c.batch) for c in cells if (c.durability, c.tls, c.history) == kind}
        assert found == loads, kind


def test_filters_keep_the_cells_whose_values_are_named() -> None:
    cells = filtered(usual_cells(), {"destinations": [2], "batch": [1, 16], "durability": ["memory"], "tls": []})
    assert {(c.destinations, c.durability) for c in cells} == {(2, "memory")}
    assert len(cells) == 1 * 3 * 2


@pytest.mark.parametrize("cell", every_cell()[::27], ids=str)
def test_settings_of_every_kind_of_cell_are_a_sound_configuration(cell: Cell, tmp_path: Path) -> None:
    text = render_local("whitebox", (7101, 7102, 7103), settings=settings_for(cell, tmp_path))
    config = parse_config(text, tmp_path / "cluster.toml", protocol_named)
    assert config.durability == cell.durability
    assert (config.history is not None) == (cell.history == "on")


# -- files -------------------------------------------------------------------------------------------------------------


def test_plan_leaves_out_what_is_in_the_file(tmp_path: Path) -> None:
    file = MatrixFile(tmp_path / "m.jsonl")
    cells = filtered(usual_cells(), {"destinations": [2], "outstanding": [64], "batch": [1]})
    file.append(line(PLAIN, 1000))
    plan = plan_of(cells, file, SETTING)
    assert plan.there == [PLAIN]
    assert set(plan.cells) == set(cells) - {PLAIN}
    assert plan.estimate_s(SETTING) == len(plan.cells) * 3.5


def test_file_of_another_setting_machine_or_build_is_not_gone_on_with(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "m.jsonl"
    MatrixFile(path).append(line(PLAIN, 1000))
    assert run(["bench", "matrix", "--out", str(path), "--seconds", "3"]) == 2
    error = f"braidcast: {path} was measured with layout colocated, this is spread: name another file\n"
    assert capsys.readouterr().err == error
    path.write_text(path.read_text().replace(str(this_machine()["braidcast"]), "0.0.9 abc"))
    with pytest.raises(MatrixFileError, match=r"with braidcast 0\.0\.9 abc, this is .*: name another file"):
        plan_of([PLAIN], MatrixFile(path), SETTING)


@pytest.mark.parametrize("text", ["{", "7", "{}", '{"cell": {"destinations": 1}}', json.dumps({"cell": asdict(PLAIN)})])
@pytest.mark.parametrize("argument", ["--out", "--render"])
def test_file_with_another_line_is_refused_with_the_line(
    text: str, argument: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps(line(PLAIN, 1000)) + "\n" + text + "\n")
    assert run(["bench", "matrix", "--layout", "colocated", "--seconds", "0.5", argument, str(path)]) == 2
    error = f"braidcast: {path}:2: this is no cell of `braidcast bench matrix --out`: remove the line\n"
    assert capsys.readouterr().err == error


def test_cell_is_measured_and_not_again(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "m.jsonl"
    chosen = "--destinations 2 --outstanding 1 --batch 16 --durability memory --layout colocated --seconds 0.5"
    command = ["bench", "matrix", *chosen.split(), "--out", str(path), "--json"]
    assert run(command) == 0
    said = capsys.readouterr()
    assert said.err.startswith("1 cells, about 0.1 min")
    (found,) = json.loads(said.out)["cells"]
    assert Cell(**found["cell"]) == Cell("memory", "off", "off", 2, 1, 16)
    assert found["figures"]["messages_per_s"] > 0
    assert [found] == list(MatrixFile(path).lines())
    assert run(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["cells"], again["skipped"]) == ([], 1)


def test_cell_that_fails_is_said_and_tried_again_and_the_others_go_on(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(config: ClusterConfig, load: ClusterLoad) -> dict[str, Any]:
        if load.batch == 16:
            raise LoadFailed("3 units had no end")
        figures: dict[str, Any] = line(PLAIN, 1000)["figures"]
        return figures

    monkeypatch.setattr(matrix, "measure_cluster", measure)
    path = tmp_path / "m.jsonl"
    chosen = "--destinations 2 --outstanding 64 --batch 1 --batch 16 --durability memory"
    assert run(["bench", "matrix", *chosen.split(), "--out", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[1].startswith("D=2 W=64 B=1 memory ")
    assert said.err.splitlines()[1:] == ["D=2 W=64 B=16 memory: 3 units had no end"]
    assert [Cell(**found["cell"]) for found in MatrixFile(path).lines()] == [PLAIN]


# -- tables ------------------------------------------------------------------------------------------------------------


def test_tables_show_memory_beside_disk_and_what_is_switched_on_as_ratios() -> None:
    on_disk = Cell("disk", "off", "off", 2, 64, 1)
    lines = [
        line(PLAIN, 20_000),
        line(on_disk, 10_000, 1.25, 0.04),
        line(Cell("disk", "off", "on", 2, 64, 1), 9_000, 1.5, 0.05),
        line(Cell("memory", "off", "off", 1, 1024, 128), 1_500_000, 31.4, 0.00086),
        line(Cell("disk", "on", "off", 3, 1, 1), 500),  # without its counterpart: there is nothing to compare with
    ]
    machine, setting, *rest = render_matrix(lines).rstrip("\n").split("\n\n")
    assert machine == (
        "Measured on {cores} cores of {processor}, {memory_gib} GiB, {kernel}, {python}, braidcast {braidcast}.".format(
            **this_machine()
        )
    )
    assert setting.startswith("Three groups of three in 3 processes and one client, all on this machine; ")
    assert rest == [
        "### All loads",
        "| D | W | B | memory: messages/s | memory: p50 | memory: p99 | memory: CPU "
        "| disk: messages/s | disk: p50 | disk: p99 | disk: CPU |\n"
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        "| 1 | 1,024 | 128 | 1,500,000 | 31.4 | 62.8 | 0.00086 |  |  |  |  |\n"
        "| 2 | 64 | 1 | 20,000 | 0.5 | 1 | 0.02 | 10,000 | 1.25 | 2.5 | 0.04 |",
        "### What a history costs",
        "| D | W | B | durability | messages/s without | with | ratio | p50 without | with | ratio | CPU ratio |\n"
        "|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|\n"
        "| 2 | 64 | 1 | disk | 10,000 | 9,000 | 0.90 | 1.25 | 1.5 | 1.20 | 1.25 |",
    ]


def test_file_without_cells_renders_as_that(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "m.jsonl").touch()
    assert run(["bench", "matrix", "--render", str(tmp_path / "m.jsonl")]) == 0
    assert capsys.readouterr().out == "Nothing was measured.\n"


# -- the machine -------------------------------------------------------------------------------------------------------


def test_commit_of_a_folder_is_the_last_that_changed_it(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    for name in ("src", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        git("add", ".")
        git("commit", "-q", "-m", name)
    assert commit_of(tmp_path / "src") == git("log", "-1", "--format=%h", "HEAD~1")
    (tmp_path / "src" / "file").write_text("changed")
    assert commit_of(tmp_path / "src") == git("log", "-1", "--format=%h", "HEAD~1") + "+"
