"""A process's pending timers.

Most timers are set again long before they run out (a suspicion, at every heartbeat). So a timer that is set later
than it is already scheduled for leaves its event where it is; the event, when it comes, moves itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braidcast.core.process import Ticks

if TYPE_CHECKING:
    from braidcast.simulator.node import Node


class _Pending:
    __slots__ = ("due", "scheduled", "timer")

    def __init__(self, timer: Any) -> None:
        self.timer = timer
        self.due: Ticks = -1
        """-1 when cancelled or fired."""
        self.scheduled: Ticks = -1
        """When the next event for it comes; -1 for none."""


class Timers:
    """The timers of one incarnation of a node; also the target of their events."""

    __slots__ = ("late", "node", "pending", "stopped")
    direct = False

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pending: dict[Any, _Pending] = {}
        self.late: list[_Pending] = []
        """What ran out during a pause."""
        self.stopped = False

    def set(self, timers: list[tuple[Any, Ticks | None, Ticks]]) -> None:
        """Carry out what a step asked for: (timer, after, spread), None to cancel."""
        node, pending = self.node, self.pending
        world = node.world
        for timer, after, spread in timers:
            entry = pending.get(timer)
            if after is None:
                if entry is not None:
                    entry.due = -1
                continue
            if entry is None:
                entry = pending[timer] = _Pending(timer)
            due = entry.due = world.now + after + (int(node.random.random() * (spread + 1)) if spread else 0)
            if entry.scheduled < 0 or entry.scheduled > due:
                entry.scheduled = due
                world.schedule(due, self, entry)

    def take(self, entry: _Pending) -> None:
        """An event for a timer came."""
        now = self.node.world.now
        if self.stopped or entry.scheduled != now:
            return  # crashed, or the timer was set to an earlier time and this is the event of the later one
        if entry.due > now:
            entry.scheduled = entry.due
            self.node.world.schedule(entry.due, self, entry)
            return
        entry.scheduled = -1
        if self.node.by_hand and entry.due >= 0:
            return  # still pending: it fires when the scenario says so
        if entry.due < 0:
            del self.pending[entry.timer]
            return
        if self.node.paused:
            self.late.append(entry)
        elif self.node.free_at > now and self.node.cpu:
            entry.scheduled = self.node.free_at
            self.node.world.schedule(entry.scheduled, self, entry)
        else:
            self._fire(entry)

    def _fire(self, entry: _Pending) -> None:
        node = self.node
        entry.due = -1
        if node.cpu:
            node.free_at = node.world.now + node.cpu
        node.handle(node.pid, entry.timer)
        if entry.due < 0 and entry.scheduled < 0 and self.pending.get(entry.timer) is entry:
            del self.pending[entry.timer]

    def catch_up(self) -> None:
        """Fire what ran out during a pause, unless what was handled since has cancelled it or set it anew."""
        late, self.late = self.late, []
        now = self.node.world.now
        for entry in late:
            if 0 <= entry.due <= now and entry.scheduled < 0:
                self._fire(entry)

    def fire(self, timer: Any) -> None:
        """Let a timer run out now, set or not: a schedule written by hand says so."""
        entry = self.pending.get(timer)
        if entry is not None:
            entry.due = -1
        self.node.handle(self.node.pid, timer)

    def due(self) -> list[Any]:
        """The timers that are set, earliest first."""
        entries = [entry for entry in self.pending.values() if entry.due >= 0]
        return [entry.timer for entry in sorted(entries, key=lambda entry: entry.due)]

    def stop(self) -> None:
        """The node went down."""
        self.stopped = True
