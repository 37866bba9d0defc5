"""What is in flight on the channels, as numbers.

The content of a channel is a sequence of events (who sends what to whom). Every content that occurs gets a number;
a channel is named by the number of its empty content. `head` and `rest` take a queue apart, `pushes` remembers what
appending makes of it. Every number has 64 random bits in `mark`: the fingerprint of a global state is the
exclusive or of the marks of all its components, so a transition changes it by a few look-ups.
"""

from __future__ import annotations

from random import Random
from typing import Any

Queue = int
Event = int

NOTHING = -1


class Queues:
    """All contents of channels that ever occurred."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.head: list[Event] = []
        """The event that is delivered next; NOTHING for an empty or closed queue."""
        self.rest: list[Queue] = []
        """What is left once the head is delivered."""
        self.channel: list[Queue] = []
        self.is_empty: list[bool] = []
        self.mark: list[int] = []
        self.pop_mark: list[int] = []
        """What taking the head changes in a fingerprint."""
        self.pushes: list[dict[int, tuple[Queue, int]]] = []
        """Sequence number -> the queue with that sequence appended, and what that changes in a fingerprint."""
        self.events: list[tuple[Event, ...]] = []
        self.ends: list[tuple[Any, Any]] = []
        """Per queue: source and destination of its channel."""
        self._known: dict[tuple[Queue, tuple[Event, ...]], Queue] = {}
        self._channels: dict[tuple[Any, Any], Queue] = {}
        self.sequences: list[tuple[Event, ...]] = []
        self._sequence_numbers: dict[tuple[Event, ...], int] = {}

    def channel_of(self, source: Any, destination: Any) -> Queue:
        """The channel between two ends, which is its own empty queue."""
        found = self._channels.get((source, destination))
        if found is None:
            number = len(self.head)
            found = self._channels[source, destination] = self._add(number, (), (source, destination), 0)
        return found

    def closed(self, channel: Queue) -> Queue:
        """The queue of a channel whose destination is gone: it swallows everything."""
        key = (channel, (NOTHING,))
        found = self._known.get(key)
        if found is None:
            mark = self._random.getrandbits(64)
            found = self._known[key] = self._add(channel, (), self.ends[channel], mark)
            self.is_empty[found] = False
        return found

    def sequence(self, events: tuple[Event, ...]) -> int:
        """The number of a sequence of events that one step sends on one channel."""
        number = self._sequence_numbers.get(events)
        if number is None:
            number = self._sequence_numbers[events] = len(self.sequences)
            self.sequences.append(events)
        return number

    def push(self, queue: Queue, sequence: int) -> tuple[Queue, int]:
        """Append a sequence; the caller looked in `pushes` first."""
        if self.head[queue] == NOTHING and not self.is_empty[queue]:
            after = queue
        else:
            after = self._queue(self.channel[queue], self.events[queue] + self.sequences[sequence])
        made = self.pushes[queue][sequence] = (after, self.mark[queue] ^ self.mark[after])
        return made

    def _queue(self, channel: Queue, events: tuple[Event, ...]) -> Queue:
        if not events:
            return channel
        found = self._known.get((channel, events))
        if found is None:
            rest = self._queue(channel, events[1:])
            found = self._known[channel, events] = len(self.head)
            self._add(channel, events, self.ends[channel], self._random.getrandbits(64), rest)
        return found

    def _add(
        self, channel: Queue, events: tuple[Event, ...], ends: tuple[Any, Any], mark: int, rest: Queue = NOTHING
    ) -> Queue:
        number = len(self.head)
        self.head.append(events[0] if events else NOTHING)
        self.rest.append(rest)
        self.channel.append(channel)
        self.is_empty.append(not events)
        self.mark.append(mark)
        self.pop_mark.append(mark ^ self.mark[rest] if events else 0)
        self.pushes.append({})
        self.events.append(events)
        self.ends.append(ends)
        return number
