"""A node: one OS process that hosts one replica of each group assigned to it, and knows no protocol by name.

Theory of operation. Everything that arrives (frames, timers, the disk's answers) is stepped through the processes at
once; what they put out is carried out once per turn of the event loop, in `_tick`:

1. timers are set;
2. if there are records and the node is durable, all records of all replicas become one commit, and what was put out
   with them waits for it; while a commit is in progress everything else that is put out waits for the next one;
3. otherwise sends and deliveries go: to replicas of this node directly, to each peer as one frame, to clients as one
   frame each. What local replicas answer is carried out in the same turn.

So a turn costs one sync and one write per peer, however much it carries.

What a disk has no room for stops everything that would leave, until there is room. What the disk holds back has a
limit: beyond it peers are not read. What a peer has not taken has one, too: see `peers`.
Whatever else goes wrong ends the node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from braidcast import __version__
from braidcast.cluster.clients import Clients
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.door import SUBMITTED_BYTES_MAX, Door
from braidcast.cluster.durability import Durability
from braidcast.cluster.identity import Identity
from braidcast.cluster.journal import Journal
from braidcast.cluster.journal_segments import JournalError
from braidcast.cluster.log import Log
from braidcast.cluster.open_files import files_wanted, raise_limit
from braidcast.cluster.peers import Peer, Peers
from braidcast.cluster.recorder import NodeRecorder
from braidcast.cluster.replica import Replica
from braidcast.cluster.syncing import JournalSyncs
from braidcast.core.application import Connected, Delivered, HandOver, Restored, Snapshot, SnapshotWanted
from braidcast.core.errors import BraidcastError
from braidcast.core.process import Batch
from braidcast.core.topology import Group, Pid, Pids
from braidcast.wire.clocks import monotonic_us, wall_us
from braidcast.wire.codec import Codec, Item, Undecodable
from braidcast.wire.handshake import TurnedAway

log = logging.getLogger(__name__)

ROUNDS_MAX = 8
"""How often replicas of this node may answer each other within one turn."""
JOURNAL_SYNC_S = 0.05
BACKLOG_RESUMES = 0.75
"""Clients are read again when the backlog has fallen to this share of the limit."""
LOOK_AGAIN_S = 0.01


class Route:
    """Where the messages for one set of processes go."""

    __slots__ = ("client", "local", "remote")

    def __init__(self, local: list[Replica], remote: list[tuple[Peer, Pids]], client: Pid | None) -> None:
        self.local, self.remote, self.client = local, remote, client


class Node:
    """One node of a cluster."""

    def __init__(self, config: ClusterConfig, identity: Identity, wal: Log | None) -> None:
        self.config, self.identity = config, identity
        self.name = identity.node
        self.recorder: NodeRecorder | None = None
        if config.history is not None:
            self.recorder = NodeRecorder(config, self.name, identity.incarnation, __version__)
        self.records_everything = self.recorder is not None and self.recorder.everything
        self.protocol = config.protocol
        self.topology = config.topology
        self.replicas: dict[Pid, Replica] = {}
        self.by_group: dict[Group, Replica] = {}
        self.local: deque[tuple[Pid, Replica, Any]] = deque()
        """Messages from replica to replica within this node."""
        self.routes: dict[Pids, Route] = {}
        self.clients = Clients()
        self.refused: dict[str, int] = {}
        """Connections, frames and messages that were refused, by reason."""
        self.peers = Peers(config, identity, self._on_peer_body, self._on_session, self.fail, self.refuse, self._write)
        self.door = Door(self)
        self.awake = False
        self.over = False
        """It has failed or stops: nothing leaves any more."""
        self.arrived_bytes = 0
        """What came since the last commit began: with what it put out, it waits for the next one."""
        self.submitted_bytes = 0
        """What clients submitted of that."""
        self.blocked = False
        """Whether a journal or the history waits for room on the disk."""
        self.syncs = JournalSyncs(self.fail)
        self.failure: asyncio.Future[str] | None = None
        self.began = time.monotonic()
        for pid in config.pids_of(self.name):
            self._host(pid)
        some = next(iter(self.replicas.values())).process
        protocol_kinds = [kind for kind in some.inputs if kind not in (*self.protocol.timers, *FROM_DRIVER)]
        self.from_peers = Codec((*protocol_kinds, TurnedAway))
        self.passed_on = some.passed_on
        self.snapshot_bytes_max = config.limits.peer_buffer_bytes_max // 2
        """A snapshot goes to a peer as a whole, and must not cost it the session."""
        self.durability: Durability | None = None
        if wal is not None:
            self.durability = Durability(wal, some.replays, config.limits.checkpoint_bytes_min, self.fail)

    def _host(self, pid: Pid) -> None:
        group = self.topology.group_of[pid]
        on_disk = self.config.durability == "disk"
        folder = self.config.journal_folder(self.name, self.config.group_name(group)) if on_disk else None
        journal = Journal(folder, self.config.limits.journal_bytes_max)
        replica = Replica(
            pid, group, lambda out: self.protocol.make(out, self.topology, self.config.options), journal,
            self._on_timer, None if self.recorder is None else self.recorder.noter,
        )  # fmt: skip
        self.replicas[pid] = self.by_group[group] = replica

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover, begin to listen, connect to the others."""
        self.failure = asyncio.get_running_loop().create_future()
        raise_limit(files_wanted(self.config, self.name))
        records = self.durability.recovered() if self.durability is not None else {}
        now, wall = monotonic_us(), wall_us()
        for pid, replica in self.replicas.items():
            replica.out.now, replica.out.wall = now, wall
            kept = records.get(pid, [])
            is_lost = self.identity.rejoins and not kept
            if self.recorder is not None:
                self.recorder.started(replica, is_lost=is_lost)
            if is_lost:
                replica.rejoin(self.identity.incarnation)
            else:
                replica.start(kept)
        self.wake()
        await self.door.open()
        self.peers.dial()
        self._pulse()
        self._sync_journals()

    async def stop(self) -> None:
        """Finish what is on its way to the disk, say good-bye, let go of everything."""
        self.over = True
        self.door.close()
        await self.peers.stop()
        for session in self.clients.all():
            session.connection.end("this node stops", flush=True)
        if self.durability is not None:
            self.durability.give_up()
            await asyncio.to_thread(self.durability.close)
        for replica in self.replicas.values():
            replica.stop()
        if self.recorder is not None:
            self.recorder.close()

    def fail(self, why: str) -> None:
        """This node cannot go on: what it was about to do is not done, and nothing leaves it any more."""
        self.over = True
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(why)

    # -- what arrives ------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Carry out what the processes put out before the next turn of the loop."""
        if not self.awake:
            self.awake = True
            asyncio.get_running_loop().call_soon(self._tick)

    def set_clocks(self) -> None:
        now, wall = monotonic_us(), wall_us()
        for replica in self.replicas.values():
            replica.out.now, replica.out.wall = now, wall

    def _on_timer(self, replica: Replica, timer: Any) -> None:
        self.set_clocks()
        self.carefully(lambda: replica.step(replica.pid, timer))
        self.wake()

    def _on_session(self, peer: Peer) -> None:
        self.set_clocks()
        self.carefully(lambda: self._tell_connected(peer))
        self.wake()

    def _tell_connected(self, peer: Peer) -> None:
        for replica in self.replicas.values():
            if Connected in replica.process.inputs:
                for pid in sorted(peer.pids):
                    replica.step(replica.pid, Connected(pid))

    def _on_peer_body(self, peer: Peer, body: bytes) -> None:
        try:
            items = self.from_peers.decode(body)
        except Undecodable as error:
            self.refuse("undecodable frame of a peer")
            if peer.connection is not None:
                peer.connection.end(str(error))
            return
        self.arrived_bytes += len(body)
        self.set_clocks()
        self.carefully(lambda: self._take(peer, items))
        self.wake()

    def _take(self, peer: Peer, items: Sequence[Item]) -> None:
        replicas, pids = self.replicas, peer.pids
        for sender, to, message in items:
            if sender not in pids:
                if type(message) is TurnedAway:
                    self.peers.hear_no(peer, message)
                else:
                    self.refuse("message in another's name")
                continue
            if len(to) > len(replicas):
                self.refuse("more receivers than there are")
                continue
            for pid in to:
                replica = replicas.get(pid)
                if replica is None:
                    self.refuse("message for a process that is not here")
                elif type(message) in self.passed_on and not self.admit():
                    self.refuse("passed on while there was no room")
                else:
                    if self.records_everything:
                        self._record_receipt(replica, sender, message)
                    replica.step(sender, message)

    def _record_receipt(self, replica: Replica, sender: Pid, message: Any) -> None:
        assert self.recorder is not None, "only with a history"
        self.recorder.received(replica, sender, message)

    def refuse(self, why: str) -> None:
        """Count what is refused."""
        self.refused[why] = self.refused.get(why, 0) + 1

    # -- what leaves -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.awake = False
        self.carefully(self._turn)

    def carefully(self, work: Callable[[], None]) -> None:
        """What fails half-way must not be followed by anything: others would see one half."""
        if self.over:
            return
        try:
            work()
        except (OSError, BraidcastError) as error:
            self.fail(f"node {self.name} cannot go on: {error}")
        except Exception as error:
            log.exception("an error that should not be")
            self.fail(f"node {self.name} cannot go on: {type(error).__name__}: {error}")

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        durability = self.durability
        for _ in range(ROUNDS_MAX):
            for replica in self.replicas.values():
                replica.set_timers(loop)
            if not self._has_room():
                break
            if durability is not None:
                if durability.busy:
                    break
                if any(replica.out.batch.records for replica in self.replicas.values()):
                    self._commit(durability)
                    break
            for replica in self.replicas.values():
                batch = replica.out.batch
                self._let_go(replica, batch)
                for part in batch:
                    part.clear()
            self.arrived_bytes = self.submitted_bytes = 0
            if not self.local:
                break
            self._step_local()
        else:
            self.wake()
        if self._has_room():
            self._flush()
        limits = self.config.limits
        self.peers.set_reading(
            self._held_back() < limits.pending_messages_max and self.arrived_bytes < limits.pending_bytes_max
        )
        self.admit()

    def _held_back(self) -> int:
        """How much was put out and waits for the disk."""
        return sum([len(r.out.records) + len(r.out.batch.sent) for r in self.replicas.values()])

    def _has_room(self) -> bool:
        """Whether all that was recorded and delivered could be written; it is tried again each time."""
        room = self.recorder is None or self.recorder.write()
        for replica in self.replicas.values():
            if room:
                replica.journal.write()
                room = not replica.journal.full
        if self.blocked == room:
            self.blocked = not room
            log.warning("no room for the journals or the history: nothing goes on until there is" if self.blocked
                        else "there is room on the disk again: going on")  # fmt: skip
        return room

    @property
    def disk_full(self) -> bool:
        """Whether something waits for room on the disk."""
        return self.blocked or (self.durability is not None and self.durability.full)

    def _commit(self, durability: Durability) -> None:
        batches = [(replica, replica.out.take()) for replica in self.replicas.values()]
        self.arrived_bytes = self.submitted_bytes = 0
        records = [(replica.pid, batch.records) for replica, batch in batches if batch.records]
        if durability.wants_checkpoint and (everything := self._checkpoint()) is not None:
            durability.checkpoint(everything, records, lambda: self._committed(batches))
        else:
            durability.commit(records, lambda: self._committed(batches))

    def _checkpoint(self) -> list[tuple[Pid, list[Any]]] | None:
        try:
            return [(pid, list(replica.process.checkpoint())) for pid, replica in self.replicas.items()]
        except NotImplementedError:
            return None

    def _committed(self, batches: list[tuple[Replica, Batch]]) -> None:
        self.carefully(lambda: self._carry_out(batches))

    def _carry_out(self, batches: list[tuple[Replica, Batch]]) -> None:
        self.set_clocks()
        for replica, batch in batches:
            if self.recorder is not None and self.records_everything:
                self.recorder.persisted(replica, batch.records)
            self._let_go(replica, batch)
        self._step_local()
        self._turn()

    def _let_go(self, replica: Replica, batch: Batch) -> None:
        """Sends and deliveries, whose records are durable."""
        routes, me = self.routes, replica.pid
        if self.recorder is not None and self.records_everything:
            self.recorder.let_go(replica, batch.sent)
        for to, message in batch.sent:
            route = routes.get(to)
            if route is None:
                route = self._route(to)
            for peer, pids in route.remote:
                peer.outgoing.append((me, pids, message))
            for other in route.local:
                if other is not replica:
                    self.local.append((me, other, message))
            if route.client is not None:
                self.clients.tell(route.client, me, message)
        if batch.delivered:
            self._deliver(replica, batch.delivered)

    def _route(self, to: Pids) -> Route:
        if len(to) == 1 and to[0] not in self.topology.group_of:
            return Route([], [], to[0])  # not kept: clients come and go
        here = [self.replicas[pid] for pid in to if pid in self.replicas]
        there = [
            (peer, tuple([pid for pid in to if pid in peer.pids]))
            for peer in self.peers.all.values()
            if not peer.pids.isdisjoint(to)
        ]
        route = self.routes[to] = Route(here, there, None)
        return route

    def _step_local(self) -> None:
        local = self.local
        for _ in range(len(local)):
            sender, replica, message = local.popleft()
            if self.records_everything:
                self._record_receipt(replica, sender, message)
            replica.step(sender, message)

    def _deliver(self, replica: Replica, delivered: list[Any]) -> None:
        journal, recorder = replica.journal, self.recorder
        for delivery in delivered:
            match delivery:
                case Delivered():
                    if not journal.append(delivery):
                        continue  # after a restart: it is here already
                case SnapshotWanted(gts=gts):
                    state = journal.state(self.snapshot_bytes_max)
                    self.local.append((replica.pid, replica, Snapshot(gts, state)))
                case Restored(gts=gts, state=state):
                    try:
                        journal.restore(gts, state)
                    except JournalError as error:  # another version's: what follows it must not be built on nothing
                        self.refuse("snapshot that cannot be read")
                        return self.fail(str(error))
            if recorder is not None:
                recorder.delivered(replica, delivery)
        if recorder is None or recorder.write():  # before the journal: what that holds after a crash is recorded
            journal.write()

    def _flush(self) -> None:
        """One frame for each peer and each client, or as few as hold it."""
        limits = self.config.limits
        for peer in self.peers.all.values():
            if peer.outgoing:
                peer.put(self.from_peers, limits.frame_bytes_max, limits.peer_buffer_bytes_max)
            if peer.waiting or peer.lost:
                self._write(peer)
        if self.clients.sessions:
            journals = {group: replica.journal for group, replica in self.by_group.items()}
            if self.clients.flush(journals):
                asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.wake)

    def _write(self, peer: Peer) -> None:
        """What waits for a peer, as far as it takes it."""
        if self.over:
            return
        was_congested = peer.congested
        if peer.write():
            self._on_session(peer)  # what it lost meanwhile is as good as lost with a session
        elif peer.waiting and not peer.looked_at:
            peer.looked_at = True  # below its mark a transport tells nobody that it drained
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again, peer)
        if was_congested and not peer.congested:
            self.wake()

    def _look_again(self, peer: Peer) -> None:
        peer.looked_at = False
        self._write(peer)

    def admit(self) -> bool:
        """Whether there is room for what clients submit; if there is again, what waited for it comes first."""
        clients = self.clients
        if self.disk_full or not self.has_place or not self._keeps_up():
            clients.admits = False
        elif not clients.admits and self._load() <= BACKLOG_RESUMES:
            clients.admits = True
            for session, to, message in clients.released():
                self.door.submit(session, to, message)
                clients.admits = self.has_place
                self.wake()
        return clients.admits

    @property
    def has_place(self) -> bool:
        """Whether there is room for another message, in what is pending and in the next commit."""
        return self.submitted_bytes < SUBMITTED_BYTES_MAX and self._load() < 1

    def _load(self) -> float:
        """What there is to bring to delivery, or through the disk, as a share of what there may be."""
        limits, processes = self.config.limits, [replica.process for replica in self.replicas.values()]
        count = max(self._held_back(), *[process.backlog for process in processes])
        size = max(self.arrived_bytes, *[process.backlog_bytes for process in processes])
        return max(count / limits.pending_messages_max, size / limits.pending_bytes_max)

    def _keeps_up(self) -> bool:
        """Whether a quorum of each group here takes what it is sent; who is away is waited for otherwise, or not."""
        slow = {peer.name for peer in self.peers.all.values() if peer.congested}
        if not slow:
            return True
        for group in self.by_group:
            hosts = [self.config.node_of(pid) for pid in self.topology.groups[group]]
            swift = [host for host in hosts if host not in slow and self.reaches(host)]
            if not slow.isdisjoint(hosts) and len(swift) < self.topology.quorum[group]:
                return False
        return True

    def reaches(self, host: str) -> bool:
        """Whether that node is this one, or has a session with it."""
        return host == self.name or self.peers.all[host].connected

    # -- now and then ------------------------------------------------------------------------------------------------

    def _pulse(self) -> None:
        if self.over:
            return
        timing = self.config.timing
        silent_max = max(1, timing.silence_ms_max // timing.ping_ms)
        self.peers.pulse(silent_max)
        for session in self.clients.all():
            session.connection.pulse(silent_max)
        self.door.pulse()
        asyncio.get_running_loop().call_later(timing.ping_ms / 1000, self._pulse)

    def _sync_journals(self) -> None:
        if self.over:
            return
        asyncio.get_running_loop().call_later(JOURNAL_SYNC_S, self._sync_journals)
        if self.blocked:
            self.wake()
        for replica in self.replicas.values():
            self.carefully(partial(self.syncs.begin, replica))


FROM_DRIVER: tuple[type, ...] = (Connected, HandOver, Snapshot)
"""Inputs that only the driver gives; no peer may send them."""
