"""Delivery: **the white-box delivery rule** (paper 001, Figure 4 lines 21-31), at leaders and at followers.

A message that is committed may be delivered once no other can end below it: `PendingHeap.next_committed` is line 21.
The leader decides, and says so with DELIVER. DELIVER carries the timestamp of the delivery before it, so that a
follower that missed one notices and catches up instead of skipping it; channels need not be reliable.

A delivery rests on the message being accepted by quorums, which is durable, and not on its own record: `Marked` is
unhurried. Only who says how far its deliveries are durable (`tell_applied`) waits for the marks.

With `follower_delivery = "early"` a follower applies the same rule on its own (protocols.md 1.8): it knows every
timestamp its leader issued before it acknowledged, because the acknowledgement counts them.
"""

from __future__ import annotations

from braidcast.core.application import Delivered
from braidcast.core.ballots import PID_MASK
from braidcast.core.client import MessageId, Reply
from braidcast.core.timestamps import GROUP_BITS
from braidcast.core.topology import Pid
from braidcast.protocols.whitebox.entry import ACCEPTED, COMMITTED, LEADER, RECOVERING, START, Entry
from braidcast.protocols.whitebox.messages import Accepted, CatchUp, Deliver, Marked, Redelivered, SessionsExpired
from braidcast.protocols.whitebox.state import UNCOUNTED, State

GAPS_MAX = 1000


class Delivery(State):
    """From committed to delivered."""

    __slots__ = ()
    unhurried = (Marked,)

    def deliver_committed(self) -> None:
        """Lines 21-23: deliver what is committed and cannot be overtaken, in the order of global timestamps."""
        leads = self.status is LEADER
        while (entry := self.pending.next_committed()) is not None:
            prev_gts = self.max_delivered_gts
            if entry.gts > prev_gts:
                if not leads and not self.holds_all_issued_before(entry):
                    return
                self.deliver_next(entry)
                if leads:
                    if self.others:
                        self.send(self.others, Deliver(entry.id, self.cballot, entry.lts, entry.gts, prev_gts))
                    self.send((entry.id.client,), Reply(entry.id, self.group, entry.gts))
            elif leads:  # never, if all is right; a follower may have had it by DELIVER meanwhile
                self.refuse("committed below what is delivered")
            self.pending.pop()
            if leads and entry.body is not None:
                self.pending_bytes -= len(entry.body.payload)

    def holds_all_issued_before(self, entry: Entry) -> bool:
        """Whether every timestamp that the leader issued before it acknowledged `entry` is known here."""
        return (
            self.max_delivered_gts >= self.state_begins
            and entry.issued <= self.held
            and (not self.gaps or entry.issued < min(self.gaps))
        )

    def hold_number(self, number: int) -> None:
        """The timestamp of that number in the leader's ballot is known here; 0 if it is from before."""
        if number - self.held > GAPS_MAX or len(self.gaps) > GAPS_MAX:
            self.held, self.gaps = UNCOUNTED, set()  # too much was lost to be worth keeping count of
        elif number > self.held >= 0:
            self.gaps.update(range(self.held + 1, number))
            self.held = number
        else:
            self.gaps.discard(number)

    def on_deliver(self, sender: Pid, d: Deliver) -> None:
        """Lines 24-31."""
        if self.status is RECOVERING or d.ballot != self.cballot or d.ballot & PID_MASK != sender:
            return self.refuse("deliver of another ballot")
        if d.gts <= self.max_delivered_gts:
            return self.refuse("deliver again")
        entry = self.entries.get(d.id)
        if self.has_delivered(d.id):
            return self.refuse("deliver at a second timestamp")
        if d.prev_gts > self.max_delivered_gts or entry is None or not self.find_body(entry):
            return self.ask_for_missed(sender)
        self.learn_committed(entry, d.lts, d.gts)
        self.deliver_next(entry)
        if self.early:
            self.deliver_committed()

    def has_delivered(self, id: MessageId) -> bool:
        """Whether `id` was delivered at a timestamp that is still known. Not by the client's word (`complete_below`):
        a follower that took it would miss for ever what its leader delivers all the same."""
        entry = self.entries.get(id)
        if entry is not None:
            return 0 < entry.gts <= self.max_delivered_gts
        return bool(self.dedup.delivered_at(id))

    def find_body(self, entry: Entry) -> bool:
        """Whether the body is here: accepted, or in the ACCEPT of this very ballot; another may be from a client that
        used the id twice, under a leader that is gone."""
        if entry.phase < ACCEPTED:
            mine = entry.accepts.get(self.group)
            entry.body = mine.body if mine is not None and mine.ballot == self.cballot else None
        return entry.body is not None

    def learn_committed(self, entry: Entry, lts: int, gts: int) -> None:
        """Lines 26-29, and the body on disk if it is not there yet."""
        if entry.phase < ACCEPTED:
            assert entry.body is not None, "nothing is delivered without its body"
            self.persist(Accepted(entry.body, lts, self.clock))
        entry.phase, entry.lts, entry.gts = COMMITTED, lts, gts
        if gts >> GROUP_BITS > self.clock:
            self.clock = gts >> GROUP_BITS

    def deliver_next(self, entry: Entry) -> None:
        """Lines 30-31: the next delivery in the order of this group."""
        assert entry.body is not None, "nothing is committed without its body"
        self.persist(Marked(entry.id, entry.lts, entry.gts))
        self.mark_delivered(entry)
        self.deliver(Delivered(entry.body, entry.gts, entry.repeated))

    def mark_delivered(self, entry: Entry) -> None:
        """Delivered: the acknowledgements have done their work, and the entry waits to be collected."""
        assert entry.body is not None, "nothing is delivered without its body"
        self.max_delivered_gts = entry.gts
        entry.repeated = self.dedup.add(entry.body, entry.gts)
        if len(self.dedup.sessions) > self.options.sessions_max:
            count = self.dedup.expire_oldest(self.options.sessions_max)
            if note := self.note:
                note(SessionsExpired(self.group, count))
        entry.acks = {}
        entry.accepts = {}
        entry.missing, entry.bound, entry.vector = len(entry.dest), 0, ()
        self.retain(entry)

    def retain(self, entry: Entry) -> None:
        """Keep a delivered entry until `collection` says that nobody will ask for it."""
        assert entry.body is not None, "what was delivered has its body"
        self.retained_bytes += len(entry.body.payload)
        self.delivered_log.append(entry)
        retained = self.retained.get(entry.dest)
        if retained is None:
            retained = self.retained[entry.dest] = []
        retained.append(entry)

    def ask_for_missed(self, leader: Pid) -> None:
        """Ask once per gap; heartbeats ask again."""
        if self.asked != self.max_delivered_gts:
            self.asked = self.max_delivered_gts
            self.send((leader,), CatchUp(self.cballot, self.max_delivered_gts))

    def hold_state(self, issued: int, undelivered: tuple[int, ...]) -> None:
        """A snapshot stands for its leader's timestamps up to number `issued`, but for the `undelivered`."""
        if self.held >= 0:
            later = {number for number in undelivered if number > self.held}
            self.gaps = {gap for gap in self.gaps if gap > issued or gap in undelivered} | later
            self.held = max(self.held, issued)

    def deliver_again(self, applied: int) -> None:
        """After a restart: what this process had delivered and its application has not applied."""
        if self.snapshot is not None and applied < self.snapshot.gts:
            self.restore_application()
            applied = self.snapshot.gts
        for entry in self.delivered_log:
            if entry.gts > applied and entry.phase == COMMITTED:
                assert entry.body is not None, "nothing is delivered without its body"
                self.deliver(Delivered(entry.body, entry.gts, entry.repeated))
                if note := self.note:
                    note(Redelivered(entry.id, entry.gts))

    def restore_application(self) -> None:
        """Hand the installed snapshot to the application."""
        raise NotImplementedError

    def redo_accepted(self, r: Accepted) -> None:
        """Lines 13-14, from the log."""
        entry = self.entry_for(r.body.id, r.body.dest)
        entry.body = r.body
        if entry.phase == START:
            entry.phase, entry.lts = ACCEPTED, r.lts
        self.raise_clock(r.clock)

    def redo_marked(self, r: Marked) -> None:
        """Lines 26-30, from the log."""
        entry = self.entries[r.id]
        entry.phase, entry.lts, entry.gts = COMMITTED, r.lts, r.gts
        self.raise_clock(r.gts >> GROUP_BITS)
        self.mark_delivered(entry)
