"""Catch-up: how a follower gets the deliveries it missed (protocols.md 1.4).

The leader resends from its log above the follower's mark. What it has collected it can only send as a snapshot of the
application, with the dedup table as it was at that point and with everything delivered that other groups may still
ask for. Both travel in pieces: those of the log as they are asked for, those of a snapshot one after the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice, pairwise

from braidcast.core.application import Restored, Snapshot, SnapshotWanted
from braidcast.core.ballots import leader_of
from braidcast.core.timestamps import Timestamp, clock_of
from braidcast.core.topology import Pid
from braidcast.protocols.parts.dedup import DedupState, joined_tables
from braidcast.protocols.whitebox.entry import ACCEPTED, COLLECTED, COMMITTED, LEADER, RECOVERING
from braidcast.protocols.whitebox.messages import (
    CatchUp,
    CaughtUp,
    Known,
    Redelivered,
    Resend,
    SnapshotBase,
    SnapshotChunk,
    SnapshotInstalled,
    Transferred,
)  # fmt: skip
from braidcast.protocols.whitebox.ordering import Ordering
from braidcast.protocols.whitebox.pieces import can_be, cut, joined, slices
from braidcast.protocols.whitebox.state import NEVER


class CatchingUp(Ordering):
    """Resends and snapshots, from both sides."""

    __slots__ = ()

    # -- at the leader -----------------------------------------------------------------------------------------------

    def on_catch_up(self, sender: Pid, c: CatchUp) -> None:
        """A follower misses what came after `c.gts`."""
        if self.status is not LEADER or c.ballot != self.cballot or self.home.get(sender) != self.group:
            return self.refuse("catch-up from another ballot")
        self.resend_after(sender, c.gts)

    def resend_after(self, follower: Pid, gts: Timestamp) -> None:
        """Send the next piece of the log, or ask the application for a snapshot if the log no longer has it."""
        if gts >= self.max_delivered_gts:
            return
        if gts < self.collected:
            return self.want_snapshot_for(follower)
        first = bisect_right(self.delivered_log, gts, key=lambda entry: entry.gts)
        missed = (self.known(entry, with_body=True) for entry in islice(self.delivered_log, first, None))
        piece = next(cut(self.options, known=missed))  # the follower asks for the next one
        self.send((follower,), Resend(self.cballot, gts, self.max_delivered_gts, piece["known"]))

    def want_snapshot_for(self, follower: Pid) -> None:
        """One snapshot at a time serves everybody who asks meanwhile; what is on its way gets the time to arrive."""
        if self.out.now - self.snapshot_sent_at.get(follower, NEVER) < self.options.retry_ticks:
            return
        if follower not in self.snapshot_for:
            self.snapshot_for = (*self.snapshot_for, follower)
        if self.snapshot_base is None:
            known = tuple([self.known(e, with_body=True) for e in self.delivered_log if e.phase != COLLECTED])
            undelivered = tuple(sorted([e.number for e in self.pending.in_order() if e.number]))
            table = self.dedup.export(self.options.chunk_entries)
            self.snapshot_base = SnapshotBase(
                self.max_delivered_gts, known, table, self.collected, self.issued, undelivered,
                self.stability(self.stable),
            )  # fmt: skip
            self.deliver(SnapshotWanted(self.max_delivered_gts))

    def on_snapshot(self, sender: Pid, s: Snapshot) -> None:
        """The application's answer."""
        base, waiting = self.snapshot_base, self.snapshot_for
        if sender != self.me or base is None or base.gts != s.gts or self.status is not LEADER:
            return self.refuse("snapshot that nobody asked for")
        self.snapshot_for, self.snapshot_base = (), None
        table = base.dedup
        pieces = list(
            cut(
                self.options, state=slices(s.state, self.options.chunk_bytes), known=base.known,
                sessions=table.sessions, expired=table.expired, floors=table.floors, batched=table.batched,
                undelivered=base.undelivered,
            )
        )  # fmt: skip
        self.serial += 1
        for part, p in enumerate(pieces):
            rows = DedupState(p["sessions"], p["expired"], p["floors"], p["batched"], table.floor_of_forgotten)
            chunk = SnapshotChunk(
                self.cballot, base.gts, self.serial, part, len(pieces), b"".join(p["state"]), p["known"], rows,
                base.collected, base.issued, p["undelivered"], base.stable,
            )  # fmt: skip
            self.send(waiting, chunk)
        for follower in waiting:
            self.snapshot_sent_at[follower] = self.out.now
            self.resend_after(follower, base.gts)

    # -- at the follower ---------------------------------------------------------------------------------------------

    def on_resend(self, sender: Pid, r: Resend) -> None:
        """Deliver what was missed, in order; ask for more if there is more."""
        if self.status is RECOVERING or r.ballot != self.cballot or leader_of(r.ballot) != sender:
            return self.refuse("resend of another ballot")
        if not self.concerns(r.known):
            return self.refuse("resend of another group's messages")
        if r.prev_gts > self.max_delivered_gts:
            return self.ask_for_missed(sender)
        before = self.max_delivered_gts
        count = 0
        for known in r.known:
            if known.gts <= self.max_delivered_gts:
                if note := self.note:
                    note(Redelivered(known.id, known.gts))
                continue
            if self.has_delivered(known.id):
                self.refuse("resend at a second timestamp")
                break
            entry = self.entry_for(known.id, known.dest)
            if entry.phase < ACCEPTED:
                entry.body = known.body
            if entry.body is None or entry.dest != known.dest:
                self.refuse("resend without what is missing")
                break
            self.hold_number(known.number)
            self.learn_committed(entry, known.lts, known.gts)
            self.deliver_next(entry)
            count += 1
        if count and (note := self.note):
            note(CaughtUp(self.group, self.max_delivered_gts, count))
        if before < self.max_delivered_gts < r.upto:
            self.ask_for_missed(sender)
        if self.early:
            self.deliver_committed()

    def on_snapshot_chunk(self, sender: Pid, c: SnapshotChunk) -> None:
        """Collect the pieces; install them together."""
        if self.status is RECOVERING or c.ballot != self.cballot or leader_of(c.ballot) != sender:
            return self.refuse("snapshot of another ballot")
        if c.gts <= self.max_delivered_gts or not can_be(c) or not self.concerns(c.known):
            return self.refuse("snapshot that is not needed")
        pieces = self.chunks.add((c.ballot, c.serial, c.parts), c)
        if not pieces:
            return
        known, table = joined(pieces, "known"), joined_tables([piece.dedup for piece in pieces])
        if not self.can_follow(known, c.gts) or not table.is_whole:
            return self.refuse("snapshot that cannot be")
        state = b"".join([piece.state for piece in pieces])
        record = Transferred(c.gts, state, known, table, c.collected, c.stable)
        self.persist(record)
        self.redo_transferred(record)
        self.hold_state(c.issued, joined(pieces, "undelivered"))
        self.restore_application()
        if note := self.note:
            note(SnapshotInstalled(self.group, c.gts))
        if self.early:
            self.deliver_committed()

    def can_follow(self, known: Sequence[Known], gts: Timestamp) -> bool:
        """Whether these were delivered in this order, up to `gts`, and none lacks its body."""
        timestamps = [0, *[k.gts for k in known], gts + 1]
        whole = all(k.phase == COMMITTED and k.body is not None for k in known)
        return whole and all(before < after for before, after in pairwise(timestamps))

    def redo_transferred(self, r: Transferred) -> None:
        """Everything up to `r.gts` counts as delivered; what is not collected is kept for other groups."""
        self.snapshot = r
        self.max_delivered_gts = r.gts
        self.raise_clock(clock_of(r.gts))
        self.dedup.load(r.dedup)
        self.learn_stable(r.stable)
        self.collected = max(self.collected, r.collected)
        for id in [id for id in self.entries if self.dedup.delivered_at(id) is not None]:
            del self.entries[id]
        self.delivered_log, self.retained, self.log_dead, self.retained_bytes = [], {}, 0, 0
        for known in r.known:
            entry = self.entry_for(known.id, known.dest)
            entry.body, entry.phase, entry.lts, entry.gts = known.body, COMMITTED, known.lts, known.gts
            self.retain(entry)
        if self.early:
            self.rebuild_pending()

    def restore_application(self) -> None:
        """Hand the installed snapshot to the application."""
        assert self.snapshot is not None, "only after a transfer"
        self.deliver(Restored(self.snapshot.gts, self.snapshot.state))
