"""Leader recovery (paper 001, Figure 4 lines 35-70), with the repairs B1-B9 of protocols.md 1.2.

A candidate collects the votes of a quorum, each with what the voter knows; takes every COMMITTED message of any of
them, and the ACCEPTED ones of those who joined the newest ballot; brings a quorum to that state; and leads. Votes
carry no bodies: the candidate pulls those that it lacks. The state goes to each follower as the difference to what
it reported, in pieces that are installed together.
"""

from __future__ import annotations

from collections.abc import Iterator

from braidcast.core.ballots import Ballot, ballot, leader_of, number_of
from braidcast.core.client import MessageId
from braidcast.core.topology import Pid
from braidcast.protocols.parts.pending import PendingHeap
from braidcast.protocols.whitebox.collection import Collection
from braidcast.protocols.whitebox.entry import ACCEPTED, COMMITTED, FOLLOWER, LEADER, PROPOSED, RECOVERING, START
from braidcast.protocols.whitebox.messages import (
    Bodies,
    Installed,
    Known,
    Leading,
    Nack,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Promised,
    Pull,
    VoteComplete,
)  # fmt: skip
from braidcast.protocols.whitebox.pieces import Pieces, can_be, cut, joined
from braidcast.protocols.whitebox.state import ATTEMPTS_MAX, UNCOUNTED


class Recovery(Collection):
    """From a ballot to a leader."""

    __slots__ = ()

    # -- lines 35-41: a candidate asks for votes ---------------------------------------------------------------------

    def recover_leadership(self) -> None:
        """Lines 35-36. The candidate joins its own ballot before anybody else hears of it (B7)."""
        number = number_of(max(self.ballot, self.max_ballot)) + 1
        b = ballot(number, self.me)
        self.promise(b)
        if self.others:
            self.send(self.others, NewLeader(b, self.max_delivered_gts))
        for piece in self.vote():
            self.on_new_leader_ack(self.me, piece)

    def promise(self, b: Ballot) -> None:
        """Lines 39-40: join no lower ballot any more, and stop until this one is decided."""
        self.status, self.ballot = RECOVERING, b
        self.max_ballot = max(self.max_ballot, b)
        self.prevote_ballot, self.takes_over = 0, False
        self.votes, self.vote_pieces, self.synced = {}, {}, {}
        self.merged, self.bodies, self.missing = None, {}, set()
        self.restored = {}
        if leader_of(b) != self.me:
            self.forgetful = {}  # another leader restores them, and this one would not hear of it
        self.pending, self.pending_bytes = PendingHeap(), 0
        self.arrived, self.arriving, self.chunks = 0, Pieces(), Pieces()
        self.snapshot_base, self.snapshot_for = None, ()
        self.persist(Promised(b))
        if leader_of(b) != self.me or not self.options.prevote:  # a PreVote has counted already
            self.attempts = min(self.attempts + 1, ATTEMPTS_MAX)
        self.wait_for_leader()

    def vote(self) -> Iterator[NewLeaderAck]:
        """Line 41, in pieces."""
        pieces = list(cut(self.options, known=self.known_entries(with_bodies=False)))
        mark, collected = self.max_delivered_gts, self.collected
        for part, piece in enumerate(pieces):
            yield NewLeaderAck(
                self.ballot, self.cballot, self.clock, mark, collected, piece["known"], part, len(pieces)
            )

    def send_vote(self, candidate: Pid) -> None:
        """Line 41."""
        for piece in self.vote():
            self.send((candidate,), piece)

    def on_new_leader(self, sender: Pid, n: NewLeader) -> None:
        """Lines 37-41. Nobody votes for a candidate that lacks what the voter has collected (1.6)."""
        if not self.comes_from_its_leader(sender, n.ballot):
            return self.refuse("candidate of another group")
        if not self.has_vote:
            return self.refuse("vote of a member that lost its disk")
        if n.ballot <= self.ballot or n.gts < self.collected:
            self.max_ballot = max(self.max_ballot, n.ballot)
            return self.send((sender,), Nack(n.ballot, self.ballot))
        self.promise(n.ballot)
        self.send_vote(sender)

    def on_nack(self, sender: Pid, n: Nack) -> None:
        """Somebody is ahead: remember, so that the next attempt is above it."""
        self.max_ballot = max(self.max_ballot, n.promised)

    # -- lines 42-56: the candidate puts the state together ----------------------------------------------------------

    def on_new_leader_ack(self, sender: Pid, vote: NewLeaderAck) -> None:
        """Lines 42-43. After the first quorum a vote no longer counts, it only asks for the state (B3)."""
        if vote.ballot != self.ballot or leader_of(self.ballot) != self.me or self.home.get(sender) != self.group:
            return self.refuse("vote in another ballot")
        if not can_be(vote):
            return self.refuse("vote that cannot be")
        if not self.concerns(vote.known):
            return self.refuse("vote about another group's messages")
        if self.status is FOLLOWER or (sender != self.me and self.me not in self.votes):
            return self.refuse("vote for an attempt of an earlier life")
        if not self.completes_vote(sender, vote):
            return
        if self.cballot == self.ballot:
            self.bring_to_state(sender)
            return self.restore_members()
        if self.merged is None and len(self.votes) >= self.quorum:
            self.merged = self.merge_votes()
            self.pull_bodies()

    def completes_vote(self, voter: Pid, vote: NewLeaderAck) -> bool:
        """Whether all pieces of the vote are here; only then it counts."""
        header = (vote.ballot, vote.cballot, vote.clock, vote.gts, vote.collected)
        pieces = self.vote_pieces.setdefault(voter, Pieces()).add((*header, vote.parts), vote)
        if not pieces:
            return False
        del self.vote_pieces[voter]
        self.votes[voter] = NewLeaderAck(*header, joined(pieces, "known"))
        if vote.parts > 1 and (note := self.note):
            note(VoteComplete(vote.ballot, voter, vote.parts))
        return True

    def merge_votes(self) -> dict[MessageId, Known]:
        """Lines 44-53. A message of which only the id is left somewhere was delivered: not ACCEPTED again (1.6)."""
        newest = max([vote.cballot for vote in self.votes.values()])
        merged: dict[MessageId, Known] = {}
        for _, vote in sorted(self.votes.items()):
            for known in vote.known:
                if known.phase == COMMITTED or (vote.cballot == newest and known.id not in merged):
                    merged[known.id] = known
        # Whoever collected a message has delivered it, and so has the candidate (on_new_leader): it has the id.
        return {id: known for id, known in merged.items() if not self.is_collected(known)}

    def is_collected(self, known: Known) -> bool:
        """Whether what another process knows is delivered here, and at most its id is left."""
        if known.id in self.entries:
            return False
        return self.dedup.delivered_at(known.id) is not None or 0 < known.gts <= self.max_delivered_gts

    def pull_bodies(self) -> None:
        """Ask those who reported a message for its body; or go on if none is missing."""
        assert self.merged is not None, "after a quorum of votes"
        self.missing = {id for id in self.merged if not self.has_body(id)}
        if not self.missing:
            return self.install_merged()
        for voter in sorted(self.votes):
            if voter != self.me:
                self.pull_from(voter)

    def pull_from(self, voter: Pid) -> None:
        """Ask for what is missing of what this voter reported, as much as one message may hold."""
        ids = (known.id for known in self.votes[voter].known if known.id in self.missing)
        if piece := next(cut(self.options, ids=ids))["ids"]:
            self.send((voter,), Pull(self.ballot, piece))

    def has_body(self, id: MessageId) -> bool:
        """Whether the body of `id` is here."""
        entry = self.entries.get(id)
        return entry is not None and entry.phase >= ACCEPTED

    def on_pull(self, sender: Pid, p: Pull) -> None:
        """A candidate lacks bodies that this process reported."""
        if not self.comes_from_its_leader(sender, p.ballot):
            return self.refuse("pull from another group")
        entries = [self.entries[id] for id in p.ids if id in self.entries]
        bodies = (entry.body for entry in entries if entry.body is not None)
        self.send((sender,), Bodies(p.ballot, next(cut(self.options, bodies=bodies))["bodies"]))

    def on_bodies(self, sender: Pid, b: Bodies) -> None:
        """The answer; as long as it brings something, ask for the rest. What is missing then comes from another voter,
        or with the next attempt."""
        if b.ballot != self.ballot or self.merged is None or self.home.get(sender) != self.group:
            return self.refuse("bodies of another ballot")
        before = len(self.missing)
        for body in b.bodies:
            if (known := self.merged.get(body.id)) is not None and known.dest == body.dest:
                self.bodies[body.id] = body
                self.missing.discard(body.id)
        if not self.missing:
            self.install_merged()
        elif len(self.missing) < before and sender in self.votes:
            self.pull_from(sender)

    def install_merged(self) -> None:
        """Lines 44-56: adopt the merged state durably, then bring the voters to it."""
        assert self.merged is not None, "after a quorum of votes"
        known, dropped = self.difference_to(self.votes[self.me], self.merged)
        clock = max([vote.clock for vote in self.votes.values()])
        record = Installed(self.ballot, clock, known, dropped)
        self.persist(record)
        self.install(record)
        self.merged, self.bodies, self.issued = None, {}, 0
        for follower in sorted(self.votes):
            if follower != self.me:
                self.bring_to_state(follower)
        self.on_new_state_ack(self.me, NewStateAck(self.ballot, self.max_delivered_gts))

    def difference_to(
        self, vote: NewLeaderAck, state: dict[MessageId, Known]
    ) -> tuple[tuple[Known, ...], tuple[MessageId, ...]]:
        """What a voter must learn, with the bodies it lacks, and what it must drop explicitly."""
        reported = {known.id: known for known in vote.known}
        learn = []
        for id, known in sorted(state.items()):
            had = reported.get(id)
            if had is None or (had.phase, had.lts, had.gts) != (known.phase, known.lts, known.gts):
                body = self.bodies.get(id) or (self.entries[id].body if id in self.entries else None)
                learn.append(Known(id, known.dest, known.phase, known.lts, known.gts, body if had is None else None))
        dropped = [id for id, had in sorted(reported.items()) if had.phase == ACCEPTED and id not in state]
        return tuple(learn), tuple(dropped)

    def bring_to_state(self, follower: Pid) -> None:
        """Line 56, also for one that joins late (B5): the state as it is now, as if it had followed from the start."""
        state = {known.id: known for known in self.known_entries(with_bodies=False)}
        known, dropped = self.difference_to(self.votes[follower], state)
        proposed = sorted([entry.number for entry in self.entries.values() if entry.phase == PROPOSED])
        pieces = list(cut(self.options, known=known, dropped=dropped, proposed=proposed))
        self.serial += 1
        for part, p in enumerate(pieces):
            state_piece = NewState(
                self.ballot, self.serial, part, len(pieces), self.clock, p["known"], p["dropped"], self.issued,
                p["proposed"], self.collected, self.restored.get(follower, 0),
            )  # fmt: skip
            self.send((follower,), state_piece)

    # -- lines 57-62: a follower takes over the state ----------------------------------------------------------------

    def on_new_state(self, sender: Pid, s: NewState) -> None:
        """Lines 57-62. The state is relative to this process's vote, so it must have voted in this very ballot.
        One that lost its disk takes a state that is relative to nothing, and is meant for this life of it."""
        if not self.comes_from_its_leader(sender, s.ballot) or not self.concerns(s.known):
            return self.refuse("state of another group")
        if s.ballot < self.ballot:
            return self.send((sender,), Nack(s.ballot, self.ballot))
        if self.cballot == s.ballot:
            return self.send((sender,), NewStateAck(s.ballot, self.max_delivered_gts))  # the first answer was lost
        if s.life != self.life or self.status is not RECOVERING or (s.ballot > self.ballot and not self.life):
            return self.refuse("state without a vote")
        if not can_be(s) or (s.ballot, s.serial) < self.arriving.transfer[:2]:
            return self.refuse("piece of an older state")
        pieces = self.arriving.add((s.ballot, s.serial, s.parts), s)
        if not pieces:
            return
        known = joined(pieces, "known")
        if any(k.body is None and not self.has_body(k.id) and not self.is_collected(k) for k in known):
            return self.refuse("state without what is missing")
        record = Installed(s.ballot, s.clock, known, joined(pieces, "dropped"))
        self.persist(record)
        self.install(record)
        if self.life:
            self.remember(s)
        self.status = FOLLOWER
        self.settled_at = self.out.now
        self.held, self.gaps, self.state_begins = s.issued, set(joined(pieces, "proposed")), s.collected
        self.asked = -1
        if self.early:
            self.rebuild_pending()
        self.wait_for_leader()
        self.send((sender,), NewStateAck(s.ballot, self.max_delivered_gts))
        self.look_again()

    def install(self, r: Installed) -> None:
        """Lines 44-55 and 59-61. What is PROPOSED goes (B9), what is COMMITTED stays (B2)."""
        self.ballot = self.cballot = r.ballot
        self.max_ballot = max(self.max_ballot, r.ballot)
        self.raise_clock(r.clock)
        for id in r.dropped:
            entry = self.entries.get(id)
            if entry is not None and entry.phase == ACCEPTED:
                entry.unpropose()
        for entry in self.entries.values():
            entry.number = 0
            if entry.phase == PROPOSED:
                entry.unpropose()
            if not entry.gts:
                entry.forget_acks()
        for known in r.known:
            if not self.is_collected(known):
                self.adopt_known(known)

    def redo_installed(self, r: Installed) -> None:
        """From the log."""
        self.install(r)
        self.held = UNCOUNTED

    def redo_promised(self, r: Promised) -> None:
        """From the log."""
        self.ballot = r.ballot
        self.max_ballot = max(self.max_ballot, r.ballot)

    # -- lines 63-70: the candidate leads ----------------------------------------------------------------------------

    def on_new_state_ack(self, sender: Pid, ack: NewStateAck) -> None:
        """Lines 63-65: lead once a quorum has the state."""
        if not self.ballot == self.cballot == ack.ballot or leader_of(ack.ballot) != self.me:
            return self.refuse("acknowledgement of another state")
        if sender not in self.peers:
            return self.refuse("acknowledgement from another group")
        if self.status is LEADER:
            return self.resend_after(sender, ack.gts)
        if self.status is not RECOVERING or (sender != self.me and sender not in self.votes):
            return self.refuse("acknowledgement out of turn")
        self.synced[sender] = ack.gts
        if len(self.synced) >= self.quorum:
            self.lead()

    def lead(self) -> None:
        """Lines 65-70, then line 34 for everything that a quorum may have accepted."""
        self.status = LEADER
        if note := self.note:
            note(Leading(self.group, self.cballot))
        self.rebuild_pending()
        for follower, gts in sorted(self.synced.items()):
            if follower != self.me:
                self.resend_after(follower, gts)
        self.deliver_committed()
        for entry in self.uncommitted():
            entry.attempts = 1  # whom this process believed to lead the other groups may be long gone
            entry.retry_at = self.out.now
        self.retry_stuck()
        if self.takes_over:
            self.propose_left_over()
        self.begin_to_beat()
        self.restore_members()

    def propose_left_over(self) -> None:
        """After a planned hand-over: what the leader before went on to propose, and no quorum accepted because it had
        voted, as if its clients asked again. They would, but only when they are out of patience."""
        held = [e.accepts[self.group] for e in self.entries.values() if e.phase == START and self.group in e.accepts]
        for accept in sorted(held, key=lambda a: a.lts):
            if accept.body is not None:
                self.propose(accept.body)

    def remember(self, state: NewState) -> None:
        """This process had lost its disk, and has been restored to `state`."""
        raise NotImplementedError

    def restore_members(self) -> None:
        """Bring those that lost their disk to the state of this ballot, if all others are in it."""
        raise NotImplementedError

    def begin_to_beat(self) -> None:
        """Show the group that it has a leader."""
        raise NotImplementedError

    def wait_for_leader(self) -> None:
        """Give a leader the time to show itself."""
        raise NotImplementedError
