"""What can go wrong for an application."""

from __future__ import annotations

from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError


class ClusterUnreachable(BraidcastError):
    """No node of the cluster answers."""


class NotDelivered(BraidcastError):
    """A message that was not delivered as far as its sender knows.

    `may_be_delivered` says whether it may still be, or was without the sender hearing of it.
    """

    def __init__(self, id: MessageId, why: str, *, may_be_delivered: bool) -> None:
        super().__init__(f"message {id}: {why}")
        self.id, self.why, self.may_be_delivered = id, why, may_be_delivered


class NoLongerKept(BraidcastError):
    """No reachable replica keeps what was asked for."""
