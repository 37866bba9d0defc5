"""`braidcast chaos`: faults on a real local cluster under load, judged by every property."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import click

from braidcast.cli.arguments import ProtocolName, json_argument, print_json, print_table
from braidcast.cli.progress import Progress
from braidcast.cli.stopping import stops_when_told
from braidcast.core.errors import BraidcastError
from braidcast.core.protocol import Protocol
from braidcast.trials.chaos import SHOWN, ChaosPlan, ChaosResult, never_seen, run_chaos

EVERYTHING_MINUTES, EVERYTHING_RATE = 0.25, 50.0
"""How much is recorded in full: a minute at 200 messages a second is some five million events and 1 GB of records,
which takes minutes and a large machine to judge."""


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.05), default=1.0, show_default=True, help="How long.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the faults and the load; timing stays real.")
@click.option("--protocol", type=ProtocolName(), default="whitebox", show_default=True, help="Which protocol to run.")
@click.option("--groups", type=click.IntRange(min=1), default=3, show_default=True, help="How many groups.")
@click.option("--replicas", type=click.IntRange(min=1), default=3, show_default=True, help="Replicas of each group.")
@click.option("--layout", type=click.Choice(["colocated", "spread"]), default="colocated", show_default=True,
              help="A replica of every group on each node, or a node for each replica.")  # fmt: skip
@click.option("--tls", is_flag=True, help="With TLS on.")
@click.option("--rate", type=click.FloatRange(min=1), default=200.0, show_default=True, help="Messages a second.")
@click.option("--data", type=click.Path(path_type=Path), help="Keep the cluster, what it said and its history there; "
              "by default they go when all was well.")  # fmt: skip
@json_argument
def chaos(
    minutes: float, seed: int, protocol: Protocol, groups: int, replicas: int, layout: str, tls: bool, rate: float,
    data: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run a local cluster under load while its nodes are killed, paused, cut off and restarted; then judge it.

    Nothing that was acknowledged may be lost, every property must hold in its history, and in the end everything must
    be answered and all replicas level. Leaves with 1 if not, or if a campaign of at least a minute did without a kill,
    a pause or a partition, and keeps the cluster's directory.

    The first quarter of a minute records everything, sends and records too, at 50 messages a second at most, so that
    all properties are judged; a longer campaign goes on with a new cluster that records the order only, since a history
    is judged in memory.

    \b
    Examples:
      braidcast chaos --minutes 5
      braidcast chaos --minutes 30 --seed 7 --data /tmp/chaos --json
    """
    if data is not None and data.exists() and any(data.iterdir()):
        raise BraidcastError(f"{data} is not empty: give a new directory")
    folder = data if data is not None else Path(mkdtemp(prefix="braidcast-chaos-"))
    plan = ChaosPlan(
        protocol, minutes, seed, groups, replicas, "spread" if layout == "spread" else "colocated", rate, tls=tls
    )
    report = Report()
    try:
        with stops_when_told(), Progress("seconds", round(minutes * 60)) as progress:
            before = 0.0
            for part, name in parts_of(plan):
                begun = before
                report.add(asyncio.run(run_chaos(
                    part, folder / name,
                    lambda seconds, extra: progress.update(round(begun + seconds), extra),  # noqa: B023 - called within
                )))  # fmt: skip
                before += part.minutes * 60
    except KeyboardInterrupt:
        if data is None:
            rmtree(folder, ignore_errors=True)
        raise
    if as_json:
        print_json(report.to_json())
    else:
        report.show()
    if data is None and report.ok:
        rmtree(folder)
    elif not as_json:
        click.echo(f"the cluster's configuration, logs and history are in {folder}")
    return 0 if report.ok else 1


def parts_of(plan: ChaosPlan) -> list[tuple[ChaosPlan, str]]:
    """A short campaign as a whole, a long one in two parts; each with the folder that it has below the campaign's."""
    full = replace(plan, detail="everything", rate_per_s=min(plan.rate_per_s, EVERYTHING_RATE))
    if plan.minutes <= EVERYTHING_MINUTES:
        return [(full, "")]
    return [
        (replace(full, minutes=EVERYTHING_MINUTES), "everything"),
        (replace(plan, detail="order", minutes=plan.minutes - EVERYTHING_MINUTES), "order"),
    ]


class Report:
    """What came of all parts of a campaign."""

    def __init__(self) -> None:
        self.parts: list[ChaosResult] = []

    def add(self, part: ChaosResult) -> None:
        """One part more."""
        self.parts.append(part)

    @property
    def ok(self) -> bool:
        """Whether nothing was lost, every property held, and that proves something."""
        return all(part.ok for part in self.parts) and not self.never_seen

    @property
    def never_seen(self) -> list[str]:
        """Faults without which the campaign proves nothing, and which no part did."""
        return never_seen(
            sum(part.seconds for part in self.parts), sum((part.counts for part in self.parts), Counter()),
            len(self.parts[0].traffic.config.nodes),
        )  # fmt: skip

    @property
    def judged(self) -> dict[str, str]:
        """The properties that were judged, and in what."""
        return {
            name: "all" if all(name in part.verdict.judged for part in self.parts)
            else f"the first {self.parts[0].seconds:.0f} s"
            for name in dict.fromkeys(name for part in self.parts for name in part.verdict.judged)
        }  # fmt: skip

    @property
    def skipped(self) -> dict[str, str]:
        """The properties that were judged in no part, and which histories they judge."""
        judged = self.judged
        return {
            name: scope for part in self.parts for name, scope in part.verdict.skipped.items() if name not in judged
        }

    def to_json(self) -> dict[str, Any]:
        """The figures of all parts together."""
        parts = [part.to_json() for part in self.parts]
        figures: dict[str, Any] = {name: sum(part[name] for part in parts) for name in parts[0] if name != "found"}
        found = [line for part in parts for line in part["found"]]
        return {
            **figures, "minutes": round(figures["minutes"], 2), "found": found[:SHOWN], "never_seen": self.never_seen,
            "judged": self.judged, "skipped": self.skipped,
        }  # fmt: skip

    def show(self) -> None:
        """The same for people."""
        figures = self.to_json()
        print_table(("what", "count"), [each for each in figures.items() if isinstance(each[1], int | float)])
        for line in figures["found"]:
            click.echo(f"FOUND  {line}")
        for fault in self.never_seen:
            click.echo(f"NEVER SEEN  {fault}: without one the campaign proves nothing")
        judged = self.judged
        click.echo(f"{len(judged)} properties were judged, {len(self.skipped)} were not")
        if partly := [name for name, where in judged.items() if where != "all"]:
            click.echo(f"  only in {judged[partly[0]]}: {', '.join(partly)}")
        for name, scope in self.skipped.items():
            click.echo(f"  skipped: {name} judges {scope}")
        if self.ok:
            click.echo("nothing was lost, and every property that was judged held")
