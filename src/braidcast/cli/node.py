"""`braidcast node`: one process of a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import LogFormat, load_config
from braidcast.cluster.serve import serve


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The cluster's configuration.")
@click.option("--id", "name", required=True, help="Which of its nodes this is.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="As `log` in the configuration, before it.")
@click.option("--rejoin", is_flag=True, help="This node has lost its state for good: let the others restore it.")
def node(path: Path, name: str, log_format: LogFormat | None, rejoin: bool) -> None:
    """Run one node until it is told to stop (SIGTERM or Ctrl-C): it lets others lead, then stops; told twice, at once.

    A node hosts one replica of each group that the configuration gives it. What it says goes to standard error.

    \b
    Example:
      braidcast node --config cluster.toml --id n1
    """
    serve(load_config(path, protocol_named), name, rejoin=rejoin, log_format=log_format)
