"""How a node makes records durable: one commit at a time, for all of its replicas together.

1. A commit is everything that the replicas put out until it began. When it is durable, and not before, `then` is
   called. What is put out meanwhile is the next commit.
2. A full disk, or no file to open, holds everything back: the commit is tried again until there is one. Nothing is
   acknowledged meanwhile.
3. A checkpoint for which there is none is put off, and the batch committed as ever: the log goes on growing.
4. Any other failure of the disk ends the node (`on_failure`): nobody knows what a failed sync has left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from braidcast.cluster.log import DiskFull, Log
from braidcast.core.errors import BraidcastError
from braidcast.core.topology import Pid
from braidcast.wire.codec import UNREADABLE, Codec

log = logging.getLogger(__name__)

RETRY_S = 0.5
CHECKPOINT_RETRY_S = 10
CHECKPOINT_GROWTH = 2
"""A checkpoint is due when the log has grown by so many times the last one."""


class Durability:
    """The log of a node, and the commit in progress."""

    def __init__(
        self,
        wal: Log,
        kinds: Iterable[type],
        checkpoint_bytes_min: int,
        on_failure: Callable[[str], None],
    ) -> None:
        self.wal, self.on_failure = wal, on_failure
        self.codec = RecordCodec(kinds)
        self.checkpoint_bytes_min = checkpoint_bytes_min
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self.busy = False
        self.lack = ""
        """What a commit waits for."""
        self.commits = 0
        self.gave_up = False
        self.checkpoint_waits = False
        """Whether there was no room for the last one that was due."""
        self._checkpoint_after = 0.0
        self._retry: asyncio.TimerHandle | None = None

    def recovered(self) -> dict[Pid, list[Any]]:
        """The records of each process, in order."""
        records: dict[Pid, list[Any]] = {}
        for payload in self.wal.recovered:
            for pid, some in self.codec.decode(payload):
                records.setdefault(pid, []).extend(some)
        return records

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the log has grown enough to be replaced."""
        if self.checkpoint_waits and time.monotonic() < self._checkpoint_after:
            return False
        grown = self.wal.bytes_since_checkpoint
        return grown >= max(self.checkpoint_bytes_min, CHECKPOINT_GROWTH * self.wal.checkpoint_bytes)

    def commit(self, records: list[tuple[Pid, list[Any]]], then: Callable[[], None]) -> None:
        """Make these durable."""
        payload = self.codec.encode(records)
        self._run(lambda: self.wal.append(payload), then)

    def checkpoint(
        self,
        records: list[tuple[Pid, list[Any]]],
        batch: list[tuple[Pid, list[Any]]],
        then: Callable[[], None],
    ) -> None:
        """Make these durable in place of everything before; without room for that, `batch`, which is new in them."""
        payloads = [self.codec.encode([(pid, [record])]) for pid, some in records for record in some]
        instead = self.codec.encode(batch)
        self.checkpoint_waits = False
        self._run(lambda: self._checkpoint(payloads, instead), then)

    def _checkpoint(self, payloads: list[bytes], instead: bytes) -> None:
        if not self.checkpoint_waits:  # tried again as a whole while the disk is full: once is enough
            try:
                return self.wal.checkpoint(payloads)
            except DiskFull as error:
                self.checkpoint_waits = True
                self._checkpoint_after = time.monotonic() + CHECKPOINT_RETRY_S
                log.warning("%s; the log grows until there is a checkpoint", error)
        self.wal.append(instead)

    def _run(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        self.busy = True
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self.executor, work)
        future.add_done_callback(lambda done: self._done(done, work, then))

    def _done(self, done: asyncio.Future[None], work: Callable[[], None], then: Callable[[], None]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if self.gave_up:
            return
        if isinstance(error, DiskFull):
            if not self.lack:
                log.error("%s; nothing is acknowledged until then", error)
            self.lack = error.lack
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._run, work, then)
            return
        if error is not None:
            return self.on_failure(str(error))
        if self.lack:
            log.warning("commits succeed again: going on")
        self.lack, self.busy = "", False
        self.commits += 1
        then()

    def give_up(self) -> None:
        """No `then` any more, and no other try."""
        self.gave_up = True
        if self._retry is not None:
            self._retry.cancel()

    def close(self) -> None:
        """Wait for the commit in progress, in whatever thread, and let go of the log."""
        self.executor.shutdown(wait=True)
        self.wal.close()


class RecordCodec:
    """Records to bytes and back: a list of (process, records)."""

    def __init__(self, kinds: Iterable[type]) -> None:
        self.codec = Codec(kinds)
        self.encode = self.codec.encode
        union: Any = self.codec.union
        self._decoder = msgspec.msgpack.Decoder(list[tuple[int, list[union]]])

    def decode(self, payload: bytes) -> Iterator[tuple[Pid, list[Any]]]:
        """The records of a commit."""
        try:
            yield from self._decoder.decode(payload)
        except UNREADABLE as error:
            raise BraidcastError(
                f"the log holds records that this version cannot read ({error}): start the version that wrote them"
            ) from None
