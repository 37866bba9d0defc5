"""The examples of docs/replica.md run as they stand, one after the other, each on a new cluster of one node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cluster.inprocess import run
from tests.docs.examples import run_all
from tests.docs.fences import blocks

import braidcast
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import free_ports
from braidcast.settings import CLUSTER_FILE

TEXT = (Path(__file__).parents[2] / "docs" / "replica.md").read_text(encoding="utf-8")


def test_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "examples"}
    for number, code in enumerate(blocks(TEXT, "python")):  # each has state machines of its own
        folder = tmp_path / str(number)
        folder.mkdir()
        text = render_local("whitebox", free_ports(1), replicas=1, groups=["accounts", "stock"])
        (folder / CLUSTER_FILE).write_text(text, encoding="utf-8")
        monkeypatch.chdir(folder)
        run(run_all([code], names, "docs/replica.md"))
    said = capsys.readouterr().out
    assert said.splitlines()[0].endswith(" 10")
    assert said.splitlines()[1:] == ["alice has only 10", "1 3", "{'accounts': ['apple'], 'stock': ['pear']}"]
    assert names["sqlite3"].connect("ledger.db").execute("select line from ledger").fetchall() == [(b"one chair",)]


def test_every_error_of_a_replica_is_explained() -> None:
    for name in ("NodeFailed", "NotHosted", "ResultLost", "TimedOut"):
        assert f"`{name}`" in TEXT
        assert issubclass(getattr(braidcast, name), braidcast.BraidcastError)
