"""The keys of one group, as a state machine, and operations on keys of several groups.

1. A read of several keys is one message to their groups: what it finds was there at one moment.
2. A write within one group is one message: it compares and writes at its place in the order.
3. A write over several groups cannot be decided by one message, for no group sees the keys of another. Each group
   compares its own and sets its part aside (`hold`), or refuses. Then one message to all of them (`settle`) writes
   everything, or drops it. Reads never wait: before it they see nothing of the write, after it all.
4. Whoever finds something set aside by a writer that does not come back may drop it. The first `settle` in the order
   counts, and it is the same one in every group: both kinds go to the same set of groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import random
from uuid import uuid4
from zlib import crc32

from braidcast import Replicated, replicated

GROUPS = ("keys0", "keys1", "keys2")
Values = dict[str, str | None]
"""Values of keys; None for those that are not there."""
PATIENCE = 20
"""So often a writer waits for another one before it drops what that set aside."""
PAUSE_S = 0.01


def group_of(key: str) -> str:
    """The group that has a key."""
    return GROUPS[crc32(key.encode()) % len(GROUPS)]


def groups_of(keys: Iterable[str]) -> frozenset[str]:
    """The groups that have them."""
    return frozenset(map(group_of, keys))


@dataclass
class Held:
    """A write that is set aside."""

    new: Values
    keys: list[str]
    """All that it is about, in all groups."""


@dataclass
class Answer:
    """What a group says to a write."""

    differs: Values = field(default_factory=dict)
    """What is there instead of what was expected."""
    waits_for: dict[str, list[str]] = field(default_factory=dict)
    """Tickets of other writes that are set aside, with all their keys."""

    @property
    def ok(self) -> bool:
        """Whether nothing stands against it."""
        return not self.differs and not self.waits_for


class Keys(Replicated):
    """The keys of one group."""

    value: dict[str, str]
    held: dict[str, Held]
    """By ticket."""
    locked: dict[str, str]
    """Keys that a write has set aside, with its ticket."""

    def __init__(self) -> None:
        self.value = {}
        self.held = {}
        self.locked = {}

    @replicated(to=lambda self, keys: groups_of(keys))
    def get(self, keys: list[str]) -> Values:
        """Read."""
        return self.mine({key: self.value.get(key) for key in keys})

    @replicated(to=lambda self, new, expected: group_of(next(iter({**new, **expected}))))
    def write(self, new: Values, expected: Values) -> Answer:
        """Write if all that is expected is there; all keys are of one group."""
        answer = self.compare(new, expected)
        if answer.ok:
            self.put(self.mine(new))
        return answer

    @replicated(to=lambda self, ticket, new, expected: groups_of({**new, **expected}))
    def hold(self, ticket: str, new: Values, expected: Values) -> Answer:
        """Set a write aside, if all that is expected is there."""
        answer = self.compare(new, expected)
        if answer.ok:
            keys = sorted({**new, **expected})
            self.held[ticket] = Held(self.mine(new), keys)
            self.locked |= dict.fromkeys([key for key in keys if group_of(key) == self.group], ticket)
        return answer

    @replicated(to=lambda self, ticket, keys, take: groups_of(keys))
    def settle(self, ticket: str, keys: list[str], take: bool) -> bool:
        """Write what was set aside, or drop it; whether it was still there."""
        held = self.held.pop(ticket, None)
        if held is None:
            return False
        for key in [key for key, holder in self.locked.items() if holder == ticket]:
            del self.locked[key]
        if take:
            self.put(held.new)
        return True

    def mine(self, values: Mapping[str, str | None]) -> Values:
        """Those of this group."""
        return {key: value for key, value in values.items() if group_of(key) == self.group}

    def compare(self, new: Values, expected: Values) -> Answer:
        """What stands against a write here."""
        found = {key: self.value.get(key) for key in self.mine(expected)}
        differs = {key: value for key, value in found.items() if value != expected[key]}
        tickets = sorted({self.locked[key] for key in self.mine({**new, **expected}) if key in self.locked})
        return Answer(differs, {ticket: self.held[ticket].keys for ticket in tickets})

    def put(self, new: Values) -> None:
        """Keys get values, or go."""
        for key, value in new.items():
            if value is None:
                self.value.pop(key, None)
            else:
                self.value[key] = value


# -- what applications call ------------------------------------------------------------------------------------------


async def get(keys: Keys, *names: str) -> Values:
    """The values of these keys, all at one moment."""
    values: Values = {}
    for part in (await keys.get(list(names))).values():
        values |= part
    return {key: values[key] for key in names}


async def put(keys: Keys, new: Values, expected: Values | None = None) -> Values:
    """Write all of it at one moment, if all that is expected is there; otherwise what is there instead, and nothing is
    written. None as a value deletes, or expects nothing."""
    expected, tries = expected or {}, 0
    while True:
        answers = await _try(keys, new, expected)
        if all(answer.ok for answer in answers):
            return {}
        waits_for = {ticket: names for answer in answers for ticket, names in answer.waits_for.items()}
        if not waits_for:
            return {key: value for answer in answers for key, value in answer.differs.items()}
        tries += 1
        if tries % PATIENCE == 0:
            for ticket, names in waits_for.items():
                await keys.settle(ticket, names, False)
        await asyncio.sleep(PAUSE_S * random() * min(tries, 10))


async def _try(keys: Keys, new: Values, expected: Values) -> list[Answer]:
    """What the groups say; nobody stands against it if it is written."""
    names = sorted({**new, **expected})
    if not names:
        return []
    if len(groups_of(names)) == 1:
        return [await keys.write(new, expected)]
    ticket = uuid4().hex
    answers = list((await keys.hold(ticket, new, expected)).values())
    is_agreed = all(answer.ok for answer in answers)
    settled = await keys.settle(ticket, names, is_agreed)
    if is_agreed and not all(settled.values()):
        return [Answer(waits_for={ticket: names})]  # somebody lost patience: once more
    return answers
