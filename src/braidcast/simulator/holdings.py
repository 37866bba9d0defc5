"""What a process still holds of the messages that it ordered: the bound on memory, whatever the protocol.

A message that a process has anything of, a body, a timestamp or half of an acknowledgement, is named somewhere in its
state by its `MessageId`. So the names that can be reached from what a process names in `__slots__` are what it holds.
Tombstones do not count: they are kept by session and number, and bounded by sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from braidcast.core.client import MessageId
from braidcast.core.message import field_names, is_message
from braidcast.core.process import Process

_PLAIN = (int, str, bytes, float, type(None))


def names_held(process: Process, keeps: Collection[str] = ()) -> set[MessageId]:
    """The messages that a process holds anything of, but for what it `keeps`."""
    found: set[MessageId] = set()
    seen: set[int] = set()
    pending = [getattr(process, name, None) for name in _slots(type(process), Process) if name not in keeps]
    while pending:
        value = pending.pop()
        if type(value) is MessageId:
            found.add(value)
        elif not isinstance(value, _PLAIN) and id(value) not in seen:
            seen.add(id(value))
            pending += _inside(value)
    return found


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from value
    elif is_message(value):
        for name in field_names(type(value)):
            yield getattr(value, name)
    elif not callable(value):
        for name in _slots(type(value)):
            yield getattr(value, name, None)


def _slots(kind: type, above: type = object) -> Iterator[str]:
    for base in kind.__mro__:
        if not issubclass(above, base):
            names = vars(base).get("__slots__", ())
            yield from (names,) if isinstance(names, str) else names
