"""Deliveries for journals, and disks that fail or are looked at in the middle of what a journal does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from braidcast.cluster.journal import Journal
from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast
from braidcast.core.timestamps import GROUP_BITS

CLIENT = 1 << 62
BYTES_MAX = 1 << 19
"""Then a file is full with 64 KiB."""


def gts_of(index: int) -> int:
    """Timestamps of a group leave gaps."""
    return 3 * index << GROUP_BITS


def delivery(index: int, size: int = 10) -> Delivered:
    payload = f"{index}".encode().ljust(size, b".")
    return Delivered(Multicast(MessageId(CLIENT, 1, index), (0,), payload), gts_of(index))


def fill(journal: Journal, first: int, last: int, size: int = 10) -> None:
    """Deliver these, each in a turn of its own."""
    for index in range(first, last + 1):
        journal.append(delivery(index, size))
        journal.write()


def numbers(journal: Journal, after: int = 0) -> list[int]:
    """The indices of all that is above a timestamp, read in small pieces."""
    found: list[int] = []
    while piece := journal.read(after, 7):
        assert [entry.payload.rstrip(b".") for entry in piece] == [f"{entry.index}".encode() for entry in piece]
        assert [entry.gts for entry in piece] == [gts_of(entry.index) for entry in piece]
        found += [entry.index for entry in piece]
        after = piece[-1].gts
    return found


def reopened(journal: Journal) -> Journal:
    journal.close()
    return Journal(journal.folder, journal.bytes_max)


@contextmanager
def disk_calls(patch: pytest.MonkeyPatch, before: Callable[[int, str], None]) -> Iterator[None]:
    """Calls `before` with a number and a name before everything that changes the disk."""
    count = 0

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal count
            if name != "open" or arguments[1] & os.O_CREAT:
                before(count, name)
                count += 1
            return real(*arguments, **more)

        return call

    with patch.context() as patched:
        for name in ("open", "write", "fdatasync", "fsync", "replace", "ftruncate"):
            patched.setattr(os, name, watched(name, getattr(os, name)))
        patched.setattr(Path, "unlink", watched("unlink", Path.unlink))
        yield


@contextmanager
def full_disk(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that takes a few bytes more, and no file; what is there can be cut off and synced."""
    real = os.write

    def write(file: int, data: bytes | memoryview) -> int:
        if len(data) <= 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data[:5])

    def before(_: int, name: str) -> None:
        if name in ("open", "replace"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with patch.context() as patched:
        patched.setattr(os, "write", write)
        with disk_calls(patch, before):
            yield
