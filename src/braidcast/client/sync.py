"""Clients for code without an event loop: scripts, notebooks (where a loop already runs), threads.

Each has one background thread with a loop of its own, from `with` to its end. Calls may come from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from braidcast.client.sender import Receipt
from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError

if TYPE_CHECKING:
    from braidcast.client.client import Client
    from braidcast.client.subscriber import Delivery, Subscriber

T = TypeVar("T")


class Background:
    """A loop in a thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin."""
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="braidcast", daemon=True)
        self._thread.start()
        self._loop = started.result()

    def close(self) -> None:
        """End, when what runs has ended."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop = self._thread = None

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there."""
        if self._loop is None:
            work.close()
            raise BraidcastError("this is not open: use it inside a `with` block")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait; interrupted, it is cancelled."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @staticmethod
    def _run(started: Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            started.set_result(loop)
            loop.run_forever()


class SyncClient:
    """A `Client` to be called from ordinary code."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._background = Background()

    def __enter__(self) -> SyncClient:
        self._background.open()
        try:
            self._background.run(self.client.__aenter__())
        except BaseException:
            self._background.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._background.run(self.client.__aexit__(kind, error, trace))
        finally:
            self._background.close()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the cluster."""
        return self.client.groups

    def multicast(
        self, payload: bytes, to: str | Iterable[str], *, timeout: float | EllipsisType | None = ...,
        id: MessageId | str | None = None,
    ) -> Receipt:  # fmt: skip
        """As `Client.multicast`."""
        return self._background.run(self.client.multicast(payload, to, timeout=timeout, id=id))

    def submit(
        self, payload: bytes, to: str | Iterable[str], *, timeout: float | EllipsisType | None = ...,
        id: MessageId | str | None = None,
    ) -> Future[Receipt]:  # fmt: skip
        """As `Client.submit`; the future is one of `concurrent.futures`."""
        accepted = self._background.run(self.client.submit(payload, to, timeout=timeout, id=id))
        return self._background.start(_result_of(accepted))

    def new_id(self) -> MessageId:
        """As `Client.new_id`."""
        return self._background.run(_called(self.client.new_id))

    def drain(self) -> None:
        """As `Client.drain`."""
        self._background.run(self.client.drain())


class SyncSubscriber:
    """A `Subscriber` to be read by ordinary code: an iterator without an end."""

    def __init__(self, subscriber: Subscriber) -> None:
        self.subscriber = subscriber
        self._background = Background()
        self._ready: deque[Delivery] = deque()

    def __enter__(self) -> SyncSubscriber:
        self._background.open()
        try:
            self._background.run(self.subscriber.__aenter__())
        except BaseException:
            self._background.close()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        try:
            self._background.run(self.subscriber.__aexit__())
        finally:
            self._background.close()

    def __iter__(self) -> SyncSubscriber:
        return self

    def __next__(self) -> Delivery:
        return self.next()

    def next(self, timeout: float | None = None) -> Delivery:
        """The next delivery; a `TimeoutError` if none comes in so many seconds."""
        if not self._ready:
            self._ready += self._background.run(asyncio.wait_for(self.subscriber.take(), timeout))
        return self._ready.popleft()


async def _result_of(future: asyncio.Future[T]) -> T:
    return await future


async def _called(function: Callable[[], T]) -> T:
    return function()
