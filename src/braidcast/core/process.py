"""The contract between a process and its driver.

1. A process changes only in a step: one input, and every message it sends itself while handling it.
2. All that comes in is a message: from a peer, a client, the driver, a timer or, in recovery, the log.
   `on_accept_ack` handles `AcceptAck`, `redo_accepted` replays `Accepted`; the prefixes mean nothing else, and a
   handler whose name does not say its message is an error at import.
3. What leaves goes only when all records that were put out before it are durable, but for those that it calls
   `unhurried`; the records of a step are durable together or not at all, and in order. Hence a process may count itself
   before its disk has answered: everything that rests on the count waits.
4. State is what a subclass names in `__slots__`: plain data, messages, parts. A message never changes and has no
   identity.
5. Deterministic: the same inputs in the same order give the same outputs. No clock but `out.now` and `out.wall`,
   no randomness (a timer's spread puts the jitter in the driver), no iteration over a set that can reach an output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeVar, get_type_hints

from braidcast.core.message import snake_name
from braidcast.core.topology import Pid, Pids

Ticks = int
"""Time as drivers count it; a real node counts microseconds."""
P = TypeVar("P", bound="Process")

NOTHING_WAITS = -1
APPLIED_WITH_RECORDS = 1 << 62
"""`Outbox.applied` of a driver whose application commits its effects in the commit of the records themselves."""


class Batch(NamedTuple):
    """What one or more steps put out, in order."""

    records: list[Any]
    """First make these durable,"""
    sent: list[tuple[Pids, Any]]
    """then send these, to all but oneself,"""
    delivered: list[Any]
    """and deliver these;"""
    timers: list[tuple[Any, Ticks | None, Ticks]]
    """these wait for nothing: (timer, after, spread); `None` cancels."""


class Outbox:
    """What a process did and nobody has carried out yet. The driver sets the clocks before a step."""

    __slots__ = (
        "applied", "batch", "deliver", "delivered", "me", "note", "now", "records", "refused", "sent", "timers",
        "to_self", "unhurried", "waits_from", "wall",
    )  # fmt: skip

    def __init__(self, me: Pid, note: Callable[[Any], None] | None = None) -> None:
        self.me = me
        self.note = note
        self.now: Ticks = 0
        """Monotonic; for timers and time-outs."""
        self.wall: Ticks = 0
        """May be offset, drift and step back; for time stamps."""
        self.applied: int = APPLIED_WITH_RECORDS
        """How far the application's durable effects reach, in the measure of the protocol's final deliveries."""
        self.to_self: deque[Any] = deque()
        self.batch = Batch([], [], [], [])
        """Everything since the last take; always the same lists."""
        self.records, self.sent, self.delivered, self.timers = self.batch
        self.deliver: Callable[[Any], None] = self.delivered.append
        """Hand something to the application."""
        self.unhurried: tuple[type, ...] = ()
        """Records for which nothing waits."""
        self.waits_from = NOTHING_WAITS
        """How much of `sent` was put out before any record that it might rest on, if there is such a record."""
        self.refused: dict[str, int] = {}
        """How often an input was refused, by reason."""

    def send(self, to: Pids, message: Any) -> None:
        """Send one message, built once, to each of `to`; oneself handles it within this step."""
        if self.me in to:
            self.to_self.append(message)
        self.sent.append((to, message))

    def persist(self, record: Any) -> None:
        """Append a record to the log."""
        if self.waits_from < 0 and type(record) not in self.unhurried:
            self.waits_from = len(self.sent)
        self.records.append(record)

    def set_timer(self, timer: Any, after: Ticks, spread: Ticks = 0) -> None:
        """`timer` comes back as an input, at random in [after, after + spread]; an equal pending one is replaced."""
        self.timers.append((timer, after, spread))

    def cancel_timer(self, timer: Any) -> None:
        """Forget a pending timer, if there is one."""
        self.timers.append((timer, None, 0))

    def refuse(self, why: str) -> None:
        """Count an input that was refused; bad input never raises."""
        self.refused[why] = self.refused.get(why, 0) + 1

    def take(self) -> Batch:
        """Everything since the last take; the driver owns it now."""
        batch = Batch(*[list(part) for part in self.batch])
        self.clear()
        return batch

    def clear(self) -> None:
        """Nothing is put out."""
        for part in self.batch:
            part.clear()
        self.waits_from = NOTHING_WAITS


class Process:
    """A protocol, or a part of one."""

    __slots__ = (
        "cancel_timer", "deliver", "inputs", "me", "note", "out", "persist", "refuse", "replays", "send", "set_timer",
        "to_self",
    )  # fmt: skip
    passed_on: ClassVar[tuple[type, ...]] = ()
    """Messages of peers that only pass on what a client asks for, and will ask for again if it is not answered: a
    driver that takes no more from clients may leave these out, too."""
    unhurried: ClassVar[tuple[type, ...]] = ()
    """Records on which nothing rests that is put out after them, until a record of another kind comes: they say what
    was delivered, one for each delivery, and spare work after a restart. A driver need not wait for them, and may lose
    the newest in a crash; its application then recognises what it is given again by its place in the order."""
    _on: ClassVar[dict[type, str]] = {}
    _redo: ClassVar[dict[type, str]] = {}

    def __init_subclass__(cls) -> None:
        cls._on, cls._redo = _handlers(cls, "on_"), _handlers(cls, "redo_")

    def __init__(self, out: Outbox) -> None:
        self.me, self.out, self.note = out.me, out, out.note
        self.send, self.deliver, self.persist, self.refuse = out.send, out.deliver, out.persist, out.refuse
        self.set_timer, self.cancel_timer = out.set_timer, out.cancel_timer
        self.to_self = out.to_self
        out.unhurried += tuple(kind for kind in self.unhurried if kind not in out.unhurried)
        self.inputs: dict[type, Callable[[Pid, Any], None]] = {
            kind: getattr(self, name) for kind, name in self._on.items()
        }
        self.replays: dict[type, Callable[[Any], None]] = {
            kind: getattr(self, name) for kind, name in self._redo.items()
        }

    @property
    def role(self) -> str:
        """What this process is in its group at the moment, in a word."""
        return "member"

    @property
    def backlog(self) -> int:
        """How many messages this process has to bring to their delivery; a driver slows clients down by it."""
        return 0

    @property
    def backlog_bytes(self) -> int:
        """How many bytes of payload these are."""
        return 0

    def adopt(self, part: P) -> P:
        """Take over the inputs and records of a part, which shares this outbox and this log."""
        if clash := self.inputs.keys() & part.inputs or self.replays.keys() & part.replays:
            raise TypeError(f"two handlers for {', '.join(sorted(kind.__name__ for kind in clash))}")
        self.inputs |= part.inputs
        self.replays |= part.replays
        return part

    def recover(self, records: Iterable[Any]) -> None:
        """Rebuild what was durable, in order; comes before `start`. Without records it is a first life."""
        for record in records:
            self.replays[type(record)](record)

    def rejoin(self, life: int) -> None:
        """In place of `recover`: what was durable is lost, and an operator knows. `life` is a number that no earlier
        life of this process had. The process must not say anything that its forgotten word could contradict."""
        raise NotImplementedError(f"{type(self).__name__} cannot go on without its log")

    def start(self, applied: int = 0) -> None:
        """Set the first timers, and deliver again what the application, which is at `applied`, has not applied."""

    def can_resume(self, applied: int) -> bool:
        """Whether `start` can bring an application that is at `applied` up to date: nothing above it is forgotten."""
        return True

    def checkpoint(self) -> Iterable[Any]:
        """Records that recover the same state as the whole log; the driver may replace the log by them."""
        raise NotImplementedError(f"{type(self).__name__} keeps its whole log")

    def step(self, sender: Pid, message: Any) -> None:
        """Handle one input and everything that this process says to itself meanwhile."""
        inputs = self.inputs
        try:
            handler = inputs[type(message)]
        except KeyError:
            self.refuse("no handler")
            return
        handler(sender, message)
        to_self = self.to_self
        while to_self:
            own = to_self.popleft()
            try:
                handler = inputs[type(own)]
            except KeyError:  # an answer to a client that bears the name of this process
                self.refuse("no handler")
                continue
            handler(self.me, own)


def _handlers(cls: type, prefix: str) -> dict[type, str]:
    """Message type to method name."""
    found: dict[type, str] = {}
    for name in dir(cls):
        method = getattr(cls, name)
        if not name.startswith(prefix) or not isinstance(method, FunctionType):
            continue
        kinds = [kind for argument, kind in get_type_hints(method).items() if argument != "return"]
        if not kinds or prefix + snake_name(kinds[-1]) != name:
            handled = kinds[-1].__name__ if kinds else "nothing"
            raise TypeError(f"{cls.__name__}.{name} handles {handled}: name the handler after its message")
        found[kinds[-1]] = name
    return found
