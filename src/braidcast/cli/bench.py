"""`braidcast bench`: what the protocols and the simulator cost on this machine."""

from __future__ import annotations

import gc
import platform
from collections.abc import Iterator
from time import process_time
from typing import Any

import click

from braidcast.cli.arguments import json_argument, options_argument, print_json, print_table, split_pairs
from braidcast.cli.bench_matrix import matrix
from braidcast.cli.bench_peers import peers
from braidcast.cli.progress import Progress
from braidcast.cli.registry import WHITEBOX
from braidcast.cli.stopping import stops_when_told
from braidcast.cluster.config import Layout
from braidcast.core.topology import Topology
from braidcast.simulator.collector import collect_run, collector_paused
from braidcast.simulator.delays import Uniform
from braidcast.simulator.judge import simulate_and_judge
from braidcast.simulator.load import Load
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import SimulationPlan
from braidcast.simulator.pump import measure
from braidcast.simulator.run import simulate
from braidcast.trials.bench import ClusterLoad, measure_cluster
from braidcast.trials.endurance import endure
from braidcast.trials.failover import measure_failover
from braidcast.trials.throwaway import Settings, throwaway_cluster, throwaway_folder

GROUPS = 3
REPLICAS = 3
LONGER = 10
"""How many times longer the run is that shows that a message costs the same in a long run."""


@click.group()
def bench() -> None:
    """Measure. Figures are CPU time on one core of this machine; compare ratios, not machines.

    \b
    Example:
      braidcast bench core --json
    """


bench.add_command(matrix)
bench.add_command(peers)


@bench.command()
@click.option("--messages", type=click.IntRange(min=100), default=20_000, show_default=True, help="Per measurement.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="The best of so many counts.")
@options_argument
@json_argument
def core(messages: int, rounds: int, pairs: tuple[str, ...], as_json: bool) -> None:
    """The white-box protocol in memory, and the simulator with every property on.

    White-box: three groups of three, no network, no disk; ballots, dedup and collection on. "longer" is the same run
    ten times as long, and "pending" the same with 64 times as many messages under way: the cost of a message must
    not grow with what was delivered, nor faster than log with what is pending.
    """
    options = split_pairs(pairs)
    WHITEBOX.parse_options(options)
    figures: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
    with Progress("measurements", 11) as progress:
        for done, (name, value) in enumerate(_measurements(messages, rounds, options), 1):
            figures[name] = value
            progress.update(done)
    if as_json:
        print_json(figures)
        return
    rows = [(name, *_row(figures[name])) for name in figures if isinstance(figures[name], dict)]
    print_table(("what", "per second", "µs each", "µs per event"), rows)


@bench.command("cluster")
@click.option("--destinations", type=click.IntRange(1, 3), default=2, show_default=True, help="Groups of each message.")
@click.option("--outstanding", type=click.IntRange(min=1), default=64, show_default=True, help="Units under way.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Messages in a unit.")
@click.option("--payload", "payload_bytes", type=click.IntRange(min=0), default=20, show_default=True,
              help="Bytes of a message.")  # fmt: skip
@click.option("--durability", type=click.Choice(["disk", "memory"]), default="memory", show_default=True,
              help="Whether every commit is synced.")  # fmt: skip
@click.option("--layout", type=click.Choice(["spread", "colocated"]), default="spread", show_default=True,
              help="Nine processes, or three with a replica of every group.")  # fmt: skip
@click.option("--unix", is_flag=True, help="Nodes talk to each other over unix sockets.")
@click.option("--history", is_flag=True, help="With histories on.")
@click.option("--tls", is_flag=True, help="With TLS on.")
@click.option("--seconds", type=click.FloatRange(min=0.5), default=5.0, show_default=True, help="How long to measure.")
@options_argument
@json_argument
def of_cluster(
    destinations: int, outstanding: int, batch: int, payload_bytes: int, durability: str, layout: Layout, unix: bool,
    history: bool, tls: bool, seconds: float, pairs: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Three groups of three as real processes on this machine, loaded by one client.

    The latency is until the leaders of all destination groups have delivered. CPU is that of all nodes; the client's
    own is beside it. The nodes and the client share this machine.

    \b
    Example:
      braidcast bench cluster --destinations 2 --outstanding 64 --batch 16 --durability disk --json
    """
    settings: Settings = {"cluster": {"durability": durability}}
    if history:
        settings["cluster"]["history"] = "history"
    if pairs:
        settings["cluster.options"] = dict(split_pairs(pairs))
    with stops_when_told(), throwaway_cluster(WHITEBOX, layout, settings, unix=unix, tls=tls) as config:
        load = ClusterLoad(destinations, outstanding, batch, payload_bytes, seconds)
        _show(measure_cluster(config, load), as_json)


@bench.command()
@click.option("--messages", type=click.IntRange(min=1000), default=1_000_000, show_default=True, help="In all.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Messages in a unit.")
@click.option("--outstanding", type=click.IntRange(min=1), default=512, show_default=True, help="Units under way.")
@click.option("--durability", type=click.Choice(["disk", "memory"]), default="memory", show_default=True,
              help="Whether every commit is synced.")  # fmt: skip
@json_argument
def endurance(messages: int, batch: int, outstanding: int, durability: str, as_json: bool) -> None:
    """Whether memory stays flat: three nodes, a mix of destination sets, one of which never talks to another.

    \b
    Example:
      braidcast bench endurance --messages 10000000 --json
    """
    # A journal much smaller than the run: what subscribers may ask for must not be mistaken for growth.
    settings: Settings = {
        "cluster": {"durability": durability}, "limits": {"journal_bytes_max": 8 << 20},
    }  # fmt: skip
    with (
        stops_when_told(), throwaway_cluster(WHITEBOX, "colocated", settings) as config,
        Progress("messages", messages) as progress,
    ):  # fmt: skip
        figures = endure(config, messages, batch, outstanding, progress.update)
    _show(figures, as_json)


@bench.command()
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True, help="How often.")
@click.option("--rate", type=click.FloatRange(min=1), default=500.0, show_default=True, help="Messages a second.")
@json_argument
def failover(rounds: int, rate: float, as_json: bool) -> None:
    """How long it takes until there is another leader when a leader's node is killed under load.

    Three groups of three on three nodes, on disk. "leader": until all groups that the node led have another leader;
    "drain": until all messages submitted meanwhile are acknowledged. The history is judged, too.

    \b
    Example:
      braidcast bench failover --rounds 20 --json
    """
    with stops_when_told(), throwaway_folder() as folder, Progress("leaders killed", rounds) as progress:
        figures = measure_failover(WHITEBOX, folder, rounds, rate, progress.update)
    _show(figures, as_json)


def _show(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(figures)
    else:
        print_table(("what", "figure"), list(figures.items()))


def _row(figures: dict[str, float]) -> tuple[int, float, float]:
    if "messages_per_s" in figures:
        return int(figures["messages_per_s"]), round(figures["us_per_message"], 2), round(figures["us_per_event"], 3)
    us_per_event = round(1e6 / figures["events_per_s"], 3)
    return int(figures["events_per_s"]), us_per_event, us_per_event


def _measurements(messages: int, rounds: int, options: dict[str, str]) -> Iterator[tuple[str, dict[str, float]]]:
    topology = Topology.of_sizes(*[REPLICAS] * GROUPS)
    for destinations in (1, 2, 3):
        dest = tuple(range(destinations))
        runs = [measure(WHITEBOX, topology, options, dest, messages // destinations) for _ in range(rounds)]
        yield f"whitebox_{destinations}_destinations", max(runs, key=lambda run: run["messages_per_s"])
    yield "whitebox_2_destinations_longer", measure(WHITEBOX, topology, options, (0, 1), messages * LONGER // 2)
    few = measure(WHITEBOX, topology, options, (0, 1), messages // 2, outstanding=64)
    yield "whitebox_2_destinations_64_pending", few
    many = measure(WHITEBOX, topology, options, (0, 1), messages // 2, outstanding=4096)
    yield "whitebox_2_destinations_4096_pending", many
    yield "simulator", _simulator(_plan(1, messages // 4, options, record=False))
    yield "simulator_with_order_checked", _simulator(_plan(1, messages // 4, options, traffic=False))
    yield "simulator_with_every_property", _simulator(_plan(1, messages // 4, options))
    yield "short_runs_with_order_checked", _short_runs(options, traffic=False)
    yield "short_runs_with_every_property", _short_runs(options, traffic=True)


def _plan(
    seed: int, messages: int, options: dict[str, str], *, record: bool = True, traffic: bool = True
) -> SimulationPlan:
    return SimulationPlan(
        protocol=WHITEBOX,
        topology=Topology.of_sizes(REPLICAS, REPLICAS),
        options=WHITEBOX.parse_options(options),
        seed=seed,
        network=NetworkPlan(delay=Uniform(1, 200)),
        load=Load(clients=4, messages=messages, gap=Uniform(0, 100), spread=(0, 1)),
        record=record,
        traffic=traffic,
    )


def _simulator(plan: SimulationPlan) -> dict[str, float]:
    gc.collect()  # what was measured before is not charged to this
    begin = process_time()
    if plan.record:
        result, violations = simulate_and_judge(plan)
        assert not violations, "the benchmark's own run is correct"
    else:
        result = simulate(plan)
    seconds = process_time() - begin
    return {"events_per_s": result.events / seconds, "events": result.events}


def _short_runs(options: dict[str, str], traffic: bool, runs: int = 100) -> dict[str, float]:
    gc.collect()
    begin = process_time()
    events = 0
    with collector_paused():  # as campaigns do
        for seed in range(runs):
            result, violations = simulate_and_judge(_plan(seed, 20, options, traffic=traffic))
            assert not violations, "the benchmark's own runs are correct"
            events += result.events
            del result
            collect_run()
    seconds = process_time() - begin
    return {"events_per_s": events / seconds, "runs_per_s": runs / seconds}
