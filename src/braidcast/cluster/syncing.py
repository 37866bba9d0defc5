"""Making journals durable, now and then, in threads of their own; a node goes on meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from braidcast.cluster.lacking import FILES, lack_of
from braidcast.cluster.replica import Replica

log = logging.getLogger(__name__)


class JournalSyncs:
    """Syncs that are under way: one of each journal at a time, since one may get the error of another."""

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self.on_failure = on_failure
        self.running: set[Replica] = set()
        self.lacks_files = False
        """Whether the operating system had no file for a sync the last time."""

    def begin(self, replica: Replica) -> None:
        """Sync what its journal has written since the last time."""
        if replica in self.running:
            return
        try:
            begun = replica.journal.begin_sync()
        except OSError as error:
            if lack_of(error) != FILES:
                raise
            replica.journal.unsynced = True  # later
            if not self.lacks_files:
                log.warning("too many open files: journals are synced when there is one again (ulimit -n)")
            self.lacks_files = True
            return
        if begun is not None:
            self.lacks_files = False
            file, upto = begun
            self.running.add(replica)
            future = asyncio.get_running_loop().run_in_executor(None, _sync_and_close, file)
            future.add_done_callback(lambda done: self._synced(replica, upto, done))

    def _synced(self, replica: Replica, upto: int, done: asyncio.Future[None]) -> None:
        self.running.discard(replica)
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            return self.on_failure(f"the journal of process {replica.pid} cannot be made durable: {error}")
        journal = replica.journal
        if upto > journal.mark:
            journal.mark = replica.out.applied = upto


def _sync_and_close(file: int) -> None:
    try:
        os.fdatasync(file)
    finally:
        os.close(file)
