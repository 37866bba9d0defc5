"""`braidcast dump`: what a node, or a backup, holds, as text or as JSON lines."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from braidcast.cli.arguments import protocol_argument
from braidcast.cli.registry import WHITEBOX
from braidcast.cluster.backup import BackupReader, is_backup
from braidcast.cluster.durability import RecordCodec
from braidcast.cluster.identity import NAME as IDENTITY
from braidcast.cluster.reading import JournalReader, LogReader, NothingThere
from braidcast.core.client import MessageId
from braidcast.core.message import field_names, is_message
from braidcast.core.process import Outbox
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.wire.service import JournalEntry

SHOWN_BYTES_MAX = 40
"""Of a payload, as text."""
Line = dict[str, Any]


@click.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="DIR|FILE")
@click.option("--journal", "group", metavar="GROUP", help="What the replica of that group delivered, not the log.")
@click.option("--process", "pid", type=click.IntRange(min=0), help="Only records of that process.")
@click.option("--last", type=click.IntRange(min=1), help="Only the last so many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@protocol_argument(required=False)
def dump(
    path: Path, group: str | None, pid: int | None, last: int | None, as_json: bool, protocol: Protocol | None
) -> int:
    """What a node has on disk: its log, record by record, or a journal; or what a backup holds.

    DIR is the data directory of a node, FILE a backup. Nothing is written, no lock is taken, and the node may run. What
    is torn or damaged is said at the end, on standard error, and the status is 1 then.

    \b
    Examples:
      braidcast dump braidcast-data/data/n1 --last 20
      braidcast dump braidcast-data/data/n1 --journal g0 --json
      braidcast dump g.backup
    """
    remarks: list[str]
    lines: Iterable[Line]
    if path.is_file():
        if not is_backup(path):
            raise NothingThere(f"{path} is no backup: give one, or the data directory of a node")
        backup = BackupReader(path)
        remarks = []
        lines = (_entry(name, entry) for name, entry in backup.entries() if group in (None, name))
    elif not (path / IDENTITY).is_file():
        raise NothingThere(f"{path} has no {IDENTITY}: give the data directory of a node, or a backup")
    elif group is not None:
        journal = JournalReader(path / "journal" / group)
        remarks, lines = journal.remarks, (_entry(group, entry) for entry in journal)
    else:
        log = LogReader(path / "log")
        remarks, lines = log.remarks, _records(log, protocol or WHITEBOX, pid)
    for line in lines if last is None else deque(lines, last):
        click.echo(json.dumps(line) if as_json else " ".join(_shown(line)))
    for remark in remarks:
        click.echo(f"braidcast: {remark}", err=True)
    return 1 if remarks else 0


def _records(log: LogReader, protocol: Protocol, only: int | None) -> Iterator[Line]:
    process = protocol.make(Outbox(0), Topology.of_sizes(1), protocol.options())
    if not process.replays:
        raise NothingThere(f"{protocol.name} keeps no records: there is only --journal GROUP")
    codec = RecordCodec(process.replays)
    for number, payload in log:
        for pid, records in codec.decode(payload):
            if only in (None, pid):
                yield from ({"commit": number, "process": pid, **plain(record)} for record in records)


def _entry(group: str, entry: JournalEntry) -> Line:
    return {"group": group, **plain(entry)}


def plain(value: Any) -> Any:
    """A message as what JSON can hold."""
    if is_message(value):
        kind = type(value)
        return {"kind": kind.__name__, **{name: plain(getattr(value, name)) for name in field_names(kind)}}
    if isinstance(value, MessageId):
        return str(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value


def _shown(line: Line) -> Iterator[str]:
    """For people: what is always there by its place, the rest by its name; long texts shortened."""
    yield from (str(line[name]) for name in ("commit", "process", "group", "kind") if name in line)
    for name, value in line.items():
        if name not in ("commit", "process", "group", "kind"):
            yield f"{name}={_short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{name}={_short(each)}" for name, each in value.items() if name != "kind")
        return f"{value.get('kind', '')}({inner})"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    if isinstance(value, str) and len(value) > SHOWN_BYTES_MAX:
        return f"{value[:SHOWN_BYTES_MAX]!r}... ({len(value):,})"
    return repr(value) if isinstance(value, str) and not value.isprintable() else str(value)
