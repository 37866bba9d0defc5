"""The event loop that nodes and measurements run on: uvloop's where there is one, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

try:
    import uvloop
except ImportError:  # not on every platform; asyncio's own loop does, more slowly
    uvloop = None  # type: ignore[assignment]

T = TypeVar("T")
new_event_loop: Callable[[], asyncio.AbstractEventLoop] = (asyncio if uvloop is None else uvloop).new_event_loop
INTERRUPTS = {signal.SIGINT, signal.SIGTERM}


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on that loop; whoever interrupts it at whatever moment leaves nothing open."""
    loop: asyncio.AbstractEventLoop | None = None
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)  # or a loop that is being made would be nobody's
        made = loop = new_event_loop()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        with asyncio.Runner(loop_factory=lambda: made) as runner:
            return runner.run(work)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
        work.close()
        if loop is not None:
            loop.close()
