"""The events of a running cluster: appended as they happen, made into a history afterwards.

A node must lose no event when it is killed, and must not spend its time on Parquet. So each incarnation of a node
appends to a file of its own below `raw/`, one write per turn of its loop, before anything of that turn leaves the
node; what is written survives the death of the process. `seal_raw` makes the files of all nodes into one history.
"""

from __future__ import annotations

import heapq
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import msgspec

from braidcast.core.application import Connected, Delivered, Restored, Snapshot, SnapshotWanted
from braidcast.core.client import Multicast, Redirect, Refused, Reply
from braidcast.core.process import Outbox
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.history.appending import NO_ROOM, append_whole
from braidcast.history.event import DiskLost, Event, Resumed
from braidcast.history.manifest import HistoryError, Manifest, manifest_from_json
from braidcast.history.store import MANIFEST, HistoryWriter

RAW = "raw"
SUFFIX = ".events"
CORE_KINDS: tuple[type, ...] = (
    Multicast, Reply, Redirect, Refused, Delivered, Restored, SnapshotWanted, Snapshot, Connected, Resumed, DiskLost,
)  # fmt: skip
_HEAD = struct.Struct("<II")


class RawWriter:
    """Appends the events of one incarnation of a node."""

    def __init__(self, directory: Path, name: str, manifest: Manifest) -> None:
        folder = directory / RAW
        try:
            folder.mkdir(parents=True, exist_ok=True)
            head = folder / MANIFEST
            if not head.exists():
                temporary = folder / f".{name}.tmp"
                temporary.write_text(manifest.to_json(), encoding="utf-8")
                os.replace(temporary, head)
            self.file = os.open(folder / f"{name}{SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self.size = os.fstat(self.file).st_size
        except OSError as error:
            raise HistoryError(f"{directory} cannot hold a history: {error.strerror or error}") from None
        self.events: list[Event] = []
        self.append = self.events.append
        self._encode = msgspec.msgpack.Encoder().encode

    def write(self) -> bool:
        """Hand what has happened to the operating system; False if there is no room, and it is kept until there is."""
        if self.events:
            body = self._encode(self.events)
            data = _HEAD.pack(len(body), crc32(body)) + body
            try:
                append_whole(self.file, data, self.size)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                return False
            self.size += len(data)
            self.events.clear()
        return True

    def close(self) -> None:
        """No more events."""
        self.write()
        os.close(self.file)


def seal_raw(
    directory: Path,
    kinds_of: Callable[[str], Iterable[type]],
    finish: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    *,
    overwrite: bool = False,
) -> int:
    """Make the raw events in `directory` into a history; how many there were.

    `kinds_of` names the classes that a protocol's events may hold; `finish` completes the manifest with what is known
    only at the end. The raw files are taken away when the history is whole.
    """
    folder = directory / RAW
    head = folder / MANIFEST
    if not head.is_file():
        raise HistoryError(f"{directory} has no raw events: was `history` set in the configuration of the cluster?")
    manifest = finish(manifest_from_json(head.read_text(encoding="utf-8"), str(head)))
    files = sorted(folder.glob(f"*{SUFFIX}"))
    kinds = tuple(sorted({*kinds_of(manifest.protocol), *CORE_KINDS}, key=lambda kind: kind.__name__))
    streams = [_read(path, kinds) for path in files]
    count = 0
    with HistoryWriter(directory, manifest, stem="events", overwrite=overwrite) as writer:
        for event in heapq.merge(*streams, key=attrgetter("t_mono")):
            writer.append(event)
            count += 1
    for path in (*files, head):
        path.unlink()
    folder.rmdir()
    return count


def event_kinds(protocol: Protocol) -> set[type]:
    """The classes that the events of a protocol may hold."""
    process = protocol.make(Outbox(0), Topology.of_sizes(1), protocol.options())
    return {*process.inputs, *process.replays, *protocol.recorded}


def with_end(manifest: Manifest, *, quiescent: bool, crashed: Iterable[int] = ()) -> Manifest:
    """The manifest of a run that ended so."""
    return replace(manifest, quiescent=quiescent, crashed=tuple(crashed))


def _read(path: Path, kinds: tuple[type, ...]) -> Iterator[Event]:
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    decoder = msgspec.msgpack.Decoder(
        list[tuple[Literal["Event"], int, int, int, int, str, int | None, union | None, str | None]]
    )
    with open(path, "rb") as file:
        while len(header := file.read(_HEAD.size)) == _HEAD.size:
            length, crc = _HEAD.unpack(header)
            body = file.read(length)
            if len(body) < length or crc32(body) != crc:
                return  # the last write of a node that was killed, or of a machine that lost its power
            try:
                events = decoder.decode(body)
            except msgspec.MsgspecError as error:
                raise HistoryError(f"{path} holds events that cannot be read: {error}") from None
            for _, t_mono, t_wall, node, incarnation, event, peer, what, role in events:
                yield Event(t_mono, t_wall, node, incarnation, event, peer, what, role)


