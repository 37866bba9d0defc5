"""What the toys promise beyond or instead of a total order: invariants for the explorer, and for logs of any driver."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.toys.barriers import Optimistic, Retracted
from tests.toys.causal import CausallyDelivered, Configured, View

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId
from braidcast.core.process import Process
from braidcast.core.topology import Pid, Pids

Log = tuple[Any, ...]


class OptimisticOrder:
    """What is delivered optimistically and not retracted is in the order of the final deliveries, and ahead of them."""

    name = "optimistic order"
    at_end = False

    def observe(self, process: Process, log: Log) -> Hashable:
        """Everything: this is about one process at a time."""
        return log

    def judge(self, seen: Mapping[Pid, Log], stopped: frozenset[Pid] = frozenset()) -> Iterator[str]:
        """See the class."""
        for pid, log in seen.items():
            yield from (f"process {pid}: {what}" for what in self.judge_one(log))

    def judge_one(self, log: Log) -> Iterator[str]:
        """See the class."""
        ahead: list[int] = []
        finished = 0
        for d in log:
            if isinstance(d, Optimistic):
                if d.stamp <= max([finished, *ahead]):
                    yield f"{d.multicast.id} at {d.stamp} came optimistically after {max([finished, *ahead])}"
                ahead.append(d.stamp)
            elif isinstance(d, Retracted):
                ahead = [stamp for stamp in ahead if stamp <= d.stamp]
            elif isinstance(d, Delivered):
                if ahead[:1] != [d.gts]:
                    yield f"{d.multicast.id} at {d.gts} is final, but {ahead[:1]} was optimistically next"
                ahead = ahead[1:]
                finished = d.gts


class CausalOrder:
    """In each view, nothing is delivered before what its sender had delivered in this view; and nothing twice."""

    name = "causal order"
    at_end = False

    def observe(self, process: Process, log: Log) -> Hashable:
        """Everything."""
        return log

    def judge(self, seen: Mapping[Pid, Log], stopped: frozenset[Pid] = frozenset()) -> Iterator[str]:
        """See the class."""
        logs = {pid: views_of(log) for pid, log in seen.items()}
        past: dict[tuple[View, MessageId], set[MessageId]] = {}
        for pid, views in logs.items():
            for configured, deliveries in views:
                for place, d in enumerate(deliveries):
                    if d.origin == pid:
                        past[configured.view, d.multicast.id] = {e.multicast.id for e in deliveries[:place]}
        for pid, views in logs.items():
            ids = [d.multicast.id for _, deliveries in views for d in deliveries]
            if len(ids) != len(set(ids)):
                yield f"process {pid} delivered something twice"
            for configured, deliveries in views:
                before: set[MessageId] = set()
                for d in deliveries:
                    missing = past.get((configured.view, d.multicast.id), set()) - before
                    if missing:
                        yield f"process {pid} delivered {d.multicast.id} before {min(missing)}, which it depends on"
                    before.add(d.multicast.id)


class VirtualSynchrony:
    """Those who go from one view to the next together delivered the same in it, and agree on who they are."""

    name = "virtual synchrony"
    at_end = False

    def observe(self, process: Process, log: Log) -> Hashable:
        """Everything."""
        return log

    def judge(self, seen: Mapping[Pid, Log], stopped: frozenset[Pid] = frozenset()) -> Iterator[str]:
        """See the class."""
        steps: dict[tuple[View, View], dict[Pid, tuple[Pids, frozenset[MessageId]]]] = {}
        for pid, log in seen.items():
            views = views_of(log)
            for (old, deliveries), (new, _) in pairwise(views):
                delivered = frozenset(d.multicast.id for d in deliveries)
                steps.setdefault((old.view, new.view), {})[pid] = (new.transitional, delivered)
                if pid not in new.transitional:
                    yield f"process {pid} is not in its own transitional set"
        for (_, entered), companions in steps.items():
            if len({delivered for _, delivered in companions.values()}) > 1:
                yield f"processes {sorted(companions)} went to view {entered.number} with different deliveries"
            if len({transitional for transitional, _ in companions.values()}) > 1:
                yield f"processes {sorted(companions)} went to view {entered.number} with different transitional sets"


class EveryMessageEverywhere:
    """In a final state, what was submitted was delivered by all who share a view with its sender."""

    name = "termination"
    at_end = True

    def __init__(self, expected: Mapping[Pid, Iterable[MessageId]]) -> None:
        self.expected = {pid: set(ids) for pid, ids in expected.items()}

    def observe(self, process: Process, log: Log) -> Hashable:
        """What was delivered."""
        return frozenset(d.multicast.id for d in log if isinstance(d, CausallyDelivered | Delivered))

    def judge(self, seen: Mapping[Pid, Any], stopped: frozenset[Pid] = frozenset()) -> Iterator[str]:
        """See the class."""
        for pid, expected in self.expected.items():
            if missing := expected - seen[pid]:
                yield f"process {pid} never delivers {min(missing)}"


def views_of(log: Log) -> list[tuple[Configured, list[CausallyDelivered]]]:
    """A log by views: how each was entered, and what was delivered in it."""
    views: list[tuple[Configured, list[CausallyDelivered]]] = []
    for d in log:
        if isinstance(d, Configured):
            views.append((d, []))
        elif isinstance(d, CausallyDelivered):
            views[-1][1].append(d)
    return views
