"""A backup: what groups delivered, up to a consistent cut, in one file that can tell whether it is whole.

**The cut.** All deliveries have one order, by timestamp, so a timestamp cuts all groups at once. It is consistent if
every message at or below it is in the backup of each of its groups. A group that was read up to a timestamp has
delivered all that is for it below; so only what another group was still behind with is above the cut (`cut_of`).

The file begins with a line that names the format, and goes on in frames (length, checksum, content): the head, entries,
and an end with the number of entries and the digest of all that is before. Journals keep so much and no more, so a
group may begin in the middle: what is older has to be in what the application itself keeps.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final
from zlib import crc32

from braidcast.core.errors import BraidcastError
from braidcast.core.message import message
from braidcast.core.timestamps import Timestamp
from braidcast.wire.codec import Codec, Undecodable
from braidcast.wire.service import JournalEntry

MAGIC: Final = b"braidcast backup 1\n"
ENTRIES_PER_FRAME: Final = 256
_HEAD: Final = struct.Struct("<II")


class BackupDamaged(BraidcastError):
    """A file that is no whole backup."""


@message
class BackedUp:
    """A group in a backup: its entries begin with number `first` above the timestamp `after`, and end at `last`."""

    name: str
    number: int
    first: int
    after: Timestamp
    last: Timestamp


@message
class BackupHead:
    """What a backup is of; `of_groups` are all groups of the cluster, `groups` those that are in it."""

    cluster: str
    protocol: str
    of_groups: tuple[str, ...]
    groups: tuple[BackedUp, ...]
    cut: Timestamp
    taken_ms: int
    version: str


@message
class BackupEntries:
    """What a group delivered next."""

    number: int
    entries: tuple[JournalEntry, ...]


@message
class BackupEnd:
    """All is here: so many entries, and the digest of all before this frame."""

    entries: int
    digest: str


_CODEC: Final = Codec((BackupHead, BackupEntries, BackupEnd))


def cut_of(shared: Iterable[tuple[Timestamp, tuple[int, ...]]], last: Mapping[int, Timestamp]) -> Timestamp:
    """The latest consistent cut of groups that were read up to `last`, of whose messages these may be missing in some.

    `shared` are timestamps and destinations; destinations that are not in `last` are not backed up.
    """
    missing = [gts for gts, dest in shared for group in dest if group in last and gts > last[group]]
    return min(missing, default=max(last.values(), default=0) + 1) - 1


def backup_frame(body: bytes) -> bytes:
    """A frame with that content."""
    return _HEAD.pack(len(body), crc32(body)) + body


class BackupWriter:
    """Writes a backup under another name, and gives it its own when it is whole and durable."""

    def __init__(self, path: Path) -> None:
        self.path, self.temporary = path, path.with_name(path.name + ".part")
        self.count = 0
        self._digest = hashlib.sha256()
        self._file: IO[bytes] | None = None

    def __enter__(self) -> BackupWriter:
        self._file = open(os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        self._write(MAGIC)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._file is not None, "it is open"
        with self._file as file:
            if kind is None:
                self._frame(BackupEnd(self.count, self._digest.hexdigest()))
                file.flush()
                os.fsync(file.fileno())
        if kind is not None:
            return self.temporary.unlink(missing_ok=True)
        os.replace(self.temporary, self.path)

    def head(self, head: BackupHead) -> None:
        """What comes first."""
        self._frame(head)

    def entries(self, number: int, entries: Iterable[JournalEntry]) -> None:
        """What a group delivered, in order; group after group."""
        piece: list[JournalEntry] = []
        for entry in entries:
            piece.append(entry)
            if len(piece) >= ENTRIES_PER_FRAME:
                self._piece(number, piece)
                piece = []
        if piece:
            self._piece(number, piece)

    def _piece(self, number: int, entries: list[JournalEntry]) -> None:
        self.count += len(entries)
        self._frame(BackupEntries(number, tuple(entries)))

    def _frame(self, content: object) -> None:
        self._write(backup_frame(_CODEC.encode(content)))

    def _write(self, data: bytes) -> None:
        assert self._file is not None, "it is open"
        self._digest.update(data)
        self._file.write(data)


def is_backup(path: Path) -> bool:
    """Whether a file begins as one."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def begins_as_backup(path: Path) -> bool:
    """Whether a file was written as a backup, whatever became of it."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class BackupReader:
    """A backup; what is read of it is checked as far as one frame tells, and by `check` as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                begin = file.read(len(MAGIC))
        except OSError as error:
            raise BackupDamaged(f"{path} cannot be read: {error.strerror or error}") from None
        if begin != MAGIC:
            raise BackupDamaged(f"{path} is no backup of this version: it does not begin as one")
        head = next(self._frames(), (None, b""))[0]
        if not isinstance(head, BackupHead):
            raise self._damaged("it has no head")
        self.head = head
        self.names = {group.number: group.name for group in head.groups}

    def entries(self) -> Iterator[tuple[str, JournalEntry]]:
        """The names of groups with what they delivered, in the order of the file."""
        for content, _ in self._frames():
            if isinstance(content, BackupEntries):
                if (name := self.names.get(content.number)) is None:
                    raise self._damaged("it has entries of a group that its head does not name")
                yield from ((name, entry) for entry in content.entries)

    def check(self) -> int:
        """Read all of it; how many entries it has. Raises unless it is whole, in order, and its cut consistent."""
        digest, before = hashlib.sha256(MAGIC), hashlib.sha256(MAGIC)
        end: object = None
        for content, data in self._frames():
            if isinstance(end, BackupEnd):
                raise self._damaged("something follows its end")
            before, end = digest.copy(), content
            digest.update(data)
        if not isinstance(end, BackupEnd):
            raise self._damaged("its end is missing")
        if end.digest != before.hexdigest():
            raise self._damaged("it is not what was written")
        if (count := self._check_order()) != end.entries:
            raise self._damaged(f"it has {count} of {end.entries} entries")
        return count

    def _check_order(self) -> int:
        """Whether each group is without a gap and all agree on what they share; how many entries there are."""
        groups = {group.name: group for group in self.head.groups}
        number_of = {group.name: group.number for group in self.head.groups}
        index = {group.name: group.first for group in self.head.groups}
        reached = {group.name: group.after for group in self.head.groups}
        shared: dict[tuple[int, int], hashlib._Hash] = {}
        count = 0
        for name, entry in self.entries():
            mine = number_of[name]
            if entry.index != index[name] or not reached[name] < entry.gts <= self.head.cut or mine not in entry.dest:
                raise self._damaged(f"entry {entry.index} of group {name} is not the next one")
            index[name], reached[name] = entry.index + 1, entry.gts
            count += 1
            for other in entry.dest:
                if other != mine and other in self.names and entry.gts > groups[self.names[other]].after:
                    shared.setdefault((mine, other), hashlib.sha256()).update(entry.gts.to_bytes(8, "big"))
        for group in self.head.groups:
            if reached[group.name] != group.last:
                raise self._damaged(f"group {group.name} ends too early")
        for (mine, other), mark in shared.items():
            back = shared.get((other, mine))
            if back is None or back.digest() != mark.digest():
                raise self._damaged(f"groups {self.names[mine]} and {self.names[other]} disagree on what they share")
        return count

    def _frames(self) -> Iterator[tuple[object, bytes]]:
        try:
            with self.path.open("rb") as file:
                file.seek(len(MAGIC))
                while head := file.read(_HEAD.size):
                    length, crc = _HEAD.unpack(head) if len(head) == _HEAD.size else (-1, 0)
                    body = file.read(max(length, 0))
                    if len(body) != length or crc32(body) != crc:
                        raise self._damaged(f"what is at byte {file.tell() - len(body) - len(head)} is not whole")
                    yield _CODEC.decode_one(body), head + body
        except OSError as error:
            raise BackupDamaged(f"{self.path} cannot be read: {error.strerror or error}") from None
        except Undecodable as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, what: str) -> BackupDamaged:
        return BackupDamaged(f"{self.path} is no whole backup: {what}; use another one")
