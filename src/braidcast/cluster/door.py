"""The front door of a node: it listens, learns who has come, and serves clients.

1. A connection is nobody's until its first frame; it has little time to send it, and there are only so many of them:
   beyond that the oldest goes, since a peer speaks at once. Only clients count against `connections_max`, so peers get
   in however many clients there are.
2. A client speaks only for itself: a message in another client's name is refused and counted.
3. What a client may ask for by mistake (a group that is not here, a payload that is too large) is answered, not fatal.
4. Whatever ends a connection from this side, and every message that is passed over, is counted by its reason.
"""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braidcast.cluster.admission import SUBMITTED_BYTES_MAX
from braidcast.cluster.clients import ClientSession
from braidcast.cluster.open_files import STRANGERS_MAX
from braidcast.cluster.status import status_of
from braidcast.core.client import Multicast, Refused
from braidcast.core.errors import BraidcastError
from braidcast.core.topology import Group, Pids
from braidcast.wire.codec import Codec, Item, Undecodable
from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.handshake import (
    HANDSHAKE,
    HANDSHAKE_BYTES_MAX,
    ClientHello,
    GroupInfo,
    Hello,
    NodeInfo,
    TurnedAway,
    Welcome,
)
from braidcast.wire.service import FROM_CLIENTS, Status, StatusWanted, Subscribe, SubscriptionEnded, Unsubscribe

if TYPE_CHECKING:
    from braidcast.cluster.node import Node

CLIENT_ID_MAX = (1 << 63) - 1


def _remove_left_over(path: Path) -> None:
    """The socket of a node that was killed; nothing else is touched."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BraidcastError(f"{path} is no socket: name another path for the unix socket, or move it away")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as there:
        there.setblocking(False)
        try:
            there.connect(str(path))
        except ConnectionRefusedError:
            return path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # it is alive, and busy
    raise BraidcastError(f"somebody listens at {path} already: is the node running?")


class Door:
    """Where connections come in."""

    def __init__(self, node: Node) -> None:
        self.node, self.config = node, node.config
        limits = self.config.limits
        # Who is nobody yet may not make this node keep as much as a peer may.
        stranger_bytes_max = min(HANDSHAKE_BYTES_MAX, limits.frame_bytes_max)
        self.limits = ConnectionLimits(stranger_bytes_max, limits.peer_buffer_bytes_max)
        self.from_clients = Codec((*node.protocol.from_clients, *FROM_CLIENTS))
        self.strangers: dict[Connection, float] = {}
        """Connections that are nobody's yet, and since when."""
        self.strangers_max = STRANGERS_MAX + len(self.config.nodes)
        self.servers: list[asyncio.Server] = []

    async def open(self) -> None:
        """Begin to listen."""
        loop = asyncio.get_running_loop()
        me = self.config.nodes[self.node.name]

        def accept() -> Connection:
            return Connection(self.limits, self._on_first_body, self._on_stranger_gone, self._on_stranger)

        try:
            self.servers.append(await loop.create_server(accept, me.host, me.port))
            if me.unix is not None:
                me.unix.parent.mkdir(parents=True, exist_ok=True)
                _remove_left_over(me.unix)
                self.servers.append(await loop.create_unix_server(accept, str(me.unix)))
        except BraidcastError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise BraidcastError(
                f"node {me.name} cannot listen at {me.address}: {error.strerror or error}: "
                f"is it running already, or is the port in use?"
            ) from None

    def close(self) -> None:
        """Listen no more."""
        for server in self.servers:
            server.close()
        for connection in list(self.strangers):
            connection.end("this node stops")

    def pulse(self) -> None:
        """Send away who has not said a word."""
        too_old = time.monotonic() - self.config.timing.handshake_ms_max / 1000
        for connection in [c for c, since in self.strangers.items() if since < too_old]:
            connection.end("no handshake in time")

    # -- connections that are nobody's yet ---------------------------------------------------------------------------

    def _on_stranger(self, connection: Connection) -> None:
        if len(self.strangers) >= self.strangers_max:
            next(iter(self.strangers)).end("too many connections without a name")
        self.strangers[connection] = time.monotonic()

    def _on_stranger_gone(self, connection: Connection, why: str) -> None:
        if self.strangers.pop(connection, None) is not None:
            fault = connection.fault
            self.node.refuse(f"{fault} of a stranger" if fault else "connection without a handshake")

    def _on_first_body(self, connection: Connection, body: bytes) -> None:
        self.strangers.pop(connection, None)
        try:
            said = HANDSHAKE.decode_one(body)
        except Undecodable as error:
            self.node.refuse("undecodable handshake")
            return connection.end(str(error))
        connection.reader.body_bytes_max = self.config.limits.frame_bytes_max
        if isinstance(said, Hello):
            self.node.peers.answer(connection, said)
        elif isinstance(said, ClientHello):
            self._welcome(connection, said)
        else:
            self.node.refuse("no handshake")
            connection.end("no handshake")

    def _welcome(self, connection: Connection, hello: ClientHello) -> None:
        config, limits = self.config, self.config.limits
        why = None
        if hello.cluster not in ("", config.name):
            why = f"this is cluster {config.name}, not {hello.cluster}"
        elif len(self.node.clients) >= limits.connections_max:
            why = f"node {self.node.name} has {limits.connections_max:,} clients, as many as it takes (connections_max)"
        elif hello.client in self.node.topology.group_of or not 0 <= hello.client <= CLIENT_ID_MAX:
            why = f"{hello.client} is not the id of a client"
        if why is not None:
            self.node.refuse("client turned away")
            connection.send(HANDSHAKE.encode(TurnedAway(why, True)))
            return connection.end("turned away", flush=True)
        groups = tuple(GroupInfo(g.name, number, g.pids) for number, g in enumerate(config.groups))
        nodes = tuple(NodeInfo(n.name, n.address, config.pids_of(n.name)) for n in config.nodes.values())
        connection.limits = ConnectionLimits(limits.frame_bytes_max, limits.client_buffer_bytes_max)
        welcome = Welcome(
            config.name, config.fingerprint, self.node.name, groups, nodes, limits.frame_bytes_max,
            limits.payload_bytes_max,
        )  # fmt: skip
        connection.send(HANDSHAKE.encode(welcome))
        session = ClientSession(connection, hello.client, self.from_clients.bodies)
        connection.on_body = lambda _, body: self._on_client_body(session, body)
        connection.on_end = lambda *_: self._on_client_gone(session)
        self.node.clients.add(session)

    # -- clients -----------------------------------------------------------------------------------------------------

    def _on_client_gone(self, session: ClientSession) -> None:
        self.node.clients.remove(session)
        if session.connection.fault:
            self.node.refuse(f"{session.connection.fault} of a client")

    def _on_client_body(self, session: ClientSession, body: bytes) -> None:
        node = self.node
        try:
            items = self.from_clients.decode(body)
        except Undecodable as error:
            node.refuse("undecodable frame of a client")
            return session.connection.end(str(error))
        node.admission.arrived_bytes += len(body)
        node.set_clocks()
        node.carefully(lambda: self._take(session, items))
        node.wake()

    def _take(self, session: ClientSession, items: Sequence[Item]) -> None:
        node = self.node
        wants_status = False
        node.admission.admit()  # for each frame anew: others may have sent as much in the same turn
        for _, to, message in items:
            if isinstance(message, StatusWanted):
                wants_status = True  # once, however often a frame asks: the answer is much longer than the question
            elif isinstance(message, FROM_CLIENTS):
                self._serve(session, message)
            elif len(to) > len(node.replicas):
                node.refuse("client: more receivers than there are")
            elif node.clients.admits:
                self.submit(session, to, message)
                node.clients.admits = node.admission.submitted_bytes < SUBMITTED_BYTES_MAX
            else:
                node.clients.hold(session, to, message)
        if wants_status:
            session.answer(Status(json.dumps(status_of(node))))

    def submit(self, session: ClientSession, to: Pids, message: Any) -> None:
        """What a client wants to have ordered."""
        node = self.node
        if (why := self._why_not(session, message)) is not None:
            node.refuse("client: " + why.partition(":")[0])
            node.clients.tell(session.pid, 0, Refused(message.id, message.dest[0] if message.dest else 0, why))
            return
        if isinstance(message, Multicast):
            node.admission.submitted_bytes += len(message.payload)
        for pid in to:
            if (replica := node.replicas.get(pid)) is not None:
                if node.recorder is not None and isinstance(message, Multicast):
                    node.recorder.multicast(replica, message)
                replica.step(session.pid, message)
            else:
                node.refuse("client: process that is not here")

    def _why_not(self, session: ClientSession, message: Any) -> str | None:
        if not isinstance(message, Multicast):
            return None
        largest = self.config.limits.payload_bytes_max
        if message.id.client != session.pid:
            return "in another client's name"
        if len(message.payload) > largest:
            return f"too large: {len(message.payload):,} bytes, at most {largest:,}"
        if self.config.when_unavailable == "refuse":
            for group in message.dest:
                if 0 <= group < len(self.config.groups) and not self._reaches_quorum(group):
                    name = self.config.group_name(group)
                    return f"unavailable: node {self.node.name} reaches no quorum of group {name}, try again later"
        return None

    def _reaches_quorum(self, group: Group) -> bool:
        node, topology = self.node, self.node.topology
        hosts = [self.config.node_of(pid) for pid in topology.groups[group]]
        reached = [host for host in hosts if node.reaches(host)]
        return len(reached) >= topology.quorum[group]

    def _serve(self, session: ClientSession, message: Any) -> None:
        node = self.node
        match message:
            case Subscribe(group=group, after=after):
                if group not in node.by_group:
                    ended = SubscriptionEnded(group, f"node {node.name} has no replica of that group")
                    node.clients.tell(session.pid, 0, ended)
                    return
                session.following[group] = after
                node.clients.following[session] = None
            case Unsubscribe(group=group):
                session.following.pop(group, None)
