"""Progress shows on a terminal, after a while, and nowhere else."""

from __future__ import annotations

import pytest

from braidcast.cli import progress
from braidcast.cli.progress import Progress


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_terminal_sees_it_after_two_seconds_and_a_clean_line_at_the_end(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("runs", 100) as bar:
        clock.now += 1
        bar.update(10)
        assert capsys.readouterr().err == ""
        clock.now += 1.1
        bar.update(21)
        assert "runs: 21 of 100 (21%), about 8 s left" in capsys.readouterr().err
    assert capsys.readouterr().err.endswith("\r\033[K")


def test_a_pipe_sees_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("runs", 100) as bar:
        clock.now += 10
        bar.update(50)
    assert capsys.readouterr().err == ""
