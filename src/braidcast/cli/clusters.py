"""`braidcast up`, `down`, `seal` and `status`: a cluster of real processes on this machine, and how it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from braidcast.cli.arguments import json_argument, print_json, print_table
from braidcast.cli.asking import SLOW_S, ask_each, name_the_silent
from braidcast.cli.registry import protocol_named
from braidcast.client.status import NodeStatus, groups_with_leader
from braidcast.cluster.config import ClusterConfig, ConfigError, load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.identity import NAME as IDENTITY
from braidcast.cluster.local import RUN, LocalCluster, LocalClusterError, free_ports, processes_in, stop_processes
from braidcast.core.errors import BraidcastError
from braidcast.history.manifest import HistoryError
from braidcast.history.raw import RAW, event_kinds, seal_raw
from braidcast.settings import CLUSTER_FILE

DATA = Path("braidcast-data")
READY_S = 10.0
ASK_S = 1.0
T = TypeVar("T")


def cluster_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--cluster`."""
    return click.option(
        "--cluster", "path", type=click.Path(path_type=Path), default=DATA, show_default=True, metavar="FILE|DIR",
        help="The configuration, or the directory that `braidcast up` made.",
    )(command)  # fmt: skip


def config_at(path: Path) -> ClusterConfig:
    """The configuration in a file, or in the directory of a local cluster."""
    if path.is_dir():
        path = path / CLUSTER_FILE
    if not path.exists():
        raise LocalClusterError(f"there is no cluster at {path}: start one with `braidcast up`, or give --cluster FILE")
    return load_config(path, protocol_named)


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Run what a client does."""
    return asyncio.run(work)


@dataclass(slots=True)
class Readiness:
    """How far the cluster is that `up` waits for."""

    answers: dict[str, NodeStatus] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """The nodes that do not answer, or are cut off, each with its last words or what is wrong."""
    is_hopeless: bool = False
    """Every node that is missing will stay so."""
    leaderless: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every node answers and knows the others, and every group has a leader."""
        return not self.missing and not self.leaderless


async def wait_ready(config: ClusterConfig, cluster: LocalCluster, seconds: float = READY_S) -> Readiness:
    """Wait until every node is up, or is known to stay away, and the groups have leaders; but not for ever."""
    deadline = asyncio.get_running_loop().time() + seconds
    told: set[str] = set()
    began = asyncio.get_running_loop().time()
    while True:
        ready = _look(config, cluster, await ask_each(config, ASK_S))
        now = asyncio.get_running_loop().time()
        if ready.ok or (ready.is_hopeless and not ready.leaderless) or now > deadline:
            return ready
        if now > began + SLOW_S:
            slow = [name for name in ready.missing if name not in told and name not in ready.answers]
            name_the_silent(config, slow)
            told.update(slow)
        await asyncio.sleep(0.05)


def _look(config: ClusterConfig, cluster: LocalCluster, found: list[NodeStatus]) -> Readiness:
    ready = Readiness({each.name: each for each in found if each.answer is not None})
    hopeless = []
    for each in found:
        process = cluster.nodes[each.name]
        if each.answer is None:
            hopeless.append(process.pid is None or process.is_paused)
            if process.pid is None:
                ready.missing[each.name] = cluster.last_words(each.name) or each.trouble
            elif process.is_paused:
                ready.missing[each.name] = f"its process {process.pid} is paused (SIGSTOP): kill -CONT {process.pid}"
            else:
                ready.missing[each.name] = f"its process {process.pid} runs: {each.trouble}"
    for name, each in ready.answers.items():
        assert each.answer is not None, "it is one of the answers"
        if cut_off := [p for p in each.answer["peers"] if not p["connected"] and p["node"] in ready.answers]:
            ready.missing[name] = no_session(cut_off)
            hopeless.append(False)
    led = groups_with_leader(found)
    ready.leaderless = [group.name for group in config.groups if group.name not in led]
    ready.is_hopeless = bool(hopeless) and all(hopeless)
    if not cluster.running() and not ready.answers:
        ready.leaderless = []  # it goes without saying
    return ready


def no_session(peers: list[dict[str, Any]]) -> str:
    """With whom a node has no session, and why."""
    return "no session with " + ", ".join(
        peer["node"] + (f" ({peer['trouble']})" if peer["trouble"] else "") for peer in peers
    )


async def adopt(config: ClusterConfig, cluster: LocalCluster) -> list[str]:
    """Find the nodes that run although nobody knows of their processes; what was found, a line each.

    What answers in the place of a node and is not of this cluster's directory is an error.
    """
    running = cluster.running()
    found = []
    for each in await ask_each(config, aloud=True, only=[name for name in config.nodes if name not in running]):
        if each.answer is None:
            if "answers in its place" in each.trouble:
                raise LocalClusterError(f"the address of node {each.name}, {each.address}, is taken: {each.trouble}")
            continue
        pid = each.answer["process"]
        if not cluster.nodes[each.name].adopt(pid):
            raise LocalClusterError(
                f"node {each.name} answers at {each.address}, but its process {pid} was not started from "
                f"{cluster.folder}: stop it where it was started, or change the address"
            )
        found.append(f"node {each.name} was running already, as process {pid}")
    return found


def _forgotten(config: ClusterConfig, cluster: LocalCluster) -> bool:
    """Whether all of a cluster was in the memory of processes that have ended."""
    ran = any((node.data / IDENTITY).exists() for node in config.nodes.values())
    return config.durability == "memory" and ran and not cluster.running()


@click.command()
@click.option("--groups", default="3", show_default=True, help="How many groups, or their names: accounts,stock.")
@click.option("--replicas", type=click.IntRange(min=1), default=3, show_default=True, help="Replicas of each group.")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="Where all of it lives.")
@click.option("--protocol", default="whitebox", show_default=True, help="Which protocol orders messages.")
@click.option("--layout", type=click.Choice(["colocated", "spread"]), default="colocated", show_default=True,
              help="A replica of every group on each node, or a node for each replica.")  # fmt: skip
@click.option("--durability", type=click.Choice(["disk", "memory"]), default="disk", show_default=True,
              help="Whether what is acknowledged survives the loss of power.")  # fmt: skip
@click.option("--history", is_flag=True, help="Record what happens, for checking.")
@json_argument
def up(
    groups: str, replicas: int, data: Path, protocol: str, layout: str, durability: str, history: bool, as_json: bool
) -> int:
    """Start a cluster on this machine: real processes, real sockets, a real disk.

    What was started before is started again with its data; then the other options do not count. With `--durability
    memory` there is no data: such a cluster does not come back after `down`.

    Nodes that run already go on, whatever becomes of the others. Leaves with 1, and says why, unless every node is up
    and every group has a leader.

    \b
    Examples:
      braidcast up
      braidcast up --groups accounts,stock --replicas 3 --data /tmp/shop
    """
    file = data / CLUSTER_FILE
    if not file.exists():
        _write(file, _new_config(groups, replicas, protocol, layout, durability, history))
    config = load_config(file, protocol_named)
    cluster = LocalCluster(config)
    adopted = run_client(adopt(config, cluster))
    if _forgotten(config, cluster):
        raise LocalClusterError(
            f"durability = \"memory\", and all nodes have been stopped: what the cluster in {data} held is lost. Begin "
            f"a new one: remove that directory, or give another with --data"
        )
    was_up = len(cluster.running()) == len(config.nodes)
    cluster.start_all()
    ready = run_client(wait_ready(config, cluster))
    figures = {
        "config": str(file), "groups": [group.name for group in config.groups], "was_up": was_up,
        "nodes": [{"node": n.name, "address": n.address, "process": cluster.nodes[n.name].pid}
                  for n in config.nodes.values()],
        "missing": ready.missing, "leaderless": ready.leaderless,
    }  # fmt: skip
    if as_json:
        print_json(figures)
    else:
        for line in adopted:
            click.echo(line)
        _show_up(config, file, data, ready, was_up)
    return 0 if ready.ok else 1


def _new_config(groups: str, replicas: int, protocol: str, layout: str, durability: str, history: bool) -> str:
    names: int | list[str] = int(groups) if groups.isdecimal() else [name.strip() for name in groups.split(",")]
    if names == 0 or (isinstance(names, list) and len(set(names)) < len(names)):
        raise click.BadParameter(
            "a cluster has at least one group" if names == 0 else f"{groups!r} names a group twice",
            param_hint="--groups",
        )
    count = (names if isinstance(names, int) else len(names)) * (replicas if layout == "spread" else 1)
    nodes = count if layout == "spread" else replicas
    settings: dict[str, dict[str, str | int]] = {"cluster": {"durability": durability}}
    if history:
        settings["cluster"]["history"] = "history"
    return render_local(
        protocol, free_ports(nodes), groups=names, replicas=replicas,
        layout="spread" if layout == "spread" else "colocated", settings=settings,
    )  # fmt: skip


def _show_up(config: ClusterConfig, file: Path, data: Path, ready: Readiness, was_up: bool) -> None:
    where = "" if data == DATA else f" --cluster {data}"
    stop = f"braidcast down{'' if data == DATA else f' --data {data}'}"
    if not ready.ok:
        for name, why in ready.missing.items():
            click.echo(f"node {name}: {why}")
        for name in ready.leaderless:
            click.echo(f"group {name} has no leader after {READY_S:.0f} s")
        click.echo(f"{len(ready.answers)} of {len(config.nodes)} nodes answer: {file}")
        click.echo(f"  look    braidcast status{where}")
        click.echo(f"  stop    {stop}")
        return
    click.echo(f"{len(config.nodes)} nodes {'were up already' if was_up else 'are up'}: {file}")
    first = [group.name for group in config.groups][:2]
    click.echo(f"  send    braidcast send{where} --to {','.join(first)} 'hello'")
    click.echo(f"  follow  braidcast tail{where} {first[0]}")
    click.echo(f"  look    braidcast status{where}")
    click.echo(f"  stop    {stop}")


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        load_config(file, protocol_named)
    except ConfigError:
        file.unlink()
        raise
    except OSError as error:
        raise LocalClusterError(f"{file} cannot be written: {error.strerror or error}") from None


@click.command()
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="As given to `up`.")
@json_argument
def down(data: Path, as_json: bool) -> int:
    """Stop the cluster that `braidcast up` started; its data stays, and `up` starts it again.

    What it recorded is made into one history each time, of all that happened since it was first started; what it
    recorded stays beside it. Leaves with 1 if a node still answers or the history cannot be made.

    \b
    Example:
      braidcast down
    """
    try:
        config = config_at(data)
    except ConfigError as error:
        return _down_without(data, str(error), as_json)
    cluster = LocalCluster(config)
    for line in run_client(adopt(config, cluster)):
        click.echo(f"braidcast: {line}", err=True)
    running = list(cluster.running())
    stubborn = cluster.stop_all()
    events = trouble = None
    if config.history is not None and (config.history / RAW).is_dir():
        try:
            events = seal_stopped(config, config.history)
        except BraidcastError as error:
            trouble = str(error)
    if as_json:
        print_json({"stopped": running, "killed": stubborn, "events": events, "trouble": trouble})
    else:
        _show_stopped(running, stubborn)
        if events is not None:
            click.echo(f"history: {events:,} events in {config.history}")
        if trouble is not None:
            click.echo(f"the history is not made: {trouble}; then `braidcast seal {data}`")
    return 1 if trouble else 0


def _down_without(data: Path, why: str, as_json: bool) -> int:
    """Stop what the process ids in the directory name: the configuration cannot be read."""
    click.echo(f"braidcast: {why}; stopping the nodes whose process ids are in {data / RUN}", err=True)
    nodes = processes_in(Path(os.path.abspath(data if data.is_dir() else data.parent)))
    running = [node.name for node in nodes if node.pid is not None]
    stubborn = stop_processes(nodes)
    if as_json:
        print_json({"stopped": running, "killed": stubborn, "events": None, "trouble": why})
    else:
        _show_stopped(running, stubborn)
    return 0


def _show_stopped(running: list[str], stubborn: list[str]) -> None:
    click.echo(f"{len(running)} nodes stopped" + (f", {len(stubborn)} of them only when killed" if stubborn else ""))


@click.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="DIR|CLUSTER_FILE")
@json_argument
def seal(path: Path, as_json: bool) -> None:
    """Make one history of what the nodes of a cluster recorded, when they have stopped.

    PATH is a configuration, the directory that `braidcast up` made, or a directory of records: bring the `raw/` of all
    machines into one for a cluster that ran on several. `braidcast down` does the same by itself. It can be done again.

    \b
    Examples:
      braidcast seal cluster.toml
      braidcast seal /tmp/collected
    """
    if path.is_dir() and not (path / CLUSTER_FILE).exists():
        directory, events = path, seal_raw(path, _kinds)
    else:
        config = config_at(path)
        if config.history is None:
            raise HistoryError(f"{config.path} sets no `history`: nothing was recorded")
        directory, events = config.history, seal_stopped(config, config.history)
    if as_json:
        return print_json({"history": str(directory), "events": events})
    click.echo(f"history: {events:,} events in {directory}")


def seal_stopped(config: ClusterConfig, history: Path) -> int:
    """Make the history of a cluster of which nothing runs any more; how many events it has."""
    found = run_client(ask_each(config, aloud=True))
    if running := [each.name for each in found if each.answer is not None] or list(LocalCluster(config).running()):
        raise HistoryError(f"node {', '.join(running)} still runs and records: stop it first")
    return seal_raw(history, _kinds)


def _kinds(protocol: str) -> set[type]:
    return event_kinds(protocol_named(protocol))


@click.command()
@cluster_argument
@json_argument
def status(path: Path, as_json: bool) -> int:
    """How every node is: its replicas, who leads, what is under way, who cannot be reached.

    Leaves with 1 if a node does not answer or a group has no leader.

    \b
    Example:
      braidcast status
    """
    config = config_at(path)
    found = run_client(ask_each(config, aloud=True))
    led = groups_with_leader(found)
    leaderless = [group.name for group in config.groups if group.name not in led]
    silent = [status.name for status in found if status.answer is None]
    if as_json:
        print_json({"nodes": {s.name: s.answer for s in found}, "silent": silent, "leaderless": leaderless})
        return 1 if silent or leaderless else 0
    rows = []
    for each in found:
        if each.answer is None:
            rows.append((each.name, each.address, "-", "-", "-", "-", each.trouble or "no answer"))
            continue
        cut_off = [peer for peer in each.answer["peers"] if not peer["connected"]]
        trouble = "; ".join(
            [each.answer["disk"]["lack"]] * bool(each.answer["disk"] and each.answer["disk"]["lack"])
            + [no_session(cut_off)] * bool(cut_off)
        )
        for replica in each.answer["replicas"]:
            rows.append(
                (
                    each.name, each.address, replica["group"], replica["role"], str(replica["backlog"]),
                    f"{replica['delivered']:,}", trouble,
                )
            )  # fmt: skip
    print_table(("node", "address", "group", "role", "under way", "delivered", "trouble"), rows)
    for name in leaderless:
        click.echo(f"group {name} has no leader")
    return 1 if silent or leaderless else 0
