"""The other nodes: one connection to each, dialled by the node whose name is lower, again and again.

1. Whatever a session loses is the protocol's business: what is put out while there is none is dropped, and the
   processes here hear `Connected` when a new one begins.
2. A connection is taken only with an (incarnation, session) above all seen of that peer: the newest one replaces the
   one before, and nothing of an earlier life arrives after something of a later one.
4. What a peer is sent waits here, in order, and is written as the peer takes it: `AHEAD_BYTES` at a time. Beyond
   `peer_buffer_bytes_max` what is put out for it is lost, as between two sessions, and the processes hear `Connected`
   when it has taken the rest. It loses the session only if meanwhile it takes nothing at all for `silence_ms_max`.
3. Either side may turn the other away after its hello. Who is turned away for good stops: it has lost its state, and
   must not go on as if nothing had happened. Nobody stops because another node has a wrong configuration or address.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from random import random

from braidcast.cluster.config import ClusterConfig, NodeConfig
from braidcast.cluster.identity import Identity
from braidcast.core.topology import Pids
from braidcast.settings.toml_lines import host_and_port
from braidcast.wire.codec import Codec, Item, Undecodable
from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.handshake import HANDSHAKE, Hello, TurnedAway

log = logging.getLogger(__name__)

NAME_SHOWN_MAX = 80
"""What is shown of a name that anybody may have made up."""
AHEAD_BYTES = 1 << 20
"""What is written before it is taken, or one frame."""
BODY_BYTES = 1 << 20
"""A frame holds no more unless a single message is larger: what is behind it has not to wait for long."""
CONGESTED_BYTES = 4 << 20
SAY_AGAIN_S = 60
"""The same reason for turning a node away is logged again after so long."""
NOBODY = -1
"""The sender of what a node says for itself, and not for one of its replicas."""


class Said:
    """What was logged of a node that is turned away, or turns this one away: not again for each attempt."""

    def __init__(self) -> None:
        self.why, self.at = "", 0.0

    def once(self, why: str) -> bool:
        """Whether this is another reason, or was said long ago."""
        now = time.monotonic()
        if why == self.why and now - self.at < SAY_AGAIN_S:
            return False
        self.why, self.at = why, now
        return True


class Peer:
    """Another node."""

    def __init__(self, node: NodeConfig, pids: Pids) -> None:
        self.name, self.node, self.pids = node.name, node, frozenset(pids)
        self.connection: Connection | None = None
        self.outgoing: list[Item] = []
        """What this tick has for it."""
        self.waiting: deque[bytes] = deque()
        """Bodies that are not written yet, because it has not taken what was."""
        self.waiting_bytes = 0
        self.looked_at = False
        """Whether it is looked at again before long."""
        self.lost = False
        """Whether something was put out in this session for which there was no room."""
        self.disk = self.life = ""
        self.incarnation = 0
        self.session = 0
        """The highest seen, of the disk that it has now."""
        self.sessions = 0
        """How many there were."""
        self.trouble = ""
        """Why there is no session."""
        self.said = Said()

    @property
    def connected(self) -> bool:
        """Whether there is a session."""
        return self.connection is not None

    @property
    def behind_bytes(self) -> int:
        """What it has not taken."""
        return self.waiting_bytes + (self.connection.unread_bytes if self.connection is not None else 0)

    @property
    def congested(self) -> bool:
        """Whether it is slower than what is put out for it."""
        return self.waiting_bytes > CONGESTED_BYTES

    def forget_waiting(self) -> None:
        """Its session began or ended."""
        self.outgoing.clear()
        self.waiting.clear()
        self.waiting_bytes, self.lost = 0, False

    def put(self, codec: Codec, frame_bytes_max: int, behind_bytes_max: int) -> None:
        """What this tick has for it waits to be written; it is lost if too much does already."""
        outgoing, self.outgoing = self.outgoing, []
        if self.connection is None:
            return
        if self.behind_bytes > behind_bytes_max:
            self.lost = True
            return
        for body in codec.bodies(outgoing, min(frame_bytes_max, BODY_BYTES)):
            self.waiting.append(body)
            self.waiting_bytes += len(body)

    def write(self) -> bool:
        """Write what it has room for; whether all that it lost while there was none is to be made good now."""
        connection, waiting = self.connection, self.waiting
        while waiting and connection is not None and connection.alive:
            unread = connection.unread_bytes
            if unread and unread + len(waiting[0]) > min(AHEAD_BYTES, connection.limits.buffer_bytes_max):
                return False
            body = waiting.popleft()
            self.waiting_bytes -= len(body)
            connection.send(body)
        if not self.lost or waiting:
            return False
        self.lost = False
        return True

    def was_ahead_of(self, hello: Hello) -> bool:
        """Whether a later life on the same disk was seen: this one is of a copy that was taken before."""
        is_other_life = hello.incarnation == self.incarnation and hello.life != self.life
        return hello.disk == self.disk and (hello.incarnation < self.incarnation or is_other_life)

    def takes(self, hello: Hello) -> bool:
        """Whether this is newer than all that was seen of the peer."""
        if hello.disk == self.disk and (hello.incarnation, hello.session) <= (self.incarnation, self.session):
            return False
        self.disk, self.life = hello.disk, hello.life
        self.incarnation, self.session = hello.incarnation, hello.session
        return True


class Peers:
    """All the others, and the handshake with them."""

    def __init__(
        self,
        config: ClusterConfig,
        identity: Identity,
        on_items: Callable[[Peer, bytes], None],
        on_session: Callable[[Peer], None],
        on_banned: Callable[[str], None],
        on_refused: Callable[[str], None],
        on_drained: Callable[[Peer], None],
    ) -> None:
        self.config, self.identity = config, identity
        self.on_items, self.on_session, self.on_banned = on_items, on_session, on_banned
        self.on_refused, self.on_drained = on_refused, on_drained
        """Called with the reason, to be counted, for every connection of another node that this one ends."""
        self.me = identity.node
        self.life = uuid.uuid4().hex
        self.all = {
            name: Peer(node, config.pids_of(name)) for name, node in config.nodes.items() if name != self.me
        }
        self.limits = ConnectionLimits(config.limits.frame_bytes_max, config.limits.peer_buffer_bytes_max)
        self.encode = Codec((TurnedAway,)).encode
        self.reading = True
        self.said = Said()
        """Of nodes that nobody knows."""
        self.sessions = 0
        """How many connections this incarnation has begun."""
        self.tasks: list[asyncio.Task[None]] = []

    def dial(self) -> None:
        """Begin to connect to those that this node dials."""
        loop = asyncio.get_running_loop()
        self.tasks = [loop.create_task(self._keep_connected(p)) for p in self.all.values() if self.me < p.name]

    async def stop(self) -> None:
        """End every session."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for peer in self.all.values():
            if peer.connection is not None:
                peer.connection.end("this node stops", flush=True)

    def set_reading(self, reading: bool) -> None:
        """Read from peers, or leave what they send in the network; what does not fit there costs them the session."""
        if reading == self.reading:
            return
        self.reading = reading
        for peer in self.all.values():
            if peer.connection is not None:
                peer.connection.set_reading(reading)

    def pulse(self, silent_pulses_max: int) -> None:
        """To be called at a steady pace."""
        behind_max = self.config.limits.peer_buffer_bytes_max
        for peer in self.all.values():
            if (connection := peer.connection) is None:
                continue
            connection.pulse(silent_pulses_max)
            if connection.stalled_pulses >= silent_pulses_max and peer.behind_bytes > behind_max:
                why = f"the other side does not read: {peer.behind_bytes:,} bytes wait for it"
                connection.end(why, fault="does not read")

    def hello(self, to: str) -> Hello:
        """What this node says first on a new connection."""
        self.sessions += 1
        identity = self.identity
        return Hello(
            self.config.name, self.config.fingerprint, self.me, identity.disk, identity.incarnation, self.sessions,
            identity.rejoins, to, self.life,
        )  # fmt: skip

    # -- the side that dials -----------------------------------------------------------------------------------------

    async def _keep_connected(self, peer: Peer) -> None:
        timing = self.config.timing
        wait_ms: float = timing.reconnect_ms_min
        while True:
            ended = asyncio.get_running_loop().create_future()
            try:
                if await self._dial(peer, ended):
                    wait_ms = timing.reconnect_ms_min
                    await ended
            except (OSError, TimeoutError) as error:
                peer.trouble = f"{peer.node.address} does not answer: {str(error) or 'too slow'}"
            except Exception as error:  # one attempt must not be the last
                peer.trouble = f"{peer.node.address} cannot be dialled: {type(error).__name__}: {error}"
                if peer.said.once(peer.trouble):
                    log.exception("peer %s: an error that should not be", peer.name)
            await asyncio.sleep(wait_ms * (0.5 + random()) / 1000)
            wait_ms = min(2 * wait_ms, timing.reconnect_ms_max)

    async def _dial(self, peer: Peer, ended: asyncio.Future[None]) -> bool:
        timing = self.config.timing
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        early: list[bytes] = []
        """What came right behind the answer: nobody's until that is looked at."""

        def on_body(connection: Connection, body: bytes) -> None:
            if not answer.done():
                answer.set_result(body)
            else:
                early.append(body)

        def on_end(connection: Connection, why: str) -> None:
            if not answer.done():
                answer.set_exception(ConnectionError(why))
            if not ended.done():
                ended.set_result(None)
            self._on_end(peer, connection, why)

        connection = Connection(self.limits, on_body, on_end)
        try:
            async with asyncio.timeout(timing.connect_ms_max / 1000):
                await self._open(peer, connection)
            connection.send(HANDSHAKE.encode(self.hello(peer.name)))
            async with asyncio.timeout(timing.handshake_ms_max / 1000):
                body = await answer
            said = HANDSHAKE.decode_one(body)
        except BaseException as error:  # cancelled, too: nobody else knows of this connection
            answer.cancel()
            if isinstance(error, TimeoutError | Undecodable):
                self.on_refused("peer without a handshake")
            connection.end(f"no handshake: {str(error) or 'too slow'}")
            if isinstance(error, Undecodable):
                raise ConnectionError(str(error)) from None
            raise
        if isinstance(said, TurnedAway):
            connection.end("turned away by the other side")
            self.hear_no(peer, said)
            return False
        no = self._why_not(said)
        if no is None and (not isinstance(said, Hello) or said.node != peer.name):
            no = TurnedAway(f"another than {peer.name} answers at {peer.node.address}", False)
        if no is not None or not isinstance(said, Hello):
            assert no is not None, "what is no hello is no peer"
            peer.trouble = no.why
            if peer.said.once(no.why):
                log.warning("peer %s: %s", peer.name, no.why)
            self.on_refused("peer turned away")
            connection.send(self.encode([(NOBODY, (), no)]))
            # Who has answered speaks on at once. To close with that unread would reset the stream, and the other side
            # would not hear why it is turned away, however often it is dialled: it closes, or has had its time.
            connection.on_body = lambda *_: None
            late = timing.handshake_ms_max / 1000
            asyncio.get_running_loop().call_later(late, lambda: connection.end("turned away", flush=True))
            return False
        connection.on_body = lambda _, body: self.on_items(peer, body)
        if self._begin(peer, connection, said):
            for body in early:
                if connection.alive:
                    self.on_items(peer, body)
        return peer.connection is connection

    async def _open(self, peer: Peer, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        here, there = self.config.nodes[self.me], peer.node
        if there.unix is not None and here.machine == there.machine:
            await loop.create_unix_connection(lambda: connection, str(there.unix))
        else:
            host, port = host_and_port(there.peer_address or there.address)
            await loop.create_connection(lambda: connection, host, port)

    def hear_no(self, peer: Peer, said: TurnedAway) -> None:
        """The peer wants no session with this node."""
        peer.trouble = said.why
        if peer.said.once(said.why):
            log.warning("peer %s turned this node away: %s", peer.name, said.why)
        if said.final:
            self.on_banned(said.why)

    # -- the side that is dialled ------------------------------------------------------------------------------------

    def answer(self, connection: Connection, hello: Hello) -> None:
        """A node has connected to this one."""
        peer = self.all.get(hello.node)
        no = self._why_not(hello)
        name = hello.node[:NAME_SHOWN_MAX]
        if no is None and hello.to not in ("", self.me):
            no = TurnedAway(f"this is node {self.me}, not {hello.to[:NAME_SHOWN_MAX]}: correct its address", False)
        elif no is None and (peer is None or not hello.node < self.me):
            no = TurnedAway(f"node {self.me} expects no connection from {name or 'nobody'}", False)
        elif no is None and peer is not None and not peer.takes(hello):
            no = TurnedAway("an old session", False)
        if no is not None or peer is None:
            assert no is not None, "who is no peer is expected by nobody"
            if peer is not None and not peer.connected:
                peer.trouble = no.why
            if (peer.said if peer is not None else self.said).once(no.why):
                log.warning("node %r turned away: %s", name, no.why)
            self.on_refused("peer turned away")
            connection.send(HANDSHAKE.encode(no))
            return connection.end("turned away", flush=True)
        connection.send(HANDSHAKE.encode(self.hello(peer.name)))
        connection.on_body = lambda _, body: self.on_items(peer, body)
        connection.on_end = lambda ended, why: self._on_end(peer, ended, why)
        self._begin(peer, connection, None)

    # -- both --------------------------------------------------------------------------------------------------------

    def _why_not(self, said: object) -> TurnedAway | None:
        if not isinstance(said, Hello):
            return TurnedAway("not a node of this cluster", False)
        if said.cluster != self.config.name:
            node, cluster = said.node[:NAME_SHOWN_MAX], said.cluster[:NAME_SHOWN_MAX]
            return TurnedAway(f"node {node} is of cluster {cluster}, this is {self.config.name}", False)
        if said.fingerprint != self.config.fingerprint:
            why = (
                f"node {said.node} has other groups, members or protocol options (fingerprint {said.fingerprint}, "
                f"node {self.me} has {self.config.fingerprint}): give all nodes the same configuration"
            )
            return TurnedAway(why, False)
        if said.node not in self.all:
            return None
        try:
            why_not = self.identity.why_not(said.node, said.disk, said.rejoins)
        except OSError as error:
            return TurnedAway(f"node {self.me} cannot remember the disk of {said.node}: {error.strerror}", False)
        if why_not is None and self.all[said.node].was_ahead_of(said):
            why = (
                f"node {said.node} runs on an older copy of its disk (its start {said.incarnation} comes after start "
                f"{self.all[said.node].incarnation}), so it has forgotten what it promised since: move that copy away, "
                f"and bring the newest disk back or start the node once with --rejoin"
            )
            return TurnedAway(why, False)  # it may be the last word of a life that is over
        return None if why_not is None else TurnedAway(why_not, True)

    def _begin(self, peer: Peer, connection: Connection, hello: Hello | None) -> bool:
        if hello is not None and not peer.takes(hello):
            self.on_refused("old session of a peer")
            connection.end("an old session")
            return False
        if not connection.alive:
            return False  # it ended during the handshake, or this node has stopped
        before, peer.connection = peer.connection, connection
        connection.on_drained = lambda: self.on_drained(peer)
        if not self.reading:
            connection.set_reading(False)
        if before is not None:
            before.end("a newer session")
        peer.forget_waiting()
        peer.trouble = ""
        peer.sessions += 1
        log.info("peer %s: session %d of incarnation %d", peer.name, peer.session, peer.incarnation)
        self.on_session(peer)
        return True

    def _on_end(self, peer: Peer, connection: Connection, why: str) -> None:
        if connection.fault:
            self.on_refused(f"{connection.fault} of a peer")
        if peer.connection is connection:
            peer.connection = None
            peer.forget_waiting()
            peer.trouble = why
            log.info("peer %s: session ended: %s", peer.name, why)
