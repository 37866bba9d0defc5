"""`braidcast chaos`: faults on a real local cluster under load, judged by every property."""

from __future__ import annotations

import asyncio
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import click

from braidcast.cli.arguments import ProtocolName, json_argument, print_json, print_table
from braidcast.cli.progress import Progress
from braidcast.core.errors import BraidcastError
from braidcast.core.protocol import Protocol
from braidcast.trials.chaos import SHOWN, ChaosPlan, run_chaos


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.05), default=1.0, show_default=True, help="How long.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the faults and the load; timing stays real.")
@click.option("--protocol", type=ProtocolName(), default="whitebox", show_default=True, help="Which protocol to run.")
@click.option("--groups", type=click.IntRange(min=1), default=3, show_default=True, help="How many groups.")
@click.option("--replicas", type=click.IntRange(min=1), default=3, show_default=True, help="Replicas of each group.")
@click.option("--layout", type=click.Choice(["colocated", "spread"]), default="colocated", show_default=True,
              help="A replica of every group on each node, or a node for each replica.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=1), default=200.0, show_default=True, help="Messages a second.")
@click.option("--data", type=click.Path(path_type=Path), help="Keep the cluster, what it said and its history there; "
              "by default they go when all was well.")  # fmt: skip
@json_argument
def chaos(
    minutes: float, seed: int, protocol: Protocol, groups: int, replicas: int, layout: str, rate: float,
    data: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run a local cluster under load while its nodes are killed, paused, cut off and restarted; then judge it.

    Nothing that was acknowledged may be lost, every property must hold in its history, and in the end everything must
    be answered and all replicas level. Leaves with 1 if not, and keeps the cluster's directory.

    \b
    Examples:
      braidcast chaos --minutes 5
      braidcast chaos --minutes 30 --seed 7 --data /tmp/chaos --json
    """
    if data is not None and data.exists() and any(data.iterdir()):
        raise BraidcastError(f"{data} is not empty: give a new directory")
    folder = data if data is not None else Path(mkdtemp(prefix="braidcast-chaos-"))
    plan = ChaosPlan(
        protocol, minutes, seed, groups, replicas, "spread" if layout == "spread" else "colocated", rate
    )
    with Progress("seconds", round(minutes * 60)) as progress:
        result = asyncio.run(run_chaos(plan, folder, lambda seconds, extra: progress.update(round(seconds), extra)))
    figures = result.to_json()
    if as_json:
        print_json(figures)
    else:
        print_table(("what", "count"), [(name, value) for name, value in figures.items() if name != "found"])
        for line in result.found[:SHOWN]:
            click.echo(f"FOUND  {line}")
        if result.ok:
            click.echo("nothing was lost, and every property held")
    if data is None and result.ok:
        rmtree(folder)
    elif not as_json:
        click.echo(f"the cluster's configuration, logs and history are in {folder}")
    return 0 if result.ok else 1
