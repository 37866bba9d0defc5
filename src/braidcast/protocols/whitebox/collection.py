"""Garbage collection: when a delivered message may be forgotten (protocols.md 1.6).

**The safe rule.** A member of g removes m once (a) every member of g delivered it durably, or those that did not will
get a snapshot; and (b) every other destination group h said STABLE(h, W) with W at or above gts(m), where W is what a
quorum of h delivered durably. The id stays behind in the dedup table. By (b) no group can ask for m again: whoever
leads it later finds m COMMITTED in any quorum (B2), or behind W.

STABLE goes only to groups with which undelivered or uncollected messages are shared: the protocol stays genuine.
"""

from __future__ import annotations

from braidcast.core.ballots import leader_of
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Pid
from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.entry import COLLECTED, LEADER, Entry
from braidcast.protocols.whitebox.messages import (
    Collected,
    Stable,
    Sweep,
    Told,
    Trimmed,
)  # fmt: skip


class Collection(CatchingUp):
    """Who delivered what durably, and what may therefore go."""

    __slots__ = ()

    def durably_applied(self) -> Timestamp:
        """Up to where this process's application has what was delivered, whatever happens."""
        applied = self.out.applied
        if self.snapshot is not None and applied >= self.snapshot.gts:
            self.snapshot = None
        return min(applied, self.max_delivered_gts)

    def tell_applied(self) -> Timestamp:
        """As `durably_applied`, to be told to others or counted for them: that rests on the marks (1.3, STABLE), which
        are unhurried, and `Told` is not. What is collected because of it must be found COMMITTED here (B2)."""
        gts = self.durably_applied()
        if gts > self.told:
            self.told = gts
            self.persist(Told(gts))
        return gts

    def redo_told(self, r: Told) -> None:
        """From the log."""
        self.told = r.gts

    def collect_as_leader(self) -> Timestamp:
        """Collect, and return the floor for the members: up to where rule (a) holds."""
        self.applied[self.me] = self.tell_applied()
        marks = sorted([self.applied.get(p, 0) for p in self.peers], reverse=True)
        # Followers that deliver early may be ahead of their leader, and it would then wait for ever for groups that
        # have collected: what the leader itself has not delivered is not stable.
        self.stable_here = max(self.stable_here, min(marks[self.quorum - 1], self.applied[self.me]))
        floor = marks[-1]
        self.everywhere = max(self.everywhere, floor)
        if self.retains_too_much():
            floor = self.stable_here  # rule (a) by snapshot: a quorum has it, the laggards will be restored
        self.collect(floor)
        return floor

    def retains_too_much(self) -> bool:
        """Whether what waits for the slowest member is more than a leader keeps for it."""
        options = self.options
        count = len(self.delivered_log) - self.log_dead
        return count > options.laggard_entries or self.retained_bytes > options.laggard_bytes

    def ask_for_stability(self) -> None:
        """Tell the groups with which something is shared what is stable here, and ask the same of them."""
        groups = {g for dest, retained in self.retained.items() if retained for g in dest if g != self.group}
        for group in sorted(groups):
            self.send(self.topology.groups[group], Stable(self.group, self.stable_here, True, self.cballot))

    def on_stable(self, sender: Pid, s: Stable) -> None:
        """Rule (b)."""
        if self.home.get(sender) != s.group or leader_of(s.ballot) != sender:
            return self.refuse("stability of another group")
        self.learn_stable([(s.group, s.gts, s.ballot)])
        if s.asks and self.status is LEADER:
            self.send((sender,), Stable(self.group, self.stable_here, False, self.cballot))

    def collect(self, floor: Timestamp) -> None:
        """Remove what the safe rule allows; `floor` is rule (a)."""
        floor = min(floor, self.durably_applied())
        upto: list[tuple[Dest, Timestamp]] = []
        for dest, retained in sorted(self.retained.items()):
            limit = min([floor, *(self.stable.get(g, 0) for g in dest if g != self.group)])
            if retained and retained[0].gts <= limit:
                upto.append((dest, limit))
        if upto:
            record = Trimmed(tuple(upto), self.stability({g for dest, _ in upto for g in dest}))
            self.persist(record)
            for entry in self.trim(record):
                if note := self.note:
                    note(Collected(entry.id, entry.gts))

    def trim(self, r: Trimmed) -> list[Entry]:
        """Forget all but the id, which the dedup table keeps."""
        removed: list[Entry] = []
        for dest, limit in r.upto:
            retained = self.retained[dest]
            count = 0
            while count < len(retained) and retained[count].gts <= limit:
                count += 1
            removed += retained[:count]
            del retained[:count]
            if not retained:
                del self.retained[dest]
        for entry in removed:
            assert entry.body is not None, "what was delivered has its body"
            self.retained_bytes -= len(entry.body.payload)
            entry.phase = COLLECTED
            del self.entries[entry.id]
            self.collected = max(self.collected, entry.gts)
        self.log_dead += len(removed)
        if self.log_dead * 2 > len(self.delivered_log):
            self.delivered_log = [entry for entry in self.delivered_log if entry.phase != COLLECTED]
            self.log_dead = 0
        return removed

    def redo_trimmed(self, r: Trimmed) -> None:
        """From the log."""
        self.learn_stable(r.stable)
        self.trim(r)

    def on_sweep(self, sender: Pid, s: Sweep) -> None:
        """Forget what nobody came back for: early arrivals of lost messages, and tables of expired sessions."""
        if sender != self.me:
            return self.refuse("timer from another process")
        forget = self.options.forget_ticks
        self.forget_stale(self.out.now - forget)
        # A member that is behind may still hold something of an expired session as ACCEPTED, and only the table keeps
        # a new leader from taking that for undelivered.
        self.dedup.bury(self.everywhere)
        self.set_timer(Sweep(), forget, spread=forget)
