"""What docs/spark.md shows must exist: its commands, its options, its names in Python."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

from tests.docs.fences import blocks

from braidcast.cli.main import cli
from braidcast.spark.schemas import ALL

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


def test_commands_and_their_options_exist() -> None:
    lines = [line for block in blocks(TEXT, "") for line in block.splitlines() if line.startswith("braidcast ")]
    assert len(lines) > 5
    for line in lines:
        _, name, *words = line.partition("#")[0].split()
        options = {option for parameter in cli.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_what_its_python_imports_is_there() -> None:
    (code,) = blocks(TEXT, "python")
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("braidcast"):
            assert all(hasattr(importlib.import_module(node.module), name.name) for name in node.names)


def test_all_datasets_are_named() -> None:
    (section,) = re.findall(r"## Datasets\n(.*)\Z", TEXT, re.DOTALL)
    assert {*ALL} <= {*re.findall(r"`(\w+)`", section)}
