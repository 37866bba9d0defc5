"""The first frame of each side of a connection: who is there, and whether they may talk.

A node that dials another one says `Hello`, and is answered with the other's `Hello` or with `TurnedAway`. A client
says `ClientHello`, and is answered with `Welcome` or `TurnedAway`.

`incarnation` counts the starts of a node, durably; `session` the connections of one incarnation. A node takes a peer's
connection only if (incarnation, session) is above all that it has seen of that peer, so nothing of an earlier life can
arrive after something of a later one. `disk` names the data directory, once and for all: a peer that comes back with
another disk has lost what it promised, and is turned away unless an operator says that it rejoins. One that comes with
an older copy of its disk counts starts that were counted before: it is turned away, too.
"""

from __future__ import annotations

from braidcast.core.message import message
from braidcast.core.topology import Group, Pid, Pids
from braidcast.wire.codec import Codec


@message
class Hello:
    """A node to a node."""

    cluster: str
    fingerprint: str
    """Of what all nodes must agree on: groups, members, protocol and its options."""
    node: str
    disk: str
    incarnation: int
    session: int
    rejoins: bool
    """Its disk is new, and an operator knows."""
    to: str = ""
    """Whom it means to talk to; a wrong address leads to somebody else. Empty: whoever answers."""
    life: str = ""
    """Of each start another one. Two with one incarnation are starts of a disk and of a copy of it."""


@message
class ClientHello:
    """A client to a node."""

    cluster: str
    """Empty: any."""
    client: Pid


@message
class GroupInfo:
    """A group as clients know it."""

    name: str
    number: Group
    pids: Pids


@message
class NodeInfo:
    """A node as clients know it."""

    name: str
    address: str
    pids: Pids


@message
class Welcome:
    """A node to a client: all it needs to know to talk to the cluster."""

    cluster: str
    fingerprint: str
    node: str
    groups: tuple[GroupInfo, ...]
    nodes: tuple[NodeInfo, ...]
    frame_bytes_max: int
    payload_bytes_max: int


@message
class TurnedAway:
    """No; `final` if trying again changes nothing."""

    why: str
    final: bool


HANDSHAKE = Codec((Hello, ClientHello, Welcome, TurnedAway))
HANDSHAKE_BYTES_MAX = 1 << 20
