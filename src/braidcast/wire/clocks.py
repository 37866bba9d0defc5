"""The clocks of real processes, in the ticks that nodes and histories count in: microseconds."""

from __future__ import annotations

import time

from braidcast.core.process import Ticks


def monotonic_us() -> Ticks:
    """Never goes back, and is the same for all processes of a machine."""
    return time.monotonic_ns() // 1000


def wall_us() -> Ticks:
    """The time of day; may be offset, drift and step back."""
    return time.time_ns() // 1000
