"""Ordering: from MULTICAST to committed (paper 001, Figure 4 lines 1-20 and 32-34).

The leader of each destination group gives the message a local timestamp and sends it to every member of every
destination group. Who holds the timestamps of all groups acknowledges them, tagged with the ballots in which they
were given; a quorum of equal acknowledgements in every group commits the message at the highest of them.
"""

from __future__ import annotations

from braidcast.core.application import Connected
from braidcast.core.ballots import PID_MASK, leader_of, leaders_of
from braidcast.core.client import EXPIRED_SESSION, Multicast, Redirect, Refused, Reply
from braidcast.core.timestamps import GROUP_BITS, GROUPS_MAX
from braidcast.core.topology import Pid
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.entry import (
    ACCEPTED,
    COMMITTED,
    FOLLOWER,
    LEADER,
    PROPOSED,
    RECOVERING,
    START,
    Entry,
)  # fmt: skip
from braidcast.protocols.whitebox.messages import Accept, AcceptAck, Accepted, Committed, Forwarded, Retried, Retry

BATCH_MESSAGES_MAX = 1 << 20
GROUP_MASK = GROUPS_MAX - 1
RETRY_CHUNKS = 4
RETRIES_MAX = 256
"""What may be retried with one heartbeat, in `chunk_bytes` of payload and in messages: each is some twenty of them."""


class Ordering(Delivery):
    """The normal case, and the retry of what got stuck."""

    __slots__ = ()
    passed_on = (Forwarded,)

    # -- lines 3-9: the leader proposes ------------------------------------------------------------------------------

    def on_multicast(self, sender: Pid, m: Multicast) -> None:
        """Lines 3-9; a follower points a client to the leader."""
        if m.id.client in self.home or sender in self.home:
            return self.refuse("multicast in a process's name")
        if self.status is LEADER:
            self.propose(m)
        else:
            self.point_to_leader(sender, m)

    def on_forwarded(self, sender: Pid, f: Forwarded) -> None:
        """A follower passed on what a client sent it; it is passed on once."""
        if f.body.id.client in self.home:
            return self.refuse("multicast in a process's name")
        if self.status is LEADER:
            self.propose(f.body)
        else:
            self.refuse("forwarded to a follower")

    def on_retry(self, sender: Pid, r: Retry) -> None:
        """The leader of another group waits for this one."""
        group = self.home.get(sender)
        if leader_of(r.ballot) != sender or group == self.group or group not in r.body.dest or not r.lts:
            return self.refuse("retry by another than a leader")
        if self.status is not LEADER:
            return self.refuse("retry sent to a follower")  # the leader that retries asks everybody
        self.propose(r.body, is_asked=not self.is_late(group, r.ballot, r.lts))

    def propose(self, m: Multicast, *, is_asked: bool | None = None) -> None:
        """Lines 5-9. The local timestamp of a message never changes, whatever happens to it later.

        `is_asked`: another group waits for it (True), or did when it said so (False); None if a client sent it.
        """
        entry = self.entries.get(m.id)
        if entry is None or entry.phase == START:
            if not self.may_propose(m, is_asked):
                return
            entry = self.entry_for(m.id, m.dest)
            self.clock += 1
            self.issued += 1
            entry.body = m
            entry.lts = self.clock << GROUP_BITS | self.group
            entry.phase = PROPOSED
            entry.number = self.issued
            entry.retry_at = self.out.now + self.options.retry_ticks
            self.pending.push(entry.lts, entry)
            self.pending_bytes += len(m.payload)
        elif entry.dest != m.dest:
            self.refuse_client(m, "the id is in use with other destinations")
            return
        elif is_asked is None:
            # A client that asks again. Line 9 would answer everybody; the leader's own retry does that in time, and
            # a client that is out of patience with a slow group must not make it slower.
            if entry.phase == COMMITTED and entry.gts <= self.max_delivered_gts:
                self.send((m.id.client,), Reply(m.id, self.group, entry.gts))
            return
        self.send_accept(entry)

    def may_propose(self, m: Multicast, is_asked: bool | None) -> bool:
        """A message that is new, well formed and for this group."""
        dest = m.dest
        entry = self.entries.get(m.id)
        if entry is not None and entry.dest not in ((), dest):
            return self.refuse_client(m, "the id is in use with other destinations")
        if self.group not in dest or not self.topology.has_groups(dest):
            return self.refuse_client(m, "impossible destinations")
        if not 0 <= m.batch_count <= BATCH_MESSAGES_MAX or m.batch_first < 0:
            return self.refuse_client(m, "impossible batch")
        if not 1 <= m.complete_below <= m.id.seq:
            return self.refuse_client(m, "complete before it is delivered")
        if is_asked is False:
            self.refuse("late retry")
            return False
        if is_asked is None and self.dedup.is_expired(m.id):
            return self.refuse_client(m, EXPIRED_SESSION)
        delivered_at = self.dedup.delivered_at(m.id)
        if delivered_at is not None and not (is_asked and delivered_at == 0):
            # A tombstone: delivered and collected. If only the client says so, and another group waits for it all the
            # same, the client's word was false, and believing it would block that group for everybody.
            self.refuse("multicast of a collected message")
            self.send((m.id.client,), Reply(m.id, self.group, delivered_at))
            return False
        return True

    def refuse_client(self, m: Multicast, why: str) -> bool:
        """Tell the client that this will not be ordered; always False."""
        self.refuse("multicast: " + why)
        self.send((m.id.client,), Refused(m.id, self.group, why))
        return False

    def send_accept(self, entry: Entry) -> None:
        """Line 9. Only the own group gets the body; the others learn the timestamp."""
        id, dest = entry.id, entry.dest
        self.send(self.peers, Accept(id, dest, self.group, self.cballot, entry.lts, entry.body, entry.number))
        if len(dest) > 1:
            remote = self.topology.members_outside(dest, self.group)
            self.send(remote, Accept(id, dest, self.group, self.cballot, entry.lts, None))

    def point_to_leader(self, client: Pid, m: Multicast) -> None:
        """Pass it on once, and tell the client for the next time."""
        entry = self.entries.get(m.id)
        if entry is not None and entry.gts and entry.gts <= self.max_delivered_gts:
            return self.send((client,), Reply(m.id, self.group, entry.gts))
        leader = leader_of(self.cballot)
        if self.status is FOLLOWER and leader != self.me:
            self.send((leader,), Forwarded(m))
        self.send((client,), Redirect(m.id, self.group, self.cballot))

    # -- lines 10-16: everybody accepts ------------------------------------------------------------------------------

    def on_accept(self, sender: Pid, a: Accept) -> None:
        """Line 10; again for every new or repeated ACCEPT (B6)."""
        if a.ballot & PID_MASK != sender or self.home.get(sender) != a.group:
            return self.refuse("accept from another than its leader")
        if a.group == self.group and a.ballot < self.cballot:
            return self.refuse("accept of an old ballot")
        body = a.body
        if body is not None and (body.id != a.id or body.dest != a.dest):
            return self.refuse("accept with the body of another message")
        if a.lts <= 0 or a.lts & GROUP_MASK != a.group:
            return self.refuse("accept with the timestamp of another group")
        entry = self.entries.get(a.id)
        if entry is None or not entry.dest:
            if self.dedup.delivered_at(a.id) or self.is_behind(a):
                return self.refuse("accept of a collected message")
            if self.group not in a.dest or a.group not in a.dest or not self.topology.has_groups(a.dest):
                return self.refuse("accept for another group")
            entry = self.entry_for(a.id, a.dest)
        elif entry.dest != a.dest or a.group not in a.dest:
            return self.refuse("accept with other destinations")
        group = a.group
        if group != self.group and a.ballot > self.leaders.get(group, 0):
            self.leaders[group] = a.ballot
        accepts = entry.accepts
        if group not in accepts:  # the usual case of `hold`, without the call
            accepts[group] = a
            entry.missing -= 1
            if a.lts > entry.bound:
                entry.bound = a.lts
        elif not entry.hold(a):
            return self.refuse("accept of an old ballot")
        if self.early and a.group == self.group:
            self.note_proposed(entry, a)
        if not entry.missing:
            self.acknowledge(entry)

    def is_behind(self, a: Accept) -> bool:
        """Whether `a`, of which nothing is known here, is about something that its group has delivered or forgotten.

        The own leader may have delivered beyond `a.lts` with the message committed above; then it comes with a resend.
        """
        if a.group != self.group:
            return self.is_late(a.group, a.ballot, a.lts)
        return a.ballot == self.cballot and a.lts <= self.max_delivered_gts

    def acknowledge(self, entry: Entry) -> None:
        """Lines 11-16. An ACCEPT of a ballot that this process has not joined yet waits until it has (B6)."""
        accepts = entry.accepts
        mine = accepts[self.group]
        if mine.ballot != self.cballot or self.status is RECOVERING:
            return
        body = mine.body if entry.phase < ACCEPTED else entry.body
        if body is None:
            return self.refuse("accept without a body")
        ballots = []
        for group in entry.dest:  # a comprehension is a call
            ballots.append(accepts[group].ballot)
        vector = entry.vector = tuple(ballots)
        behind = self.clock < entry.bound >> GROUP_BITS
        if behind:  # line 14, also for what was accepted before (B4, B6)
            self.clock = entry.bound >> GROUP_BITS
        if entry.phase < ACCEPTED:
            entry.phase, entry.lts, entry.body = ACCEPTED, mine.lts, body
            self.persist(Accepted(body, mine.lts, self.clock))
        elif behind:
            self.persist(Accepted(body, mine.lts, self.clock))
        issued = self.issued if self.status is LEADER else 0
        to = self.topology.members(entry.dest) if self.early else leaders_of(vector)
        self.send(to, AcceptAck(entry.id, self.group, vector, issued))

    def note_proposed(self, entry: Entry, a: Accept) -> None:
        """Early delivery: a follower knows what its leader proposed, or it would overtake it (1.8)."""
        if a.ballot == self.cballot and self.status is FOLLOWER:
            self.hold_number(a.number)
            if entry.phase == START:
                entry.phase, entry.lts = PROPOSED, a.lts
                self.pending.push(a.lts, entry)

    # -- lines 17-20: a quorum in every group commits ----------------------------------------------------------------

    def on_accept_ack(self, sender: Pid, ack: AcceptAck) -> None:
        """Line 17: acknowledgements count by the ballots they acknowledge."""
        if self.home.get(sender) != ack.group:
            return self.refuse("acknowledgement for another group")
        entry = self.entries.get(ack.id)
        if entry is None:
            if not self.early or self.dedup.delivered_at(ack.id) is not None:
                return self.refuse("acknowledgement of an unknown message")
            entry = self.entries[ack.id] = Entry(ack.id, (), 0, self.out.now)
        vector = ack.vector
        if entry.gts or not vector:
            return
        acks = entry.acks.get(vector, 0) | 1 << sender
        entry.acks[vector] = acks
        if self.early and sender == leader_of(self.cballot) and ack.issued > entry.issued:
            entry.issued = ack.issued
            if vector == entry.vector:
                self.commit_if_accepted(entry, acks)
        elif acks.bit_count() >= entry.quorums and vector == entry.vector:
            self.commit_if_accepted(entry, acks)

    def commit_if_accepted(self, entry: Entry, acks: int) -> None:
        """Lines 17-20."""
        if not self.accepted_in_current_ballot(acks):
            return
        for members, quorum in self.topology.quorums(entry.dest):
            if (acks & members).bit_count() < quorum:
                return
        entry.phase, entry.gts = COMMITTED, entry.bound
        self.raise_clock(entry.gts >> GROUP_BITS)
        if note := self.note:
            note(Committed(entry.id, entry.gts))
        self.deliver_committed()

    def accepted_in_current_ballot(self, acks: int) -> bool:
        """Line 18, and line 17's "including myself"; an early follower needs its leader's word as well (1.8).

        `entry.vector` is always of the current ballot: joining another one forgets it.
        """
        if not acks >> self.me & 1:
            return False
        if self.status is LEADER:
            return True
        return self.delivers_early and bool(acks >> leader_of(self.cballot) & 1)

    # -- lines 32-34: retry ------------------------------------------------------------------------------------------

    def retry(self, entry: Entry) -> None:
        """Ask all groups for their timestamps again: first who leads them, as far as one knows, then everybody."""
        assert entry.body is not None, "a leader has the body of what it proposed"
        dest = tuple(g for g in entry.dest if g != self.group)
        if dest:
            known = [g for g in dest if g in self.leaders]
            guess = not entry.attempts and len(known) == len(dest)
            to = leaders_of(tuple([self.leaders[g] for g in known])) if guess else self.topology.members(dest)
            self.send(to, Retry(entry.body, self.cballot, entry.lts))
        self.send_accept(entry)
        wait = self.options.retry_ticks << min(entry.attempts, 5)
        entry.retry_at, entry.attempts = self.out.now + wait, entry.attempts + 1
        if note := self.note:
            note(Retried(entry.id))

    def retry_stuck(self) -> None:
        """Whatever has waited for too long; the heartbeat's jitter keeps leaders from retrying in step.

        At most so many messages and a few pieces' worth of bodies, the lowest timestamps first: a heartbeat must
        not wait behind everything that is pending, or the next leader retries it all as well. The rest has its turn
        with the next heartbeats, since what was retried waits for longer.
        """
        now, left, count = self.out.now, RETRY_CHUNKS * self.options.chunk_bytes, RETRIES_MAX
        for entry in self.pending.in_order():
            if not entry.gts and now >= entry.retry_at and entry.body is not None:
                if left <= 0 or not count:
                    return
                left -= len(entry.body.payload)
                count -= 1
                self.retry(entry)

    def on_connected(self, sender: Pid, c: Connected) -> None:
        """A session broke and is back: what was in flight may be lost, so do not wait for the time-out."""
        if sender != self.me:
            return self.refuse("driver's word from another process")
        group = self.home.get(c.peer)
        if self.status is LEADER and group is not None:
            for entry in self.pending.in_order():
                if group in entry.dest:
                    entry.retry_at = self.out.now  # with the next heartbeat: once, however many sessions come back

    def forget_stale(self, before: int) -> None:
        """Drop what came early for messages that never came; if one comes after all, a retry brings the rest."""
        stale = [id for id, e in self.entries.items() if e.phase == START and e.since < before]
        for id in stale:
            del self.entries[id]

    def look_again(self) -> None:
        """After joining a ballot: what was held back for it (B6), in the order of its timestamps."""
        held = [e for e in self.entries.values() if self.group in e.accepts]
        held = [e for e in held if e.accepts[self.group].ballot == self.cballot]
        for entry in sorted(held, key=lambda e: e.accepts[self.group].lts):
            if self.early:
                self.note_proposed(entry, entry.accepts[self.group])
            if not entry.missing:
                self.acknowledge(entry)


