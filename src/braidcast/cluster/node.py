"""A node: one OS process that hosts one replica of each group assigned to it, and knows no protocol by name.

Theory of operation. Everything that arrives (frames, timers, the disk's answers) is stepped through the processes at
once; what they put out is carried out once per turn of the event loop, in `_tick`:

1. timers are set;
2. sends and deliveries go: to replicas of this node directly, to each peer as one frame, to clients as one frame each.
   What local replicas answer is carried out in the same turn;
3. what was put out after a record waits for it, if the node is durable: all records of all replicas become one commit.
   While a commit is in progress everything else that is put out waits for the next one.

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
from braidcast.cluster.admission import Admission
from braidcast.cluster.clients import Clients
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.door import Door
from braidcast.cluster.durability import Durability
from braidcast.cluster.identity import Identity
from braidcast.cluster.journal import Journal
from braidcast.cluster.journal_segments import JournalError
from braidcast.cluster.lacking import ROOM
from braidcast.cluster.log import Log
from braidcast.cluster.open_files import files_wanted, raise_limit
from braidcast.cluster.peers import Peer, Peers
from braidcast.cluster.recorder import NodeRecorder
from braidcast.cluster.replica import Replica
from braidcast.cluster.syncing import JournalSyncs
from braidcast.core.application import Connected, Delivered, Restored, Snapshot, SnapshotWanted
from braidcast.core.errors import BraidcastError
from braidcast.core.process import NOTHING_WAITS, Batch
from braidcast.core.topology import Group, Pid, Pids
from braidcast.wire.clocks import monotonic_us, wall_us
from braidcast.wire.codec import Codec, Item, Undecodable
from braidcast.wire.handshake import TurnedAway

log = logging.getLogger(__name__)

ROUNDS_MAX = 8
"""How often replicas of this node may answer each other within one turn."""
JOURNAL_SYNC_S = 0.05
UNHURRIED_MAX = 10_000
"""Records for which nothing waits are committed with others, or when there are so many of them."""
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
        self.admission = Admission(self)
        self.lack = ""
        """What a journal or the history waits for."""
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
            if is_lost:
                replica.rejoin(self.identity.incarnation)
            else:
                replica.recover(kept)
            if self.recorder is not None:
                self.recorder.started(replica, kept, is_lost=is_lost)
            replica.start(is_lost=is_lost)
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
        self.admission.arrived_bytes += len(body)
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
                elif type(message) in self.passed_on and not self.admission.admit():
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
            if not self._has_room() or (durability is not None and durability.busy):
                break
            for replica in self.replicas.values():
                self._let_go_what_may(replica)
            if not self.local:
                break
            self._step_local()
        else:
            self.wake()
        if self._has_room():
            if durability is None or not durability.busy:
                self._commit_what_waits(durability)
            self._flush()
        self.admission.look()

    def _commit_what_waits(self, durability: Durability | None) -> None:
        if durability is not None and any(replica.out.waits_from >= 0 for replica in self.replicas.values()):
            self._commit(durability)
        else:
            self.admission.begin_anew()

    def _let_go_what_may(self, replica: Replica) -> None:
        """All that was put out, if no record holds it up; otherwise what was sent before the first that does."""
        out = replica.out
        if self.durability is None:
            out.waits_from = NOTHING_WAITS
            out.records.clear()
        elif len(out.records) > UNHURRIED_MAX:
            out.waits_from = max(out.waits_from, 0)
        if out.waits_from < 0:
            self._let_go(replica, out.sent, out.delivered)
            out.sent.clear()
            out.delivered.clear()
        elif out.waits_from:
            self._let_go(replica, out.sent[: out.waits_from], [])
            del out.sent[: out.waits_from]
            out.waits_from = 0

    def _has_room(self) -> bool:
        """Whether all that was recorded and delivered could be written; it is tried again each time."""
        lack = "" if self.recorder is None or self.recorder.write() else ROOM
        for replica in self.replicas.values():
            if not lack:
                replica.journal.write()
                lack = replica.journal.lack
        if bool(lack) != bool(self.lack):
            log.warning(f"{lack}: nothing goes on until the journals and the history can be written"
                        if lack else "the journals and the history are written again: going on")  # fmt: skip
        self.lack = lack
        return not lack

    @property
    def disk_lack(self) -> str:
        """What something waits for that has to be written; empty if nothing does."""
        return self.lack or (self.durability.lack if self.durability is not None else "")

    def _commit(self, durability: Durability) -> None:
        batches = [(replica, replica.out.take()) for replica in self.replicas.values()]
        self.admission.begin_anew()
        records = [(replica.pid, batch.records) for replica, batch in batches if batch.records]
        if durability.wants_checkpoint and (everything := self._checkpoint()) is not None:
            durability.checkpoint(everything, records, lambda: self._committed(batches))
        else:
            durability.commit(records, lambda: self._committed(batches))

    def _checkpoint(self) -> list[tuple[Pid, list[Any]]] | None:
        found = [(pid, some) for pid, replica in self.replicas.items() if (some := replica.checkpoint()) is not None]
        return found if len(found) == len(self.replicas) else None

    def _committed(self, batches: list[tuple[Replica, Batch]]) -> None:
        self.carefully(lambda: self._carry_out(batches))

    def _carry_out(self, batches: list[tuple[Replica, Batch]]) -> None:
        self.set_clocks()
        for replica, batch in batches:
            if self.recorder is not None and self.records_everything:
                self.recorder.persisted(replica, batch.records)
            self._let_go(replica, batch.sent, batch.delivered)
        self._step_local()
        self._turn()

    def _let_go(self, replica: Replica, sent: list[tuple[Pids, Any]], delivered: list[Any]) -> None:
        """Sends and deliveries that rest on nothing that is not durable."""
        routes, me = self.routes, replica.pid
        if self.recorder is not None and self.records_everything:
            self.recorder.let_go(replica, sent)
        for to, message in sent:
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
        if delivered:
            self._deliver(replica, delivered)

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
        if self.clients.sessions:  # first: who waits for an answer should not wait for what the others are told as well
            journals = {group: replica.journal for group, replica in self.by_group.items()}
            if self.clients.flush(journals):
                asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.wake)
        limits = self.config.limits
        for peer in self.peers.all.values():
            if peer.outgoing:
                peer.put(self.from_peers, limits.frame_bytes_max, limits.peer_buffer_bytes_max)
            if peer.waiting or peer.lost:
                self._write(peer)

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
        if self.lack:
            self.wake()
        for replica in self.replicas.values():
            self.carefully(partial(self.syncs.begin, replica))


FROM_DRIVER: tuple[type, ...] = (Connected, Snapshot)
"""Inputs that only the driver gives; no peer may send them."""
