"""Pausing the cyclic garbage collector where it would find nothing.

What a run or a search makes lives until its end or dies by its count; the collector would only walk it, over and
over. A run that is over is one heap of cycles. A campaign pauses the collector throughout and takes each run away
when it is dead: one that was looked at while it lived counts as old, and is walked again and again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_run() -> None:
    """Take away the run that is over: all that was made since the last collection, and nothing else is looked at."""
    gc.collect(0)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collections meanwhile; afterwards as before."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
