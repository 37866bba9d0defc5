"""Sessions between endpoints, the delay of each link, and what can go wrong between them.

1. A session is a pair of links, one each way; within it a link is first in, first out, and loses nothing.
2. When a session breaks, what is in flight both ways is lost. After a reconnect delay a new one begins, and each end
   that is a process gets `Connected`. Nothing is promised across sessions; with `stale`, what was in flight may still
   arrive late, or twice.
3. What is sent while there is no session is lost.
4. A partition blocks directions one by one: what arrives on a blocked link is lost, and when the partition heals,
   the session counts as broken.
5. A process that crashes loses what is under way to it. What it has sent still arrives, up to a random moment.
6. At tick 0 all sessions exist, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from braidcast.core.process import Ticks
from braidcast.core.topology import Pid, Pids
from braidcast.history.event import SEND, Event
from braidcast.simulator.delays import Constant, Delay, DelaySource
from braidcast.simulator.recorder import Recorder
from braidcast.simulator.world import World

Pair = tuple[Pid, Pid]
ONE_HOP: Delay = Constant(10)
TWO_HOPS: Delay = Constant(20)


@dataclass(frozen=True)
class Regions:
    """Where processes are, and how long a message takes from each place to each."""

    region_of: Mapping[Pid, int]
    """A process or client that is not named is in region 0."""
    delays: tuple[tuple[Delay, ...], ...]
    """`delays[a][b]` from region a to region b."""


@dataclass(frozen=True)
class NetworkPlan:
    """How the network behaves when nothing is wrong, and what may go wrong by itself."""

    delay: Delay = ONE_HOP
    links: Mapping[Pair, Delay] = field(default_factory=dict)
    """Delays of single links, (sender, receiver), before all else."""
    regions: Regions | None = None
    reconnect: Delay = TWO_HOPS
    stale: float = 0.0
    """Of what was in flight on a session that broke, how much still arrives; half of that arrives twice."""
    lose: Mapping[str, float] = field(default_factory=dict)
    """The rate of loss by class name of message; breaks the promise of rule 1."""

    def delay_of(self, sender: Pid, receiver: Pid) -> Delay:
        """The delay of one link."""
        single = self.links.get((sender, receiver))
        if single is not None:
            return single
        if self.regions is not None:
            of = self.regions.region_of
            return self.regions.delays[of.get(sender, 0)][of.get(receiver, 0)]
        return self.delay


class Endpoint:
    """Whoever can be sent to: a node or a client."""

    ready = False
    """Whether a message that arrives can be handled at once, by the loop of the world itself."""
    is_process = False
    up = True
    incarnation = 0

    def __init__(self, pid: Pid, network: Network) -> None:
        self.pid = pid
        self.network = network
        self.routes: dict[Pids, tuple[Link, ...]] = {}
        self.inbound: dict[Pid, Link] = {}
        network.endpoints[pid] = self

    @property
    def wall(self) -> Ticks:
        """What its wall clock shows."""
        return self.network.world.now

    def route(self, to: Pids) -> tuple[Link, ...]:
        """The links to all of `to` but oneself; pids that nobody has are skipped."""
        network = self.network
        found = tuple(network.link(self.pid, q) for q in to if q != self.pid and q in network.endpoints)
        self.routes[to] = found
        return found

    def receive(self, sender: Pid, message: Any) -> None:
        """A message arrived on an open link."""
        raise NotImplementedError

    def connected(self, peer: Pid) -> None:
        """A new session with `peer` began."""


class Link:
    """One direction of one session; a new session has new links, so what is in flight knows whether it is lost."""

    __slots__ = ("blocked", "block", "direct", "last", "network", "node", "open", "sender", "source")

    def __init__(self, network: Network, sender: Pid, node: Any, source: DelaySource, *, is_open: bool) -> None:
        self.network = network
        self.sender = sender
        self.node = node
        """The receiving endpoint; Any, because the loop of the world uses it as a Node when `direct` says so."""
        self.source = source
        self.block = source.block
        self.last: Ticks = 0
        """When the newest message arrives: none may overtake it."""
        self.open = is_open
        self.blocked = (sender, node.pid) in network.blocked
        self.direct = is_open and not self.blocked and node.ready

    def refresh(self) -> None:
        """Something that `direct` rests on has changed."""
        self.direct = self.open and not self.blocked and self.node.ready

    def close(self) -> None:
        """What is in flight is lost."""
        self.open = self.direct = False

    def take(self, message: Any) -> None:
        """A message arrives, and the loop of the world could not handle it itself."""
        if self.open and not self.blocked:
            self.node.receive(self.sender, message)
        else:
            self.network.lose(self, message)


class _Late:
    """The target of messages of a broken session that arrive all the same."""

    __slots__ = ("link",)
    direct = False

    def __init__(self, link: Link) -> None:
        self.link = link

    def take(self, message: Any) -> None:
        self.link.node.receive(self.link.sender, message)


class Network:
    """All sessions."""

    def __init__(self, plan: NetworkPlan, world: World, random: Random, recorder: Recorder | None) -> None:
        self.plan = plan
        self.world = world
        self.random = random
        self.recorder = recorder if recorder is not None and recorder.traffic else None
        self.endpoints: dict[Pid, Endpoint] = {}
        self.links: dict[Pair, Link] = {}
        self.blocked: dict[Pair, int] = {}
        """Directions that partitions block, and how many of them do."""
        self.broken: dict[Pair, int] = {}
        """Pairs (low, high) without a session, and the number of the attempt at a new one."""
        self.lingering: dict[Pair, list[Link]] = {}
        """Links of crashed senders on which something may still arrive."""
        self.attempts = 0
        self.lost = 0
        self.intercept: Callable[[Pid, Pid, Any], bool] | None = None
        """Asked about every message that is sent; True takes it over. A scenario holds and drops with it."""
        self._sources: dict[Delay, DelaySource] = {}
        self._reconnect = DelaySource(plan.reconnect, random)

    @property
    def plain(self) -> bool:
        """Whether messages may be sent without looking at each."""
        return self.recorder is None and self.intercept is None and not self.plan.lose

    def link(self, sender: Pid, receiver: Pid) -> Link:
        """The present link from `sender` to `receiver`."""
        link = self.links.get((sender, receiver))
        return link if link is not None else self._new_link(sender, receiver)

    def _new_link(self, sender: Pid, receiver: Pid) -> Link:
        delay = self.plan.delay_of(sender, receiver)
        source = self._sources.get(delay)
        if source is None:
            source = self._sources[delay] = DelaySource(delay, self.random)
        is_open = _pair(sender, receiver) not in self.broken
        link = Link(self, sender, self.endpoints[receiver], source, is_open=is_open)
        self.links[sender, receiver] = link
        self.endpoints[receiver].inbound[sender] = link
        self.endpoints[sender].routes.clear()
        return link

    def send(self, sender: Endpoint, sent: Iterable[tuple[Pids, Any]]) -> None:
        """Let messages go. The loop of the world has the same in short, for when the network is `plain`."""
        world, recorder, intercept, lose = self.world, self.recorder, self.intercept, self.plan.lose
        now, buckets = world.now, world.buckets
        if recorder is not None:
            record, wall, pid, incarnation = recorder.append, sender.wall, sender.pid, sender.incarnation
        for to, message in sent:
            route = sender.routes.get(to)
            if route is None:
                route = sender.route(to)
            for link in route:
                if recorder is not None:
                    record(Event(now, wall, pid, incarnation, SEND, link.node.pid, message))
                if intercept is not None and intercept(sender.pid, link.node.pid, message):
                    continue
                if lose and (rate := lose.get(type(message).__name__)) and self.random.random() < rate:
                    self.lost += 1
                    continue
                block = link.block
                when = now + (block.pop() if block else link.source.refill())
                if when < link.last:
                    when = link.last
                else:
                    link.last = when
                bucket = buckets.get(when)
                if bucket is None:
                    world.schedule(when, link, message)
                else:
                    bucket.append((link, message))

    def lose(self, link: Link, message: Any) -> None:
        """A message arrives on a link that is closed or blocked."""
        if self.plan.stale and not link.blocked and self.random.random() < self.plan.stale:
            late = _Late(link)
            for _ in range(1 + (self.random.random() < 0.5)):
                self.world.schedule(self.world.now + link.source.draw(), late, message)
        else:
            self.lost += 1

    # -- sessions ---------------------------------------------------------------------------------------------

    def break_session(self, p: Pid, q: Pid) -> None:
        """Lose what is in flight between two endpoints; they connect again after the reconnect delay."""
        for pair in ((p, q), (q, p)):
            if pair in self.links:
                self.links[pair].close()
        self._reconnect_later(p, q)

    def crash(self, p: Pid) -> None:
        """`p` went down: all its sessions end."""
        for q in [*self.endpoints]:
            if q == p:
                continue
            if (inward := self.links.get((q, p))) is not None:
                inward.close()
            pair = _pair(p, q)
            self.broken[pair] = 0
            if (outward := self.links.pop((p, q), None)) is not None and outward.open:
                self.lingering.setdefault(pair, []).append(outward)
                self.world.call(self.world.now + outward.source.draw(), outward.close)
        self.endpoints[p].routes.clear()

    def restart(self, p: Pid) -> None:
        """`p` is up again and connects to everyone."""
        for q in self.endpoints:
            if q != p:
                self._reconnect_later(p, q)

    def _reconnect_later(self, p: Pid, q: Pid) -> None:
        self.attempts += 1
        self.broken[_pair(p, q)] = self.attempts
        self.world.call(self.world.now + self._reconnect.draw(), self._connect, p, q, self.attempts)

    def _connect(self, p: Pid, q: Pid, attempt: int) -> None:
        pair = _pair(p, q)
        ends = self.endpoints[p], self.endpoints[q]
        if self.broken.get(pair) != attempt or not all(end.up for end in ends):
            return  # a later attempt is under way, or the restart of the other end will make one
        if (p, q) in self.blocked or (q, p) in self.blocked:
            return  # healing makes the next attempt
        del self.broken[pair]
        for old in self.lingering.pop(pair, []):
            old.close()
        for end, peer in (ends, ends[::-1]):
            end.routes.clear()
            if (ended := self.links.pop((end.pid, peer.pid), None)) is not None:
                ended.close()
        for end, peer in (ends, ends[::-1]):
            if peer.is_process:
                end.connected(peer.pid)

    # -- partitions -------------------------------------------------------------------------------------------

    def block(self, directions: Iterable[Pair]) -> None:
        """What arrives in these directions is lost from now on."""
        for pair in directions:
            self.blocked[pair] = self.blocked.get(pair, 0) + 1
            if (link := self.links.get(pair)) is not None:
                link.blocked = True
                link.refresh()

    def unblock(self, directions: Iterable[Pair]) -> None:
        """Undo one `block` of each; where nothing blocks any more, the session is new."""
        for p, q in directions:
            blocks = self.blocked.get((p, q), 0)
            if blocks > 1:
                self.blocked[p, q] = blocks - 1
            elif blocks == 1:
                del self.blocked[p, q]
                self.break_session(p, q)

    def refresh(self, endpoint: Endpoint) -> None:
        """Something has changed about whether `endpoint` is ready."""
        for link in endpoint.inbound.values():
            link.refresh()


def _pair(p: Pid, q: Pid) -> Pair:
    return (p, q) if p < q else (q, p)
