"""Every page of docs/: its links lead somewhere, its commands exist, and those of scenarios run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.docs.fences import fences

from braidcast.cli.main import cli, run

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def anchors(page: Path) -> set[str]:
    """What its headings are called in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every `braidcast ...` that begins a line of a block of commands."""
    for language, block in fences(page.read_text(encoding="utf-8")):
        if language in ("", "sh"):
            for line in block.splitlines():
                if line.startswith("braidcast "):
                    yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        found = page if not path else page.parent / path
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for words in commands(page):
        command: click.Command = cli
        while isinstance(command, click.Group):
            found = command.commands.get(words[0])
            assert found is not None, f"braidcast {' '.join(words)}"
            command, words = found, words[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in known, f"{command.name} {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_scenarios_of_a_page_end_as_they_expect(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for words in commands(page):
        if words[:1] == ["sim"] and "--history" not in words:
            assert run(words) == 0
            assert capsys.readouterr().out.endswith("every property holds\n")
