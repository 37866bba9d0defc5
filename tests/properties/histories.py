"""Small histories that are correct by construction: what a white-box run would leave, without the protocol.

Messages are ordered one after another, which keeps clocks simple; members deliver them at random later times. On
request there are crashes that cost effects, leader changes, snapshots and collection at the end.
"""

from __future__ import annotations

from random import Random
from typing import Any

from braidcast.core.application import Delivered, Restored
from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.message import field_names
from braidcast.core.timestamps import clock_of, timestamp
from braidcast.history.event import Event, History, Resumed
from braidcast.history.manifest import FIFO, GENUINE, Manifest
from braidcast.protocols.parts.dedup import DedupState
from braidcast.protocols.whitebox.messages import (
    Accept,
    AcceptAck,
    Accepted,
    Checkpoint,
    Collected,
    Committed,
    Deliver,
    HeartbeatAck,
    Installed,
    Known,
    Leading,
    Marked,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Promised,
    Stable,
    Started,
    Transferred,
)

CLIENTS = (100, 101)


def changed(what: Any, /, **values: Any) -> Any:
    """A copy of a message or an event with some fields changed."""
    return type(what)(**{name: values.get(name, getattr(what, name)) for name in field_names(type(what))})


def made(kind: Any, **values: Any) -> Any:
    """A message with these fields and nothing in the others."""
    hints = {
        name: hint for base in reversed(kind.__mro__) for name, hint in getattr(base, "__annotations__", {}).items()
    }
    empty = {
        name: () if "tuple" in str(hints[name]) or "Vector" in str(hints[name]) else 0 for name in field_names(kind)
    }
    return kind(**(empty | values))


class Run:
    """A run under construction."""

    def __init__(self, seed: int, *sizes: int) -> None:
        self.random = Random(seed)
        groups, first = [], 0
        for size in sizes:
            groups.append(tuple(range(first, first + size)))
            first += size
        self.groups = tuple(groups)
        self.group_of = {p: g for g, members in enumerate(groups) for p in members}
        self.name = f"made-{seed}"
        self.events: list[Event] = []
        self.incarnation = dict.fromkeys([*self.group_of, *CLIENTS], 0)
        self.clock = [0] * len(groups)
        self.number = [0] * len(groups)
        self.leader = [members[0] for members in groups]
        self.seqs = dict.fromkeys(CLIENTS, 0)
        self.numbered = dict.fromkeys(CLIENTS, 0)
        self.waiting: dict[int, list[Delivered]] = {p: [] for p in self.group_of}
        self.log: dict[int, list[Delivered]] = {p: [] for p in self.group_of}
        self.base = dict.fromkeys(self.group_of, 0)
        """The gts of the last snapshot of each; what it stands for cannot be delivered again."""
        self.seen: dict[int, set[tuple[int, int]]] = {p: set() for p in self.group_of}
        self.lts: dict[tuple[MessageId, int], int] = {}
        for p, g in self.group_of.items():
            self.add("start", p)
            self.persist(p, Started(ballot(0, self.leader[g])))

    def add(self, event: str, node: int, what: Any = None, peer: int | None = None) -> None:
        now = len(self.events)
        self.events.append(Event(now, now + 5, node, self.incarnation[node], event, peer, what))

    def send(self, node: int, peers: Any, what: Any) -> None:
        for peer in peers:
            if peer != node:
                self.add("send", node, what, peer)
        for peer in peers:
            if peer != node:
                self.add("receive", peer, what, node)

    def persist(self, node: int, what: Any) -> None:
        self.add("persist", node, what)

    def ballot(self, g: int) -> int:
        return ballot(self.number[g], self.leader[g])

    def order(self, dest: tuple[int, ...], client: int = CLIENTS[0], count: int = 0, first: int | None = None) -> int:
        """A client multicasts; everybody accepts; the leaders commit and deliver. Returns the gts."""
        self.seqs[client] += 1
        if count and first is None:
            first, self.numbered[client] = self.numbered[client], self.numbered[client] + count
        m = Multicast(MessageId(client, 1, self.seqs[client]), dest, b"x", 1, first or 0, count)
        leaders = [self.leader[g] for g in dest]
        self.add("multicast", client, m)
        self.send(client, leaders, m)
        for g in dest:
            self.clock[g] += 1
            self.lts[m.id, g] = timestamp(self.clock[g], g)
            leader, lts = self.leader[g], self.lts[m.id, g]
            self.send(leader, self.groups[g], Accept(m.id, dest, g, self.ballot(g), lts, m))
            others = [p for h in dest if h != g for p in self.groups[h]]
            self.send(leader, others, Accept(m.id, dest, g, self.ballot(g), lts, None))
        gts = max(self.lts[m.id, g] for g in dest)
        vector = tuple(self.ballot(g) for g in dest)
        for g in dest:
            self.clock[g] = max(self.clock[g], clock_of(gts))
            for p in self.groups[g]:
                self.persist(p, Accepted(m, self.lts[m.id, g], self.clock[g]))
                self.send(p, leaders, AcceptAck(m.id, g, vector))
        for g in dest:
            leader = self.leader[g]
            self.add("committed", leader, Committed(m.id, gts))
            for p in self.groups[g]:
                self.waiting[p].append(self.delivered(p, m, gts))
            self.catch_up(leader)
            self.send(leader, self.groups[g], made(Deliver, id=m.id, ballot=self.ballot(g), gts=gts))
            self.send(leader, [client], Reply(m.id, g, gts))
            self.add("reply", client, Reply(m.id, g, gts), leader)
        return gts

    def delivered(self, p: int, m: Multicast, gts: int) -> Delivered:
        numbers = range(m.batch_first, m.batch_first + m.batch_count)
        repeated = tuple(n - m.batch_first for n in numbers if (m.id.client, n) in self.seen[p])
        self.seen[p] |= {(m.id.client, n) for n in numbers}
        return Delivered(m, gts, repeated)

    def catch_up(self, p: int, count: int | None = None) -> None:
        """A member delivers what waits."""
        ready = self.waiting[p][:count]
        del self.waiting[p][: len(ready)]
        for d in ready:
            self.persist(p, Marked(d.multicast.id, self.lts[d.multicast.id, self.group_of[p]], d.gts))
            self.add("deliver", p, d)
            self.log[p].append(d)

    def crash(self, p: int, kept: int) -> None:
        """A member crashes; of its effects the first `kept` survive; it delivers the others again."""
        log = self.log[p]
        self.add("crash", p)
        self.incarnation[p] += 1
        upto = log[kept - 1].gts if kept else self.base[p]
        self.add("restart", p, Resumed(upto))
        self.add("recovered", p, self.checkpoint(p))
        for d in log[kept:]:
            self.add("deliver", p, d)

    def checkpoint(self, p: int) -> Checkpoint:
        """What the disk of a member amounts to."""
        kept = [e.what for e in self.events if e.event == "persist" and e.node == p]
        bodies = [what.body for what in kept if type(what) is Accepted]
        b = max([what.ballot for what in kept if type(what) in (Started, Promised)])
        joined = max([what.ballot for what in kept if type(what) in (Started, Installed)])
        upto = max([what.gts for what in kept if type(what) in (Marked, Transferred)], default=0)
        known = tuple([made(Known, id=body.id, dest=body.dest) for body in bodies])
        found: Checkpoint = made(Checkpoint, ballot=b, cballot=joined, gts=upto, known=known, dedup=DedupState())
        return found

    def elect(self, g: int) -> None:
        """Another member leads the group."""
        members = self.groups[g]
        candidate = self.random.choice([p for p in members if p != self.leader[g]])
        self.number[g], self.leader[g] = self.number[g] + 1, candidate
        b = self.ballot(g)
        self.catch_up(candidate)
        self.persist(candidate, Promised(b))
        self.send(candidate, members, made(NewLeader, ballot=b))
        for p in members:
            if p != candidate:
                self.persist(p, Promised(b))
                self.send(p, [candidate], made(NewLeaderAck, ballot=b, clock=self.clock[g]))
        self.persist(candidate, made(Installed, ballot=b, clock=self.clock[g]))
        known = tuple(self.known(candidate))
        for p in members:
            if p != candidate:
                self.send(candidate, [p], made(NewState, ballot=b, parts=1, clock=self.clock[g], known=known))
                self.persist(p, made(Installed, ballot=b, clock=self.clock[g]))
                self.send(p, [candidate], made(NewStateAck, ballot=b))
        self.add("leading", candidate, Leading(g, b))

    def known(self, p: int) -> list[Known]:
        """What a member could transfer."""
        return [made(Known, id=d.multicast.id, dest=d.multicast.dest, lts=d.gts, gts=d.gts) for d in self.log[p]]

    def restore(self, p: int) -> None:
        """A member gets a snapshot in place of what waits."""
        if self.waiting[p]:
            gts = self.waiting[p][-1].gts
            self.waiting[p].clear()
            known = tuple(self.known(self.leader[self.group_of[p]]))
            self.persist(p, made(Transferred, gts=gts, state=b"", known=known, dedup=DedupState()))
            self.add("deliver", p, Restored(gts, b""))
            self.base[p] = gts
            self.log[p].clear()

    def collect(self) -> None:
        """Everybody has everything: say so, and forget it."""
        last = [max([d.gts for d in self.log[p]], default=self.base[p]) for p in self.leader]
        for p, g in self.group_of.items():
            self.send(p, [self.leader[g]], made(HeartbeatAck, ballot=self.ballot(g), gts=last[g]))
        dests = {d.multicast.dest for p in self.log for d in self.log[p]}
        for g, h in sorted({(g, h) for dest in dests for g in dest for h in dest if g != h}):
            self.send(self.leader[g], self.groups[h], made(Stable, group=g, gts=last[g]))
        for p in self.group_of:
            for d in self.log[p]:
                self.add("collected", p, Collected(d.multicast.id, d.gts))

    def history(self, **manifest: Any) -> History:
        """The run so far; everybody gets what waits."""
        for p in self.group_of:
            self.catch_up(p)
        values: dict[str, Any] = {"quiescent": True, "promises": (GENUINE, FIFO), "seed": 1} | manifest
        return History(Manifest("whitebox", self.groups, self.name, **values), list(self.events))


def correct_run(seed: int, messages: int = 10, faults: bool = True) -> Run:
    """A random run in random groups."""
    random = Random(seed)
    run = Run(seed, *random.choices((1, 3, 3), k=random.randint(1, 3)))
    big = [g for g, members in enumerate(run.groups) if len(members) > 1]
    for _ in range(messages):
        dest = tuple(sorted(random.sample(range(len(run.groups)), random.randint(1, len(run.groups)))))
        client = random.choice(CLIENTS)
        count = random.choice((0, 0, 3))
        again = run.numbered[client] - 2 if count and run.numbered[client] > 2 and random.random() < 0.5 else None
        run.order(dest, client, count, again)
        for p in run.group_of:
            if random.random() < 0.5:
                run.catch_up(p, random.randint(1, 2))
        if faults and big:
            act = random.random()
            g = random.choice(big)
            follower = random.choice([p for p in run.groups[g] if p != run.leader[g]])
            if act < 0.2:
                run.crash(follower, random.randint(0, len(run.log[follower])))
            elif act < 0.3:
                run.elect(g)
            elif act < 0.4:
                run.restore(follower)
    return run


def correct_history(seed: int, messages: int = 10, faults: bool = True) -> History:
    """What a correct run leaves."""
    run = correct_run(seed, messages, faults)
    for p in run.group_of:
        run.catch_up(p)
    run.collect()
    return run.history()


def broken(random: Random, history: History, changes: int) -> History:
    """A history in which events were left out, doubled, moved to other nodes and mixed up."""
    events = list(history.events)
    for _ in range(changes):
        place = random.randrange(len(events))
        other = events[random.randrange(len(events))]
        act = random.randrange(4)
        if act == 0:
            del events[place]
        elif act == 1:
            events.insert(place, other)
        elif act == 2:
            events[place] = changed(events[place], node=other.node, peer=other.peer)
        elif type(other.what) is type(events[place].what):
            events[place] = changed(events[place], what=other.what)
        if len(events) < 3:
            break
    return History(history.manifest, events)
