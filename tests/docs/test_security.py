"""What docs/security.md shows is done as it stands: its commands, what is written into files, its Python."""

from __future__ import annotations

import ast
import asyncio
import re
import shlex
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from braidcast.cli.main import run
from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import parse_config

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
REFUSED = 1


async def run_python(code: str) -> None:
    result = FunctionType(compile(code, "docs/security.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {})()
    await result


def test_everything_on_the_page_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
            if language == "sh":
                for line in block.splitlines():
                    do(line, capsys)
            elif language == "python":
                asyncio.run(run_python(block))
                printed = capsys.readouterr().out
            elif block.startswith("# at the end of "):
                with open(block.splitlines()[0].removeprefix("# at the end of "), "a") as file:
                    file.write(block)
    finally:
        run(["down"])
    assert "client alice may not send to group stock" in printed
    assert "b'hello'" in printed


def do(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of a shell; a remark says with what it leaves, and why."""
    command, _, remark = line.partition("#")
    capsys.readouterr()
    status = run(shlex.split(command)[1:])
    said = capsys.readouterr()
    if not remark:
        assert status == 0, said.err
        return
    leaves_with, _, why = remark.strip().partition(": ")
    assert leaves_with == f"leaves with {status}"
    assert why in said.out + said.err


def test_what_is_written_into_configurations_is_sound() -> None:
    whole = """
    [cluster]
    name = "shop"
    protocol = "whitebox"
    [groups]
    accounts = ["n1"]
    stock = ["n1"]
    [nodes.n1]
    address = "10.0.0.1:7101"
    """
    blocks: list[Any] = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    config = parse_config(whole + "\n".join(blocks), "c.toml", protocol_named)
    assert config.clients["alice"].send == ("accounts",)
    assert config.tls is not None
    assert config.tls.certificate == Path("/etc/braidcast/node.pem")
