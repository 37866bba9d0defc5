"""The event loop that nodes and measurements run on: uvloop's where there is one, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # not on every platform; asyncio's own loop does, more slowly
    uvloop = None  # type: ignore[assignment]

T = TypeVar("T")

LOOP_FACTORY: Callable[[], asyncio.AbstractEventLoop] | None = None if uvloop is None else uvloop.new_event_loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on that loop."""
    with asyncio.Runner(loop_factory=LOOP_FACTORY) as runner:
        return runner.run(work)
