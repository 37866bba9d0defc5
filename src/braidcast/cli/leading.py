"""`braidcast lead`: an operator says who leads a group."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlencode

import click

from braidcast.cli.asking import ask_each
from braidcast.cli.clusters import cluster_argument, config_at, identity_argument, run_client
from braidcast.client.status import groups_with_leader
from braidcast.cluster.admin import ANSWER_S, HEADER
from braidcast.cluster.config import NodeConfig
from braidcast.cluster.handing_over import HAND_OVER_S
from braidcast.core.errors import BraidcastError
from braidcast.settings.toml_lines import host_and_port

MARGIN_S = 5.0


class NotHandedOver(BraidcastError):
    """The group is led by whom it was led by."""


@click.command()
@cluster_argument
@identity_argument
@click.argument("group")
@click.argument("node")
def lead(path: Path, identity: str | None, group: str, node: str) -> None:
    """Let NODE lead GROUP from now on, without a gap: the present leader asks it to stand, and leads until it does.

    The present leader is asked through its admin port, so where that is for its own machine only, run this there.

    \b
    Example:
      braidcast lead g0 n2
    """
    config = config_at(path, identity)
    config.node(node)
    config.group_number(group)
    leader = groups_with_leader(run_client(ask_each(config, aloud=True))).get(group)
    if leader is None:
        raise NotHandedOver(f"group {group} has no leader that could hand it over: see `braidcast status`")
    if leader != node:
        _ask(config.nodes[leader], group, node)
    click.echo(f"node {node} leads group {group}" + ("" if leader != node else " already"))


def _ask(leader: NodeConfig, group: str, node: str) -> None:
    if leader.admin is None:
        raise NotHandedOver(
            f'node {leader.name}, which leads group {group}, has no admin port: add admin = "127.0.0.1:PORT" to its '
            f"table and restart it (which hands over, too)"
        )
    host, port = host_and_port(leader.admin)
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S + HAND_OVER_S + MARGIN_S)
    try:
        connection.request("POST", "/lead?" + urlencode({"group": group, "node": node}), headers={HEADER: "lead"})
        answer = connection.getresponse()
        why = answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise NotHandedOver(
            f"node {leader.name}, which leads group {group}, does not answer at its admin port {leader.admin} "
            f"({error}): run this on its machine"
        ) from None
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise NotHandedOver(why)
