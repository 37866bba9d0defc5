"""The variables of a white-box process (paper 001, Figure 3), and what every part of it uses."""

from __future__ import annotations

from collections.abc import Iterable

from braidcast.core.ballots import Ballot, ballot, leader_of
from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Outbox, Process, Ticks
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Group, Pid, Pids, Topology
from braidcast.protocols.parts.dedup import DedupTable
from braidcast.protocols.parts.pending import PendingHeap
from braidcast.protocols.whitebox.entry import ACCEPTED, COMMITTED, FOLLOWER, LEADER, REJOINING, START, Entry
from braidcast.protocols.whitebox.messages import (
    Known,
    NewLeaderAck,
    NewState,
    SnapshotBase,
    SnapshotChunk,
    StableUpto,
    Transferred,
)  # fmt: skip
from braidcast.protocols.whitebox.options import Options
from braidcast.protocols.whitebox.pieces import Pieces

NEVER: Ticks = -(1 << 60)
"""Longer ago than any time-out."""
ATTEMPTS_MAX = 5
UNCOUNTED = -1
"""`held` of a process that cannot know which timestamps it missed: it does not deliver early in this ballot."""


class State(Process):
    """The variables, and the few helpers that everything else is written in."""

    __slots__ = (
        # constants
        "early", "group", "home", "options", "others", "peers", "quorum", "topology",
        # normal case
        "ballot", "cballot", "clock", "dedup", "entries", "issued", "max_delivered_gts", "pending", "pending_bytes",
        "status",
        # early delivery
        "gaps", "held", "state_begins",
        # what was delivered and is not collected
        "collected", "delivered_log", "log_dead", "retained", "retained_bytes", "snapshot", "told",
        # leader: what the members and the other groups have made durable; hints
        "acked_at", "applied", "everywhere", "leaders", "stable", "stable_here", "stable_in",
        # election
        "attempts", "settled_at", "heard_at", "max_ballot", "prevote_ballot", "prevotes", "recovered",
        # leader recovery, at the candidate and at its followers
        "arrived", "arriving", "bodies", "merged", "missing", "serial", "synced", "vote_pieces", "votes",
        # members that lost their disk: this one, and at a leader the others
        "forgetful", "life", "restored", "votes_from",
        # catch-up
        "asked", "chunks", "snapshot_base", "snapshot_for", "snapshot_sent_at",
    )  # fmt: skip

    def __init__(self, out: Outbox, topology: Topology, options: Options) -> None:
        super().__init__(out)
        topology.require_majorities("whitebox")
        self.topology = topology
        self.options = options
        self.early = options.follower_delivery == "early"
        self.home = topology.group_of
        self.group: Group = topology.group_of[out.me]
        self.peers: Pids = topology.groups[self.group]
        self.others: Pids = tuple(p for p in self.peers if p != out.me)
        self.quorum: int = topology.quorum[self.group]

        self.clock = 0
        self.entries: dict[MessageId, Entry] = {}
        self.pending: PendingHeap[Entry] = PendingHeap()
        """At a leader, and at a follower that delivers early: what is proposed and not delivered."""
        self.pending_bytes = 0
        """Leader: of their payloads."""
        self.status = FOLLOWER
        self.ballot: Ballot = ballot(0, self.peers[0])
        self.cballot: Ballot = self.ballot
        """Ballot 0 belongs to the first member and needs no election: its initial state is empty everywhere."""
        self.max_delivered_gts: Timestamp = 0
        self.dedup = DedupTable()
        self.issued = 0
        """Leader: how many timestamps it issued in this ballot."""
        self.held = 0
        """Early delivery: this follower holds all of them up to this number,"""
        self.state_begins: Timestamp = 0
        """Early delivery: what this follower had not delivered up to here, it can only get from its leader."""
        self.gaps: set[int] = set()
        """except these, whose ACCEPTs were lost or are late."""

        self.delivered_log: list[Entry] = []
        """By gts; collected entries stay in it, marked, until it is compacted."""
        self.log_dead = 0
        self.retained: dict[Dest, list[Entry]] = {}
        """The same entries by destinations: what can be collected is a prefix of each."""
        self.retained_bytes = 0
        """Of their payloads."""
        self.collected: Timestamp = 0
        """Nothing at or below can be resent from the log."""
        self.told: Timestamp = 0
        """Up to where others were told that this process has durably what was delivered."""
        self.snapshot: Transferred | None = None
        """An installed snapshot that the application has not made durable yet."""

        self.applied: dict[Pid, Timestamp] = {}
        """Leader: up to where each member's application is durable."""
        self.acked_at: dict[Pid, Ticks] = {}
        self.everywhere: Timestamp = 0
        """Up to where every member of this group, the slowest included, delivered durably."""
        self.stable: dict[Group, Timestamp] = {}
        """Up to where a quorum of each other group delivered durably,"""
        self.stable_in: dict[Group, Ballot] = {}
        """and the highest ballot of it whose leader has said so."""
        self.stable_here: Timestamp = 0
        self.leaders: dict[Group, Ballot] = {}
        """The highest ballot seen of each group: a guess who leads it (Cur_leader)."""

        self.recovered = False
        """Whether this process lived before."""
        self.max_ballot: Ballot = self.ballot
        self.heard_at: Ticks = NEVER
        self.attempts = 0
        """How often leadership changed or was sought lately: time-outs double with each."""
        self.settled_at: Ticks = NEVER
        """When this process joined its ballot."""
        self.prevote_ballot: Ballot = 0
        self.prevotes: set[Pid] = set()

        self.votes: dict[Pid, NewLeaderAck] = {}
        self.vote_pieces: dict[Pid, Pieces[NewLeaderAck]] = {}
        """Of votes that are not complete, and do not count."""
        self.merged: dict[MessageId, Known] | None = None
        """Candidate: the state it will lead with, while bodies are missing."""
        self.bodies: dict[MessageId, Multicast] = {}
        self.missing: set[MessageId] = set()
        """Whose bodies have not come yet."""
        self.synced: dict[Pid, Timestamp] = {}
        self.serial = 0
        self.arriving: Pieces[NewState] = Pieces()
        self.arrived = 0
        """How many pieces of a state had come at the last heartbeat."""

        self.life = 0
        """Not 0: this process lost its disk and has not been restored; the name of the life in which it is told so."""
        self.votes_from: Timestamp = 0
        """It has no vote before it has delivered up to here."""
        self.forgetful: dict[Pid, tuple[int, Ballot]] = {}
        """Leader: who lost its disk, in which life, and the ballot in which this leader first heard of it."""
        self.restored: dict[Pid, int] = {}
        """Leader: who was brought to the state of this ballot after that, and in which life."""

        self.asked: Timestamp = -1
        """The mark at which this follower last asked for what it misses."""
        self.chunks: Pieces[SnapshotChunk] = Pieces()
        self.snapshot_for: tuple[Pid, ...] = ()
        self.snapshot_sent_at: dict[Pid, Ticks] = {}
        self.snapshot_base: SnapshotBase | None = None

    @property
    def role(self) -> str:
        return self.status if self.has_vote else REJOINING

    @property
    def has_vote(self) -> bool:
        """Whether this process remembers what it promised and accepted: it did not lose its disk, or was restored."""
        return not self.life and self.max_delivered_gts >= self.votes_from

    @property
    def backlog(self) -> int:
        return len(self.pending) if self.status is LEADER else 0

    @property
    def backlog_bytes(self) -> int:
        return self.pending_bytes if self.status is LEADER else 0

    @property
    def delivers_early(self) -> bool:
        """Whether this follower may deliver without its leader's word (protocols.md 1.8)."""
        return self.early and self.status is FOLLOWER

    def learn_stable(self, told: Iterable[StableUpto]) -> None:
        """What was once stable in a group stays so."""
        for group, gts, b in told:
            if gts > self.stable.get(group, 0):
                self.stable[group] = gts
            if b > self.stable_in.get(group, 0):
                self.stable_in[group] = b

    def stability(self, groups: Iterable[Group]) -> tuple[StableUpto, ...]:
        """What is known to be stable in these groups."""
        return tuple([(g, self.stable[g], self.stable_in.get(g, 0)) for g in sorted(groups) if g in self.stable])

    def is_late(self, group: Group, b: Ballot, lts: Timestamp) -> bool:
        """Whether another group has delivered, or its next leaders forgot, what its leader of `b` held at `lts`.

        While a leader has not delivered what it holds at `lts`, nothing from there on is stable in its group (line
        21), and a leader of a lower ballot than one that spoke of stability is deposed. So what is late may be ignored:
        if it is not delivered there, the leader of today asks. And what is collected here was stable there (rule (b) of
        collection), hence whatever is still said of it is late. No word of the client's is needed, which may be false.
        """
        return b < self.stable_in.get(group, 0) or lts <= self.stable.get(group, 0)

    def entry_for(self, id: MessageId, dest: Dest) -> Entry:
        """The entry of `id`, made if there is none."""
        entry = self.entries.get(id)
        if entry is None:
            entry = self.entries[id] = Entry(id, dest, self.topology.quorum_size(dest), self.out.now)
        elif not entry.dest:  # acknowledged early by somebody before the first ACCEPT came
            entry.dest, entry.missing = dest, len(dest)
            entry.quorums = self.topology.quorum_size(dest)
        return entry

    def raise_clock(self, clock: int) -> None:
        """Clocks never go back (B2); raising one is always safe (section III)."""
        if clock > self.clock:
            self.clock = clock

    def uncommitted(self) -> list[Entry]:
        """What is ACCEPTED here, by local timestamp."""
        return sorted([e for e in self.entries.values() if e.phase == ACCEPTED], key=lambda e: e.lts)

    def known(self, entry: Entry, with_body: bool) -> Known:
        """`entry` as it travels and as it is recorded."""
        body = entry.body if with_body else None
        return Known(entry.id, entry.dest, entry.phase, entry.lts, entry.gts, body, entry.number)

    def known_entries(self, with_bodies: bool) -> tuple[Known, ...]:
        """All that is ACCEPTED or COMMITTED; PROPOSED is nobody's business but the leader's (1.3, 1.8)."""
        return tuple(
            self.known(entry, with_bodies) for _, entry in sorted(self.entries.items()) if entry.phase >= ACCEPTED
        )

    def concerns(self, known: Iterable[Known]) -> bool:
        """Whether all of these are for destinations that exist, this group among them, and can be what they say."""
        return all(self.group in k.dest and self.topology.has_groups(k.dest) and is_sound(k) for k in known)

    def adopt_known(self, known: Known) -> Entry:
        """Take over what another process knows; COMMITTED is sticky (B2)."""
        entry = self.entry_for(known.id, known.dest)
        if known.body is not None and entry.phase < ACCEPTED:
            entry.body = known.body
        if entry.phase != COMMITTED:
            entry.phase, entry.lts, entry.gts = known.phase, known.lts, known.gts
        return entry

    def rebuild_pending(self) -> None:
        """What is not delivered yet waits at its timestamp."""
        self.pending, self.pending_bytes = PendingHeap(), 0
        for _, entry in sorted(self.entries.items()):
            if entry.phase != START and (not entry.gts or entry.gts > self.max_delivered_gts):
                self.pending.push(entry.gts or entry.lts, entry)
                if self.status is LEADER and entry.body is not None:
                    self.pending_bytes += len(entry.body.payload)

    def comes_from_its_leader(self, sender: Pid, b: Ballot) -> bool:
        """Whether `b` is a ballot of this group and `sender` its leader."""
        return leader_of(b) == sender and self.home.get(sender) == self.group


def is_sound(k: Known) -> bool:
    """Whether it is accepted or committed, has the timestamps of that, and its own body if any."""
    if k.body is not None and (k.body.id != k.id or k.body.dest != k.dest):
        return False
    return 0 < k.lts <= k.gts if k.phase == COMMITTED else k.phase == ACCEPTED and k.lts > 0 and not k.gts
