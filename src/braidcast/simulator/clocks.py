"""Wall clocks: each node's own, off by an offset, drifting, and stepping when somebody sets them.

Monotonic time is the virtual time that all nodes share; only wall clocks differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from braidcast.core.process import Ticks
from braidcast.core.topology import Pid


@dataclass(frozen=True)
class ClockPlan:
    """How the wall clock of each process is off; a process that is not named has a perfect one."""

    offset: Mapping[Pid, Ticks] = field(default_factory=dict)
    drift_ppm: Mapping[Pid, int] = field(default_factory=dict)

    def clock_of(self, pid: Pid) -> Clock | None:
        """None for a perfect clock, which costs nothing to read."""
        offset, drift_ppm = self.offset.get(pid, 0), self.drift_ppm.get(pid, 0)
        return Clock(offset, drift_ppm) if offset or drift_ppm else None


class Clock:
    """One node's wall clock; it keeps running while its node is down."""

    __slots__ = ("drift_ppm", "offset")

    def __init__(self, offset: Ticks = 0, drift_ppm: int = 0) -> None:
        self.offset = offset
        self.drift_ppm = drift_ppm

    def at(self, now: Ticks) -> Ticks:
        """What it shows at virtual time `now`."""
        return now + self.offset + now * self.drift_ppm // 1_000_000

    def step(self, by: Ticks) -> None:
        """Somebody sets it, forwards or back."""
        self.offset += by
