"""A new cluster from the backup of one that is gone.

**What comes of it.** All groups have delivered what is in the backup, and nothing else, at the same timestamps and with
the same indices, so checkpoints up to the cut stay good. Whatever the old cluster ordered after the cut is lost.
Everything the new one orders has timestamps above all that the old one can have given (`ABOVE_CLOCKS`), so no timestamp
is given twice, and a subscriber whose checkpoint is beyond the cut misses nothing of the new cluster. Sessions that had
something delivered are refused as expired: their retries would be delivered twice.

**Why it is safe.** It is a first life of all processes, in a state that an election could have left, with no message
under way; so all of them begin in it or none. All directories are made in one run, each with a disk of its own that all
others know: a node that was not restored, or in another run, is turned away. A node is never restored alone: it has
forgotten promises, and rejoins.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

from braidcast.cluster.backup import BackedUp, BackupReader
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.data import locked
from braidcast.cluster.durability import RecordCodec
from braidcast.cluster.identity import LOCK, NAME, Identity, PeerDisks, restored_disk
from braidcast.cluster.journal import Journal
from braidcast.cluster.lacking import ADVICE
from braidcast.cluster.log import Log
from braidcast.core.application import Delivered
from braidcast.core.client import Multicast
from braidcast.core.errors import BraidcastError
from braidcast.core.process import Outbox, Process
from braidcast.core.timestamps import CLOCK_MAX, Timestamp, clock_of, timestamp
from braidcast.core.topology import Pid
from braidcast.wire.service import JournalEntry

ABOVE_CLOCKS = 1 << 40
"""How far above the cut a restored cluster goes on: what a clock rises in three years at 10,000 messages a second."""
ENTRIES_PER_WRITE = 1024


class CannotRestore(BraidcastError):
    """A backup that does not fit, or a place that is not free."""


def check_restorable(config: ClusterConfig, backup: BackupReader, places: dict[str, Path]) -> None:
    """Fail unless this backup can become this cluster, in these empty directories."""
    head, names = backup.head, tuple(group.name for group in config.groups)
    present = tuple(group.name for group in head.groups)
    pid = config.topology.pids[0]
    if config.durability == "memory":
        raise CannotRestore('a cluster with durability = "memory" keeps nothing on disk: set "disk"')
    if head.protocol != config.protocol.name:
        raise CannotRestore(f"the backup is of protocol {head.protocol}, the configuration has {config.protocol.name}")
    try:
        list(_process(config, pid).continuing(0, 0, 0))
    except NotImplementedError as error:
        raise CannotRestore(f"protocol {head.protocol}: {error}") from None
    if present != head.of_groups:
        lacking = ", ".join(name for name in head.of_groups if name not in present)
        raise CannotRestore(
            f"the backup lacks group {lacking} of its cluster, whose messages are in the others: back up all at once"
        )
    if names != head.of_groups:
        raise CannotRestore(
            f"the backup has groups {', '.join(head.of_groups)}, the configuration {', '.join(names)}: the same groups "
            f"in the same order are needed; their nodes may be others"
        )
    if clock_of(above(backup)) >= CLOCK_MAX:
        raise CannotRestore("its timestamps are so high that none are left above them")
    for name, place in places.items():
        if place.exists() and (not place.is_dir() or any(found.name != LOCK for found in place.iterdir())):
            raise CannotRestore(f"{place} is not empty: a restored node {name} begins in a directory of its own")


def above(backup: BackupReader) -> Timestamp:
    """What a restored cluster orders is above this."""
    return timestamp(clock_of(backup.head.cut) + ABOVE_CLOCKS, 0)


def restore(config: ClusterConfig, backup: BackupReader, places: dict[str, Path]) -> None:
    """Make the data directories of all nodes; the backup has been checked."""
    assert places.keys() == config.nodes.keys(), "all nodes are restored at once"
    check_restorable(config, backup, places)
    session = 1 + max(chain([backup.head.taken_ms], (entry.id.session for _, entry in backup.entries())))
    run = uuid.uuid4().hex
    disks = {name: restored_disk(run) for name in places}
    for name, place in places.items():
        with locked(place, name):
            _restore_node(config, backup, name, place, session, disks)


def _restore_node(
    config: ClusterConfig, backup: BackupReader, name: str, place: Path, session: int, disks: dict[str, str]
) -> None:
    groups = {group.number: group for group in backup.head.groups}
    hosted = {config.topology.group_of[pid]: pid for pid in config.pids_of(name)}
    for number, entries in _by_group(backup):
        if number in hosted:
            _write_journal(config, place, groups.pop(number), entries)
    for number in hosted.keys() & groups.keys():
        _write_journal(config, place, groups[number], iter(()))
    processes = {pid: _process(config, pid) for pid in hosted.values()}
    last = {group.number: group.last for group in backup.head.groups}
    records = [
        (pid, list(processes[pid].continuing(last[number], above(backup), session)))
        for number, pid in hosted.items()
    ]
    log = Log.open(place / "log", segment_bytes=config.limits.segment_bytes)
    try:
        log.append(RecordCodec(next(iter(processes.values())).replays).encode(records))
        peers = {other: PeerDisks(disk) for other, disk in disks.items() if other != name}
        identity = Identity(
            place / NAME, config.name, config.fingerprint, name, disks[name], 1, False, log.id, log.number,
            peers,
        )  # fmt: skip
        identity.save()  # last: without it nothing of this is taken for the data of a node
    finally:
        log.close()


def _process(config: ClusterConfig, pid: Pid) -> Process:
    return config.protocol.make(Outbox(pid), config.topology, config.options)


def _by_group(backup: BackupReader) -> Iterator[tuple[int, Iterator[JournalEntry]]]:
    number_of = {name: number for number, name in backup.names.items()}
    for name, entries in groupby(backup.entries(), key=itemgetter(0)):
        yield number_of[name], (entry for _, entry in entries)


def _write_journal(config: ClusterConfig, place: Path, group: BackedUp, entries: Iterator[JournalEntry]) -> None:
    journal = Journal(place / "journal" / group.name, config.limits.journal_bytes_max)
    try:
        journal.continue_from(group.first, group.after)
        for count, entry in enumerate(entries, start=1):
            m = Multicast(entry.id, entry.dest, entry.payload, 1, entry.batch_first, entry.batch_count)
            journal.append(Delivered(m, entry.gts, entry.repeated))
            if count % ENTRIES_PER_WRITE == 0:
                journal.write()
        journal.write()
        if journal.lack:
            raise CannotRestore(
                f"{journal.lack}: the journals in {place} cannot be written; {ADVICE[journal.lack]}, remove that "
                f"directory, and begin again"
            )
        journal.segments[-1].sync()
    finally:
        journal.close()
