"""A closed load: so many messages under way at any time, and what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from braidcast.core.errors import BraidcastError

DRAIN_S = 60.0
"""How long after a load what is still under way may take."""


class LoadFailed(BraidcastError):
    """A unit ended with an error, so there is nothing to measure."""


@dataclass(slots=True)
class Outcome:
    """What a load did while it was measured."""

    messages: int = 0
    seconds: float = 0.0
    cpu_s_client: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    """From the multicast to the last reply, per unit."""


class ClosedLoad:
    """Keeps `outstanding` units under way; a unit is a batch of `batch` messages.

    It knows nothing of what is loaded: `submit` begins one unit, and its future ends with the acknowledgement.
    """

    def __init__(self, submit: Callable[[], asyncio.Future[Any]], outstanding: int, batch: int) -> None:
        self.submit, self.outstanding, self.batch = submit, outstanding, batch
        self.outcome: Outcome | None = None
        self.running = True
        self.failed: BaseException | None = None
        self.under_way = 0
        self.idle = asyncio.Event()

    def _submit(self) -> None:
        began = time.perf_counter()
        self.under_way += 1
        self.submit().add_done_callback(lambda done: self._done(done, began))

    def _done(self, done: asyncio.Future[Any], began: float) -> None:
        self.under_way -= 1
        if not done.cancelled() and (error := done.exception()) is not None:
            self.failed, self.running = error, False
        outcome = self.outcome
        if outcome is not None:
            outcome.messages += self.batch
            outcome.latencies_s.append(time.perf_counter() - began)
        if self.running:
            self._submit()
        elif not self.under_way:
            self.idle.set()

    async def measure(self, warm_up_s: float, seconds: float) -> Outcome:
        """Run, and count what ends after the warm-up."""
        for _ in range(self.outstanding):
            self._submit()
        await asyncio.sleep(warm_up_s)
        outcome = self.outcome = Outcome()
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        outcome.seconds, outcome.cpu_s_client = time.perf_counter() - began, time.process_time() - cpu
        self.outcome = None
        self.running = False
        try:
            await asyncio.wait_for(self.idle.wait(), DRAIN_S)
        except TimeoutError:
            raise LoadFailed(f"{self.under_way} units had no end {DRAIN_S:g} s after the load") from None
        if self.failed is not None:
            raise LoadFailed(f"a unit of the load ended with {type(self.failed).__name__}: {self.failed}")
        return outcome
