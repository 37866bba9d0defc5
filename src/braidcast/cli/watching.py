"""`braidcast status` and `braidcast top`: how the nodes of a cluster are, once or again and again.

On a terminal what is shown again is drawn over what was there; anywhere else it is one block after another, each with
the time, so that it can be kept.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from braidcast.cli.arguments import json_argument, print_json, print_table
from braidcast.cli.asking import ask_each
from braidcast.cli.clusters import cluster_argument, config_at, identity_argument, no_session, run_client
from braidcast.client.status import NodeStatus, groups_with_leader
from braidcast.cluster.config import ClusterConfig
from braidcast.core.ballots import number_of
from braidcast.core.timestamps import show_timestamp

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
UNKNOWN = "-"
LOOK_S = 0.1
times_argument = click.option(
    "--times", type=click.IntRange(min=1), help="Stop after so many; without it, when interrupted."
)
every_argument = click.option(
    "--every", "every_s", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="Seconds between two."
)


@click.command()
@cluster_argument
@click.option("--watch", is_flag=True, help="Again and again.")
@every_argument
@times_argument
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), metavar="SECONDS",
              help="First wait until every node takes part and hears the others, but not for longer.")  # fmt: skip
@identity_argument
@json_argument
def status(
    path: Path, watch: bool, every_s: float, times: int | None, wait_s: float | None, identity: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """How every node is: its replicas, who leads, what is under way, who is behind or cannot be reached.

    The second table is about nodes: their disks, their clients, and what their peers have not taken. Leaves with 1 if a
    node does not answer or a group has no leader. With `--watch`, that is of the last look. With `--wait`, also if a
    node takes no part, or not all have sessions with one another, in time: so a script knows when to go on.

    \b
    Examples:
      braidcast status
      braidcast status --watch
      braidcast status --wait 60
    """
    config = config_at(path, identity)
    waited_in_vain = wait_s is not None and not run_client(_until_well(config, wait_s))

    def look() -> int:
        found = run_client(ask_each(config, aloud=True))
        led = groups_with_leader(found)
        leaderless = [group.name for group in config.groups if group.name not in led]
        silent = [each.name for each in found if each.answer is None]
        if as_json:
            print_json({"nodes": {s.name: s.answer for s in found}, "silent": silent, "leaderless": leaderless})
        else:
            _show(found, leaderless, {group.name: not set(silent).isdisjoint(group.nodes) for group in config.groups})
        return 1 if silent or leaderless or waited_in_vain else 0

    return again(look, every_s, times, plain=as_json) if watch or times else look()


async def _until_well(config: ClusterConfig, wait_s: float) -> bool:
    """Whether the cluster is well, as soon as it is, or after so long."""
    end = asyncio.get_running_loop().time() + wait_s
    while not is_well(await ask_each(config), len(config.groups)):
        if asyncio.get_running_loop().time() >= end:
            return False
        await asyncio.sleep(LOOK_S)
    return True


def is_well(found: Sequence[NodeStatus], groups: int) -> bool:
    """Whether every node takes part and has a session with every other one, and every group has a leader."""
    answers = [each.answer for each in found if each.answer is not None]
    parts = all(not answer["unwell"] and all(peer["connected"] for peer in answer["peers"]) for answer in answers)
    return parts and len(answers) == len(found) and len(groups_with_leader(found)) == groups


def again(look: Callable[[], int], every_s: float, times: int | None, *, plain: bool) -> int:
    """Look so often, or until somebody interrupts; what the last look came to. `plain`: nothing but what it shows."""
    left_with = 0
    done = 0
    try:
        while times is None or done < times:
            begun = time.monotonic()
            if not plain and done:
                _part()
            if not plain:
                click.echo(time.strftime("%Y-%m-%d %H:%M:%S"))
            left_with = look()
            sys.stdout.flush()
            done += 1
            if times is None or done < times:
                time.sleep(max(0.0, begun + every_s - time.monotonic()))
    except KeyboardInterrupt:
        pass
    return left_with


def _part() -> None:
    """What comes takes the place of what is there, or follows it."""
    if sys.stdout.isatty():
        click.clear()
    else:
        click.echo()


def _show(found: Sequence[NodeStatus], leaderless: Sequence[str], is_silent: Mapping[str, bool]) -> None:
    print_table(
        ("node", "address", "group", "role", "ballot", "under way", "delivered", "frontier", "behind", "trouble"),
        replica_rows(found),
    )
    if rows := node_rows(found):
        click.echo()
        print_table(("node", "up for", "log", "room", "commits", "clients", "refused", "peers have not taken"), rows)
    for name in leaderless:
        among = " among the nodes that answer" if is_silent[name] else ""
        click.echo(f"group {name} has no leader{among}")


def replica_rows(found: Sequence[NodeStatus]) -> list[tuple[str, ...]]:
    """A row for each replica; how far it is behind comes from its leader."""
    behind = {
        (each["node"], replica["group"]): each["behind"]
        for status in found if status.answer is not None
        for replica in status.answer["replicas"] for each in replica["followers"]
    }  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for each in found:
        if each.answer is None:
            rows.append((each.name, each.address, *[UNKNOWN] * 7, each.trouble or "no answer"))
            continue
        for replica in each.answer["replicas"]:
            lag = behind.get((each.name, replica["group"]))
            rows.append(
                (
                    each.name, each.address, replica["group"], replica["role"], str(number_of(replica["ballot"])),
                    f"{replica['backlog']:,}", f"{replica['delivered']:,}", show_timestamp(replica["gts"]),
                    UNKNOWN if lag is None else f"{lag:,}", trouble_of(each.answer, replica["group"]),
                )
            )  # fmt: skip
    return rows


def trouble_of(answer: Mapping[str, Any], group: str) -> str:
    """What is wrong with a node, or with its replica of that group."""
    cut_off = [peer for peer in answer["peers"] if not peer["connected"]]
    unwell = [why for why in answer["unwell"] if not why.startswith("group ") or why.startswith(f"group {group}:")]
    tls = answer.get("tls") or {}  # a node of an older build does not say
    certificates = [f"certificates: {tls.get('trouble')}"] * bool(tls.get("trouble"))
    return "; ".join([*unwell, *[no_session(cut_off)] * bool(cut_off), *certificates])


def node_rows(found: Sequence[NodeStatus]) -> list[tuple[str, ...]]:
    """A row for each node that answers."""
    rows = []
    for each in found:
        if (answer := each.answer) is None:
            continue
        disk = answer["disk"]
        on_disk = [size(disk["log_bytes"]), size(disk["free_bytes"]), f"{disk['commits']:,}"] if disk else [UNKNOWN] * 3
        refused = sum(answer["refused"].values()) + sum(sum(r["refused"].values()) for r in answer["replicas"])
        waiting = [f"{peer['node']} {size(peer['waiting_bytes'])}" for peer in answer["peers"] if peer["waiting_bytes"]]
        rows.append(
            (each.name, f"{answer['uptime_s']:,.0f} s", *on_disk, f"{answer['clients']:,}", f"{refused:,}",
             ", ".join(waiting) or UNKNOWN)
        )  # fmt: skip
    return rows


@click.command()
@cluster_argument
@every_argument
@times_argument
@identity_argument
@json_argument
def top(path: Path, every_s: float, times: int | None, identity: str | None, as_json: bool) -> int:
    """What every replica delivers and every node commits in a second, again and again.

    A rate is that between two looks. A node that does not answer, or was restarted in between, has none.

    \b
    Examples:
      braidcast top
      braidcast top --times 1 --every 5 --json
    """
    config = config_at(path, identity)
    before = _answers(config)
    time.sleep(every_s)

    def look() -> int:
        nonlocal before
        after = _answers(config)
        replicas, nodes = rates(before, after)
        before = after
        if as_json:
            print_json({"replicas": replicas, "nodes": nodes})
        else:
            print_table(("node", "group", "role", "messages/s", "bytes/s", "under way", "behind"),
                        [tuple(map(_cell, row.values())) for row in replicas])  # fmt: skip
            click.echo()
            print_table(("node", "commits/s", "log bytes", "bytes not taken"),
                        [tuple(map(_cell, row.values())) for row in nodes])  # fmt: skip
        return 0 if len(after) == len(config.nodes) else 1

    return again(look, every_s, times, plain=as_json)


def _answers(config: ClusterConfig) -> dict[str, Mapping[str, Any]]:
    found = run_client(ask_each(config, aloud=True))
    return {each.name: each.answer for each in found if each.answer is not None}


def rates(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What happened in a second between two looks: for each replica, and for each node."""
    replicas, nodes = [], []
    behind = {
        (each["node"], r["group"]): each["behind"]
        for answer in after.values() for r in answer["replicas"] for each in r["followers"]
    }  # fmt: skip
    for name, now in after.items():
        then = before.get(name)
        same = then if then is not None and then["incarnation"] == now["incarnation"] else None
        seconds = now["uptime_s"] - same["uptime_s"] if same is not None else 0.0
        earlier = {r["group"]: r for r in same["replicas"]} if same is not None else {}
        for replica in now["replicas"]:
            past = earlier.get(replica["group"])
            replicas.append({
                "node": name, "group": replica["group"], "role": replica["role"],
                "messages_per_s": _rate(past, replica, "messages", seconds),
                "bytes_per_s": _rate(past, replica, "bytes", seconds),
                "backlog": replica["backlog"], "behind": behind.get((name, replica["group"])),
            })  # fmt: skip
        nodes.append({
            "node": name, "commits_per_s": _rate(same and same["disk"], now["disk"], "commits", seconds),
            "log_bytes": None if now["disk"] is None else now["disk"]["log_bytes"],
            "not_taken_bytes": sum(peer["waiting_bytes"] for peer in now["peers"]),
        })  # fmt: skip
    return replicas, nodes


def _rate(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, key: str, seconds: float) -> int | None:
    if before is None or after is None or seconds <= 0:
        return None
    return round((int(after[key]) - int(before[key])) / seconds)


def _cell(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def size(count: int) -> str:
    """So many bytes, for people."""
    unit, value = 0, float(count)
    while value >= 1024 and unit < len(UNITS) - 1:
        unit, value = unit + 1, value / 1024
    return f"{value:.1f} {UNITS[unit]}" if unit else f"{count} B"
