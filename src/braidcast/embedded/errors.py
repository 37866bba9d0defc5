"""What can go wrong with a state machine inside a node."""

from __future__ import annotations

from typing import Any

from braidcast.client.sender import Receipt
from braidcast.cluster.serve import NodeFailed as NodeFailed
from braidcast.core.errors import BraidcastError


class NotHosted(BraidcastError):
    """A group of which the node has no replica, or no state machine."""


class ResultLost(BraidcastError):
    """A message that was delivered (`receipt`), and whose result is not known here, nor will be.

    Its effect came with the state of another replica, or the node ended before it was applied.
    """

    def __init__(self, group: str, receipt: Receipt, why: str) -> None:
        super().__init__(f"message {receipt.id} was delivered, but its result in group {group} is unknown: {why}")
        self.group, self.receipt, self.why = group, receipt, why

    def __reduce__(self) -> Any:
        return type(self), (self.group, self.receipt, self.why)


class StateMachineFailed(BraidcastError):
    """A state machine that cannot go on at this node; others may."""


class StateLost(BraidcastError):
    """A state machine whose state on disk is gone, damaged, or older than what the journal still has."""
