"""The quick start runs from its top to its bottom, commands and Python, as somebody would who follows it."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from tests.docs.fences import fences

from braidcast.cluster.local import processes_in, stop_processes

TEXT = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text(encoding="utf-8")
COMMANDS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    stop_processes(processes_in(tmp_path / "braidcast-data"))


async def run_python(code: str, names: dict[str, Any]) -> None:
    compiled = compile(code, "docs/quickstart.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(compiled, CodeType)
    await FunctionType(compiled, names)()


def test_quick_start_runs_from_top_to_bottom(folder: Path) -> None:
    said: list[str] = []
    names: dict[str, Any] = {}
    for language, block in fences(TEXT):
        if language == "python":
            asyncio.run(run_python(block, names))
            continue
        assert language == "sh", "what is no command and no Python needs no fence here"
        done = subprocess.run(
            ["bash", "-ec", block], env={**os.environ, "PATH": COMMANDS}, capture_output=True, text=True, check=False,
            timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        said.append(done.stdout)
    up, sent, tails, broken, down = said
    assert up.startswith("3 nodes are up: braidcast-data/cluster.toml\n")
    assert sent.count(" delivered at ") == 2
    assert tails.count("sell one chair") == 2
    assert "leader" in broken
    assert " delivered at " in broken
    assert "3 nodes are up" in broken
    assert down == "3 nodes stopped\n"
    assert names["receipt"].timestamp
