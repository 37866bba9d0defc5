"""A white-box process: its beginning, its restart, its checkpoint. The rest is in the classes it is made of.

State -> Delivery -> Ordering -> CatchingUp -> Collection -> Recovery -> Rejoining -> Election -> WhiteBox: each adds
handlers to the one before, all work on the variables that `state.py` declares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from braidcast.core.ballots import ballot, leader_of
from braidcast.core.process import Standing
from braidcast.core.timestamps import Timestamp, clock_of
from braidcast.protocols.parts.dedup import DedupState
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.entry import COMMITTED, FOLLOWER, LEADER
from braidcast.protocols.whitebox.messages import Checkpoint, Started, Sweep
from braidcast.protocols.whitebox.state import UNCOUNTED


class WhiteBox(Election):
    """White-box atomic multicast (paper 001, Figures 3 and 4)."""

    __slots__ = ()

    def recover(self, records: Iterable[Any]) -> None:
        """From the log. A process that has records has lived before; one without never said anything (`Started`)."""
        kept = list(records)
        self.recovered = bool(kept)
        super().recover(kept)

    def can_resume(self, applied: int) -> bool:
        """An installed snapshot is as good as what it stands for. What is collected is above no application, unless
        that lost what it had said was durable."""
        return max(applied, 0 if self.snapshot is None else self.snapshot.gts) >= self.collected

    def start(self, applied: int = 0) -> None:
        """Lead ballot 0 if this is the first life of the first member; otherwise wait for a leader."""
        options = self.options
        self.set_timer(Sweep(), options.forget_ticks, spread=options.forget_ticks)
        if self.recovered:
            self.resume_following()
            return self.deliver_again(applied)
        self.persist(Started(self.ballot))  # or a second first life would give timestamps twice in ballot 0
        if self.me == self.peers[0]:
            self.status = LEADER
            self.begin_to_beat()
        else:
            self.wait_for_leader()

    def redo_started(self, r: Started) -> None:
        """From the log."""
        self.held = UNCOUNTED

    @property
    def standing(self) -> Standing:
        me, leader, now = self.me, leader_of(self.cballot), self.out.now
        # In this ballot: who has only sent its state does not lead before a quorum has it, and then it beats.
        heard = self.heard_at >= max(now - self.patience(), self.settled_at)
        leads, follows = self.status is LEADER, self.status is FOLLOWER and leader != me and heard
        return Standing(
            me if leads else leader if follows else None, self.cballot, max(self.max_ballot, self.ballot),
            self.max_delivered_gts, min(self.out.applied, self.max_delivered_gts),
            tuple([(p, self.applied.get(p, 0)) for p in self.others]) if leads else (),
            self.has_vote,
        )  # fmt: skip

    def continuing(self, gts: Timestamp, above: Timestamp, session: int) -> Iterable[Any]:
        """As a member that had delivered and collected all, and heard of ballot 1: so nobody leads ballot 0, in which
        one that was forgotten would begin."""
        b = ballot(1, self.peers[0])
        table = DedupState(floor_of_forgotten=session)
        return [Checkpoint(b, b, clock_of(above), gts, gts, (), (), table, None)]

    def checkpoint(self) -> Iterable[Any]:
        """All that is durable, in one record."""
        known = self.known_entries(with_bodies=True)
        repeated = tuple([(e.id, e.repeated) for e in self.delivered_log if e.repeated and e.phase == COMMITTED])
        return [
            Checkpoint(
                self.ballot, self.cballot, self.clock, self.max_delivered_gts, self.collected, known, repeated,
                self.dedup.export(), self.snapshot, self.life, self.votes_from, self.stability(self.stable),
            )
        ]  # fmt: skip

    def redo_checkpoint(self, r: Checkpoint) -> None:
        """From the log."""
        self.ballot, self.cballot, self.clock = r.ballot, r.cballot, r.clock
        self.max_ballot = r.ballot
        self.max_delivered_gts, self.collected, self.snapshot = r.gts, r.collected, r.snapshot
        self.dedup.load(r.dedup)
        self.life, self.votes_from = r.life, r.votes_from
        self.learn_stable(r.stable)
        self.held = UNCOUNTED
        repeated = dict(r.repeated)
        for known in sorted(r.known, key=lambda known: known.gts):
            entry = self.adopt_known(known)
            if entry.phase == COMMITTED and entry.gts <= r.gts:
                entry.repeated = repeated.get(entry.id, ())
                self.retain(entry)
