"""What an operator may choose about the white-box protocol. Times are in ticks; a real node counts microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """The defaults suit a local network."""

    follower_delivery: Literal["leader", "early"] = "leader"
    """Followers deliver when their leader says so (4 delays), or early on acknowledgements sent to all (3 delays)."""
    heartbeat_ticks: int = 30_000
    """How often a leader shows that it is there, retries what is stuck and collects what is complete."""
    suspect_ticks: int = 150_000
    """A follower suspects a leader silent for this long to twice as long; a leader without a quorum steps down."""
    retry_ticks: int = 100_000
    """How long a message may stay uncommitted at its leader before it is retried; doubles with every retry."""
    forget_ticks: int = 5_000_000
    """How long what came early, for a message that never came, is kept."""
    sessions_max: int = 100_000
    """How many client sessions a group remembers; beyond it, those not heard of for longest are refused."""
    prevote: bool = True
    """Ask whether an election could succeed before disturbing the group with one."""
    chunk_entries: int = 256
    """How many messages, ids or rows of a table one piece of a state transfer or catch-up holds at most."""
    chunk_bytes: int = 1 << 20
    """About how many bytes one piece of a state transfer or catch-up holds at most, or one larger message."""
    laggard_entries: int = 100_000
    """Once this many delivered messages wait for a slow member, collect them and let it have a snapshot instead,"""
    laggard_bytes: int = 64 << 20
    """or once their payloads are larger than this together."""

    def __post_init__(self) -> None:
        for name in (
            "heartbeat_ticks", "suspect_ticks", "retry_ticks", "forget_ticks", "sessions_max",
            "chunk_entries", "chunk_bytes", "laggard_entries", "laggard_bytes",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"option {name} must be at least 1, not {getattr(self, name)}")
        if self.suspect_ticks <= self.heartbeat_ticks:
            raise ValueError(
                f"option suspect_ticks ({self.suspect_ticks}) must exceed heartbeat_ticks ({self.heartbeat_ticks})"
            )
