"""`braidcast explain`: the life of one message across processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from braidcast.cli.arguments import json_argument, print_json, print_table
from braidcast.core.ballots import show_ballot
from braidcast.core.client import MessageId
from braidcast.core.timestamps import show_timestamp
from braidcast.history.columns import Row
from braidcast.history.event import DELIVER, MULTICAST
from braidcast.history.manifest import Manifest
from braidcast.history.tracing import Step, trace

AROUND_MAX = 1000
SHOWN: tuple[tuple[Callable[[int], str], tuple[str, ...]], ...] = (
    (show_timestamp, ("lts", "gts")), (show_ballot, ("ballot", "cballot")), (str, ("clock", "group")),
)  # fmt: skip
"""What is told of a message, record or note, and how."""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("message", metavar="MESSAGE")
@click.option("--around", type=click.IntRange(0, AROUND_MAX), default=0, help="Also so many events beside each.")
@json_argument
def explain(directory: Path, message: str, around: int, as_json: bool) -> int:
    """Print the life of a message in a recorded history: who multicast it, who heard of it, who delivered it when.

    MESSAGE is client.session.seq, as verdicts name it. With --around, what else happened at a process just before and
    after is printed, too, marked by a dot. Leaves with 1 if nothing of the history is about the message.

    \b
    Examples:
      braidcast explain /tmp/run 100.1.3
      braidcast explain /tmp/run 100.1.3 --around 2
      braidcast explain /tmp/run 100.1.3 --json
    """
    id = MessageId.parse(message)
    manifest, steps = trace(directory, id, around)
    if as_json:
        print_json({"run": manifest.run, "message": message, "steps": [_to_json(manifest, step) for step in steps]})
    elif not steps:
        click.echo(f"nothing in {directory} is about {message}")
    else:
        _show(manifest, id, steps)
    return 0 if steps else 1


def _show(manifest: Manifest, id: MessageId, steps: list[Step]) -> None:
    own = [step.event for step in steps if step.about]
    first = next((event for event in own if event.event == MULTICAST), None)
    delivered = [event.node for event in own if event.event == DELIVER]
    to = "?" if first is None else ", ".join(map(str, first.what.dest or ()))
    click.echo(f"run {manifest.run}: {id} to groups {to}, delivered by {len({*delivered})} processes")
    began = (first or own[0]).t_mono
    print_table(
        ("", "time", "process", "group", "event", "peer", "what"),
        [
            (
                " " if step.about else ".", step.event.t_mono - began, *_where(manifest, step), step.event.event,
                "-" if step.event.peer is None else str(step.event.peer), _what(step.event.what),
            )
            for step in steps
        ],
    )  # fmt: skip


def _where(manifest: Manifest, step: Step) -> tuple[str, str]:
    node = step.event.node
    group = next((g for g, members in enumerate(manifest.topology) if node in members), None)
    role = f" {step.event.role}" if step.event.role else ""
    return f"{node}{role}", "-" if group is None else str(group)


def _what(what: Row | None) -> str:
    """A message, record or note in a few words."""
    if what is None:
        return ""
    words = [what.kind]
    for show, names in SHOWN:
        words += [f"{name} {show(value)}" for name in names if (value := getattr(what, name)) is not None]
    if what.id is not None and what.kind in ("delivered", "multicast") and what.batch_count:
        words.append(f"batch of {what.batch_count} from {what.batch_first}")
    return ", ".join(words)


def _to_json(manifest: Manifest, step: Step) -> dict[str, Any]:
    event = step.event
    process, group = event.node, _where(manifest, step)[1]
    return {
        "about": step.about, "t_mono": event.t_mono, "process": process, "incarnation": event.incarnation,
        "group": None if group == "-" else int(group), "role": event.role, "event": event.event, "peer": event.peer,
        "what": _what(event.what),
    }  # fmt: skip
