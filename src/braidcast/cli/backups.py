"""`braidcast backup` and `braidcast restore`: what groups delivered, in a file, and a new cluster from it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from braidcast import __version__
from braidcast.cli.arguments import OutputFile, json_argument, print_json, print_table
from braidcast.cli.asking import ask_each
from braidcast.cli.clusters import cluster_argument, config_at, identity_argument, run_client
from braidcast.client.follower import Follower
from braidcast.client.places import Place, link_to, place_of
from braidcast.client.status import NodeStatus
from braidcast.cluster.backup import BackedUp, BackupHead, BackupReader, BackupWriter, begins_as_backup, cut_of
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.restoring import above, check_restorable, restore
from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.wire.service import JournalEntry

STALLED_S = 30.0
"""How long a backup waits for the next of what it knows to be there."""
CONNECT_S = 5.0
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODER = msgspec.msgpack.Decoder(JournalEntry)


class CannotBackUp(BraidcastError):
    """A group that nobody can be asked for."""


@dataclass(slots=True)
class Taken:
    """What was read of a group, kept in a file until the cut is known."""

    name: str
    number: int
    after: Timestamp
    upto: Timestamp
    """A replica had delivered as far as this when the backup began."""
    first: int
    """The index of the first unit; of the one that would follow, as long as nothing was read."""
    file: IO[bytes]
    last: Timestamp = 0
    """Of what was read."""
    shared: list[tuple[Timestamp, tuple[int, ...]]] = field(default_factory=list)
    """What another group may not have had yet."""

    def keep(self, entry: JournalEntry) -> None:
        """The next entry."""
        body = _ENCODE(entry)
        self.file.write(len(body).to_bytes(4, "big") + body)
        self.first = min(self.first, entry.index)
        self.last = entry.gts

    def entries(self, cut: Timestamp) -> Iterator[JournalEntry]:
        """What is kept, up to the cut."""
        self.file.seek(0)
        while head := self.file.read(4):
            entry = _DECODER.decode(self.file.read(int.from_bytes(head, "big")))
            if entry.gts > cut:
                return
            yield entry

    def backed_up(self, cut: Timestamp) -> BackedUp:
        """What the head of the backup says of it."""
        last = max((entry.gts for entry in self.entries(cut)), default=self.after)
        return BackedUp(self.name, self.number, self.first, self.after, last)


@click.command()
@cluster_argument
@click.option("--out", type=OutputFile(), help="The file to write; one of that name is replaced when all is written.")
@click.option("--check", "file", type=click.Path(path_type=Path), metavar="FILE", help="Only check this backup.")
@identity_argument
@json_argument
@click.argument("groups", nargs=-1)
def backup(
    path: Path, out: Path | None, file: Path | None, identity: str | None, as_json: bool, groups: tuple[str, ...]
) -> int:
    """Copy what groups have delivered out of a running cluster, up to a consistent cut; all groups by default.

    What every group delivered up to one timestamp is in it: of each message all or nothing. What is older than the
    journals keep is not, nor what applications made of it. It is checked as it is written, and by `--check` at any
    time. A backup of all groups can be restored.

    \b
    Examples:
      braidcast backup --out shop.backup
      braidcast backup g0 --out g0.backup
      braidcast backup --check shop.backup
    """
    if (out is None) == (file is None):
        raise click.UsageError("give --out FILE to write a backup, or --check FILE to look at one")
    if file is not None:
        found = BackupReader(file)
        return _show(found, found.check(), as_json)
    assert out is not None, "one of the two is given"
    if out.exists() and out.stat().st_size and not begins_as_backup(out):
        raise CannotBackUp(f"{out} is no backup, and is not replaced by one: name another file, or move it away")
    config = config_at(path, identity)
    numbers = sorted(config.group_number(name) for name in groups or [group.name for group in config.groups])
    run_client(_take(config, place_of(path, identity), list(dict.fromkeys(numbers)), out))
    found = BackupReader(out)
    return _show(found, found.check(), as_json)


async def _take(config: ClusterConfig, place: Place, numbers: Sequence[int], out: Path) -> None:
    taken_ms = time.time_ns() // 1_000_000
    found = await ask_each(config, aloud=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        parts = [_begin(config, number, found, Path(folder)) for number in numbers]
        try:
            upto = {part.number: part.upto for part in parts}
            for part in parts:
                await _read(place, part, upto)
            last = {part.number: part.last for part in parts}
            cut = cut_of((each for part in parts for each in part.shared), last)
            with BackupWriter(out) as writer:
                of = tuple(group.name for group in config.groups)
                writer.head(BackupHead(config.name, config.protocol.name, of, tuple(p.backed_up(cut) for p in parts),
                                       cut, taken_ms, __version__))  # fmt: skip
                for part in parts:
                    writer.entries(part.number, part.entries(cut))
        finally:
            for part in parts:
                part.file.close()


def _begin(config: ClusterConfig, number: int, found: Sequence[NodeStatus], folder: Path) -> Taken:
    """From where to where a group is read: the longest journal that a replica has, as far as any has delivered."""
    name = config.group_name(number)
    replicas: list[dict[str, Any]] = [
        replica for each in found if each.answer is not None
        for replica in each.answer["replicas"] if replica["group"] == name
    ]  # fmt: skip
    if not replicas:
        raise CannotBackUp(f"no replica of group {name} answers: see `braidcast status`")
    after = min(replica["journal_after"] for replica in replicas)
    furthest = max(replicas, key=lambda replica: replica["gts"])
    file = (folder / name).open("w+b")
    return Taken(name, number, after, furthest["gts"], furthest["delivered"] + 1, file, after)


async def _read(place: Place, part: Taken, upto: dict[int, Timestamp]) -> None:
    link = await link_to(place, CONNECT_S)
    try:
        follower = Follower(link, part.name, part.after)
        while part.last < part.upto:
            async with asyncio.timeout(STALLED_S):
                entry = await anext(follower)
            part.keep(entry)
            if any(group in upto and entry.gts > upto[group] for group in entry.dest):
                part.shared.append((entry.gts, entry.dest))
    except TimeoutError:
        raise CannotBackUp(
            f"nothing more of group {part.name} comes, though there is more: no replica of it sent anything for "
            f"{STALLED_S:.0f} s"
        ) from None
    finally:
        await link.close()


def _show(found: BackupReader, count: int, as_json: bool) -> int:
    head = found.head
    if as_json:
        print_json({
            "cluster": head.cluster, "protocol": head.protocol, "cut": head.cut, "taken_ms": head.taken_ms,
            "entries": count, "is_complete": tuple(group.name for group in head.groups) == head.of_groups,
            "groups": [{"group": g.name, "first": g.first, "after": g.after, "last": g.last} for g in head.groups],
        })  # fmt: skip
        return 0
    taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(head.taken_ms / 1000))
    click.echo(f"{found.path}: cluster {head.cluster}, taken {taken}, {count:,} units up to {show_timestamp(head.cut)}")
    print_table(("group", "first unit", "above", "up to"),
                [(g.name, f"{g.first:,}", show_timestamp(g.after), show_timestamp(g.last)) for g in head.groups]
                )  # fmt: skip
    if lacking := [name for name in head.of_groups if name not in found.names.values()]:
        click.echo(f"without {', '.join(lacking)}: a cluster is restored from a backup of all of its groups")
    return 0


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--cluster", "path", type=click.Path(path_type=Path), required=True, metavar="FILE|DIR",
              help="The configuration of the new cluster.")  # fmt: skip
@click.option("--into", type=click.Path(path_type=Path), metavar="DIR",
              help="Make the directories here, one for each node, to be moved to their machines.")  # fmt: skip
@json_argument
def restore_(file: Path, path: Path, into: Path | None, as_json: bool) -> None:
    """Make the data of a new cluster from the backup FILE of one that is gone for good.

    The new cluster has the same groups; its nodes may be others, and more or fewer. All nodes are restored in one run,
    into empty directories. What the old cluster ordered after the cut of the backup is lost: see docs/operations.md.

    \b
    Examples:
      braidcast restore shop.backup --cluster new/cluster.toml
      braidcast restore shop.backup --cluster cluster.toml --into /tmp/restored
    """
    config = config_at(path)
    found = BackupReader(file)
    places = {name: node.data if into is None else into / name for name, node in config.nodes.items()}
    check_restorable(config, found, places)
    count = found.check()
    restore(config, found, places)
    if as_json:
        return print_json({"entries": count, "cut": found.head.cut, "above": above(found),
                           "places": {name: str(place) for name, place in places.items()}})  # fmt: skip
    click.echo(f"{count:,} units up to {show_timestamp(found.head.cut)}; what comes is above "
               f"{show_timestamp(above(found))}")  # fmt: skip
    for name, place in places.items():
        click.echo(f"  node {name}: {place}")
