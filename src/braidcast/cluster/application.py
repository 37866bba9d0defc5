"""What becomes of the deliveries of a replica. A node knows no more of it than this.

The journal is the application of a plain node. Another one stands on top of it: whatever else it does, it keeps the
journal, which is what subscribers read and what a restart resumes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from braidcast.cluster.journal import Journal
from braidcast.core.application import Delivered
from braidcast.core.timestamps import Timestamp


class Application(Protocol):
    """The application of one replica."""

    @property
    def lack(self) -> str:
        """What it waits for that has something to write; whoever drives it then stops, and tries `write` again."""

    def append(self, delivered: Delivered) -> bool:
        """The next delivery; False if it is here already, because the process delivers again after a restart."""

    def write(self) -> None:
        """Hand what was delivered to the operating system; not durable yet."""

    def state(self, bytes_max: int) -> bytes:
        """All of its state, and as much of the journal as there is room for, for a replica that has fallen behind."""

    def restore(self, gts: Timestamp, state: bytes) -> None:
        """Become the application whose state this is, up to that timestamp."""

    def close(self) -> None:
        """Let go of the files."""


Host = Callable[[str, Journal], Application]
"""Gives the application of the replica of a group, by name, on top of that replica's journal."""


def plain(group: str, journal: Journal) -> Application:
    """Nothing but the journal."""
    return journal
