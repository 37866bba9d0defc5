"""What the README shows must be so: its Python runs, its scenario passes, its files exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.fences import blocks

from braidcast.cli.main import cli
from braidcast.cli.registry import WHITEBOX
from braidcast.core.process import Outbox
from braidcast.simulator.scenario_text import parse_scenario
from braidcast.simulator.scenarios import run_scenario

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_readme_is_a_process() -> None:
    (code,) = [block for block in blocks(README, "python") if "Process" in block]
    names: dict[str, type] = {}
    exec(compile(code, "README.md", "exec"), names)
    process = names["Echo"](Outbox(0))
    process.step(7, names["Ping"](1))
    assert process.out.take().sent == [((7,), names["Ping"](2))]


def test_the_scenario_of_the_readme_passes() -> None:
    (text,) = [block for block in blocks(README, "") if "protocol whitebox\n" in block]
    outcome = run_scenario(parse_scenario(text, "README"), WHITEBOX)
    assert outcome.ok, outcome.unmet
    assert not outcome.violations


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_commands_of_the_readme_exist() -> None:
    assert set(re.findall(r"^braidcast (\w+)", README, re.MULTILINE)) <= set(cli.commands)
