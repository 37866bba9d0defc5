"""What a run leaves behind: events for the history, counts of notes, and a digest that names the schedule.

Without a recorder nothing of this costs anything: processes are made without `note`, and the loop does not ask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from braidcast.core.client import Multicast, Reply
from braidcast.core.message import field_names, is_message, snake_name
from braidcast.core.process import Ticks
from braidcast.core.topology import Pid
from braidcast.history.event import (
    CRASH,
    DELIVER,
    MULTICAST,
    PERSIST,
    RECEIVE,
    REPLY,
    RESTART,
    START,
    DiskLost,
    Event,
    Resumed,
)
from braidcast.simulator.world import World


class Recorded(Protocol):
    """What the recorder needs to know of a node or a client."""

    @property
    def pid(self) -> Pid:
        """Its id."""

    @property
    def incarnation(self) -> int:
        """How often it was started before."""

    @property
    def wall(self) -> Ticks:
        """What its wall clock shows."""


class Recorder:
    """Collects the events of one run."""

    def __init__(self, world: World, *, traffic: bool = True) -> None:
        self.world = world
        self.traffic = traffic
        """Whether sends, receives and records are events, too."""
        self.events: list[Event] = []
        self.notes: dict[type, int] = {}
        self._names: dict[type, str] = {}
        self.append = self.events.append
        if traffic:
            world.record = self.append

    def add(self, who: Any, event: str, peer: Pid | None, what: Any, role: str | None = None) -> None:
        """One event at `who`, a `Recorded`."""
        self.append(Event(self.world.now, who.wall, who.pid, who.incarnation, event, peer, what, role))

    def received(self, who: Any, sender: Pid, message: Any) -> None:
        """A message arrived; a client's own kind of receipt is `replied`."""
        if self.traffic:
            self.add(who, RECEIVE, sender, message)

    def persisted(self, who: Any, records: Iterable[Any]) -> None:
        """Records are durable."""
        if self.traffic:
            for record in records:
                self.add(who, PERSIST, None, record)

    def delivered(self, who: Any, delivery: Any, role: str) -> None:
        """A delivery was handed to the application."""
        self.add(who, DELIVER, None, delivery, role)

    def multicast(self, who: Any, multicast: Multicast) -> None:
        """A client submitted a message for the first time."""
        self.add(who, MULTICAST, None, multicast)

    def replied(self, who: Any, sender: Pid, reply: Reply) -> None:
        """A client received a reply."""
        self.add(who, REPLY, sender, reply)

    def started(self, who: Any) -> None:
        """The first incarnation began."""
        self.add(who, START, None, None)

    def crashed(self, who: Any) -> None:
        """A node went down."""
        self.add(who, CRASH, None, None)

    def restarted(self, who: Any, resumed: Resumed | DiskLost | None) -> None:
        """A later incarnation began."""
        self.add(who, RESTART, None, resumed)

    def noter(self, who: Any) -> Callable[[Any], None]:
        """What a process of `who` calls with its notes."""
        names, counts = self._names, self.notes

        def note(what: Any) -> None:
            kind = type(what)
            name = names.get(kind)
            if name is None:
                name = names[kind] = snake_name(kind)
            counts[kind] = counts.get(kind, 0) + 1
            self.add(who, name, None, what)

        return note


def canonical(value: Any) -> str:
    """A text of a message that is the same on every machine and however messages are declared."""
    if is_message(value):
        fields = ",".join([f"{name}={canonical(getattr(value, name))}" for name in field_names(type(value))])
        return f"{type(value).__name__}({fields})"
    if isinstance(value, (tuple, list)):
        return f"({','.join([canonical(item) for item in value])})"
    if isinstance(value, (set, frozenset)):
        return f"{{{','.join(sorted(canonical(item) for item in value))}}}"
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{canonical(k)}:{canonical(v)}' for k, v in value.items()))}}}"
    return repr(value)


def digest(events: Iterable[Event]) -> str:
    """SHA-256 over a text of the events, one line each: equal for equal runs, whatever the machine."""
    sha = hashlib.sha256()
    texts: dict[int, str] = {}  # by identity: a message occurs in many events, and all are alive meanwhile
    kept = list(events)
    for e in kept:
        text = texts.get(id(e.what))
        if text is None:
            text = texts[id(e.what)] = canonical(e.what)
        line = f"{e.t_mono} {e.t_wall} {e.node} {e.incarnation} {e.event} {e.peer} {text} {e.role}\n"
        sha.update(line.encode())
    return sha.hexdigest()
