"""What clients and nodes say to each other besides the messages of the protocol."""

from __future__ import annotations

from braidcast.core.client import MessageId
from braidcast.core.message import message
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Group

NOT_PERMITTED = "not permitted"
"""How a refusal begins when its client has no right to what it asks for."""


@message
class Subscribe:
    """Send what `group` delivers after the timestamp `after`: first what is kept on disk, then as it happens."""

    group: Group
    after: Timestamp


@message
class Unsubscribe:
    """No more of `group`."""

    group: Group


@message
class JournalEntry:
    """One delivery of a group: its place, its timestamp, and the message.

    `repeated` lists the messages of a batch (as offsets) that an earlier batch already delivered.
    """

    index: int
    """The how many-th delivery of its group, from 1; no number is left out."""
    gts: Timestamp
    id: MessageId
    dest: Dest
    payload: bytes
    batch_first: int = 0
    batch_count: int = 0
    repeated: tuple[int, ...] = ()


@message
class Deliveries:
    """What `group` delivered next."""

    group: Group
    entries: tuple[JournalEntry, ...]


@message
class SubscriptionEnded:
    """No more of `group` from this node: `why`; another replica may have it."""

    group: Group
    why: str


@message
class StatusWanted:
    """How is this node?"""


@message
class Status:
    """The answer, as JSON."""

    text: str


@message
class StatusRefused:
    """No answer to `StatusWanted`."""

    why: str


FROM_CLIENTS = (Subscribe, Unsubscribe, StatusWanted)
TO_CLIENTS = (Deliveries, SubscriptionEnded, Status, StatusRefused)
