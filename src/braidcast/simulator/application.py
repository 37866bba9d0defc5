"""The application above a process: what it has applied, and how much of that a crash leaves.

`atomic`: an effect is durable, with its mark, as soon as the driver hands over the delivery. Otherwise the effects
become durable `lag` ticks later or with every so many deliveries, in order; a crash loses those above the mark, and
the process delivers them again because its driver tells it how far the application is.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from braidcast.core.application import Delivered, Restored
from braidcast.core.client import MessageId
from braidcast.core.process import Ticks
from braidcast.core.timestamps import Timestamp


@dataclass(frozen=True)
class ApplicationPlan:
    """How the applications behave."""

    lag: Ticks = 0
    """Ticks until an effect is durable; 0: atomic, with the delivery."""
    every: int = 0
    """Make all effects durable at every so many deliveries, not waiting for the lag; 0: never."""
    snapshot: Ticks = 0
    """How long it takes to hand out its state."""


class Application:
    """The application of one node."""

    __slots__ = (
        "applied", "atomic", "changed", "durable", "highest", "kept", "plan", "redelivered", "restored_to",
        "unflushed",
    )  # fmt: skip

    def __init__(self, plan: ApplicationPlan, changed: Callable[[Timestamp], None]) -> None:
        self.plan = plan
        self.atomic = not plan.lag
        """Whether effects are durable with their deliveries."""
        self.changed = changed
        """Called with the mark whenever it moves."""
        self.applied: list[Any] = []
        """Deliveries in order of application; effects, in short. A crash cuts it."""
        self.durable = 0
        """How many of them are durable."""
        self.highest: Timestamp = 0
        """The highest timestamp it was ever handed, lost or not."""
        self.redelivered = 0
        """How many deliveries it was handed again."""
        self.restored_to: Timestamp = 0
        """How far the state goes that it was last restored to; that was durable at once."""
        self.unflushed = False
        """Whether a flush will come by itself."""
        self.kept: dict[Timestamp, MessageId] = {}
        """What it had after the last crash."""

    @property
    def mark(self) -> Timestamp:
        """The timestamp up to which effects are durable."""
        return max(self.restored_to, mark_of(self.applied, self.durable))

    @property
    def seen(self) -> Timestamp:
        """The timestamp up to which deliveries were applied, durable or not."""
        return max(self.restored_to, mark_of(self.applied, len(self.applied)))

    def has(self, delivery: Any) -> bool:
        """Whether this is the very delivery that it applied at that place before a crash, and that comes again."""
        return type(delivery) is Delivered and self.kept.get(delivery.gts) == delivery.multicast.id

    def apply(self, delivery: Any) -> bool:
        """Take a delivery; True if somebody must call `flush` after the lag."""
        gts = getattr(delivery, "gts", 0)
        if gts:
            if gts <= self.highest:
                self.redelivered += 1
            else:
                self.highest = gts
        self.applied.append(delivery)
        if self.atomic:
            self.durable = len(self.applied)
            if gts:
                self.changed(gts)
            return False
        if self.plan.every and len(self.applied) - self.durable >= self.plan.every:
            self.flush()
            return False
        later = not self.unflushed
        self.unflushed = True
        return later

    def flush(self) -> None:
        """All effects are durable."""
        self.unflushed = False
        if self.durable < len(self.applied):
            self.durable = len(self.applied)
            self.changed(self.mark)

    def crash(self) -> Timestamp | None:
        """Lose the effects that are not durable; returns the mark if there were any."""
        self.unflushed = False
        is_whole = self.durable == len(self.applied)
        del self.applied[self.durable :]
        self.kept = {d.gts: d.multicast.id for d in self.applied if type(d) is Delivered}
        return None if is_whole else self.mark

    def forget(self) -> None:
        """Lose everything, with the disk that it was on."""
        self.applied.clear()
        self.kept.clear()
        self.durable = self.restored_to = 0

    def state(self) -> bytes:
        """All of its state."""
        return pickle.dumps(self.applied, protocol=4)

    def restore(self, restored: Restored) -> None:
        """Become the application whose state this is; durable at once, because it replaces everything."""
        self.applied = pickle.loads(restored.state)
        self.durable = len(self.applied)
        self.restored_to = restored.gts
        self.highest = max(self.highest, restored.gts)
        self.changed(restored.gts)


def mark_of(applied: list[Any], length: int) -> Timestamp:
    """The timestamp of the newest of the first `length` deliveries that has one, 0 for none."""
    for i in range(length - 1, -1, -1):
        gts = getattr(applied[i], "gts", 0)
        if gts:
            return int(gts)
    return 0
