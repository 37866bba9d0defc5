"""`braidcast demo`: the first three minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from braidcast.cli.arguments import json_argument, print_json
from braidcast.cli.picture import space_time
from braidcast.cli.progress import Progress
from braidcast.cli.registry import WHITEBOX
from braidcast.history.store import read_history, write_history
from braidcast.properties.check import check
from braidcast.simulator.explorer import explore as search
from braidcast.simulator.explorer.setup import standard_setup
from braidcast.simulator.fuzz import fuzz as run_campaign
from braidcast.simulator.scenarios import Outcome, load_scenario, run_scenario

RUNS = 300
SEED = 1


@click.command()
@click.option("--history", type=click.Path(path_type=Path), metavar="DIR",
              help="Where to write the histories; a new folder by default.")  # fmt: skip
@json_argument
def demo(history: Path | None, as_json: bool) -> int:
    """Show what braidcast does: a message to two groups, the convoy effect, faults, and every schedule of a small case.

    \b
    Example:
      braidcast demo
    """
    directory = history if history is not None else Path(tempfile.mkdtemp(prefix="braidcast-"))
    say = (lambda _="": None) if as_json else click.echo

    solo = run_scenario(load_scenario("solo", WHITEBOX.name), WHITEBOX)
    say("1. One message to two groups of three, every link takes one delay (δ). Leaders deliver after 3 δ:\n")
    _draw(solo, say)

    convoy = run_scenario(load_scenario("convoy", WHITEBOX.name), WHITEBOX)
    say("\n2. The worst case without failures: m' slips in below m one tick before m's timestamp is known,")
    say("   and m must wait for it. 5 δ less a tick, and the same order at every process:\n")
    _draw(convoy, say)

    say(f"\n3. {RUNS} random runs: crashes, restarts from disk, partitions, lost sessions, pauses, dying clients.")
    with Progress("runs", RUNS) as progress:
        campaign = run_campaign(WHITEBOX, RUNS, SEED, progress=lambda done, _: progress.update(done))
    figures = campaign.to_json()
    say(
        f"   {figures['events']:,} events, {figures['leader_changes']:,} leader changes, "
        f"{figures['restarts']:,} restarts, {figures['catchups']:,} catch-ups, {figures['collected']:,} messages "
        f"collected: {figures['violations']} violations"
    )

    say("\n4. Every schedule of one message, three processes and one election at any moment:")
    topology = solo.result.plan.topology.of_sizes(3)
    report = search(standard_setup(WHITEBOX, topology, elections=1))
    say(f"   {report.summary()}, {report.outcomes} different outcomes, {len(report.violations)} violations")

    read_back = []
    for outcome in (solo, convoy):
        assert outcome.result.history is not None, "scenarios are recorded"
        where = directory / outcome.scenario.name
        write_history(outcome.result.history, where, overwrite=True)
        read_back.append(len(check(read_history(where))))
    say(f"\n5. The histories of 1 and 2 are Parquet files in {directory}; read back and checked: "
        f"{sum(read_back)} violations")  # fmt: skip

    ok = campaign.ok and not report.violations and not any(read_back) and solo.ok and convoy.ok
    if as_json:
        print_json(
            {
                "ok": ok,
                "solo": solo.to_json(),
                "convoy": convoy.to_json(),
                "fuzz": figures,
                "explore": report.to_json(),
                "histories": str(directory),
            }
        )
    else:
        say("\nVERDICT  " + ("one order everywhere; every property held" if ok else "SOMETHING IS WRONG, see above"))
        say("Next: braidcast sim --protocol whitebox --scenario convoy --option follower_delivery=early")
        say("      braidcast fuzz --protocol whitebox --runs 5000      braidcast --help")
    return 0 if ok else 1


def _draw(outcome: Outcome, say: object) -> None:
    assert callable(say)
    for line in space_time(outcome.rows, outcome.result.plan.topology, outcome.result.plan.delta or 1):
        say("   " + line)
