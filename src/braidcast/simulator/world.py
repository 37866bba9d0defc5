"""Virtual time: one queue of events, and the loop that carries them out in order.

An event is (target, message) and belongs to a tick. The queue is a heap of ticks with a list of events for each, so
events of one tick happen in the order in which they were scheduled, and neither a closure nor a tie-breaker is made
per event. What is scheduled for the present tick comes after everything else that the tick already holds.

The loop carries out the usual event itself: a message arrives at a process that can take it at once. A target says
with `direct` that this is so; every other event is the target's own `take`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

from braidcast.core.process import Ticks
from braidcast.history.event import RECEIVE, Event
from braidcast.simulator.collector import collector_paused

Bucket = list[tuple[Any, Any]]
FOREVER: Ticks = 1 << 62


class Target(Protocol):
    """Whom an event is for."""

    direct: bool

    def take(self, message: Any) -> None:
        """Carry the event out."""


class _Call:
    """The target of events that are plain calls: faults, clients' plans, ends of syncs."""

    direct = False

    def take(self, message: tuple[Callable[..., None], tuple[Any, ...]]) -> None:
        function, arguments = message
        function(*arguments)


CALL = _Call()


class World:
    """Virtual time."""

    __slots__ = ("buckets", "events", "now", "record", "stopping", "times")

    def __init__(self) -> None:
        self.now: Ticks = 0
        self.events = 0
        self.times: list[Ticks] = []
        self.buckets: dict[Ticks, Bucket] = {}
        self.stopping = False
        self.record: Callable[[Event], None] | None = None
        """Takes the events of a history, if there is one."""

    def schedule(self, when: Ticks, target: Target, message: Any) -> None:
        """`target` takes `message` at tick `when`."""
        bucket = self.buckets.get(when)
        if bucket is None:
            self.buckets[when] = [(target, message)]
            heappush(self.times, when)
        else:
            bucket.append((target, message))

    def call(self, when: Ticks, function: Callable[..., None], *arguments: Any) -> None:
        """`function` is called at tick `when`."""
        self.schedule(when, CALL, (function, arguments))

    def stop(self) -> None:
        """End `run` with the present tick."""
        self.stopping = True

    def run(self, until: Ticks = FOREVER, events_max: int = FOREVER) -> None:
        """Carry out events up to and with tick `until`; `events_max` is looked at between ticks."""
        with collector_paused():
            self._run(until, events_max)

    def _run(self, until: Ticks, events_max: int) -> None:
        times, buckets = self.times, self.buckets
        bucket_at, record = buckets.get, self.record
        self.stopping = False
        while times and times[0] <= until and self.events < events_max and not self.stopping:
            now = self.now = heappop(times)
            # Out of the queue before it is carried out: what it schedules for this very tick opens a new list,
            # so a tick that feeds itself for ever still comes by the limit.
            bucket = buckets.pop(now)
            self.events += len(bucket)
            for target, message in bucket:
                if not target.direct:
                    target.take(message)
                    continue
                node = target.node
                out = node.out
                out.now = out.wall = now
                if record is not None:
                    record(Event(now, now, node.pid, node.incarnation, RECEIVE, target.sender, message))
                node.step(target.sender, message)
                records = out.records
                if out.timers or not node.sends_at_once or (records and not node.keeps_at_once):
                    node.release()
                    continue
                # Node.release and Network.send without their calls, their switches and their history.
                if records:
                    node.disk.log += records
                    records.clear()
                sent, routes = out.sent, node.routes
                for to, message in sent:
                    for link in routes.get(to) or node.route(to):
                        block = link.block
                        when = now + (block.pop() if block else link.source.refill())
                        if when < link.last:
                            when = link.last
                        else:
                            link.last = when
                        later = bucket_at(when)
                        if later is None:
                            buckets[when] = [(link, message)]
                            heappush(times, when)
                        else:
                            later.append((link, message))
                sent.clear()
                if out.delivered:
                    node.deliver(out.delivered)
                    out.delivered.clear()
