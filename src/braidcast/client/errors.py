"""What can go wrong for an application.

A multicast ends in a receipt or in a `NotDelivered`, and that says whether the message may still be delivered. What is
raised before anything was sent (a group that does not exist, say) is none: it changes nothing.
"""

from __future__ import annotations

from typing import Any

from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError


class ClusterUnreachable(BraidcastError):
    """No node of the cluster answers; `is_final` if trying again changes nothing."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


class UnknownGroup(BraidcastError):
    """A group that the cluster does not have."""


class StateUnusable(BraidcastError):
    """A state file that is in use, that cannot be read or written, or that belongs to another cluster."""


class NoLongerKept(BraidcastError):
    """No reachable replica keeps what was asked for."""


class NotPermitted(BraidcastError):
    """The configuration of the cluster gives this client no right to that."""


class NotDelivered(BraidcastError):
    """A message that was not delivered as far as its sender knows.

    `may_be_delivered` says whether it may still be, or was without the sender hearing of it. `id` is None for a message
    that was never sent.
    """

    def __init__(self, id: MessageId | None, why: str, *, may_be_delivered: bool) -> None:
        super().__init__(f"message {id}: {why}" if id is not None else why)
        self.id, self.why, self.may_be_delivered = id, why, may_be_delivered

    def __reduce__(self) -> Any:
        return _again, (type(self), self.id, self.why, self.may_be_delivered)


class MessageRefused(NotDelivered):
    """The cluster, or this client on its behalf, does not take it."""


class MessageNotPermitted(MessageRefused, NotPermitted):
    """Its client may not send to all of its groups."""


class PayloadTooLarge(MessageRefused):
    """It is larger than the cluster takes; nothing was sent."""


class TimedOut(NotDelivered, TimeoutError):
    """Its deadline passed first."""


class ClientClosed(NotDelivered):
    """Its client was closed first."""


def _again(kind: type[NotDelivered], id: MessageId | None, why: str, may_be_delivered: bool) -> NotDelivered:
    return kind(id, why, may_be_delivered=may_be_delivered)
