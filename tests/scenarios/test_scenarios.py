"""Every scenario of this folder ends on white-box as it expects to, whoever decides when followers deliver.

Most of them are schedules that random search does not find; `tests/mutations` shows what each of them is there for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from braidcast.cli.registry import WHITEBOX
from braidcast.simulator.scenarios import load_scenario, run_scenario

FILES = sorted(Path(__file__).parent.glob("*.scenario"))


def test_there_are_scenarios() -> None:
    assert FILES


@pytest.mark.parametrize("follower_delivery", ["leader", "early"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario_ends_as_it_expects(path: Path, follower_delivery: str) -> None:
    outcome = run_scenario(load_scenario(str(path)), WHITEBOX, {"follower_delivery": follower_delivery})
    assert not outcome.unmet
    assert not outcome.violations
