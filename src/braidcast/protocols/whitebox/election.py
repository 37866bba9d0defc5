"""Election: when to suspect a leader, and when to stop leading (protocols.md 1.5).

The paper leaves this to a leader selection service. Here a follower that hears nothing for a while asks the others
whether they hear nothing either (PreVote), and only then disturbs the group with a ballot; a leader that hears no
quorum stops; attempts back off. Safety never depends on any of it.
"""

from __future__ import annotations

from braidcast.core.ballots import Ballot, ballot, leader_of, number_of
from braidcast.core.process import Ticks
from braidcast.core.topology import Pid
from braidcast.protocols.whitebox.entry import FOLLOWER, LEADER, RECOVERING
from braidcast.protocols.whitebox.messages import (
    Beat,
    CatchUp,
    Heartbeat,
    HeartbeatAck,
    PreVote,
    PreVoteAck,
    Rejoin,
    SteppedDown,
    Suspect,
)  # fmt: skip
from braidcast.protocols.whitebox.rejoining import Rejoining
from braidcast.protocols.whitebox.state import ATTEMPTS_MAX

SETTLED_AFTER = 4
"""A leadership has settled once it has lasted this many times the silence that is tolerated."""


class Election(Rejoining):
    """Heartbeats, suspicion, PreVote, stepping down."""

    __slots__ = ()

    # -- the leader's side -------------------------------------------------------------------------------------------

    def begin_to_beat(self) -> None:
        """A new leader has just heard from a quorum."""
        now = self.out.now
        self.acked_at = dict.fromkeys(self.others, now)
        self.applied = {}
        self.snapshot_sent_at = {}
        self.settled_at = now
        self.cancel_timer(Suspect())
        self.set_timer(Beat(), self.options.heartbeat_ticks)

    def on_beat(self, sender: Pid, b: Beat) -> None:
        """Everything that a leader does now and then."""
        if sender != self.me:
            return self.refuse("timer from another process")
        if self.status is not LEADER:
            return
        if not self.hears_quorum():
            return self.step_down()
        self.calm_down()
        floor = self.collect_as_leader()
        if self.others:
            stable = self.stability(self.stable)
            heartbeat = Heartbeat(self.cballot, self.max_delivered_gts, floor, stable, self.everywhere)
            self.send(self.others, heartbeat)
        self.ask_for_stability()
        self.retry_stuck()
        self.set_timer(Beat(), self.options.heartbeat_ticks, spread=self.options.heartbeat_ticks // 4)

    def hears_quorum(self) -> bool:
        """Whether a quorum, itself included, has answered lately."""
        since = self.out.now - self.patience()
        return 1 + sum([at >= since for at in self.acked_at.values()]) >= self.quorum

    def step_down(self) -> None:
        """Stop leading, and ask for a new ballot once a quorum can be heard again."""
        self.status = RECOVERING
        self.votes, self.synced = {}, {}  # what was said to the leader of this ballot does not make it one again
        if note := self.note:
            note(SteppedDown(self.group, self.cballot))
        self.wait_for_leader()

    def on_heartbeat_ack(self, sender: Pid, ack: HeartbeatAck) -> None:
        """A member is there; one that promised a higher ballot is stranded until this leader goes above it (B5)."""
        if self.status is not LEADER or self.home.get(sender) != self.group:
            return self.refuse("heartbeat acknowledged to another than the leader")
        if ack.ballot > self.ballot:
            self.max_ballot = max(self.max_ballot, ack.ballot)
            return self.recover_leadership()
        self.acked_at[sender] = self.out.now
        self.vote_pieces.pop(sender, None)  # it has joined: the rest of a late vote will not come
        if ack.gts > self.applied.get(sender, 0):
            self.applied[sender] = ack.gts

    # -- the follower's side -----------------------------------------------------------------------------------------

    def on_heartbeat(self, sender: Pid, h: Heartbeat) -> None:
        """There is a leader: follow it, join its ballot late if need be (B5), ask for what is missing."""
        if not self.comes_from_its_leader(sender, h.ballot):
            return self.refuse("heartbeat of another group")
        if h.ballot < self.ballot:
            return self.send((sender,), HeartbeatAck(self.ballot, 0))
        self.heard_at = self.out.now
        self.prevote_ballot = 0
        if h.ballot == self.cballot:
            self.calm_down()
        self.wait_for_leader()
        if self.life:
            return self.send((sender,), Rejoin(self.life))  # again, until it is restored
        if h.ballot > self.cballot:
            return self.join(sender, h.ballot)
        if h.gts > self.max_delivered_gts and not self.receives_snapshot():
            self.asked = self.max_delivered_gts
            self.send((sender,), CatchUp(self.cballot, self.max_delivered_gts))
        self.learn_stable(h.stable)
        self.everywhere = max(self.everywhere, h.everywhere)
        self.collect(h.floor)
        self.send((sender,), HeartbeatAck(self.ballot, self.tell_applied()))

    def join(self, leader: Pid, b: Ballot) -> None:
        """Vote late for a ballot that has a leader; again if its state does not come."""
        if b > self.ballot:
            self.promise(b)
        elif len(self.arriving) != self.arrived:  # fewer: those of another transfer
            self.arrived = len(self.arriving)
            return
        self.send_vote(leader)

    def receives_snapshot(self) -> bool:
        """Whether pieces of a snapshot have come since the last heartbeat: then asking again would start it over."""
        before, self.arrived = self.arrived, len(self.chunks)
        return self.arrived > before

    def wait_for_leader(self) -> None:
        """Suspect the leader if it stays silent; wait longer after every attempt that failed."""
        wait = self.patience()
        self.set_timer(Suspect(), wait, spread=wait)

    def patience(self) -> Ticks:
        """How long silence is tolerated. It doubles with every change of leadership: one that comes from overload and
        not from a failure would otherwise cause the next."""
        return self.options.suspect_ticks << self.attempts

    def calm_down(self) -> None:
        """A leadership that lasts shows that the time-outs are long enough."""
        if self.attempts and self.out.now - self.settled_at >= SETTLED_AFTER * self.patience():
            self.attempts = 0

    def on_suspect(self, sender: Pid, s: Suspect) -> None:
        """Line 35, once a quorum agrees that there is no leader."""
        if sender != self.me:
            return self.refuse("timer from another process")
        if self.status is LEADER:
            return
        if not self.has_vote:
            return self.wait_for_leader()
        if not self.options.prevote or self.quorum == 1:
            return self.recover_leadership()
        number = number_of(max(self.ballot, self.max_ballot)) + 1
        self.attempts = min(self.attempts + 1, ATTEMPTS_MAX)
        self.wait_for_leader()
        self.prevote_ballot = ballot(number, self.me)
        self.prevotes = {self.me}
        self.send(self.others, PreVote(self.prevote_ballot, self.max_delivered_gts))

    def on_pre_vote(self, sender: Pid, p: PreVote) -> None:
        """Grant it unless there is a leader, or the candidate lacks what is collected here."""
        if not self.comes_from_its_leader(sender, p.ballot):
            return self.refuse("candidate of another group")
        if not self.has_vote:
            return self.refuse("vote of a member that lost its disk")
        granted = p.gts >= self.collected and not self.has_other_leader(sender)
        self.send((sender,), PreVoteAck(p.ballot, granted, self.ballot))

    def has_other_leader(self, candidate: Pid) -> bool:
        """Whether this process leads, or has lately heard from a leader other than the candidate."""
        heard = self.heard_at >= self.out.now - self.options.suspect_ticks
        return self.status is LEADER or (heard and leader_of(self.cballot) != candidate)

    def on_pre_vote_ack(self, sender: Pid, ack: PreVoteAck) -> None:
        """A quorum hears no leader: ask for votes."""
        self.max_ballot = max(self.max_ballot, ack.promised)
        if ack.ballot != self.prevote_ballot or self.status is LEADER or self.home.get(sender) != self.group:
            return self.refuse("answer to another prevote")
        if ack.granted:
            self.prevotes.add(sender)
            if len(self.prevotes) >= self.quorum:
                self.recover_leadership()

    # -- beginnings --------------------------------------------------------------------------------------------------

    def resume_following(self) -> None:
        """After a restart: never lead again in the ballot of before (1.3)."""
        self.status = FOLLOWER if self.ballot == self.cballot and not self.life else RECOVERING
        self.wait_for_leader()
