"""Rejoining: how a member that lost its disk, which an operator has to say, becomes a member again.

It has forgotten what it promised, accepted and delivered, so it is as good as crashed: it votes for nobody, does not
stand, and acknowledges nothing. Others go on without it as long as they are a quorum. To come back it needs a state
that includes everything its forgotten word was given for:

1. Its acceptances. Whatever a quorum accepted with it, that quorum without it shares a member with every quorum that
   does not need it. So the state of any ballot that was decided without it will do.
2. Its promises. It may have promised a ballot to a candidate that has not got its quorum yet. That candidate joined
   the ballot before it asked (B7). So the leader restores it only in a ballot that it began after it heard of the
   loss, and for which *every* other member has voted: who voted for it, stands for no older one.
3. Its deliveries. Messages may be collected because a quorum had delivered them, of which it was one. So it votes
   only when it has delivered all that its leader had collected, by snapshot if need be.

Two members may have lost their disks at a time, as long as the others are a quorum; what one of them forgot the
others cannot be waiting for. `life` tells the requests of one loss from those of the next.
"""

from __future__ import annotations

from braidcast.core.application import Connected
from braidcast.core.process import Ticks
from braidcast.core.topology import Pid
from braidcast.protocols.whitebox.entry import LEADER
from braidcast.protocols.whitebox.messages import (
    Forgot,
    NewLeaderAck,
    NewState,
    Rejoin,
    Rejoined,
    StateRegained,
)  # fmt: skip
from braidcast.protocols.whitebox.recovery import Recovery


class Rejoining(Recovery):
    """Both sides of it."""

    __slots__ = ()

    # -- the member that lost its disk -------------------------------------------------------------------------------

    def rejoin(self, life: int) -> None:
        """In place of recovery from a log; durable, so that a restart does not take this for a first life."""
        self.recovered = True
        record = Forgot(life)
        self.persist(record)
        self.redo_forgot(record)

    def redo_forgot(self, r: Forgot) -> None:
        """From the log."""
        self.life = r.life

    def on_connected(self, sender: Pid, c: Connected) -> None:
        """Ask whoever may lead; and again with every heartbeat (`election.py`)."""
        super().on_connected(sender, c)
        if self.life and c.peer in self.others:
            self.send((c.peer,), Rejoin(self.life))

    def remember(self, state: NewState) -> None:
        """The state is installed; what its leader had collected is still to come."""
        record = Rejoined(state.collected)
        self.persist(record)
        self.redo_rejoined(record)
        if note := self.note:
            note(StateRegained(self.group, self.ballot, self.votes_from))

    def redo_rejoined(self, r: Rejoined) -> None:
        """From the log."""
        self.life, self.votes_from = 0, r.gts

    # -- its leader --------------------------------------------------------------------------------------------------

    def on_rejoin(self, sender: Pid, r: Rejoin) -> None:
        """Begin a ballot of which every other member has to know, and restore the sender in it."""
        if self.status is not LEADER or sender not in self.others:
            return self.refuse("rejoin at another than the leader")
        if self.restored.get(sender) == r.life:
            return self.bring_to_state(sender)  # the first was lost
        life, heard_in = self.forgetful.get(sender, (0, self.ballot))
        if life != r.life:
            heard_in = self.ballot
            self.forgetful[sender] = r.life, heard_in
        if heard_in == self.ballot and self.hears_everybody():
            self.recover_leadership()

    def restore_members(self) -> None:
        """Restore those that asked before this ballot began, once all others have voted for it."""
        if self.status is not LEADER or not all(p in self.votes or p in self.forgetful for p in self.peers):
            return
        for member, (life, heard_in) in sorted(self.forgetful.items()):
            if heard_in < self.ballot:
                del self.forgetful[member]
                self.restored[member] = life
                self.votes[member] = NewLeaderAck(self.ballot, 0, 0, 0, 0, ())
                self.bring_to_state(member)

    def hears_everybody(self) -> bool:
        """Whether all members that remember have answered lately: a ballot would reach them all."""
        since = self.out.now - self.patience()
        return all(at >= since for p, at in self.acked_at.items() if p not in self.forgetful)

    def patience(self) -> Ticks:
        """How long silence is tolerated."""
        raise NotImplementedError
