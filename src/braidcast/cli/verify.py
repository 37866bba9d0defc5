"""`braidcast verify`: any number of histories judged at once, on Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from braidcast.cli.arguments import json_argument, print_json, print_table
from braidcast.cli.on_spark import master_argument, session
from braidcast.cli.progress import Progress
from braidcast.core.client import MessageId
from braidcast.properties.check import PROPERTIES

if TYPE_CHECKING:
    from braidcast.spark.verify import Verdict

SHORT_BYTES_MAX = 20_000_000
"""Up to here a fast start of Spark is worth more than fast work."""


@click.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@master_argument
@click.option("--out", type=click.Path(path_type=Path), help="Write runs and violations there, as Parquet.")
@click.option("--partial", is_flag=True, help="Judge what is left of histories of which files are missing or cut.")
@json_argument
def verify(directories: tuple[Path, ...], master: str | None, out: Path | None, partial: bool, as_json: bool) -> int:
    """Judge recorded histories by every property, on Spark.

    DIR is what `--history` or a cluster's `history` wrote, or holds such directories. The verdict is that of
    `braidcast check`, for any number of histories and for large ones. A property that cannot judge a history says why.
    Leaves with 1 on a violation, and with 2 if a directory is damaged or not a history.

    \b
    Examples:
      braidcast verify /tmp/run
      braidcast verify runs --json
      braidcast verify runs --out /tmp/verdicts
      braidcast verify /shared/run --master spark://127.0.0.1:7077
    """
    began = time.perf_counter()
    with session("verify", master) as spark:
        from braidcast.spark.reading import find_histories
        from braidcast.spark.verify import STEPS
        from braidcast.spark.verify import verify as judge
        from braidcast.spark.writing import check_place, write_verdict

        histories = find_histories(directories, partial=partial)
        if out is not None:
            check_place(out)
        short = sum(found.bytes for found in histories) < SHORT_BYTES_MAX
        with spark(short) as started, Progress("steps", STEPS) as progress:
            verdict = judge(started, histories, lambda done, what: progress.update(done, f": {what}"))
            if out is not None:
                write_verdict(started, histories, verdict, out)
    seconds = time.perf_counter() - began
    if as_json:
        print_json(verdict.to_json() | {"seconds": round(seconds, 3)})
    else:
        _show(verdict, seconds)
    return 1 if verdict.violated else 0


def _show(verdict: Verdict, seconds: float) -> None:
    print_table(
        ("property", "judged or skipped", "violations"),
        [(name, verdict.said_of(name), verdict.violations[name]) for name in PROPERTIES],
    )
    if verdict.examples:
        click.echo("")
        print_table(
            ("property", "run", "group", "process", "message", "expected", "seen"),
            [_row(example) for example in verdict.examples],
        )
        for name, count in verdict.violations.items():
            if (more := count - sum(example["property"] == name for example in verdict.examples)) > 0:
                click.echo(f"  and {more:,} more of {name}")
        if closer := next((e for e in verdict.examples if e["client"] is not None), None):
            click.echo(f"  look closer: braidcast explain {closer['directory']} {_message_of(closer)}")
    for note in verdict.notes:
        click.echo(f"NOTE  {note}")
    click.echo(
        f"{verdict.runs:,} runs, {verdict.events:,} events, {verdict.deliveries:,} deliveries, {seconds:.1f} s"
    )
    if not verdict.violated:
        click.echo("every property that was judged holds")


def _row(example: Mapping[str, Any]) -> tuple[str, ...]:
    place = ("-" if value is None else str(value) for value in (example["group"], example["node"]))
    return (
        example["property"], example["run"], *place, _message_of(example), example["expected"], example["seen"],
    )  # fmt: skip


def _message_of(example: Mapping[str, Any]) -> str:
    id = (example["client"], example["session"], example["seq"])
    return "-" if None in id else str(MessageId(*id))
