"""`braidcast config`: what is wrong with the configuration of a cluster, and what it is when nothing is said."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from braidcast.cli.arguments import json_argument, print_json, print_table, protocol_argument
from braidcast.cli.config_reference import render_reference
from braidcast.cli.registry import PROTOCOLS, protocol_named
from braidcast.cluster.config import SECTIONS, ClusterConfig, ConfigError, load_config
from braidcast.core.protocol import Protocol
from braidcast.settings.toml_lines import settings_of, toml_value

PROBLEMS = 2
NOT_BY_DEFAULT = ("nodes.NAME", "tls", "clients.NAME")


@click.group()
def config() -> None:
    """Check the configuration of a cluster, show what it is by default, or explain all of it.

    \b
    Examples:
      braidcast config check cluster.toml
      braidcast config check cluster.toml --json
      braidcast config show-defaults --protocol whitebox
      braidcast config reference
    """


@config.command()
@click.argument("file")
@json_argument
def check(file: str, as_json: bool) -> int:
    """Say everything that is wrong with FILE, or what cluster it describes.

    One problem per line, as FILE:LINE. Leaves with 2 if there are any. Nothing is started or looked up: addresses and
    directories are checked as text.

    \b
    Example:
      braidcast config check cluster.toml
    """
    try:
        cluster = load_config(file, protocol_named)
    except ConfigError as error:
        if as_json:
            print_json({"ok": False, "problems": error.problems})
        else:
            for problem in error.problems:
                click.echo(" ".join(problem.split()))
        return PROBLEMS
    if as_json:
        print_json(_to_json(cluster))
    else:
        _show(cluster)
    return 0


def _to_json(cluster: ClusterConfig) -> dict[str, Any]:
    return {
        "ok": True,
        "problems": [],
        "name": cluster.name,
        "protocol": cluster.protocol.name,
        "options": dataclasses.asdict(cluster.options),
        "durability": cluster.durability,
        "fingerprint": cluster.fingerprint,
        "history": None if cluster.history is None else str(cluster.history),
        "tls": cluster.tls is not None,
        "clients": list(cluster.clients),
        "groups": [
            {"name": group.name, "number": number, "nodes": group.nodes, "pids": group.pids}
            for number, group in enumerate(cluster.groups)
        ],
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "data": str(node.data),
                "unix": None if node.unix is None else str(node.unix),
                "admin": node.admin,
                "pids": cluster.pids_of(node.name),
            }
            for node in cluster.nodes.values()
        ],
    }


def _show(cluster: ClusterConfig) -> None:
    click.echo(
        f"cluster {cluster.name}: protocol {cluster.protocol.name}, durability {cluster.durability}, "
        f"fingerprint {cluster.fingerprint}"
    )
    if cluster.history is not None:
        click.echo(f"history ({cluster.history_detail}) in {cluster.history}")
    if cluster.tls is not None:
        clients = " ".join(cluster.clients) or "none"
        click.echo(f"TLS with the authority {cluster.tls.authority}; clients with rights: {clients}")
    elif cluster.without_tls != "loopback":
        click.echo("no TLS: whoever reaches a node may send and read")
    print_table(
        ("group", "number", "nodes"),
        [(group.name, number, " ".join(group.nodes)) for number, group in enumerate(cluster.groups)],
    )
    print_table(
        ("node", "address", "processes", "data"),
        [
            (node.name, node.address, " ".join(map(str, cluster.pids_of(node.name))), node.data)
            for node in cluster.nodes.values()
        ],
    )


@config.command("show-defaults")
@protocol_argument(required=False)
def show_defaults(protocol: Protocol | None) -> None:
    """Print every key with its default, as TOML; a key that has none is a comment with an example.

    \b
    Examples:
      braidcast config show-defaults
      braidcast config show-defaults --protocol whitebox
    """
    blocks = []
    for section, kind in SECTIONS.items():
        # Some sections need what has no default, and nobody is called NAME.
        is_comment = section in NOT_BY_DEFAULT
        lines = [f"# [{section}]" if is_comment else f"[{section}]"]
        for name, known in settings_of(kind).items():
            comment = "" if known.default is not None and not is_comment else "# "
            need = "" if known.default is not None else " Required." if known.required else " Optional."
            lines += [f"# {known.setting.doc}{need}", f"{comment}{name} = {known.example}"]
        blocks.append("\n".join(lines))
        if section == "cluster" and protocol is not None:
            usual = protocol.options()
            names = [field.name for field in dataclasses.fields(protocol.options)]
            lines = [f"{name} = {toml_value(getattr(usual, name))}" for name in names]
            blocks.append("\n".join(["[cluster.options]", *lines]))
    click.echo("\n\n".join(blocks))


@config.command()
def reference() -> None:
    """Print the explanation of every section and every key, as Markdown: docs/configuration.md.

    \b
    Example:
      braidcast config reference > docs/configuration.md
    """
    click.echo(render_reference(PROTOCOLS.values()), nl=False)
