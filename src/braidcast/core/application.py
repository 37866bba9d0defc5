"""What a process hands to the application above it, and what the driver answers.

A final delivery names its place in the order. State transfer is a conversation through the driver: the process
delivers `SnapshotWanted`, the application's state at that place comes back as the input `Snapshot`, and at the
receiving process `Restored` replaces the application's state.

`Connected` and `HandOver` are words of the driver; a process that has no handler for one is not told.
"""

from __future__ import annotations

from braidcast.core.client import Multicast
from braidcast.core.message import message
from braidcast.core.timestamps import Timestamp


@message
class Delivered:
    """`multicast` is next in the order, at `gts`.

    `repeated` lists the messages of a batch (as offsets) that an earlier batch already delivered: skip those.
    """

    multicast: Multicast
    gts: Timestamp
    repeated: tuple[int, ...] = ()


@message
class SnapshotWanted:
    """The application's state is needed as it is here, after every earlier delivery, which ends at `gts`."""

    gts: Timestamp


@message
class Snapshot:
    """Input from the driver: the application's state after the delivery at `gts`."""

    gts: Timestamp
    state: bytes


@message
class Restored:
    """The application's state is now `state`, which includes every delivery up to `gts`."""

    gts: Timestamp
    state: bytes


@message
class Connected:
    """Input from the driver: a new session with `peer` began; what was in flight on the old one may be lost."""

    peer: int


@message
class HandOver:
    """Input from the driver: whoever leads its group lets another one lead, `to` if given, without a gap.

    A wish: nothing may come of it, and it may be said again. The process leads until it is deposed.
    """

    to: int | None = None
