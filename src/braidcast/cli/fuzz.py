"""`braidcast fuzz`: many random runs with faults, each judged by every property."""

from __future__ import annotations

import os
from pathlib import Path

import click

from braidcast.cli.arguments import (
    OutputFile,
    json_argument,
    options_argument,
    print_json,
    print_table,
    protocol_argument,
    split_pairs,
)  # fmt: skip
from braidcast.cli.progress import Progress
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.history.store import write_history
from braidcast.simulator.fuzz import SOMETIMES_RUNS_MIN, Campaign, fuzz_one
from braidcast.simulator.fuzz import fuzz as run_campaign
from braidcast.simulator.fuzz_plans import check_options
from braidcast.simulator.shrink import shrink


@click.command()
@protocol_argument()
@click.option("--runs", type=click.IntRange(min=1), default=1000, show_default=True, help="How many runs.")
@click.option("--seed", type=int, default=1, show_default=True, help="Names the campaign; equal seeds, equal runs.")
@click.option("--jobs", type=click.IntRange(min=1), help="How many processes to use; all cores by default.")
@click.option("--topology", "shape", help="Always these groups, such as 2x3 or 3+1; drawn at random by default.")
@click.option("--replay", type=int, metavar="SEED", help="Run only the run with this seed, as a failing campaign says.")
@click.option("--shrink", "shrink_to", type=OutputFile(), metavar="FILE",
              help="With --replay: make the failing run small and write it as a scenario file.")  # fmt: skip
@click.option("--history", type=click.Path(path_type=Path), help="With --replay: write the run's history there.")
@options_argument
@json_argument
def fuzz(
    protocol: Protocol,
    runs: int,
    seed: int,
    jobs: int | None,
    shape: str | None,
    replay: int | None,
    shrink_to: Path | None,
    history: Path | None,
    pairs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Look for mistakes: random runs with crashes, restarts, partitions, lost sessions and pauses.

    Every run is judged by every property, and by liveness once its faults have stopped. A campaign that never saw a
    leader change, a catch-up or a redelivery fails too: it proves nothing. A failing run prints the command that
    replays it. Leaves with 1 if anything was found.

    \b
    Examples:
      braidcast fuzz --protocol whitebox --runs 5000 --seed 1
      braidcast fuzz --protocol whitebox --runs 500 --option follower_delivery=early --topology 2x3
      braidcast fuzz --protocol whitebox --replay 123456 --shrink small.scenario
    """
    options = split_pairs(pairs)
    topology = None if shape is None else Topology.parse(shape)
    if topology is not None:
        protocol.check_topology(topology)
    check_options(protocol, options)
    if replay is not None:
        return _replay(protocol, replay, options, topology, shrink_to, history, as_json)
    if shrink_to is not None or history is not None:
        raise click.UsageError("--shrink and --history go with --replay SEED", click.get_current_context())
    with Progress("runs", runs) as progress:
        campaign = run_campaign(
            protocol,
            runs,
            seed,
            options=options,
            topology=topology,
            jobs=jobs or os.cpu_count() or 1,
            progress=lambda done, found: progress.update(done, f", {found} violations" if found else ""),
        )
    if as_json:
        print_json(campaign.to_json())
    else:
        _show(campaign)
    return 0 if campaign.ok else 1


def _show(campaign: Campaign) -> None:
    figures = campaign.to_json()
    names = ("runs", "events", "violations", "leader_changes", "restarts", "catchups", "redeliveries", "collected")
    print_table(("what", "count"), [(name, figures[name]) for name in names])
    for failure in campaign.failures:
        click.echo(f"VIOLATION  {failure}")
    for name in campaign.never_seen:
        click.echo(f"NEVER SEEN  {name}: the campaign proves nothing about it; run more, or without --option")
    if campaign.too_few:
        click.echo(f"too few runs to demand that each kind of fault was seen: {SOMETIMES_RUNS_MIN} would do")
    if campaign.ok:
        click.echo("every property held in every run")


def _replay(
    protocol: Protocol,
    seed: int,
    options: dict[str, str],
    topology: Topology | None,
    shrink_to: Path | None,
    history: Path | None,
    as_json: bool,
) -> int:
    plan, result, violations = fuzz_one(protocol, seed, options, topology)
    found = [str(violation) for violation in violations]
    figures = {
        "protocol": protocol.name, "seed": seed, "topology": plan.topology.shape, "options": str(plan.options),
        "events": result.events, "digest": result.digest, "counters": result.counters, "violations": found,
    }  # fmt: skip
    if as_json:
        print_json(figures)
    else:
        click.echo(f"{protocol.name}, groups {plan.topology.shape}, seed {seed}: {result.events:,} events")
        for line in found:
            click.echo(f"VIOLATION  {line}")
        if not found:
            click.echo("every property holds")
    if history is not None:
        assert result.history is not None, "fuzzed runs are recorded"
        write_history(result.history, history)
    if shrink_to is not None and violations:
        with Progress("shrinking, runs") as progress:
            shrunk = shrink(plan, violations[0].property, progress=progress.update)
        shrink_to.write_text(shrunk.text, encoding="utf-8")
        click.echo(f"a smaller run is in {shrink_to}: braidcast sim --scenario {shrink_to}", err=True)
    return 1 if violations else 0
