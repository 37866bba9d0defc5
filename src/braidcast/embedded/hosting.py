"""A state machine on top of a journal: the application of a replica inside an application.

Theory of operation. The journal is the redo log. The state machine lives in memory and is written to a file now and
then, with its place in the order (its mark). After a restart it comes back from the file, and what the journal has
above the mark is applied again. The process delivers again what the journal lost, and only that. So:

1. The effects are those of each delivery once: what is at or below the place of the state machine is not applied.
2. The journal keeps what is above the mark (`wanted_after`), and the state is written each time the journal has grown
   by some multiple of its size. Memory and the log of the node do not depend on how often that is.
3. What another replica sends is its state and its journal. The state is durable before the journal that ends there is
   written. A crash between the two leaves a state machine that is ahead of its journal, which rule 1 covers.
4. A state for which the disk has no room is written later: the journal grows meanwhile. One that another replica sent
   holds everything back until there is room (`lack`).
5. A state machine that failed in the middle of a delivery is never written: the last state and the journal are whole.
6. A state machine with a durable store of its own has the mark there, and only that of a state which another replica
   sent is in the file: what follows its own checkpoint up to there were barriers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from braidcast.client.subscriber import Checkpoint, Delivery, deliveries_of
from braidcast.cluster.journal import ENTRY_BYTES, Journal
from braidcast.cluster.journal_segments import JournalError
from braidcast.cluster.lacking import lack_of
from braidcast.core.application import Delivered
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Group
from braidcast.embedded.errors import StateLost, StateMachineFailed
from braidcast.embedded.machine import NOT_RESULTS, StateMachine, own_checkpoint
from braidcast.embedded.results import Raised, Results
from braidcast.embedded.state_file import Kept, read_state, write_state
from braidcast.wire.codec import UNREADABLE
from braidcast.wire.service import JournalEntry

log = logging.getLogger(__name__)

GROWTH = 2
"""A state is written again when the journal has grown by so many times its size."""
LOGGED_MAX = 100
"""So many exceptions are written down with all there is to know; whoever causes more does not fill a disk with them."""


class Both(msgspec.Struct, array_like=True):
    """What travels to a replica that has fallen behind."""

    machine: bytes
    journal: bytes


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the state machines of a node share."""

    names: Mapping[Group, str]
    results: Results
    disk: concurrent.futures.Executor
    on_failure: Callable[[str], None]
    state_bytes_min: int
    """How much the journal must have grown before a state is written again."""


class Hosted:
    """The application of one replica."""

    def __init__(
        self, group: str, machine: StateMachine, journal: Journal, path: Path | None, around: Surroundings
    ) -> None:
        self.group, self.machine, self.journal, self.path, self.around = group, machine, journal, path, around
        """Without a path nothing is kept, as the journal is not."""
        self.done = Checkpoint()
        """Up to where everything is applied."""
        self.mark: Timestamp = 0
        """Up to where it is on disk."""
        self.raised = 0
        """How many messages ended in an exception."""
        self.has_store = own_checkpoint(machine) is not None
        """Of its own, durable: its state is not written here."""
        self.whole = True
        """Whether the state machine is between two deliveries."""
        self.grown_bytes = 0
        """By how much the journal has grown since a state was written."""
        self.state_bytes = 0
        self.received: Kept | None = None
        """The state that another replica sent, as long as it is not on disk,"""
        self.received_lacks = ""
        """and what that waits for."""
        self.saving: concurrent.futures.Future[None] | None = None

    def open(self) -> None:
        """Come back to where the state machine was: its last state, and what the journal has above that."""
        self._read()
        journal = self.journal
        if self.done.timestamp < journal.after:
            raise StateLost(
                f"the state of group {self.group} on disk ends at the timestamp {self.done.timestamp}, and the journal "
                f"begins after {journal.after}: the group had no state machine here before, or its state was deleted; "
                f"bring it back, or move the node's data directory away and let the node rejoin"
            )
        self._let_journal_go()
        for entry in journal.entries_after(self.done.timestamp):
            self._take(entry)

    def _read(self) -> None:
        kept = read_state(self.path) if self.path is not None else None
        if (own := own_checkpoint(self.machine)) is not None:
            self.done = own
            if kept is not None and own >= Checkpoint.parse(kept.state.decode("ascii", "replace")):
                self.mark, self.done = kept.mark, max(own, Checkpoint(kept.mark))
        elif kept is not None:
            self._restore(kept.state)
            self.mark, self.done, self.state_bytes = kept.mark, Checkpoint(kept.mark), len(kept.state)

    # -- deliveries --------------------------------------------------------------------------------------------------

    def append(self, delivered: Delivered) -> bool:
        """The next delivery; False if the journal has it."""
        if not self.journal.append(delivered):
            return False
        self._take(self.journal.tail[-1])
        return True

    def _take(self, entry: JournalEntry) -> None:
        before = self.done
        if entry.gts <= before.timestamp:
            return
        self.grown_bytes += len(entry.payload) + ENTRY_BYTES
        self.whole = False
        for delivery in deliveries_of(entry, before, self.group, self.around.names):
            self.around.results.put(delivery, self._apply(delivery))
        self.whole, self.done = True, Checkpoint(entry.gts)

    def _apply(self, delivery: Delivery) -> Any:
        if not delivery.payload:
            return None
        try:
            return self.machine.apply(delivery)
        except NOT_RESULTS as error:
            raise self._failed("apply a message", error) from error
        except Exception as error:
            self.raised += 1
            if self.raised <= LOGGED_MAX:
                log.warning("group %s, timestamp %d, part %d: applying it raised %r, which is its result", self.group,
                            delivery.timestamp, delivery.part, error, exc_info=error)  # fmt: skip
            return Raised(error)

    def _failed(self, what: str, error: BaseException) -> StateMachineFailed:
        kind = type(self.machine).__name__
        return StateMachineFailed(f"{kind} of group {self.group} cannot {what}: {type(error).__name__}: {error}")

    # -- the disk ----------------------------------------------------------------------------------------------------

    @property
    def lack(self) -> str:
        """What it waits for that has something to write."""
        return self.received_lacks or self.journal.lack

    def write(self) -> None:
        """What another replica sent, then the journal; and begin to write the state if it is time."""
        if self.received is not None and not self._save_received(self.received):
            return
        self.journal.write()
        if self.path is None or self.saving is not None:
            return
        wanted = max(self.around.state_bytes_min, GROWTH * self.state_bytes)
        if self.grown_bytes >= min(wanted, self.journal.bytes_max // 2):
            if self.has_store:
                self._let_journal_go()
                self.grown_bytes = 0
            else:
                self._begin_to_save()

    def _let_journal_go(self) -> None:
        own = own_checkpoint(self.machine)
        self.journal.wanted_after = self.mark if own is None else max(self.mark, own.timestamp)

    def _begin_to_save(self) -> None:
        assert self.path is not None, "it is due only where there is a file"
        kept = Kept(self.done.timestamp, self._snapshot())
        self.grown_bytes, self.state_bytes = 0, len(kept.state)
        self.saving = self.around.disk.submit(write_state, self.path, kept)
        done = asyncio.wrap_future(self.saving, loop=asyncio.get_running_loop())
        done.add_done_callback(partial(self._saved, kept.mark))

    def _saved(self, mark: Timestamp, done: asyncio.Future[None]) -> None:
        self.saving = None
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self.mark = max(self.mark, mark)
            self._let_journal_go()
        elif isinstance(error, OSError) and (lack := lack_of(error)):
            log.warning("%s: the journal of group %s grows until its state can be written", lack, self.group)
        else:
            self.around.on_failure(f"the state of group {self.group} cannot be made durable: {error}")

    def _save_received(self, kept: Kept) -> bool:
        assert self.path is not None, "it is kept only where there is a file"
        if self.saving is not None:
            concurrent.futures.wait([self.saving])
        try:
            write_state(self.path, kept)
        except OSError as error:
            if not (lack := lack_of(error)):
                raise
            self.received_lacks = lack
            return False
        self.mark, self.received, self.received_lacks = kept.mark, None, ""
        self._let_journal_go()
        return True

    def close(self) -> None:
        """Let go of the files; the state as it is now saves the next start some work."""
        if self.saving is not None:
            concurrent.futures.wait([self.saving])
        if self.whole and self.done.timestamp > self.mark and self.path is not None and not self.has_store:
            try:
                write_state(self.path, Kept(self.done.timestamp, self._snapshot()))
            except (OSError, StateMachineFailed) as error:
                log.warning("the state of group %s was not written in the end, nothing is lost: %s", self.group, error)
        self.journal.close()

    # -- other replicas ----------------------------------------------------------------------------------------------

    def state(self, bytes_max: int) -> bytes:
        """The state, and as much of the journal as there is room for besides."""
        machine = self._snapshot()
        if len(machine) > bytes_max:
            log.warning("the state of group %s takes %d bytes: peer_buffer_bytes_max must be twice that, or a replica "
                        "that has fallen behind cannot be brought up to date", self.group, len(machine))  # fmt: skip
        return msgspec.msgpack.encode(Both(machine, self.journal.state(max(1, bytes_max - len(machine)))))

    def restore(self, gts: Timestamp, state: bytes) -> None:
        """Become what another replica is."""
        try:
            both = msgspec.msgpack.decode(state, type=Both)
        except UNREADABLE:
            raise JournalError(
                f"a snapshot without a state machine: all nodes of group {self.group} must host the same one"
            ) from None
        self.journal.take_over(gts, both.journal)
        if gts > self.done.timestamp:
            self.whole = False
            self._restore(both.machine)
            self.whole, self.done = True, Checkpoint(gts)
            self.grown_bytes, self.state_bytes = 0, len(both.machine)
            if self.path is not None:
                own = own_checkpoint(self.machine)
                self.received = Kept(gts, both.machine if own is None else str(own).encode())
            self.around.results.skip(self.group, gts)
        self.write()

    def _snapshot(self) -> bytes:
        try:
            return self.machine.snapshot()
        except Exception as error:
            raise self._failed("give its state", error) from error

    def _restore(self, state: bytes) -> None:
        try:
            self.machine.restore(state)
        except Exception as error:
            raise self._failed("restore a state", error) from error
