"""What a property answers when it does not hold."""

from __future__ import annotations

from typing import NamedTuple

from braidcast.core.client import MessageId
from braidcast.core.topology import Group, Pid


class Violation(NamedTuple):
    """One place where a property does not hold."""

    property: str
    run: str
    group: Group | None
    node: Pid | None
    message: MessageId | None
    expected: str
    seen: str

    def __str__(self) -> str:
        where = [f"run {self.run}"]
        if self.group is not None:
            where.append(f"group {self.group}")
        if self.node is not None:
            where.append(f"node {self.node}")
        if self.message is not None:
            where.append(f"message {self.message}")
        return f"{self.property}: {', '.join(where)}: expected {self.expected}, saw {self.seen}"
