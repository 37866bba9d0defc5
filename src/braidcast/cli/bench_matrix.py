"""`braidcast bench matrix`: the same load in every setting, and the tables that show it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from braidcast.cli.arguments import F, OutputFile, json_argument, print_json, print_table
from braidcast.cli.progress import Progress
from braidcast.cli.registry import WHITEBOX
from braidcast.cli.stopping import stops_when_told
from braidcast.cluster.config import Layout
from braidcast.trials.machine import this_machine
from braidcast.trials.matrix import (
    BATCHES,
    DESTINATIONS,
    OUTSTANDING,
    Cell,
    MatrixFile,
    Setting,
    every_cell,
    filtered,
    measure_matrix,
    plan_of,
    usual_cells,
)
from braidcast.trials.tables import render_matrix

SHOWN = ("messages_per_s", "latency_ms_p50", "latency_ms_p99", "cpu_s_per_1000")


def only(name: str, values: tuple[object, ...]) -> Callable[[F], F]:
    """A filter: which values of a dimension to measure."""
    kind = click.Choice([str(value) for value in values])
    return click.option(f"--{name}", name, type=kind, multiple=True, help="Only such cells; may be repeated.")


@click.command()
@only("destinations", DESTINATIONS)
@only("outstanding", OUTSTANDING)
@only("batch", BATCHES)
@only("durability", ("memory", "disk"))
@only("tls", ("off", "on"))
@only("history", ("off", "on"))
@click.option("--all", "full", is_flag=True, help="The full cross product: 216 cells instead of 108.")
@click.option("--layout", type=click.Choice(["spread", "colocated"]), default="spread", show_default=True,
              help="Nine processes, or three with a replica of every group.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0.5), default=5.0, show_default=True, help="Of each cell.")
@click.option("--out", type=OutputFile(), help="Append a JSON line for each cell; cells that are there are skipped.")
@click.option("--render", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Measure nothing: print what such a file holds as Markdown.")  # fmt: skip
@json_argument
def matrix(
    full: bool, layout: Layout, seconds: float, out: Path | None, render: Path | None, as_json: bool,
    **chosen: tuple[str, ...],
) -> int:  # fmt: skip
    """Every load, in memory and on disk; and on disk also with TLS, and with a history.

    Three groups of three as real processes, anew for each cell. --destinations, --outstanding and --batch are those of
    `bench cluster`. What is interrupted goes on with the same --out. Leaves with 1 if a cell failed.

    \b
    Examples:
      braidcast bench matrix --destinations 2 --batch 1 --out matrix.jsonl
      braidcast bench matrix --render matrix.jsonl
    """
    if render is not None:
        click.echo(render_matrix(MatrixFile(render).lines()), nl=False)
        return 0
    wanted = {name: [int(value) if value.isdigit() else value for value in chosen[name]] for name in chosen}
    setting = Setting(layout, seconds=seconds)
    file = MatrixFile(out) if out is not None else None
    plan = plan_of(filtered(every_cell() if full else usual_cells(), wanted), file, setting)
    say = [f"{len(plan.cells)} cells, about {plan.estimate_s(setting) / 60:.1f} min"]
    say += [f"{len(plan.there)} are in {out}"] if plan.there else []
    click.echo("; ".join(say), err=True)
    with stops_when_told(), Progress("cells", len(plan.cells)) as progress:

        def tell(number: int, cell: Cell) -> None:
            progress.update(number, f": {cell}")

        lines = list(measure_matrix(WHITEBOX, plan, setting, file, tell))
    failed = [f"{Cell(**line['cell'])}: {line['failed']}" for line in lines if "failed" in line]
    if as_json:
        print_json({"machine": this_machine(), "cells": lines, "skipped": len(plan.there)})
    elif len(lines) > len(failed):
        measured = [line for line in lines if "failed" not in line]
        rows = [(str(Cell(**line["cell"])), *(line["figures"][key] for key in SHOWN)) for line in measured]
        print_table(("cell", "messages/s", "p50 ms", "p99 ms", "CPU s per 1000"), rows)
    for said in failed:
        click.echo(said, err=True)
    return 1 if failed else 0
