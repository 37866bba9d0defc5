"""What a process knows of one message (the rows of Phase, LocalTS and GlobalTS in paper 001, Figure 3)."""

from __future__ import annotations

from braidcast.core.ballots import Vector
from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Ticks
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Group
from braidcast.protocols.whitebox.messages import Accept

START, PROPOSED, ACCEPTED, COMMITTED, COLLECTED = range(5)
"""Phases. COLLECTED marks what is gone, in lists that are compacted later."""

LEADER, FOLLOWER, RECOVERING = "leader", "follower", "recovering"
"""Status."""
REJOINING = "rejoining"
"""The role of a process that lost its disk and has no vote, whatever its status."""


class Entry:
    """One message. `gts` is 0 until it is committed."""

    __slots__ = (
        "accepts", "acks", "attempts", "body", "bound", "dest", "gts", "id", "issued", "lts", "missing", "number",
        "phase", "quorums", "repeated", "retry_at", "since", "vector",
    )  # fmt: skip

    def __init__(self, id: MessageId, dest: Dest, quorums: int, now: Ticks) -> None:
        self.id = id
        self.dest = dest
        self.body: Multicast | None = None
        self.phase = START
        self.lts: Timestamp = 0
        self.gts: Timestamp = 0
        self.accepts: dict[Group, Accept] = {}
        """Per group the ACCEPT of the highest ballot (B6)."""
        self.missing = len(dest)
        """How many groups have no ACCEPT here yet."""
        self.bound: Timestamp = 0
        """The highest timestamp in `accepts`: the global timestamp, if they stand."""
        self.vector: Vector = ()
        """The ballots of `accepts` that this process acknowledged last."""
        self.acks: dict[Vector, int] = {}
        """Who acknowledged which ballots, as a bit mask of processes."""
        self.quorums = quorums
        """No fewer acknowledgements than this can be a quorum of every group."""
        self.number = 0
        """The how many-th timestamp of the current ballot this is; 0 if it is from an earlier one."""
        self.issued = 0
        """Early delivery: how many timestamps the leader had issued when it acknowledged."""
        self.since: Ticks = now
        self.retry_at: Ticks = 0
        self.attempts = 0
        self.repeated: tuple[int, ...] = ()
        """Delivered: which messages of the batch an earlier batch had delivered already."""

    def hold(self, accept: Accept) -> bool:
        """Keep the ACCEPT of the highest ballot of its group; False if a higher one is here."""
        held = self.accepts.get(accept.group)
        self.accepts[accept.group] = accept
        if held is None:
            self.missing -= 1
            if accept.lts > self.bound:
                self.bound = accept.lts
        elif held.ballot > accept.ballot:
            self.accepts[accept.group] = held
            return False
        elif held.lts != accept.lts:
            self.bound = max([a.lts for a in self.accepts.values()])
        return True

    def forget_acks(self) -> None:
        """What was acknowledged in another ballot no longer counts."""
        self.vector, self.acks, self.issued = (), {}, 0

    def unpropose(self) -> None:
        """Back to START: a new leader's state does not have it (B9)."""
        self.phase, self.lts = START, 0
