"""Who is in which group when a run starts.

A topology is immutable and shared, and never part of a process's state; views and relations that change at run time
are state of the protocol that changes them. Groups are numbered from 0 and disjoint (paper 001, section II).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Annotated

from braidcast.core.ballots import PIDS_MAX
from braidcast.core.errors import TopologyError
from braidcast.core.message import between
from braidcast.core.timestamps import GROUPS_MAX

Pid = int
"""A process of the topology, or a client, which no topology lists."""
Pids = tuple[Pid, ...]
Group = Annotated[int, between(0, GROUPS_MAX - 1)]
Dest = tuple[Group, ...]
"""A set of destination groups: ascending, no group twice."""


class Topology:
    """Groups of processes, with the routes and quorums that protocols look up on every message."""

    def __init__(self, *groups: Iterable[Pid]) -> None:
        self.groups: tuple[Pids, ...] = tuple(tuple(members) for members in groups)
        self._check()
        self.group_of = {p: g for g, members in enumerate(self.groups) for p in members}
        self.pids: Pids = tuple(self.group_of)
        self.quorum = tuple(len(members) // 2 + 1 for members in self.groups)
        self.mask = tuple(sum(1 << p for p in members) for members in self.groups)
        self._possible: set[Dest] = set()
        self._members: dict[Dest, Pids] = {}
        self._outside: dict[tuple[Dest, Group], Pids] = {}
        self._quorum_sizes: dict[Dest, int] = {}
        self._quorums: dict[Dest, tuple[tuple[int, int], ...]] = {}

    def _check(self) -> None:
        if not self.groups:
            raise TopologyError("a topology needs at least one group: try 2x3 for two groups of three")
        _require_at_most(GROUPS_MAX, len(self.groups), "groups")
        seen: dict[Pid, int] = {}
        for g, members in enumerate(self.groups):
            if not members:
                raise TopologyError(f"group {g} has no members: give every group at least one process")
            for p in members:
                if p in seen:
                    raise TopologyError(
                        f"process {p} is in group {seen[p]} and in group {g}: groups must be disjoint"
                    )
                if not 0 <= p < PIDS_MAX:
                    raise TopologyError(f"process id {p} is out of range: use 0 to {PIDS_MAX - 1}")
                seen[p] = g

    @classmethod
    def of_sizes(cls, *sizes: int) -> Topology:
        """Groups of the given sizes, processes numbered from 0: `of_sizes(3, 1)` is (0, 1, 2) and (3,)."""
        if any(size < 1 for size in sizes):
            raise TopologyError(f"a group of {min(sizes)} members is impossible: give every group at least one")
        _require_at_most(GROUPS_MAX, len(sizes), "groups")
        _require_at_most(PIDS_MAX, sum(sizes), "processes")
        return cls(*(range(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)))

    @classmethod
    def parse(cls, text: str) -> Topology:
        """`2x3` is two groups of three, `3+1` is a group of three and one of one; `2x3+5` mixes both."""
        sizes: list[int] = []
        for part in text.replace(" ", "").split("+"):
            count, times, size = part.rpartition("x")
            if not size.isdecimal() or (times and not count.isdecimal()):
                raise TopologyError(f"topology {text!r} is not readable: write 2x3, or 3+1, or 2x3+5")
            groups = _number(count) if times else 1
            _require_at_most(GROUPS_MAX, len(sizes) + groups, "groups")  # before they are made
            sizes += [_number(size)] * groups
        return cls.of_sizes(*sizes)

    @property
    def shape(self) -> str:
        """The sizes of the groups, in the notation of `parse`."""
        return "+".join(str(len(members)) for members in self.groups)

    def require_majorities(self, protocol: str) -> None:
        """Fail unless every group is odd, which a majority of 2f + 1 processes needs."""
        for g, members in enumerate(self.groups):
            if len(members) % 2 == 0:
                raise TopologyError(
                    f"group {g} has {len(members)} members, but {protocol} needs 2f + 1: use 1, 3, 5 or 7"
                )

    def require_singletons(self, protocol: str) -> None:
        """Fail unless every group is one process."""
        for g, members in enumerate(self.groups):
            if len(members) != 1:
                raise TopologyError(
                    f"group {g} has {len(members)} members, but {protocol} works with groups of one: use 3x1"
                )

    def has_groups(self, dest: Dest) -> bool:
        """Whether `dest` is a set of groups of this topology, ascending."""
        if dest in self._possible:
            return True
        if not dest or dest[0] < 0 or dest[-1] >= len(self.groups) or not all(a < b for a, b in pairwise(dest)):
            return False
        self._possible.add(dest)
        return True

    def members(self, dest: Dest) -> Pids:
        """Every process of the groups in `dest`."""
        found = self._members.get(dest)
        if found is None:
            found = self._members[dest] = tuple(p for g in dest for p in self.groups[g])
        return found

    def members_outside(self, dest: Dest, group: Group) -> Pids:
        """Every process of the groups in `dest` other than `group`."""
        found = self._outside.get((dest, group))
        if found is None:
            found = self.members(tuple(g for g in dest if g != group))
            self._outside[dest, group] = found
        return found

    def quorum_size(self, dest: Dest) -> int:
        """How many processes a quorum of every group in `dest` has together."""
        found = self._quorum_sizes.get(dest)
        if found is None:
            found = self._quorum_sizes[dest] = sum(self.quorum[g] for g in dest)
        return found

    def quorums(self, dest: Dest) -> tuple[tuple[int, int], ...]:
        """Per destination group: its members as a bit mask, and how many of them are a quorum."""
        found = self._quorums.get(dest)
        if found is None:
            found = self._quorums[dest] = tuple((self.mask[g], self.quorum[g]) for g in dest)
        return found


def _number(digits: str) -> int:
    """The number, or one that is too large as well: the conversion of endless digits takes for ever, or fails."""
    return int(digits[:20])


def _require_at_most(most: int, count: int, what: str) -> None:
    if count > most:
        raise TopologyError(f"{count} {what} are too many: at most {most}")
