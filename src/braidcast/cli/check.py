"""`braidcast check`: judge recorded histories by every property, on this machine and in memory."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from braidcast.cli.arguments import json_argument, print_json, print_table
from braidcast.cli.progress import Progress
from braidcast.history.event import DELIVER
from braidcast.history.store import read_history
from braidcast.properties.check import PROPERTIES, Judgement, judge_history

EXAMPLES_MAX = 5
"""Of each property."""


@click.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@json_argument
def check(directories: tuple[Path, ...], as_json: bool) -> int:
    """Judge recorded histories by every property.

    DIR is what `--history` or a cluster's `history` wrote; several are judged one after another, each by itself. A
    property that cannot judge a history says why, and then nothing is known of it. Everything is read into memory:
    `check` is for small histories, up to some million events, and starts at once; `verify` gives the same verdict of
    large ones and of thousands. Leaves with 1 on a violation, and with 2 if a directory is damaged or not a history.

    \b
    Examples:
      braidcast check /tmp/run
      braidcast check runs/* --json
    """
    began = time.perf_counter()
    tally = Tally()
    with Progress("histories", len(directories)) as progress:
        for done, directory in enumerate(directories, 1):
            tally.judge(directory)
            progress.update(done)
    seconds = time.perf_counter() - began
    if as_json:
        print_json(tally.to_json() | {"seconds": round(seconds, 3)})
    else:
        _show(tally, seconds)
    return 1 if tally.violations else 0


class Tally:
    """What was found in all histories so far."""

    def __init__(self) -> None:
        self.runs = self.events = self.deliveries = 0
        self.judged: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self.violations: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def judge(self, directory: Path) -> None:
        """Read a history and judge it."""
        history = read_history(directory)
        self.runs += 1
        self.events += len(history.events)
        self.deliveries += sum(
            event.event == DELIVER and event.what.kind == "delivered" for event in history.events
        )
        self.add(judge_history(history))

    def add(self, judgement: Judgement) -> None:
        """Count one judgement in."""
        self.judged.update(judgement.judged)
        self.skipped |= judgement.skipped
        for violation in judgement.violations:
            name = violation.property
            self.violations[name] += 1
            examples = self.examples.setdefault(name, [])
            if len(examples) < EXAMPLES_MAX:
                examples.append(str(violation))

    def to_json(self) -> dict[str, Any]:
        """Plain data; `checked` says whether any of the histories could be judged."""
        properties = {
            name: {"checked": self.judged[name] > 0, "violations": self.violations[name]} for name in PROPERTIES
        }
        return {
            "runs": self.runs, "events": self.events, "deliveries": self.deliveries, "properties": properties,
        }  # fmt: skip

    def verdict(self, name: str) -> str:
        """Whether a property was judged, and if not everywhere, what it can judge."""
        count = self.judged[name]
        if count == self.runs:
            return "judged"
        where = "skipped" if not count else f"judged in {count} of {self.runs}"
        return f"{where}: it judges {self.skipped[name]}"


def _show(tally: Tally, seconds: float) -> None:
    print_table(
        ("property", "judged or skipped", "violations"),
        [(name, tally.verdict(name), tally.violations[name]) for name in PROPERTIES],
    )
    for name, examples in tally.examples.items():
        for line in examples:
            click.echo(f"VIOLATION  {line}")
        if (more := tally.violations[name] - len(examples)) > 0:
            click.echo(f"  and {more:,} more of {name}")
    click.echo(f"{tally.runs:,} runs, {tally.events:,} events, {tally.deliveries:,} deliveries, {seconds:.1f} s")
    if not tally.violations:
        click.echo("every property that was judged holds")
