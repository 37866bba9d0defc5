"""`braidcast up`, `down` and `status`: a cluster of real processes on this machine, and how it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from braidcast.cli.arguments import json_argument, print_json, print_table
from braidcast.cli.registry import protocol_named
from braidcast.client.errors import ClusterUnreachable
from braidcast.client.status import ANSWER_S, NodeStatus, groups_with_leader, statuses
from braidcast.cluster.config import ClusterConfig, ConfigError, load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, LocalClusterError, free_ports
from braidcast.core.errors import BraidcastError
from braidcast.history.raw import RAW, event_kinds, seal_raw
from braidcast.settings import CLUSTER_FILE

DATA = Path("braidcast-data")
LEADERS_S = 10.0
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


async def ask_all(config: ClusterConfig, wait_s: float = ANSWER_S) -> list[NodeStatus]:
    """How every node of a cluster says it is."""
    return await statuses([node.address for node in config.nodes.values()], config.name, wait_s)


async def _wait_for_leaders(config: ClusterConfig, cluster: LocalCluster) -> None:
    wanted = {group.name for group in config.groups}
    deadline = asyncio.get_running_loop().time() + LEADERS_S
    trouble = "no node answers"
    while asyncio.get_running_loop().time() < deadline:
        if dead := [name for name in config.nodes if name not in cluster.running()]:
            raise LocalClusterError(f"node {dead[0]} did not start: {cluster.last_words(dead[0])}")
        try:
            led = groups_with_leader(await ask_all(config, 0.5)).keys()
            if led == wanted:
                return
            trouble = f"group {', '.join(sorted(wanted - led))} has no leader"
        except ClusterUnreachable as error:
            trouble = str(error)
        await asyncio.sleep(0.05)
    raise LocalClusterError(f"the cluster is not ready after {LEADERS_S:.0f} s: {trouble}")


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
) -> None:
    """Start a cluster on this machine: real processes, real sockets, a real disk.

    What was started before is started again with its data; then the other options do not count.

    \b
    Examples:
      braidcast up
      braidcast up --groups accounts,stock --replicas 3 --data /tmp/shop
    """
    file = data / CLUSTER_FILE
    if not file.exists():
        names: int | list[str] = int(groups) if groups.isdecimal() else [name.strip() for name in groups.split(",")]
        count = (names if isinstance(names, int) else len(names)) * (replicas if layout == "spread" else 1)
        nodes = count if layout == "spread" else replicas
        settings: dict[str, dict[str, str | int]] = {"cluster": {"durability": durability}}
        if history:
            settings["cluster"]["history"] = "history"
        text = render_local(
            protocol, free_ports(nodes), groups=names, replicas=replicas,
            layout="spread" if layout == "spread" else "colocated", settings=settings,
        )  # fmt: skip
        _write(file, text)
    config = load_config(file, protocol_named)
    cluster = LocalCluster(config)
    was_up = len(cluster.running()) == len(config.nodes)
    cluster.start_all()
    try:
        run_client(_wait_for_leaders(config, cluster))
    except BraidcastError:
        cluster.stop_all()
        raise
    figures = {
        "config": str(file), "groups": [group.name for group in config.groups], "was_up": was_up,
        "nodes": [{"node": n.name, "address": n.address, "process": cluster.nodes[n.name].pid}
                  for n in config.nodes.values()],
    }  # fmt: skip
    if as_json:
        return print_json(figures)
    click.echo(f"{len(config.nodes)} nodes {'were up already' if was_up else 'are up'}: {file}")
    where = "" if data == DATA else f" --cluster {data}"
    first = [group.name for group in config.groups][:2]
    click.echo(f"  send    braidcast send{where} --to {','.join(first)} 'hello'")
    click.echo(f"  follow  braidcast tail{where} {first[0]}")
    click.echo(f"  look    braidcast status{where}")
    click.echo(f"  stop    braidcast down{'' if data == DATA else f' --data {data}'}")


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
def down(data: Path, as_json: bool) -> None:
    """Stop the cluster that `braidcast up` started; its data stays, and `up` starts it again.

    Histories are made readable: afterwards they are ordinary ones.

    \b
    Example:
      braidcast down
    """
    config = config_at(data)
    cluster = LocalCluster(config)
    running = list(cluster.running())
    stubborn = cluster.stop_all()
    events = None
    if config.history is not None and (config.history / RAW).is_dir():
        events = seal_raw(config.history, lambda name: event_kinds(protocol_named(name)), overwrite=True)
    if as_json:
        return print_json({"stopped": running, "killed": stubborn, "events": events})
    click.echo(f"{len(running)} nodes stopped" + (f", {len(stubborn)} of them only when killed" if stubborn else ""))
    if events is not None:
        click.echo(f"history: {events:,} events in {config.history}")


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
    found = run_client(ask_all(config))
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
        cut_off = [peer["node"] for peer in each.answer["peers"] if not peer["connected"]]
        trouble = "; ".join(
            ["the disk is full"] * bool(each.answer["disk"] and each.answer["disk"]["full"])
            + [f"no session with {', '.join(cut_off)}"] * bool(cut_off)
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
