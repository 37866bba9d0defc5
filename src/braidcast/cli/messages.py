"""`braidcast send` and `braidcast tail`: messages by hand."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click

from braidcast.cli.arguments import json_argument
from braidcast.cli.asking import ask_each
from braidcast.cli.clusters import cluster_argument, config_at, identity_argument, run_client
from braidcast.client.client import Client
from braidcast.client.errors import NotDelivered
from braidcast.client.subscriber import Delivery, Subscriber
from braidcast.cluster.config import ClusterConfig
from braidcast.core.timestamps import show_timestamp

STALLED_S = 30.0
"""How long `tail --no-follow` waits for the next of what it knows to be there."""


@click.command()
@cluster_argument
@click.option("--to", "groups", required=True, metavar="GROUP[,GROUP...]", help="The groups that it is for.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
              help="Give up after so many seconds.")  # fmt: skip
@identity_argument
@json_argument
@click.argument("messages", nargs=-1)
def send(
    path: Path, groups: str, timeout_s: float, identity: str | None, as_json: bool, messages: tuple[str, ...]
) -> int:
    """Multicast messages; without any, each line of standard input is one.

    Prints the timestamp of each when all groups have delivered it. Leaves with 1 if one was not delivered in time.

    \b
    Examples:
      braidcast send --to g0,g1 'hello'
      seq 1000 | braidcast send --to g0
    """
    payloads = [m.encode() for m in messages] or [line.rstrip(b"\n") for line in sys.stdin.buffer]
    if not payloads:
        return 0
    client = Client.connect(path, timeout=timeout_s, identity=identity)
    return run_client(_send(client, [name.strip() for name in groups.split(",")], payloads, as_json))


async def _send(connecting: Client, groups: list[str], payloads: list[bytes], as_json: bool) -> int:
    status = 0
    async with connecting as client:
        sends = [client.multicast(payload, groups) for payload in payloads]
        for end in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(end, NotDelivered):
                status = 1
                may = "it may still be delivered" if end.may_be_delivered else "it will not be delivered"
                click.echo(f"braidcast: {end}: {may}", err=True)
            elif isinstance(end, BaseException):
                raise end
            elif as_json:
                click.echo(json.dumps({"id": str(end.id), "part": end.part, "timestamp": end.timestamp}))
            else:
                click.echo(f"{end.id}{f'+{end.part}' * bool(end.part)} delivered at {show_timestamp(end.timestamp)}")
    return status


@click.command()
@cluster_argument
@click.option("--after", default="", metavar="CHECKPOINT", help="Begin after it: a checkpoint, or a timestamp.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--no-follow", is_flag=True, help="Stop when there is nothing more.")
@identity_argument
@json_argument
@click.argument("group")
def tail(
    path: Path, after: str, count: int | None, no_follow: bool, identity: str | None, as_json: bool, group: str
) -> int:
    """Print what a group delivers, in its order, from the beginning or after a timestamp, and go on as it happens.

    With `--no-follow` it ends when all is printed that a replica of the group had delivered when it began; it leaves
    with 1 if no replica of the group answers.

    \b
    Examples:
      braidcast tail g0
      braidcast tail g0 --after 17408 --count 10 --json
    """
    reading = Subscriber.connect(path, group=group, after=after, identity=identity)
    config = config_at(path, identity) if no_follow else None
    return run_client(_tail(reading, group, count, config, as_json))


async def _tail(
    reading: Subscriber, group: str, count: int | None, config: ClusterConfig | None, as_json: bool
) -> int:
    """With a `config`, only what a replica had delivered when it began."""
    async with reading as deliveries:
        upto = await _last_of(config, group) if config is not None else None
        if config is not None and upto is None:
            click.echo(f"braidcast: no replica of group {group} answers: see `braidcast status`", err=True)
            return 1
        shown, at = 0, deliveries.checkpoint.timestamp
        while (count is None or shown < count) and (upto is None or at < upto):
            try:
                async with asyncio.timeout(None if upto is None else STALLED_S):
                    found = await deliveries.take(1000 if count is None else count - shown)
            except TimeoutError:
                click.echo(f"braidcast: nothing more of group {group} comes, though there is more: no replica of it "
                           f"sent anything for {STALLED_S:.0f} s", err=True)  # fmt: skip
                return 1
            for delivery in found:
                click.echo(_show(delivery, as_json))
            shown, at = shown + len(found), found[-1].timestamp
    return 0


async def _last_of(config: ClusterConfig, group: str) -> int | None:
    """The newest timestamp that a replica of the group says it has delivered; None if none of them answers."""
    hosts = next(each.nodes for each in config.groups if each.name == group)
    found = await ask_each(config, aloud=True, only=hosts)
    return max(
        (replica["gts"] for each in found if each.answer is not None for replica in each.answer["replicas"]
         if replica["group"] == group),
        default=None,
    )  # fmt: skip


def _show(delivery: Delivery, as_json: bool) -> str:
    names, payload = sorted(delivery.destinations), delivery.payload.decode(errors="backslashreplace")
    if as_json:
        return json.dumps(
            {
                "index": delivery.index, "part": delivery.part, "timestamp": delivery.timestamp,
                "id": str(delivery.id), "to": names, "payload": payload, "checkpoint": str(delivery.checkpoint),
            }
        )  # fmt: skip
    return f"{delivery.index:>6}  {show_timestamp(delivery.timestamp):>10}  {','.join(names)}  {payload}"
