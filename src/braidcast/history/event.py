"""What a driver records: one event per thing that happened at a node, in the order in which it happened there.

Rules:
1. The events of a node stand in the order in which they happened at that node, across its incarnations.
2. Events of different nodes stand so that what comes before never depends on what comes after; one monotonic clock
   for all nodes (the simulator, or processes on one host) gives such an order.
3. `persist` is recorded when the record is durable, `send` and `deliver` when the driver lets them go.
4. A node of a cluster may be killed when a record is durable and before it could record that: its next incarnation
   says with `recovered` what is durable then. The simulator records everything at the crash, and has no such events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from braidcast.core.message import message
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Pid
from braidcast.history.manifest import Manifest

MULTICAST: Final = "multicast"
"""A client (`node`) submitted `what`, a core Multicast; once per message, however often it is sent."""
SEND: Final = "send"
"""`node` sent `what` to `peer`, another process or client; one event per receiver."""
RECEIVE: Final = "receive"
"""`node` received `what` from `peer`."""
DELIVER: Final = "deliver"
"""`node` handed `what` to its application: Delivered, Restored, SnapshotWanted, ..."""
PERSIST: Final = "persist"
"""The record `what` is durable at `node`."""
START: Final = "start"
"""The first incarnation of `node` began."""
CRASH: Final = "crash"
"""`node` lost everything that was not durable."""
RESTART: Final = "restart"
"""A later incarnation of `node` began; `what` is `Resumed` if its application lost effects, `DiskLost` if everything
was lost, else None."""
RECOVERED: Final = "recovered"
"""`what`, a record, is durable at `node` when this incarnation begins: its log holds it, or comes to it. A checkpoint
stands for all of a log, so it is recorded in place of the log if the process can make one."""
REPLY: Final = "reply"
"""A client (`node`) received the Reply `what` from `peer`."""

DRIVER_EVENTS: Final = (MULTICAST, SEND, RECEIVE, DELIVER, PERSIST, START, CRASH, RESTART, RECOVERED, REPLY)
"""Every other event is a note of the protocol, named after its class in snake case, with the note as `what`."""


@message
class Event:
    """One thing that happened at a node."""

    t_mono: int
    t_wall: int
    node: Pid
    incarnation: int
    event: str
    peer: Pid | None
    what: Any
    """The message, record, delivery or note itself; a `Row` when the history was read from disk; or None."""
    role: str | None = None
    """Of the process at this moment; drivers fill it for deliveries."""


@message
class Resumed:
    """`what` of a restart: the application came back with the effects of its deliveries up to `gts` and no later one.

    What was delivered above `gts` before the restart is delivered again; the properties expect that.
    """

    gts: Timestamp


@message
class DiskLost:
    """`what` of a restart: nothing that was durable is left, and the node rejoins.

    All of its deliveries may come again, and what it promised before is no longer held against its records.
    """

    gts: Timestamp = 0


@dataclass(slots=True)
class History:
    """A run: what it was, and what happened."""

    manifest: Manifest
    events: list[Event]
