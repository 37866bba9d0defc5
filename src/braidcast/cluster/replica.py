"""One process of the topology inside a node: its timers, its journal, and what it put out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import random
from typing import Any

from braidcast.cluster.journal import Journal
from braidcast.cluster.journal_segments import JournalError
from braidcast.core.process import APPLIED_WITH_RECORDS, Outbox, Process
from braidcast.core.topology import Group, Pid

US_PER_S = 1_000_000


class Replica:
    """A process and what the node keeps for it. The node calls `step` and carries out the outbox."""

    def __init__(
        self,
        pid: Pid,
        group: Group,
        make: Callable[[Outbox], Process],
        journal: Journal,
        on_timer: Callable[[Replica, Any], None],
        noter: Callable[[Replica], Callable[[Any], None]] | None = None,
    ) -> None:
        self.pid, self.group, self.journal, self.on_timer = pid, group, journal, on_timer
        self.out = Outbox(pid)
        if noter is not None:
            self.out.note = noter(self)
        self.process = make(self.out)
        self.step = self.process.step
        self.timers: dict[Any, asyncio.TimerHandle] = {}
        self.out.applied = journal.mark if journal.folder is not None else APPLIED_WITH_RECORDS

    def recover(self, records: Sequence[Any]) -> None:
        """Come back to what was durable; the clocks are set."""
        self._check_kept(records)
        self.process.recover(records)
        if not self.process.can_resume(self.journal.mark):
            raise JournalError(
                f"the journal of process {self.pid} in {self.journal.folder} ends at the timestamp "
                f"{self.journal.mark}{self.journal.torn}, and what follows is forgotten: it was damaged or deleted; "
                f"bring it back, or let the node rejoin: move its data directory away and start it with --rejoin"
            )

    def rejoin(self, life: int) -> None:
        """Go on without what was durable, because it is lost."""
        self._check_kept([])
        self.process.rejoin(life)

    def start(self, *, is_lost: bool) -> None:
        """Begin, recovered or rejoined."""
        self.process.start(0 if is_lost else self.journal.mark)

    def checkpoint(self) -> list[Any] | None:
        """Records that stand for all that is durable, or None: the protocol keeps its whole log."""
        try:
            return list(self.process.checkpoint())
        except NotImplementedError:
            return None

    def _check_kept(self, records: Sequence[Any]) -> None:
        """What a process of a plain node delivered rests on records: without any, the log is gone."""
        if self.journal.folder is not None and self.process.replays and self.journal.mark and not records:
            raise JournalError(
                f"the log holds nothing of process {self.pid}, whose journal in {self.journal.folder} ends at the "
                f"timestamp {self.journal.mark}: bring the log back, or move the node's data directory away and start "
                f"it with --rejoin"
            )

    def set_timers(self, loop: asyncio.AbstractEventLoop) -> None:
        """Timers wait for nothing, not even the disk."""
        wanted = self.out.batch.timers
        if not wanted:
            return
        for timer, after, spread in wanted:
            pending = self.timers.pop(timer, None)
            if pending is not None:
                pending.cancel()
            if after is not None:
                delay = after + random() * spread
                self.timers[timer] = loop.call_later(delay / US_PER_S, self._fire, timer)
        wanted.clear()

    def _fire(self, timer: Any) -> None:
        self.timers.pop(timer, None)
        self.on_timer(self, timer)

    def stop(self) -> None:
        """No more timers."""
        for handle in self.timers.values():
            handle.cancel()
        self.timers.clear()
        self.journal.close()
