"""`braidcast doctor`: what Spark would find on this machine."""

from __future__ import annotations

import platform

import click

from braidcast.cli.arguments import json_argument, print_json, print_table
from braidcast.spark.doctor import Findings, examine
from braidcast.spark.machine import GIB


@click.command()
@json_argument
def doctor(as_json: bool) -> int:
    """Say which Java, Spark, memory and cores the commands that run on Spark would find, and what would be better.

    Nothing is started. Leaves with 1 if Spark would not start.

    \b
    Examples:
      braidcast doctor
      braidcast doctor --json
    """
    found = examine()
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)
    return 0 if found.works else 1


def _show(found: Findings) -> None:
    chosen = found.java
    rows = [
        ("Java", f"{chosen.version}, from {chosen.origin}: {chosen.home}" if chosen else "none that will do"),
        *((f"  {java.origin}", f"not used: {java.problem}") for java in found.javas if java.problem),
        *((name, version or "missing") for name, version in found.packages.items()),
        ("Python", platform.python_version()),
        ("cores", str(found.cores)),
        ("memory", f"{found.memory_bytes / GIB:.1f} GiB, of which Spark takes {found.driver_memory_gib}"),
        ("scratch", f"{found.scratch}, {found.scratch_free_bytes / GIB:.0f} GiB free"),
    ]  # fmt: skip
    print_table(("what", "found"), rows)
    for line in found.advice:
        click.echo(f"BETTER  {line}")
    if not found.advice:
        click.echo("all is well")
