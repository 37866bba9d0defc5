"""What can happen next, and how a schedule is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from braidcast.core.topology import Pid


class Deliver(NamedTuple):
    """The head of a channel reaches its receiver."""

    sender: Pid
    to: Pid
    message: Any


class Fire(NamedTuple):
    """A pending timer fires."""

    pid: Pid
    timer: Any


class Restart(NamedTuple):
    """A process crashes and restarts with what was durable; what is in flight to it is lost.

    `forgets`: its newest unhurried records were not durable yet, although what it put out with them had left.
    """

    pid: Pid
    forgets: bool = False


class LoseDisk(NamedTuple):
    """A process crashes, loses its disk and comes back as one that an operator lets rejoin."""

    pid: Pid


class Stop(NamedTuple):
    """A process crashes for good."""

    pid: Pid


class Lose(NamedTuple):
    """The session between two processes breaks; what is in flight on it is lost."""

    one: Pid
    other: Pid


class Resubmit(NamedTuple):
    """A client sends all its copies of a message once more."""

    client: Pid


class ClockStep(NamedTuple):
    """The wall clock of a process goes to its next reading."""

    pid: Pid
    wall: int


class Delay(NamedTuple):
    """Under a delay bound: the oldest message, with those behind it on its channel, goes behind all in flight."""

    sender: Pid
    to: Pid
    message: Any


Move = Deliver | Fire | Restart | LoseDisk | Stop | Lose | Resubmit | ClockStep | Delay


def show(move: Move, name: Callable[[Pid], str] = str) -> str:
    """One line, as in a scenario file; `name` says what a process or client is called there."""
    match move:
        case Deliver(sender, to, message):
            return f"step {name(to)} <- {name(sender)} {type(message).__name__}"
        case Fire(pid, timer):
            return f"fire {name(pid)} {type(timer).__name__}"
        case Restart(pid, forgets):
            return f"restart {name(pid)}" + ("  # without its newest unhurried records" if forgets else "")
        case LoseDisk(pid):
            return f"lose disk of {name(pid)}\nrestart {name(pid)}"
        case Stop(pid):
            return f"crash {name(pid)}"
        case Lose(one, other):
            return f"break {name(one)} {name(other)}"
        case Resubmit(client):
            return f"resubmit {name(client)}"
        case ClockStep(pid, wall):
            return f"clock {name(pid)} {wall}"
        case Delay(sender, to, message):
            return f"# delayed: {name(to)} <- {name(sender)} {type(message).__name__}"


def show_all(moves: Iterable[Move]) -> str:
    """A schedule, one move a line."""
    return "".join(show(move) + "\n" for move in moves)
