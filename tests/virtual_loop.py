"""An event loop in virtual time with a network in memory: what asyncio code does without a clock, a socket or a wait.

Nothing happens by itself. `settle` runs what is ready until nothing is; `advance` lets virtual time pass and runs what
falls due. What a callback raises and nobody handles is kept in `errors`.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")
TURNS_MAX = 100_000


class VirtualTransport(asyncio.Transport):
    """One end of a stream in memory, or a stream to nowhere if it has no `other` end."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.loop, self.protocol = loop, protocol
        self.other: VirtualTransport | None = None
        self.written = bytearray()
        """What was sent to nowhere."""
        self.unread = 0
        """What the other side has not taken, as the writer sees it."""
        self.reading = True
        self.held: list[bytes] = []
        """What came while this side did not read."""
        self.ended: str | None = None
        """How this side ended it: `close` or `abort`; `lost` if it did not."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.ended is None:
            if self.other is None:
                self.written += data
            else:
                self.loop.call_soon(self.other.take, bytes(data))

    def take(self, data: bytes) -> None:
        """Bytes arrive."""
        if self.ended is not None:
            return
        if self.reading:
            self.protocol.data_received(data)
        else:
            self.held.append(data)

    def lose(self, error: Exception | None = None) -> None:
        """The other side is gone."""
        self._end("lost", error)

    def close(self) -> None:
        self._end("close", None)

    def abort(self) -> None:
        self._end("abort", None)

    def _end(self, how: str, error: Exception | None) -> None:
        if self.ended is not None:
            return
        self.ended = how
        self.loop.call_soon(self.protocol.connection_lost, error)
        if self.other is not None:
            self.loop.call_soon(self.other.lose)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing to do: nobody is told to pause."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        held, self.held = self.held, []
        for data in held:
            self.loop.call_soon(self.take, data)


class VirtualServer:
    """Somebody who listens."""

    def __init__(self, loop: VirtualLoop, address: tuple[str, int]) -> None:
        self.loop, self.address = loop, address

    def close(self) -> None:
        """Listen no more."""
        self.loop.listeners.pop(self.address, None)


class VirtualLoop:
    """What `asyncio` needs of a loop, and what braidcast asks of one."""

    def __init__(self) -> None:
        self.loop: Any = self
        """As asyncio's classes want it; they ask for an AbstractEventLoop, which has forty methods more."""
        self.now = 1000.0
        self.ready: deque[asyncio.Handle] = deque()
        self.timers: list[asyncio.TimerHandle] = []
        self.errors: list[BaseException] = []
        self.listeners: dict[tuple[str, int], Callable[[], asyncio.Protocol]] = {}

    # -- driving it --------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[None]:
        """As the loop of this thread."""
        before = events._get_running_loop()
        events._set_running_loop(self.loop)
        try:
            yield
        finally:
            events._set_running_loop(before)

    def settle(self) -> None:
        """Run what is ready, and what that makes ready."""
        with self.running():
            for _ in range(TURNS_MAX):
                self._fire_due()
                if not self.ready:
                    return
                handle = self.ready.popleft()
                if not handle.cancelled():
                    handle._run()
        raise AssertionError("it never comes to rest")

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        self.settle()
        while self.timers and self.timers[0].when() <= end:
            self.now = max(self.now, self.timers[0].when())
            self.settle()
        self.now = end

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Let time pass until the condition holds."""
        end = self.now + seconds
        self.settle()
        while not condition():
            assert self.timers, "it never comes true"
            assert self.timers[0].when() <= end, "it does not come true in time"
            self.now = max(self.now, self.timers[0].when())
            self.settle()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 60.0) -> T:
        """Until this coroutine is done."""
        task = self.create_task(work)
        self.until(task.done, seconds)
        result: T = task.result()
        return result

    def calm(self) -> None:
        """Fail if a callback has raised what nobody handled."""
        errors, self.errors = self.errors, []
        for error in errors:
            raise error

    def _fire_due(self) -> None:
        while self.timers and (self.timers[0].cancelled() or self.timers[0].when() <= self.now):
            self.ready.append(heapq.heappop(self.timers))

    # -- what asyncio asks of it -------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.loop, context)
        self.ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self.loop, context)
        heapq.heappush(self.timers, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is skipped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.loop)

    def create_task(self, coro: Any, **named: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self.loop, **named)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context.get("exception") or AssertionError(context["message"]))

    # -- the network -------------------------------------------------------------------------------------------------

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        self.listeners[host, port] = factory
        return VirtualServer(self, (host, port))

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        listener = self.listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        here, there = VirtualTransport(self, factory()), VirtualTransport(self, listener())
        here.other, there.other = there, here
        there.protocol.connection_made(there)
        here.protocol.connection_made(here)
        return here, here.protocol
