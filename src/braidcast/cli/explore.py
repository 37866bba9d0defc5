"""`braidcast explore`: every schedule of a small configuration."""

from __future__ import annotations

from dataclasses import replace
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
from braidcast.simulator.explorer import Limits, Report
from braidcast.simulator.explorer import explore as search
from braidcast.simulator.explorer.scenario import scenario_of
from braidcast.simulator.explorer.setup import standard_setup
from braidcast.simulator.explorer.steps import LIVES_MAX

MESSAGES_MAX = 10_000
"""No search gets far with even ten."""


@click.command()
@protocol_argument()
@click.option("--groups", type=click.IntRange(min=1), default=1, show_default=True, help="How many groups.")
@click.option("--replicas", type=click.IntRange(min=0), default=3, show_default=True, help="Processes in each group.")
@click.option("--topology", "shape", help="Groups of different sizes, such as 3+1, instead of --groups and --replicas.")
@click.option("--messages", type=click.IntRange(0, MESSAGES_MAX), default=1, show_default=True,
              help="How many messages, each to all groups.")  # fmt: skip
@click.option("--elections", type=click.IntRange(min=0), default=0, show_default=True,
              help="How often a process may suspect its leader, at any moment.")  # fmt: skip
@click.option("--crashes", type=click.IntRange(min=0), default=0, show_default=True,
              help="How often a process may crash and restart with what was durable.")  # fmt: skip
@click.option("--disk-losses", type=click.IntRange(0, LIVES_MAX), default=0, show_default=True,
              help="How often a process may crash, lose its disk and rejoin.")  # fmt: skip
@click.option("--losses", type=click.IntRange(min=0), default=0, show_default=True,
              help="How often a session may break and lose what is in flight.")  # fmt: skip
@click.option("--delays", type=click.IntRange(min=0),
              help="Only schedules with at most so many delays (oldest message first, but for these).")  # fmt: skip
@click.option("--stops", type=click.IntRange(min=0), default=0, show_default=True,
              help="How many processes may crash for good.")  # fmt: skip
@click.option("--impatient", is_flag=True,
              help="With faults: a client's copy may reach a follower, too.")  # fmt: skip
@click.option("--states-max", type=click.IntRange(min=1), default=20_000_000, show_default=True,
              help="Give up after so many states.")  # fmt: skip
@click.option("--seconds-max", type=click.FloatRange(min=0), help="Give up after so many seconds.")
@click.option("--counterexample", type=OutputFile(), metavar="FILE",
              help="Write the first violation as a scenario file.")  # fmt: skip
@options_argument
@json_argument
def explore(
    protocol: Protocol,
    groups: int,
    replicas: int,
    shape: str | None,
    messages: int,
    elections: int,
    crashes: int,
    disk_losses: int,
    losses: int,
    delays: int | None,
    stops: int,
    impatient: bool,
    states_max: int,
    seconds_max: float | None,
    counterexample: Path | None,
    pairs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Look at every schedule of a small configuration, or at all with a bounded number of delays.

    Checked in every state: one timestamp a message, rising at every process, and logs of a group that are prefixes
    of one another. "exhausted" is said only of a search that covered every schedule. Leaves with 1 on a violation,
    with the schedule that leads to it.

    \b
    Examples:
      braidcast explore --protocol whitebox --groups 2 --replicas 3 --messages 1
      braidcast explore --protocol whitebox --groups 1 --replicas 3 --messages 1 --elections 2
      braidcast explore --protocol whitebox --topology 3+1 --messages 2 --json
      braidcast explore --protocol whitebox --groups 2 --messages 1 --elections 1 --delays 3
    """
    if shape is not None and (given := [f"--{name}" for name in ("groups", "replicas") if _is_given(name)]):
        raise click.UsageError(f"--topology says all about the groups: leave {' and '.join(given)} out",
                               click.get_current_context())  # fmt: skip
    topology = Topology.parse(shape if shape is not None else f"{groups}x{replicas}")
    options = protocol.parse_options(split_pairs(pairs))
    setup = standard_setup(
        protocol, topology, messages, options, elections=elections, crashes=crashes, disk_losses=disk_losses,
        losses=losses, stops=stops,
    )  # fmt: skip
    if impatient:
        setup = replace(setup, patient=False)
    with Progress("states") as progress:
        limits = Limits(states_max, seconds_max, progress=lambda states, _: progress.update(states))
        report = search(setup, delays=delays, limits=limits)
    if as_json:
        print_json(report.to_json())
    else:
        _show(report)
    if counterexample is not None and report.violations:
        counterexample.write_text(scenario_of(setup, report.violations[0]), encoding="utf-8")
        click.echo(f"replay it: braidcast sim --scenario {counterexample}", err=as_json)
    return 1 if report.violations else 0


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


def _show(report: Report) -> None:
    rows = [("states", report.states), ("outcomes", report.outcomes), ("depth", report.depth)]
    rows += [("transitions", report.transitions), ("steps executed", report.executed)]
    print_table(("what", "count"), rows)
    for violation in report.violations:
        click.echo(f"VIOLATION  {violation.property}: {violation.what}")
        click.echo(violation.schedule())
    click.echo(f"{report.summary()}, {report.seconds:.1f} s")
