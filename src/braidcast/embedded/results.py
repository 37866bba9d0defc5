"""Results of the messages that this node submitted, between the state machine and whoever waits for them.

A result may come before the receipt that says which message it is of, so it is kept until somebody asks. Nobody asks
for that of a message whose caller gave up: such results go when there are too many.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from braidcast.client.sender import Receipt
from braidcast.client.subscriber import Delivery
from braidcast.core.client import MessageId
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Pid
from braidcast.embedded.errors import ResultLost


class Raised(NamedTuple):
    """The result of a message whose `apply` raised."""

    error: Exception


class Place(NamedTuple):
    """A message of this node in one group."""

    group: str
    id: MessageId
    part: int


class Results:
    """Those of one client, the node's own."""

    def __init__(self, unasked_max: int) -> None:
        self.unasked_max = unasked_max
        self.client: Pid | None = None
        self.unasked: dict[Place, Any] = {}
        """In the order in which they came."""
        self.asked: dict[Place, tuple[Receipt, asyncio.Future[Any]]] = {}
        self.over = ""
        """Why there are no more."""

    def put(self, delivery: Delivery, result: Any) -> None:
        """A message was applied."""
        if delivery.id.client != self.client:
            return
        place = Place(delivery.group, delivery.id, delivery.part)
        if (waiting := self.asked.get(place)) is not None:
            if not waiting[1].done():
                waiting[1].set_result(result)
            return
        self.unasked[place] = result
        if len(self.unasked) > self.unasked_max:
            del self.unasked[next(iter(self.unasked))]

    def skip(self, group: str, upto: Timestamp) -> None:
        """The effects up to that timestamp came without results."""
        for place, (receipt, future) in self.asked.items():
            if place.group == group and receipt.timestamp <= upto and not future.done():
                future.set_exception(ResultLost(group, receipt, "its effect came with the state of another replica"))

    def end(self, why: str) -> None:
        """No more results."""
        self.over = why
        for place, (receipt, future) in self.asked.items():
            if not future.done():
                future.set_exception(ResultLost(place.group, receipt, why))

    async def of(self, group: str, receipt: Receipt, applied: Timestamp) -> Any:
        """The result of a message that was delivered, in a group that has applied everything up to a timestamp."""
        place = Place(group, receipt.id, receipt.part)
        if place in self.unasked:
            return self.unasked.pop(place)
        if receipt.timestamp <= applied:
            raise ResultLost(group, receipt, "its effect came with the state of another replica, or long ago")
        if self.over:
            raise ResultLost(group, receipt, self.over)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked[place] = receipt, future
        try:
            return await future
        finally:
            del self.asked[place]
