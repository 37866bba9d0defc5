"""The way of a client's messages to one set of groups: in order, and in batches when they have to wait anyway.

1. At most `pipeline` units are under way; what comes meanwhile waits, and leaves as one batch. With one unit under
   way, the messages are delivered in the order in which they came, whatever fails.
2. A message whose time is up, or which nobody waits for any longer, does not leave. Once it has left, its unit is
   brought to its end: the groups could not forget it otherwise, and what follows would not keep its place.
3. Every message ends once: with its receipt, with an error, or cancelled by who waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from braidcast.client.errors import ClientClosed, MessageRefused, NotDelivered, TimedOut
from braidcast.client.sender import Receipt, Sender
from braidcast.core.client import EXPIRED_SESSION, MessageId
from braidcast.core.topology import Dest
from braidcast.wire.batches import BATCH_MARGIN_BYTES, MESSAGE_MARGIN_BYTES, packed


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """How messages are put together."""

    linger_s: float
    messages_max: int
    bytes_max: int
    pipeline: int


class Message:
    """One message of the application, until it ends."""

    __slots__ = ("done", "id", "on_left", "payload", "since", "_timer")

    def __init__(self, payload: bytes, deadline: float | None, on_left: Callable[[Message], None]) -> None:
        loop = asyncio.get_running_loop()
        self.payload, self.on_left, self.since = payload, on_left, loop.time()
        self.id: MessageId | None = None
        """Of its unit, once that was sent."""
        self.done: asyncio.Future[Receipt] = loop.create_future()
        self._timer = loop.call_at(deadline, self._expire) if deadline is not None else None
        self.done.add_done_callback(self._on_done)

    def fail(self, kind: type[NotDelivered], why: str, may_be_delivered: bool) -> None:
        """It ends with that error, if it has not ended."""
        if not self.done.done():
            self.done.set_exception(kind(self.id, why, may_be_delivered=may_be_delivered))

    def end(self, unit: asyncio.Future[Receipt], part: int) -> None:
        """As its unit did."""
        error = unit.exception()
        if isinstance(error, NotDelivered):
            self.fail(type(error), error.why, error.may_be_delivered)
        elif not self.done.done():
            self.done.set_result(unit.result()._replace(part=part))
        self.on_left(self)

    def _expire(self) -> None:
        self.fail(TimedOut, "not delivered in time", self.id is not None)

    def _on_done(self, done: asyncio.Future[Receipt]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.id is None:
            self.on_left(self)


class Lane:
    """The messages of one client to one set of groups."""

    def __init__(self, sender: Sender, dest: Dest, options: LaneOptions) -> None:
        self.sender, self.dest, self.options = sender, dest, options
        self.waiting: deque[Message] = deque()
        """In their order; some may have ended already."""
        self.under_way = 0
        """Units."""
        self._ended_waiting = 0
        self._wake: asyncio.Handle | None = None
        self._lingers = False

    def put(self, message: Message) -> None:
        """The next one."""
        self.waiting.append(message)
        self._go_on()

    def drop(self) -> None:
        """One of those that wait has ended."""
        self._ended_waiting += 1
        if self._ended_waiting > len(self.waiting) // 2:
            self.waiting = deque([message for message in self.waiting if not message.done.done()])
            self._ended_waiting = 0

    def close(self, why: str) -> None:
        """What waits does not leave any more."""
        if self._wake is not None:
            self._wake.cancel()
        waiting, self.waiting = self.waiting, deque()
        for message in waiting:
            message.fail(ClientClosed, why, may_be_delivered=False)

    def _go_on(self) -> None:
        """Send at the end of this turn, so that all that comes in one turn leaves together; or when it has lingered."""
        if self.under_way >= self.options.pipeline or not self.waiting:
            return
        loop = asyncio.get_running_loop()
        if self.options.linger_s and len(self.waiting) < self.options.messages_max:
            if self._wake is None:
                self._wake, self._lingers = loop.call_at(self.waiting[0].since + self.options.linger_s, self._go), True
        elif self._wake is None or self._lingers:
            if self._wake is not None:
                self._wake.cancel()
            self._wake, self._lingers = loop.call_soon(self._go), False

    def _go(self) -> None:
        self._wake = None
        while self.under_way < self.options.pipeline and (batch := self._batch()):
            self.under_way += 1
            payload = packed([message.payload for message in batch]) if len(batch) > 1 else batch[0].payload
            id = self.sender.name()
            for message in batch:
                message.id = id
            unit = self.sender.submit(self.dest, payload, len(batch) if len(batch) > 1 else 0, id)
            unit.add_done_callback(partial(self._on_end, batch))

    def _batch(self) -> list[Message]:
        options, batch, size = self.options, list[Message](), BATCH_MARGIN_BYTES
        while self.waiting and len(batch) < options.messages_max:
            message = self.waiting[0]
            if not message.done.done():
                size += len(message.payload) + MESSAGE_MARGIN_BYTES
                if batch and size > options.bytes_max:
                    break
                batch.append(message)
            else:
                self._ended_waiting -= 1
            self.waiting.popleft()
        return batch

    def _on_end(self, batch: Sequence[Message], unit: asyncio.Future[Receipt]) -> None:
        self.under_way -= 1
        error = unit.exception()
        if isinstance(error, MessageRefused) and error.why == EXPIRED_SESSION and not error.may_be_delivered:
            self._put_back(batch)
        else:
            for part, message in enumerate(batch):
                message.end(unit, part)
        self._go_on()

    def _put_back(self, batch: Sequence[Message]) -> None:
        """They will leave in the session that has begun since."""
        for message in reversed(batch):
            if message.done.done():
                message.on_left(message)
            else:
                message.id = None
                self.waiting.appendleft(message)
