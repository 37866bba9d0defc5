"""Reading what a node keeps, without the node: its log and its journals, as they are, also while it runs.

1. Nothing is written and no lock is taken. The files of a log are opened together before the first is read, so what a
   checkpoint deletes meanwhile is read all the same.
2. What is not whole is said and never guessed: a torn end, which while the node runs may be a commit that is being
   written; damage, at which reading ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from braidcast.cluster.journal_segments import SUFFIX, JournalError
from braidcast.cluster.journal_segments import Segment as JournalSegment
from braidcast.cluster.segments import HEAD_BYTES, LogCorrupt, Segment
from braidcast.core.errors import BraidcastError
from braidcast.wire.service import JournalEntry

TRIES = 100
"""How often files may vanish between being listed and being opened."""


class NothingThere(BraidcastError):
    """A directory that is not what it was taken for."""


class LogReader:
    """The log of a node: iterate over (number of the commit, payload), then look at `remarks`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remarks: list[str] = []
        """What is wrong with it, or was not finished."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with ExitStack() as stack:
            files = self._open(stack)
            try:
                yield from self._read(files)
            except BraidcastError as error:
                self.remarks.append(str(error))

    def _open(self, stack: ExitStack) -> list[tuple[Path, BinaryIO]]:
        for _ in range(TRIES):
            paths = sorted(self.folder.glob("*.log"))
            if not paths:
                raise NothingThere(f"{self.folder} holds no log: give the data directory of a node")
            try:
                return [(path, stack.enter_context(path.open("rb"))) for path in paths]
            except FileNotFoundError:  # a checkpoint has just deleted it
                continue
        raise NothingThere(f"the files in {self.folder} go faster than they can be opened: try again")

    def _read(self, files: list[tuple[Path, BinaryIO]]) -> Iterator[tuple[int, bytes]]:
        newest = self._newest_checkpoint(files)
        number = 0
        for place, (path, file) in enumerate(files[newest:], start=newest):
            file.seek(0)
            segment = Segment.parse(path, file.read())
            if number and segment.first != number:
                raise LogCorrupt(f"{path} begins with commit {segment.first}: commit {number} is missing before it")
            number, at = segment.first, HEAD_BYTES
            for end, payload in segment.frames():
                yield number, payload
                number, at = number + 1, end
            if torn := segment.torn_bytes(at, number, is_last=place == len(files) - 1):
                self.remarks.append(
                    f"{path}: {torn} bytes behind commit {number - 1}, at byte {at}, are of a commit that is not "
                    f"whole: it was torn by a crash, or is being written"
                )

    @staticmethod
    def _newest_checkpoint(files: list[tuple[Path, BinaryIO]]) -> int:
        """The place of the segment that replaces all before it."""
        for place in reversed(range(len(files))):
            path, file = files[place]
            if Segment.parse(path, file.read(HEAD_BYTES)).checkpoint_end:
                return place
        return 0


class JournalReader:
    """The journal of a replica: iterate over its entries, then look at `remarks`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remarks: list[str] = []

    def __iter__(self) -> Iterator[JournalEntry]:
        paths = sorted(self.folder.glob(f"*{SUFFIX}"))
        if not paths:
            raise NothingThere(f"{self.folder} holds no journal: nothing was delivered yet, or it is another directory")
        following = 0
        for place, path in enumerate(paths):
            try:
                segment = JournalSegment.found(path)
                for entries, end in segment.frames():
                    if following and entries[0].index != following:
                        raise segment.damage(segment.size)
                    yield from entries
                    following, segment.size = entries[-1].index + 1, end
                left = path.stat().st_size - segment.size
            except FileNotFoundError:  # it was the oldest, and the node has deleted it
                continue
            except JournalError as error:
                self.remarks.append(str(error))
                return
            if left > 0:
                whose = "torn by a crash, or being written" if place == len(paths) - 1 else "damaged"
                self.remarks.append(f"{path}: {left} bytes from byte {segment.size} on cannot be read: {whose}")
                if place < len(paths) - 1:
                    return
