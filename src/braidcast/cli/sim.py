"""`braidcast sim`: one run in virtual time, from a scenario or from a seed."""

from __future__ import annotations

from pathlib import Path

import click

from braidcast.cli.arguments import (
    json_argument,
    options_argument,
    print_json,
    print_table,
    protocol_argument,
    split_pairs,
)  # fmt: skip
from braidcast.cli.registry import protocol_named
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.history.event import History
from braidcast.history.store import write_history
from braidcast.simulator.fuzz import fuzz_one
from braidcast.simulator.scenarios import Outcome, built_in_scenarios, load_scenario, run_scenario


@click.command()
@protocol_argument(required=False)
@click.option("--scenario", metavar="NAME|FILE", help="A scenario that comes with the protocol, or a .scenario file.")
@click.option("--seed", type=int, help="Without a scenario: a random run with faults, drawn from this seed.")
@click.option("--topology", "shape", help="Without a scenario: the groups, such as 2x3 or 3+1.")
@click.option("--history", type=click.Path(path_type=Path), help="Write the run's history into this directory.")
@click.option("--overwrite", is_flag=True, help="Replace a history that is there already.")
@options_argument
@json_argument
def sim(
    protocol: Protocol | None,
    scenario: str | None,
    seed: int | None,
    shape: str | None,
    history: Path | None,
    overwrite: bool,
    pairs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run one schedule in virtual time and show who delivered what when.

    A scenario says what happens and what must come of it. Without one, a run with faults is drawn from --seed. Delays
    are counted in units of the network's delay (delta). Leaves with 1 if a property was violated or an expectation
    not met.

    \b
    Examples:
      braidcast sim --protocol whitebox --scenario solo
      braidcast sim --protocol whitebox --scenario convoy --option follower_delivery=early --json
      braidcast sim --scenario path/to/my.scenario --history /tmp/run
      braidcast sim --protocol whitebox --seed 7 --topology 2x3
    """
    options = split_pairs(pairs)
    if scenario is None:
        if protocol is None:
            raise _misuse("say which --protocol, or give a --scenario FILE that does")
        if seed is None:
            known = ", ".join(built_in_scenarios(protocol.name)) or "none"
            raise _misuse(f"say what to run: --scenario NAME ({known}), --scenario FILE, or --seed N for a random run")
        return _random_run(protocol, seed, options, shape, history, overwrite, as_json)
    if shape is not None:
        raise _misuse("a scenario has its own topology: leave --topology out")
    loaded = load_scenario(scenario, protocol.name if protocol is not None else None)
    if protocol is None:
        if loaded.protocol is None:
            raise _misuse(f"{scenario} names no protocol: add --protocol")
        protocol = protocol_named(loaded.protocol)
    outcome = run_scenario(loaded, protocol, options, seed)
    _write(outcome.result.history, history, overwrite)
    if as_json:
        print_json(outcome.to_json())
    else:
        _show(outcome)
    return 0 if outcome.ok and not outcome.violations else 1


def _misuse(what: str) -> click.UsageError:
    return click.UsageError(what, click.get_current_context())


def _random_run(
    protocol: Protocol,
    seed: int,
    options: dict[str, str],
    shape: str | None,
    history: Path | None,
    overwrite: bool,
    as_json: bool,
) -> int:
    plan, result, violations = fuzz_one(protocol, seed, options, None if shape is None else Topology.parse(shape))
    _write(result.history, history, overwrite)
    figures = {
        "protocol": protocol.name,
        "seed": seed,
        "topology": plan.topology.shape,
        "events": result.events,
        "ticks": result.ticks,
        "counters": result.counters,
        "digest": result.digest,
        "violations": [str(violation) for violation in violations],
    }
    if as_json:
        print_json(figures)
    else:
        click.echo(f"{protocol.name}, groups {plan.topology.shape}, seed {seed}: {result.events:,} events")
        print_table(("what", "count"), [(name, count) for name, count in sorted(result.counters.items()) if count])
        _show_violations([str(violation) for violation in violations])
    return 1 if violations else 0


def _write(history: History | None, directory: Path | None, overwrite: bool) -> None:
    if directory is not None:
        assert history is not None, "runs of this command are recorded"
        write_history(history, directory, overwrite=overwrite)


def _show(outcome: Outcome) -> None:
    plan = outcome.result.plan
    shape, name = plan.topology.shape, outcome.scenario.name
    click.echo(f"{plan.protocol.name}, groups {shape}, scenario {name}, delta {plan.delta}")
    print_table(
        ("message", "process", "group", "role", "at", "delays"),
        [(row.message, row.process, row.group, row.role, row.at, row.delays) for row in outcome.rows],
    )
    for name, why in outcome.refused.items():
        click.echo(f"REFUSED  {name}: {why}")
    for line in outcome.unmet:
        click.echo(f"NOT AS EXPECTED  {line}")
    _show_violations([str(violation) for violation in outcome.violations])


def _show_violations(violations: list[str]) -> None:
    for line in violations:
        click.echo(f"VIOLATION  {line}")
    if not violations:
        click.echo("every property holds")


