"""A toy of paper 004: multicast ordered by wall clocks and barriers.

The source of a message (the first member of its lowest destination group) stamps it with its wall clock. A *barrier*
is the promise of a process that no later stamp of its is at or below it. A stamp is final once every process has
passed it. Before that, a window after the stamp, the message is delivered optimistically; what comes too late for
its place retracts the optimistic deliveries above it.

- Stamps rise at each source even if its clock steps back. Promises are covered by a *lease*: a durable bound on all
  that was ever promised, renewed now and then, so that a barrier costs no write. After a restart stamps begin above it.
- What a source sends to each process is a numbered stream, and a barrier says how long the stream is. So a stamp that
  was lost on the way is noticed and pulled; neither sessions nor restarts can make a barrier lie.
- Handled: restart, lost sessions, clocks that are off, drift and step. Not handled: a process that is gone for good
  blocks everybody; nothing is ever collected.
"""

from __future__ import annotations

from dataclasses import dataclass

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.message import message
from braidcast.core.process import Outbox, Process, Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.timestamps import Timestamp, clock_of, timestamp
from braidcast.core.topology import Pid, Topology


@dataclass(frozen=True)
class Options:
    """In ticks."""

    window: Ticks = 40
    """How long after its stamp a message is delivered optimistically."""
    beat: Ticks = 20
    lease: Ticks = 1000


@message
class Stamped:
    """The `number`-th message from its source to this receiver. `gts` is (wall clock, source)."""

    multicast: Multicast
    gts: Timestamp
    number: int


@message
class Barrier:
    """No later stamp of the sender is at or below `wall`; so far it sent `sent` stamps to this receiver."""

    wall: Ticks
    sent: int


@message
class Pull:
    """Send again what comes after the first `have` stamps."""

    have: int


@message
class Beat:
    """Timer: promise something."""


@message
class Ripe:
    """Timer: the window of the message at `gts` is over."""

    gts: Timestamp


@message
class Lease:
    """Record: nothing above `wall` was ever promised or stamped."""

    wall: Ticks


@message
class Issued:
    """Record at the source: this stamp."""

    multicast: Multicast
    gts: Timestamp


@message
class Held:
    """Record at a receiver: this stamp of `source` has come."""

    source: Pid
    stamped: Stamped


@message
class Finished:
    """Record at a receiver: delivered for good up to `gts`."""

    gts: Timestamp


@message
class Optimistic:
    """Delivery: probably next in the order. Its field is not called `gts`: drivers measure final deliveries by that."""

    multicast: Multicast
    stamp: Timestamp


@message
class Retracted:
    """Delivery: optimistic deliveries above `stamp` were too early; they will be made again."""

    stamp: Timestamp


class Barriers(Process):
    """Source and receiver at once."""

    __slots__ = (
        "barrier", "done", "finished", "have", "issued", "last", "lease", "optimistic", "options", "pending",
        "streams", "topology",
    )  # fmt: skip

    def __init__(self, out: Outbox, topology: Topology, options: Options) -> None:
        super().__init__(out)
        self.topology = topology
        self.options = options
        # as a source
        self.last: Ticks = 0
        """The last wall clock that was stamped or promised."""
        self.lease: Ticks = 0
        self.issued: dict[MessageId, Timestamp] = {}
        self.streams: dict[Pid, list[Stamped]] = {p: [] for p in topology.pids}
        # as a receiver
        self.have = dict.fromkeys(topology.pids, 0)
        """How many stamps of each source came, without a gap."""
        self.barrier = dict.fromkeys(topology.pids, 0)
        self.pending: dict[Timestamp, Multicast] = {}
        self.optimistic: list[Timestamp] = []
        """What is delivered optimistically and not for good, ascending."""
        self.finished: Timestamp = 0
        self.done: dict[MessageId, Delivered] = {}

    def start(self, applied: int = 0) -> None:
        """Let time begin; deliver again what the application lost."""
        self.set_timer(Beat(), self.options.beat, spread=self.options.beat)
        if self.done or self.pending:
            self.deliver(Retracted(min(applied, self.finished)))  # what was optimistic before the restart is void
        for delivered in self.done.values():
            if delivered.gts > applied:
                self.deliver(Optimistic(delivered.multicast, delivered.gts))
                self.deliver(delivered)
        for gts in sorted(self.pending):
            self.ripen(gts)

    # -- the source --------------------------------------------------------------------------------------------------
    def next_stamp(self) -> Ticks:
        """Above all earlier ones, whatever the clock shows, and under a lease."""
        self.last = max(self.out.wall, self.last + 1)
        if self.last > self.lease:
            self.lease = self.last + self.options.lease
            self.persist(Lease(self.lease))
        return self.last

    def on_multicast(self, sender: Pid, m: Multicast) -> None:
        """Stamp it, if this process is its source."""
        if (delivered := self.done.get(m.id)) is not None:
            return self.reply(delivered)
        if self.me != self.topology.groups[m.dest[0]][0]:
            return self.refuse("multicast to another than its source")
        if m.id in self.issued:
            return self.refuse("multicast twice")
        gts = timestamp(self.next_stamp(), self.me)
        self.persist(Issued(m, gts))
        self.redo_issued(Issued(m, gts))
        for p in self.topology.members(m.dest):
            self.send((p,), self.streams[p][-1])
        return None

    def on_beat(self, sender: Pid, b: Beat) -> None:
        """Promise the present to everybody."""
        wall = self.next_stamp()
        for p, stream in self.streams.items():
            self.send((p,), Barrier(wall, len(stream)))
        self.set_timer(Beat(), self.options.beat, spread=self.options.beat)

    def on_pull(self, sender: Pid, p: Pull) -> None:
        """Something was lost on the way."""
        for stamped in self.streams.get(sender, [])[p.have :]:
            self.send((sender,), stamped)

    # -- the receiver ------------------------------------------------------------------------------------------------
    def on_stamped(self, sender: Pid, s: Stamped) -> None:
        """A stamp is a barrier too, because stamps of a stream rise."""
        if sender not in self.have:
            return self.refuse("stamped by a stranger")
        if s.number <= self.have[sender]:
            return self.refuse("stamped twice")
        if self.misses(sender, s.number - 1):
            return None
        self.persist(Held(sender, s))
        self.redo_held(Held(sender, s))
        self.pass_barrier(sender, clock_of(s.gts))
        if s.gts in self.pending:
            self.ripen(s.gts)
        return None

    def on_barrier(self, sender: Pid, b: Barrier) -> None:
        """A promise counts once everything that was sent before it is here."""
        if sender not in self.have:
            self.refuse("barrier of a stranger")
        elif not self.misses(sender, b.sent):
            self.pass_barrier(sender, b.wall)

    def misses(self, source: Pid, sent: int) -> bool:
        """Whether one of the first `sent` stamps is missing; if so, ask for it."""
        if self.have[source] >= sent:
            return False
        self.send((source,), Pull(self.have[source]))
        return True

    def pass_barrier(self, source: Pid, wall: Ticks) -> None:
        """Deliver for good what no stamp can precede any more."""
        self.barrier[source] = max(self.barrier[source], wall)
        low = min(self.barrier.values())
        for gts in sorted(gts for gts in self.pending if clock_of(gts) <= low):
            if gts not in self.optimistic:
                self.deliver_optimistically(gts)
            self.cancel_timer(Ripe(gts))
            delivered = Delivered(self.pending[gts], gts)
            self.persist(Finished(gts))
            self.redo_finished(Finished(gts))
            self.deliver(delivered)
            self.reply(delivered)

    def reply(self, delivered: Delivered) -> None:
        """Tell the client."""
        id = delivered.multicast.id
        self.send((id.client,), Reply(id, self.topology.group_of[self.me], delivered.gts))

    # -- optimism ----------------------------------------------------------------------------------------------------
    def ripen(self, gts: Timestamp) -> None:
        """Wait for the window of a stamp to end, by one's own wall clock."""
        self.set_timer(Ripe(gts), max(0, clock_of(gts) + self.options.window - self.out.wall))

    def on_ripe(self, sender: Pid, r: Ripe) -> None:
        """The window is over."""
        if r.gts not in self.pending or r.gts in self.optimistic:
            return self.refuse("ripe when delivered")
        return self.deliver_optimistically(r.gts)

    def deliver_optimistically(self, gts: Timestamp) -> None:
        """In the order of stamps: those that came too early are retracted, and come again after this."""
        early = [above for above in self.optimistic if above > gts]
        if early:
            self.deliver(Retracted(gts))
        self.optimistic = [below for below in self.optimistic if below < gts] + [gts, *early]
        for each in (gts, *early):
            self.deliver(Optimistic(self.pending[each], each))

    # -- what is durable ---------------------------------------------------------------------------------------------
    def redo_lease(self, r: Lease) -> None:
        """Whatever was promised, it was not above this."""
        self.last = self.lease = r.wall

    def redo_issued(self, r: Issued) -> None:
        """The streams are as they were."""
        self.issued[r.multicast.id] = r.gts
        for p in self.topology.members(r.multicast.dest):
            self.streams[p].append(Stamped(r.multicast, r.gts, len(self.streams[p]) + 1))

    def redo_held(self, r: Held) -> None:
        """What came need not come again."""
        self.have[r.source] = r.stamped.number
        self.pending[r.stamped.gts] = r.stamped.multicast

    def redo_finished(self, r: Finished) -> None:
        """Stays delivered."""
        m = self.pending.pop(r.gts)
        self.finished = r.gts
        self.optimistic = [gts for gts in self.optimistic if gts > r.gts]
        self.done[m.id] = Delivered(m, r.gts)


BARRIERS = Protocol(
    name="barriers", summary="a toy: wall clocks and barriers", make=Barriers, options=Options, sometimes=()
)
