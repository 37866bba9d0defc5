"""The events of a running cluster: appended as they happen, made into a history afterwards.

A node must lose no event when it is killed, and must not spend its time on Parquet. So each incarnation of a node
appends to a file of its own below `raw/`, one write per turn of its loop, before anything of that turn leaves the
node; what is written survives the death of the process.

`seal_raw` makes the files of all nodes and of all their incarnations into one history, again each time:

1. The raw files stay. A history of some incarnations only would lack what the others did, and find them at fault.
2. A history that was sealed before is replaced when the new one is whole. One of another run is never touched.
3. The events of a process stand in the order of its incarnations, whatever clocks say. Those of different nodes stand
   in the order of their monotonic clocks if all clocks are one: each file says of which boot of a machine its clock is
   (`.clock`). Otherwise each such clock is laid beside the wall clock once, at its first event.
"""

from __future__ import annotations

import heapq
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import msgspec

from braidcast.core.application import Connected, Delivered, HandOver, Restored, Snapshot, SnapshotWanted
from braidcast.core.client import Multicast, Redirect, Refused, Reply
from braidcast.core.process import Outbox
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.history.appending import NO_ROOM, append_whole
from braidcast.history.event import DiskLost, Event, Resumed
from braidcast.history.manifest import HistoryError, Manifest, manifest_from_json
from braidcast.history.store import EVENTS, MANIFEST, HistoryWriter, read_manifest

RAW = "raw"
SUFFIX, CLOCK_SUFFIX = ".events", ".clock"
SEALING = ".sealing"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CORE_KINDS: tuple[type, ...] = (
    Multicast, Reply, Redirect, Refused, Delivered, Restored, SnapshotWanted, Snapshot, Connected, HandOver,
    Resumed, DiskLost,
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
            if (clock := _clock_here()) is not None:
                (folder / f"{name}{CLOCK_SUFFIX}").write_text(clock, encoding="utf-8")
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
) -> int:
    """Make all raw events in `directory` into a history; how many there are. The raw events stay.

    `kinds_of` names the classes that a protocol's events may hold; `finish` completes the manifest with what is known
    only at the end. No node may write meanwhile.
    """
    folder = directory / RAW
    head = folder / MANIFEST
    if not head.is_file():
        raise HistoryError(f"{directory} has no raw events: was `history` set in the configuration of the cluster?")
    manifest = finish(manifest_from_json(head.read_text(encoding="utf-8"), str(head)))
    _check_place(directory, manifest)
    kinds = tuple(sorted({*kinds_of(manifest.protocol), *CORE_KINDS}, key=lambda kind: kind.__name__))
    files = sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file())
    sealing = directory / SEALING
    try:
        if sealing.exists():
            shutil.rmtree(sealing)
        count = 0
        with HistoryWriter(sealing, manifest, stem="events") as writer:
            for event in _merged(files, kinds):
                writer.append(event)
                count += 1
        (directory / MANIFEST).unlink(missing_ok=True)
        if (directory / EVENTS).exists():
            shutil.rmtree(directory / EVENTS)
        for name in (EVENTS, MANIFEST):
            os.replace(sealing / name, directory / name)
        sealing.rmdir()
    except OSError as error:
        raise HistoryError(
            f"{directory} cannot be sealed: {error.filename or ''} {error.strerror or error}; all is still there"
        ) from None
    return count


def _check_place(directory: Path, manifest: Manifest) -> None:
    """What is there already must be of the same run: it was made of raw events that are all still here."""
    if (directory / MANIFEST).exists() and (there := read_manifest(directory).run) != manifest.run:
        raise HistoryError(
            f"{directory} holds the history of another run ({there}): move its {MANIFEST} and {EVENTS} away, then seal "
            f"again"
        )


def _merged(files: list[Path], kinds: tuple[type, ...]) -> Iterator[Event]:
    """The events of all files; those of a node in the order of its incarnations."""
    clocks = {path: _clock_of(path) for path in files}
    ahead: dict[str, int] = dict.fromkeys(clocks.values(), 0)
    """How far the wall clock is ahead of each monotonic clock; 0 if there is only one."""
    if len(ahead) > 1:
        firsts = [(first, clocks[path]) for path in files if (first := next(_read(path, kinds), None)) is not None]
        for first, clock in sorted(firsts, key=lambda each: each[0].t_mono, reverse=True):
            ahead[clock] = first.t_wall - first.t_mono

    def stream(paths: list[Path]) -> Iterator[tuple[int, Event]]:
        for path in paths:
            for event in _read(path, kinds):
                yield event.t_mono + ahead[clocks[path]], event

    nodes = [list(paths) for _, paths in groupby(sorted(files, key=_life), key=lambda path: _life(path)[0])]
    for _, event in heapq.merge(*map(stream, nodes), key=lambda each: each[0]):
        yield event


def _life(path: Path) -> tuple[str, int]:
    """Whose events a file holds, and of which of its incarnations."""
    node, dash, number = path.stem.rpartition("-")
    return (node, int(number)) if dash and number.isascii() and number.isdecimal() else (path.stem, 0)


def _clock_here() -> str | None:
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def _clock_of(path: Path) -> str:
    """The boot of a machine whose monotonic clock the events have; of files that do not say, one clock for all."""
    try:
        return path.with_suffix(CLOCK_SUFFIX).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


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


