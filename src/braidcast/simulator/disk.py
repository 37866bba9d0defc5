"""A disk with group commit, and what is left of the log after a crash.

A sync takes `fsync` ticks; steps made meanwhile join the next one. Nothing a step put out leaves before its records
are durable. At a crash everything synced is there; of the steps that were not, a prefix may be there too, because a
disk may have written what nobody was told about, and the step being written may be torn.

The log is a list of records while all goes well. Only the tail that a crash puts in doubt is made into bytes: one
frame per step, with length and checksum, cut at some byte and read back. So a step is durable whole or not at all.
"""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from braidcast.core.process import Batch, Ticks

_HEAD = struct.Struct("<II")


@dataclass(frozen=True)
class DiskPlan:
    """How a disk behaves."""

    fsync: Ticks = 0
    """How long a sync takes; 0: records are durable at once, and a crash finds nothing in doubt."""
    checkpoint_every: int = 0
    """Replace the log by `process.checkpoint()` after this many records; 0: never."""
    torn: bool = True
    """Whether a crash may leave a prefix of the unsynced steps, and a torn one; otherwise all of them are lost."""

    @property
    def is_instant(self) -> bool:
        """Whether appending to the log is all there is to a record."""
        return not self.fsync and not self.checkpoint_every


class Disk:
    """One node's log."""

    __slots__ = (
        "ends", "log", "lost", "plan", "random", "since_checkpoint", "swap", "synced_ends", "syncing", "torn_frames",
    )  # fmt: skip

    def __init__(self, plan: DiskPlan, random: Random) -> None:
        self.plan = plan
        self.random = random
        self.log: list[Any] = []
        """What is durable."""
        self.syncing: Batch | None = None
        """What the running sync will make durable, and then lets go."""
        self.synced_ends: list[int] = []
        self.ends: list[int] = []
        """Where, in the records that are not being synced yet, each step ends."""
        self.swap: list[Any] | None = None
        """The checkpoint that the running sync writes in place of the log."""
        self.since_checkpoint = 0
        self.torn_frames = 0
        self.lost = False
        """Whether this disk replaces one that was lost."""

    def lose(self) -> None:
        """Everything on it is gone; the node gets an empty one."""
        assert self.syncing is None, "only a node that is down loses its disk"
        self.log, self.since_checkpoint, self.lost = [], 0, True

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether enough has been appended since the last checkpoint."""
        every = self.plan.checkpoint_every
        return bool(every) and self.since_checkpoint >= every

    def append(self, records: Iterable[Any]) -> None:
        """These are durable now."""
        before = len(self.log)
        self.log.extend(records)
        self.since_checkpoint += len(self.log) - before

    def replace(self, checkpoint: Iterable[Any]) -> None:
        """The log is now these records: written elsewhere, synced, renamed."""
        self.log = list(checkpoint)
        self.since_checkpoint = 0

    def begin_sync(self, batch: Batch, checkpoint: list[Any] | None) -> None:
        """Write a batch. A checkpoint, taken after the batch, already holds what the batch would add."""
        self.syncing, self.swap = batch, checkpoint
        self.synced_ends, self.ends = self.ends, []

    def end_sync(self) -> Batch:
        """The batch is durable and may go."""
        batch = self.syncing
        assert batch is not None, "a sync ends once"
        if self.swap is None:
            self.append(batch.records)
        else:
            self.replace(self.swap)
        self.syncing = self.swap = None
        return batch

    def crash(self, unsynced: list[Any]) -> list[Any]:
        """Lose what was not durable; `unsynced` was put out after the running sync began. Returns what survived."""
        writing = self.syncing.records if self.syncing is not None else []
        steps = [*_steps(writing, self.synced_ends if writing else []), *_steps(unsynced, self.ends)]
        swap = self.swap
        self.syncing = self.swap = None
        self.ends, self.synced_ends = [], []
        if not steps or not self.plan.torn:
            return []
        if swap is not None:
            # The file is renamed when it is whole, so it is the old log or all of the checkpoint.
            if self.random.random() < 0.5:
                return []
            self.replace(swap)
            return list(writing)
        survived, torn = read_frames(self._cut([frame(step) for step in steps]))
        self.torn_frames += torn
        self.append(survived)
        return survived

    def _cut(self, frames: list[bytes]) -> bytes:
        # Drawn by step and not by byte: how long a pickle is may depend on the version of Python.
        whole = self.random.randrange(len(frames) + 1)
        part = self.random.random()
        tail = b"".join(frames[:whole])
        if whole < len(frames):
            tail += frames[whole][: int(part * len(frames[whole]))]
        return tail


def _steps(records: list[Any], ends: list[int]) -> list[list[Any]]:
    starts = [0, *ends[:-1]] if ends else []
    return [records[start:end] for start, end in zip(starts, ends, strict=True)]


def frame(records: list[Any]) -> bytes:
    """The records of one step as bytes that cannot be taken for anything else when they are cut."""
    body = pickle.dumps(records, protocol=4)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def read_frames(data: bytes) -> tuple[list[Any], bool]:
    """The records of all whole frames, and whether something torn came after them."""
    records: list[Any] = []
    at = 0
    while at < len(data):
        if at + _HEAD.size > len(data):
            return records, True
        length, crc = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        if len(body) < length or zlib.crc32(body) != crc:
            return records, True
        records += pickle.loads(body)
        at += _HEAD.size + length
    return records, False
