"""What a command writes: a place that cannot be written to is an error before the work, and never loses its report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutations.explorations import TWO_MESSAGES
from tests.mutations.mutants import MUTANTS

from braidcast.cli import arguments
from braidcast.cli.main import run

FULL = Path("/dev/full")
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "command",
    [
        ["explore", "--protocol", "whitebox", "--counterexample"],
        ["fuzz", "--protocol", "whitebox", "--replay", "1", "--shrink"],
    ],
    ids=["explore", "fuzz"],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_search(
    command: list[str], tmp_path: Path, capsys: Captured
) -> None:
    for path, says in ((tmp_path / "no" / "x", "there is no directory"), (tmp_path, "is a directory")):
        assert run([*command, str(path)]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert says in captured.err


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_does_not_lose_the_report(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = next(mutant.protocol for mutant in MUTANTS if mutant.killer is TWO_MESSAGES)
    monkeypatch.setattr(arguments, "protocol_named", lambda _: broken)
    command = "explore --protocol whitebox --topology 2x1 --messages 2 --counterexample"
    assert run([*command.split(), str(FULL)]) == 2
    captured = capsys.readouterr()
    assert "VIOLATION" in captured.out
    assert captured.err.startswith("braidcast: cannot read or write: No space left on device: make room there")
    assert captured.err.count("\n") == 1


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
def test_output_that_cannot_be_written_is_one_line() -> None:
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "braidcast", "sim", "--protocol", "whitebox", "--scenario", "solo"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("braidcast: cannot read or write: No space left")
    assert done.stderr.count("\n") == 1
