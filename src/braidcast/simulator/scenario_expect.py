"""Whether what a scenario expects has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braidcast.core.client import MessageId
from braidcast.core.process import Ticks
from braidcast.core.topology import Pid
from braidcast.history.event import DELIVER, DRIVER_EVENTS, Event
from braidcast.simulator.scenario_text import Line


@dataclass(frozen=True)
class Row:
    """One delivery of a message that the scenario names."""

    message: str
    process: Pid
    group: int
    role: str
    at: Ticks
    """In the times of the file."""
    delays: float
    """Since it was multicast, in units of delta."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "message": self.message, "process": self.process, "group": self.group,
            "role": self.role, "at": self.at, "delays": self.delays,
        }  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """What a run showed."""

    rows: Sequence[Row]
    names: Mapping[str, MessageId]
    events: Sequence[Event]
    roles: Mapping[Pid, str]
    violations: Sequence[Any]
    """Each with the name of a property as `property`."""
    refused: Mapping[str, str]
    """What processes declined to order, and why."""
    notes: Sequence[str]
    """The names of all that the protocol may note."""
    quiescent: bool
    waiting: Sequence[str]


def unmet(line: Line, seen: Seen) -> str | None:
    """Why an expectation is not met, or None."""
    check = _CHECKS[line.kind]
    failures = check(line, seen)
    return f"{line.where}: {line.text}: " + "; ".join(failures) if failures else None


def _rows(line: Line, seen: Seen, pid: Pid) -> list[Row]:
    name = _known(line, seen, line.words["name"])
    return [row for row in seen.rows if row.message == name and row.process == pid]


def _known(line: Line, seen: Seen, name: str) -> str:
    if name not in seen.names:
        raise line.error(f"nobody multicasts {name}: the messages are {', '.join(seen.names) or 'none'}")
    return name


def _delivered(line: Line, seen: Seen) -> list[str]:
    return [f"not delivered at {pid}" for pid in line.pids() if not _rows(line, seen, pid)]


def _undelivered(line: Line, seen: Seen) -> list[str]:
    return [f"delivered at {pid}" for pid in line.pids() if _rows(line, seen, pid)]


def _time(line: Line, seen: Seen) -> list[str]:
    found = {pid: [row.at for row in _rows(line, seen, pid)] for pid in line.pids()}
    return [f"at {pid} it was {_show(at)}" for pid, at in found.items() if at[:1] != [line.number("n")]]


def _delays(line: Line, seen: Seen) -> list[str]:
    found = {pid: [row.delays for row in _rows(line, seen, pid)] for pid in line.pids()}
    expected = float(line.words["decimal"])
    return [f"at {pid} it was {_show(delays)}" for pid, delays in found.items() if delays[:1] != [expected]]


def _order(line: Line, seen: Seen) -> list[str]:
    names = [_known(line, seen, name) for name in _names(line)]
    failures = []
    for pid in line.pids():
        order = [row.message for row in seen.rows if row.process == pid and row.message in names]
        if order != names:
            failures.append(f"at {pid} it was {' '.join(order) or 'nothing'}")
    return failures


def _role(line: Line, seen: Seen) -> list[str]:
    roles = {pid: seen.roles.get(pid, "down") for pid in line.pids()}
    return [f"{pid} is {role}" for pid, role in roles.items() if role != line.words["word"]]


def _noted(line: Line, seen: Seen) -> list[Event]:
    word = line.words["word"]
    found = [event for event in seen.events if event.event == word]
    if not found and word not in seen.notes and word not in DRIVER_EVENTS:
        raise line.error(f"there is no note {word}: there are {', '.join(seen.notes) or 'none'}")
    return found


def _refused(line: Line, seen: Seen) -> list[str]:
    return [f"{name} was not refused" for name in _names(line) if _known(line, seen, name) not in seen.refused]


def _names(line: Line) -> list[str]:
    return (line.words.get("name") or line.words["names"]).split()


def unexpected_refusals(lines: Sequence[Line], seen: Seen) -> list[str]:
    """Messages that were refused and of which nobody expects it, one line each."""
    expected = {name for line in lines if line.kind == "refused" for name in _names(line)}
    return [
        f"{name} was refused ({why}), and no line says `expect refused {name}`"
        for name, why in seen.refused.items()
        if name not in expected
    ]


def _note_at(line: Line, seen: Seen) -> list[str]:
    noted = {event.node for event in _noted(line, seen)}
    return [f"none at {pid}" for pid in line.pids() if pid not in noted]


def _note(line: Line, seen: Seen) -> list[str]:
    if _noted(line, seen):
        return []
    notes = dict.fromkeys(event.event for event in seen.events if event.event not in DRIVER_EVENTS)
    return [f"noted were {', '.join(notes) or 'none'}"]


def _no_note(line: Line, seen: Seen) -> list[str]:
    return [f"at {event.node}" for event in _noted(line, seen)]


def _no_violations(_: Line, seen: Seen) -> list[str]:
    return [str(violation) for violation in seen.violations[:3]]


def _violation(line: Line, seen: Seen) -> list[str]:
    names = dict.fromkeys(violation.property for violation in seen.violations)
    return [] if line.words["word"] in names else [f"violated were {', '.join(names) or 'none'}"]


def _quiescent(_: Line, seen: Seen) -> list[str]:
    return [] if seen.quiescent else list(seen.waiting[:3]) or ["something was still to happen"]


def _show(values: Sequence[Any]) -> str:
    return " and ".join(map(str, values)) or "not delivered"


_CHECKS = {
    "delivered": _delivered,
    "undelivered": _undelivered,
    "time": _time,
    "delays": _delays,
    "order": _order,
    "role": _role,
    "note_at": _note_at,
    "note": _note,
    "no_note": _no_note,
    "refused": _refused,
    "no_violations": _no_violations,
    "violation": _violation,
    "quiescent": _quiescent,
}


def deliveries(event: Event) -> MessageId | None:
    """The message that an event delivers, if it does."""
    if event.event != DELIVER:
        return None
    multicast = getattr(event.what, "multicast", None)
    return getattr(multicast, "id", None)
