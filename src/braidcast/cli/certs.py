"""`braidcast certs`: a development authority, and certificates of it."""

from __future__ import annotations

from pathlib import Path

import click

from braidcast.cli.arguments import json_argument, print_json
from braidcast.cluster.authority import DAYS, certify


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="A node; may be given several times.")
@click.option("--client", "clients", multiple=True, metavar="NAME", help="A client; may be given several times.")
@click.option("--days", type=click.IntRange(1, 3650), default=DAYS, show_default=True, help="How long they are valid.")
@json_argument
def certs(folder: Path, nodes: tuple[str, ...], clients: tuple[str, ...], days: int, as_json: bool) -> None:
    """Make certificates in DIR for nodes and clients, and an authority if DIR has none.

    For development, and for clusters without an authority of their own: the key of the authority lies in DIR, too. Keep
    it away from nodes and clients; each of them needs authority.pem and its own two files. Nothing is ever replaced.

    \b
    Examples:
      braidcast certs certs --node n1 --node n2 --node n3 --client alice
      braidcast certs certs --client bob
    """
    if not nodes and not clients:
        raise click.UsageError("say whose certificates: --node NAME or --client NAME")
    written = certify(folder, nodes, clients, days)
    if as_json:
        return print_json({"written": [str(file) for file in written]})
    for file in written:
        click.echo(str(file))
