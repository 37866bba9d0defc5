"""A toy of the lower layers of paper 003: causal broadcast without a leader, in views that change.

Within a view a message carries how many of each member's messages its sender had delivered; a receiver delivers it
after those. A membership service (not part of this) announces the next view to any of its members. Then everybody
stops, tells all members of the next view what it delivered in its present one (the *flush*), and installs the next
view after delivering whatever any companion had delivered: so those who go from one view to the next together
delivered the same in it. The *transitional set* says who these companions are.

- No groups, no leader, no timestamps: every process is in the single group of the topology.
- Several components may go on side by side and merge later: processes may come from different views.
- Handled: departures, joins, merges, a further change during a change. Not handled: restart, lost sessions (FIFO
  channels without loss inside a view), agreement on views, which is the membership service's.
"""

from __future__ import annotations

from dataclasses import dataclass

from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.message import message
from braidcast.core.process import Outbox, Process
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Pid, Pids, Topology


@dataclass(frozen=True)
class Options:
    """How a run begins."""

    alone: Pids = ()
    """Processes that each begin in a view of their own; all others begin in one view."""


@message
class View:
    """Who is together; views of a process have rising numbers."""

    number: int
    members: Pids


@message
class Change:
    """From the membership service, to any member of `view`: go there."""

    view: View


@message
class Cast:
    """A message in a view; `after` counts the messages of each member that its sender had delivered, this included."""

    view: View
    after: tuple[int, ...]
    multicast: Multicast


@message
class Flush:
    """What the sender delivered in the view that it leaves for `next`."""

    next: View
    previous: View
    casts: tuple[tuple[Pid, Cast], ...]


@message
class CausallyDelivered:
    """Delivery: everything that `origin` had delivered when it sent this was delivered here before."""

    origin: Pid
    multicast: Multicast


@message
class Configured:
    """Delivery: the view is now `view`; those in `transitional` come from the same view and delivered the same."""

    view: View
    transitional: Pids


class Causal(Process):
    """A member."""

    __slots__ = ("early", "flushes", "have", "kept", "known", "next", "queued", "sent", "view", "waiting")

    def __init__(self, out: Outbox, topology: Topology, options: Options) -> None:
        super().__init__(out)
        together = tuple(p for p in topology.pids if p not in options.alone)
        self.known: set[MessageId] = set()
        """Delivered in any view: a client's second submission is not delivered again."""
        self.early: list[tuple[Pid, Cast]] = []
        """Casts of views that are not installed here yet."""
        self.queued: list[Multicast] = []
        self.next: View | None = None
        self.flushes: dict[Pid, Flush] = {}
        self.enter(View(0, (out.me,) if out.me in options.alone else together))

    def start(self, applied: int = 0) -> None:
        """The first view."""
        self.deliver(Configured(self.view, (self.me,)))

    def enter(self, view: View) -> None:
        """Nothing has happened in this view yet."""
        self.view = view
        self.have = dict.fromkeys(view.members, 0)
        self.sent = 0
        self.waiting: list[tuple[Pid, Cast]] = []
        self.kept: list[tuple[Pid, Cast]] = []

    # -- within a view -----------------------------------------------------------------------------------------------
    def on_multicast(self, sender: Pid, m: Multicast) -> None:
        """Cast it, or keep it for the next view."""
        if m.id in self.known:
            self.send((m.id.client,), Reply(m.id, 0, 0))
        elif self.next is not None:
            self.queued.append(m)
        else:
            self.cast(m)

    def cast(self, m: Multicast) -> None:
        """Say what it comes after. One's own copy is delivered in this step, but maybe after a second cast."""
        self.sent += 1
        after = tuple([self.sent if p == self.me else count for p, count in self.have.items()])
        self.send(self.view.members, Cast(self.view, after, m))

    def on_cast(self, sender: Pid, c: Cast) -> None:
        """Deliver it once all that it comes after is delivered. Who has told what it delivered delivers no more."""
        if c.view.number > self.view.number:
            self.early.append((sender, c))
        elif c.view != self.view or self.next is not None:
            self.refuse("cast of a view that is over")
        else:
            self.waiting.append((sender, c))
            self.deliver_ready()

    def deliver_ready(self) -> None:
        """Whatever comes next, until nothing does."""
        while ready := next(((p, c) for p, c in self.waiting if self.is_next(p, c)), None):
            self.waiting.remove(ready)
            self.kept.append(ready)
            sender, c = ready
            self.have[sender] += 1
            if c.multicast.id not in self.known:
                self.known.add(c.multicast.id)
                self.deliver(CausallyDelivered(sender, c.multicast))
                self.send((c.multicast.id.client,), Reply(c.multicast.id, 0, 0))

    def is_next(self, sender: Pid, c: Cast) -> bool:
        """Whether all that it comes after is delivered."""
        return all(
            count == self.have[p] + 1 if p == sender else count <= self.have[p]
            for p, count in zip(self.view.members, c.after, strict=True)
        )

    # -- from one view to the next -----------------------------------------------------------------------------------
    def on_change(self, sender: Pid, change: Change) -> None:
        """Stop, and tell the members of the next view what was delivered in this one."""
        view = change.view
        if view.number <= (self.next or self.view).number or self.me not in view.members:
            return self.refuse("change to a view that is over")
        self.next = view
        self.flushes = {p: f for p, f in self.flushes.items() if f.next == view}
        return self.send(view.members, Flush(view, self.view, tuple(self.kept)))

    def on_flush(self, sender: Pid, f: Flush) -> None:
        """Install the next view when every member of it has told."""
        if f.next.number > (self.next or self.view).number:
            self.on_change(self.me, Change(f.next))
        if f.next != self.next:
            return self.refuse("flush into a view that is over")
        self.flushes[sender] = f
        if len(self.flushes) == len(f.next.members):
            self.install(f.next)
        return None

    def install(self, view: View) -> None:
        """Deliver what companions delivered, and go on in the next view."""
        old = self.view
        companions = tuple(p for p in view.members if self.flushes[p].previous == old)
        told = [entry for p in companions for entry in self.flushes[p].casts if entry not in self.kept]
        self.waiting = list(dict.fromkeys(told))
        self.deliver_ready()
        self.enter(view)
        self.next, self.flushes = None, {}
        self.deliver(Configured(view, companions))
        early, self.early = self.early, []
        queued, self.queued = self.queued, []
        for sender, c in early:
            self.on_cast(sender, c)
        for m in queued:
            self.on_multicast(m.id.client, m)


CAUSAL = Protocol(
    name="causal", summary="a toy: causal broadcast in views", make=Causal, options=Options, tolerates_faults=False
)
