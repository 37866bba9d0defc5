"""The runbook: its commands are run, in its order, by real processes; its tables are those of the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.fences import blocks

from braidcast.cli.main import cli
from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import parse_config
from braidcast.cluster.local import free_ports
from braidcast.cluster.metrics import MEASURES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
(CONFIG,) = blocks(PAGE, "toml")
COMMANDS = blocks(PAGE, "sh")
PATIENCE_S = 180
PROLOGUE = "set -eu -o pipefail\ntrap 'kill -KILL $(jobs -p) 2> /dev/null || true' EXIT\n"


@pytest.mark.soak
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not shutil.which("curl"), reason="it needs curl, and 127.0.0.2 and .3"
)
def test_every_command_of_the_runbook_does_what_it_is_there_for(tmp_path: Path) -> None:
    ports = dict(zip(("7101", "7201"), map(str, free_ports(2)), strict=True))

    def local(text: str) -> str:
        return re.sub(r"\b7[12]01\b", lambda found: ports[found[0]], text)

    (tmp_path / "cluster.toml").write_text(local(CONFIG), encoding="utf-8")
    (tmp_path / "run.sh").write_text(PROLOGUE + local("\n".join(COMMANDS)), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with open(tmp_path / "said", "w+b") as said:
        ended = subprocess.run(
            ["bash", "-x", "run.sh"], cwd=tmp_path, stdout=said, stderr=subprocess.STDOUT, timeout=PATIENCE_S,
            check=False, env=os.environ | {"PATH": path, "HOME": str(tmp_path)},
        )  # fmt: skip
        said.seek(0)
        text = said.read().decode()
    assert ended.returncode == 0, text
    told = [line.split()[-1] for line in text.splitlines() if re.match(r" +\d+  ", line)]
    assert told == ["hello", "restore"], "what was in the backup, and what came after it"
    assert "others lead group" in (tmp_path / "n1.log").read_text()


def test_the_configuration_of_the_runbook_is_sound() -> None:
    assert parse_config(CONFIG, "cluster.toml", protocol_named).log == "json"


def test_the_commands_of_the_runbook_exist() -> None:
    used = {word for block in COMMANDS for word in re.findall(r"^braidcast (\w+)", block, re.MULTILINE)}
    assert used <= set(cli.commands)


def test_the_metrics_of_the_runbook_are_those_of_a_node() -> None:
    rows = [line for line in PAGE.partition("## Metrics")[2].splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{m.name}` | {'counter' if m.counts else 'gauge'} | {', '.join(m.labels)} | {m.doc} |" for m in MEASURES
    ]


def test_every_alarm_is_about_something_that_is_measured() -> None:
    known = {m.name + "_total" * m.counts for m in MEASURES} | {
        "up", "process_open_fds", "process_max_fds", "pending_messages_max", "pending_bytes_max",
    }  # fmt: skip
    functions = {"changes", "increase", "max", "by", "group", "near", "of", "the", "scrape", "m"}
    table = PAGE.partition("## What each alarm means")[2].partition("## ")[0]
    alarms = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert len(alarms) > 10
    for alarm in alarms:
        words = set(re.findall(r"[a-z_]+", re.sub(r"\d+\w*", "", alarm)))
        assert words <= known | functions, alarm
        assert words & known, alarm


def test_links_of_the_runbook_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
