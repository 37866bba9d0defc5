"""Arguments that several subcommands share, and how their text becomes values."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from braidcast.cli.registry import PROTOCOLS, protocol_named
from braidcast.core.protocol import Protocol

F = TypeVar("F", bound=Callable[..., Any])


class ProtocolName(click.ParamType[Protocol]):
    """The name of a protocol in the registry."""

    name = "protocol"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Protocol:
        """The protocol itself."""
        return value if isinstance(value, Protocol) else protocol_named(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What help shows."""
        return "|".join(PROTOCOLS)


class OutputFile(click.Path):
    """A file that will be written after long work: that it cannot be is said before."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, if it can be written."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"cannot write {path}: there is no directory {path.parent}, make it or name another", param, ctx)
        if not path.exists() and not os.access(path.parent, os.W_OK):
            self.fail(f"cannot write {path}: {path.parent} may not be written to, name another directory", param, ctx)
        return path


def protocol_argument(required: bool = True) -> Callable[[F], F]:
    """`--protocol`."""
    return click.option("--protocol", type=ProtocolName(), required=required, help="Which protocol to run.")


def options_argument(command: F) -> F:
    """`--option`."""
    return click.option(
        "--option",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the protocol, such as follower_delivery=early. May be given several times.",
    )(command)


def json_argument(command: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a text.")(command)


def split_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE, several times."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--option")
        found[name] = value
    return found


def print_json(value: Any) -> None:
    """One object on one line."""
    click.echo(json.dumps(value))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as they need to be; numbers to the right."""
    text = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(headers), *text]) for i in range(len(headers))]
    numeric = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(headers))]
    for line in [list(headers), *text]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())
