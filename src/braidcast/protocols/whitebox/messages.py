"""Everything that white-box processes send, persist, wait for and note.

Line numbers are those of paper 001, Figure 4.
"""

from __future__ import annotations

from typing import Annotated

from braidcast.core.ballots import Ballot, Vector
from braidcast.core.client import MessageId, Multicast
from braidcast.core.message import Count, between, message
from braidcast.core.timestamps import Clock, Timestamp
from braidcast.core.topology import Dest, Group
from braidcast.protocols.parts.dedup import DedupState

PHASE_MAX = 4
"""`entry.py` names them."""


@message
class Known:
    """What one process knows of one message; the body only where the receiver lacks it.

    From a leader, `number` is that of the timestamp if it was issued in the leader's ballot.
    """

    id: MessageId
    dest: Dest
    phase: Annotated[int, between(0, PHASE_MAX)]
    lts: Timestamp
    gts: Timestamp
    body: Multicast | None = None
    number: Count = 0


StableUpto = tuple[Group, Timestamp, Ballot]
"""A quorum of a group delivered durably up to a timestamp, in the words of its leader in a ballot."""


# -- normal case ------------------------------------------------------------------------------------------------------


@message
class Forwarded:
    """A client's message that reached a follower; goes no further than the leader it is sent to."""

    body: Multicast


@message
class Retry:
    """Line 34, to another group: the leader of `ballot` waits for its timestamp; its own is `lts`."""

    body: Multicast
    ballot: Ballot
    lts: Timestamp


@message
class Accept:
    """Line 9: the leader of `group` proposes `lts` in `ballot`. Only its own group gets the body.

    `number` counts the timestamps that were issued in that ballot; 0 for one from an earlier ballot.
    """

    id: MessageId
    dest: Dest
    group: Group
    ballot: Ballot
    lts: Timestamp
    body: Multicast | None
    number: Count = 0


@message
class AcceptAck:
    """Line 16. From a leader, `issued` says how many timestamps it has issued in its ballot (for early delivery)."""

    id: MessageId
    group: Group
    vector: Vector
    issued: Count = 0


@message
class Deliver:
    """Line 23, and what makes it gap-proof: the delivery before this one in the group was at `prev_gts`."""

    id: MessageId
    ballot: Ballot
    lts: Timestamp
    gts: Timestamp
    prev_gts: Timestamp


# -- catch-up ---------------------------------------------------------------------------------------------------------


@message
class CatchUp:
    """A follower that delivered up to `gts` misses what came after."""

    ballot: Ballot
    gts: Timestamp


@message
class Resend:
    """Deliveries in order after the one at `prev_gts`, as many as one message may hold; the leader has delivered up to
    `upto`."""

    ballot: Ballot
    prev_gts: Timestamp
    upto: Timestamp
    known: tuple[Known, ...]


@message
class SnapshotChunk:
    """A piece of the application's state after the delivery at `gts`, and of what goes with it (SnapshotBase)."""

    ballot: Ballot
    gts: Timestamp
    serial: Count
    part: Count
    parts: Count
    state: bytes
    known: tuple[Known, ...]
    dedup: DedupState
    collected: Timestamp
    issued: Count = 0
    undelivered: tuple[Count, ...] = ()
    stable: tuple[StableUpto, ...] = ()


@message
class SnapshotBase:
    """What goes with a snapshot, as it was when the application was asked for it; stays at the leader.

    That is the dedup table, and what was delivered up to there and is not collected: other groups may still ask for it.
    Up to `collected` the log was collected. Of the timestamps that the leader had issued in its ballot, up to number
    `issued`, the snapshot lacks those in `undelivered`.
    """

    gts: Timestamp
    known: tuple[Known, ...]
    dedup: DedupState
    collected: Timestamp
    issued: Count
    undelivered: tuple[Count, ...]
    stable: tuple[StableUpto, ...]


# -- leader recovery --------------------------------------------------------------------------------------------------


@message
class PreVote:
    """Could an election for `ballot` succeed? The candidate has delivered up to `gts`."""

    ballot: Ballot
    gts: Timestamp


@message
class PreVoteAck:
    """The answer to PreVote(`ballot`); `promised` is the highest ballot that the answerer joined."""

    ballot: Ballot
    granted: bool
    promised: Ballot


@message
class NewLeader:
    """Line 36. The candidate has delivered up to `gts`."""

    ballot: Ballot
    gts: Timestamp


@message
class Nack:
    """What was sent in `ballot` came too late, or from a candidate that must not lead: `promised` stands here."""

    ballot: Ballot
    promised: Ballot


@message
class NewLeaderAck:
    """Line 41, without bodies, in pieces that count together.

    The process has delivered up to `gts` and may have collected up to `collected`. It has one vote in a ballot: what
    it knows does not change until it has the state of that ballot, so pieces of a vote that was sent again are the
    same. After a restart what was COMMITTED may be only ACCEPTED again, and either is true.
    """

    ballot: Ballot
    cballot: Ballot
    clock: Clock
    gts: Timestamp
    collected: Timestamp
    known: tuple[Known, ...]
    part: int = 0
    parts: int = 1


@message
class Pull:
    """A candidate lacks the bodies of messages that the receiver reported: these, and perhaps more."""

    ballot: Ballot
    ids: tuple[MessageId, ...]


@message
class Bodies:
    """The answer to Pull: as many of them, from the first on, as one message may hold."""

    ballot: Ballot
    bodies: tuple[Multicast, ...]


@message
class NewState:
    """Line 56, as the difference to what the receiver reported, in pieces that are installed together.

    `serial` tells apart two transfers in one ballot. Of the timestamps that the leader has issued in this ballot, up to
    number `issued`, the state lacks those in `proposed`: they are not accepted yet. Of what was delivered, it may lack
    anything up to `collected`. A member that lost its disk takes only the state that is for its `life`.
    """

    ballot: Ballot
    serial: Count
    part: Count
    parts: Count
    clock: Clock
    known: tuple[Known, ...]
    dropped: tuple[MessageId, ...]
    issued: Count
    proposed: tuple[Count, ...]
    collected: Timestamp
    life: Count = 0


@message
class NewStateAck:
    """Line 62. The follower has delivered up to `gts`."""

    ballot: Ballot
    gts: Timestamp


@message
class Rejoin:
    """A member that lost its disk wants its vote back; `life` names this life of it."""

    life: Count


# -- liveness and collection ------------------------------------------------------------------------------------------


@message
class Heartbeat:
    """The leader of `ballot` is there, and has delivered up to `gts`.

    Every member of its group that still counts delivered durably up to `floor`, and every member whatsoever up to
    `everywhere`; of every other group `stable` says up to where a quorum did.
    """

    ballot: Ballot
    gts: Timestamp
    floor: Timestamp
    stable: tuple[StableUpto, ...]
    everywhere: Timestamp = 0


@message
class HeartbeatAck:
    """The process joined `ballot`, and its application's durable state reaches `gts`."""

    ballot: Ballot
    gts: Timestamp


@message
class Stable:
    """A quorum of `group`, led in `ballot`, delivered durably up to `gts`; `asks` for the same in return."""

    group: Group
    gts: Timestamp
    asks: bool
    ballot: Ballot


# -- timers -----------------------------------------------------------------------------------------------------------


@message
class Suspect:
    """The leader has been silent, or an attempt to replace it has taken too long."""


@message
class Beat:
    """Time for a leader's heartbeat."""


@message
class Sweep:
    """Time to forget what nobody came back for."""


# -- records ----------------------------------------------------------------------------------------------------------


@message
class Started:
    """The first life of this process began in `ballot`; it must not begin again."""

    ballot: Ballot


@message
class Forgot:
    """The disk was lost, and an operator said so: this process has no vote until it is restored, in whatever life."""

    life: Count


@message
class Rejoined:
    """What a process had forgotten it knows again; it has its vote back once it has delivered up to `gts`."""

    gts: Timestamp


@message
class Promised:
    """Line 40."""

    ballot: Ballot


@message
class Accepted:
    """Lines 13-14."""

    body: Multicast
    lts: Timestamp
    clock: Clock


@message
class Installed:
    """Lines 44-55 and 59-61, as the difference to what was durable before."""

    ballot: Ballot
    clock: Clock
    known: tuple[Known, ...]
    dropped: tuple[MessageId, ...]


@message
class Marked:
    """Lines 26-30: delivered."""

    id: MessageId
    lts: Timestamp
    gts: Timestamp


@message
class Told:
    """Others were told that what was delivered up to `gts` is durable."""

    gts: Timestamp


@message
class Trimmed:
    """What was delivered for `dest` up to `gts` is collected, for each of these, because of what is `stable`."""

    upto: tuple[tuple[Dest, Timestamp], ...]
    stable: tuple[StableUpto, ...] = ()


@message
class Transferred:
    """A snapshot was installed; it stays here until the application's own state is durable."""

    gts: Timestamp
    state: bytes
    known: tuple[Known, ...]
    dedup: DedupState
    collected: Timestamp
    stable: tuple[StableUpto, ...] = ()


@message
class Checkpoint:
    """All that is durable, in one record."""

    ballot: Ballot
    cballot: Ballot
    clock: Clock
    gts: Timestamp
    collected: Timestamp
    known: tuple[Known, ...]
    repeated: tuple[tuple[MessageId, tuple[int, ...]], ...]
    dedup: DedupState
    snapshot: Transferred | None
    life: Count = 0
    votes_from: Timestamp = 0
    stable: tuple[StableUpto, ...] = ()


# -- notes ------------------------------------------------------------------------------------------------------------


@message
class Committed:
    """Line 20."""

    id: MessageId
    gts: Timestamp


@message
class Leading:
    """Line 65: this process leads `group` in `ballot`."""

    group: Group
    ballot: Ballot


@message
class SteppedDown:
    """The leader of `ballot` heard no quorum and stopped."""

    group: Group
    ballot: Ballot


@message
class VoteComplete:
    """The vote of `voter` in `ballot` came in so many pieces, and now counts."""

    ballot: Ballot
    voter: int
    parts: int


@message
class StateRegained:
    """A process that lost its disk has the state of `ballot`; it votes once it has delivered up to `gts`."""

    group: Group
    ballot: Ballot
    gts: Timestamp


@message
class Retried:
    """Line 34."""

    id: MessageId


@message
class CaughtUp:
    """`count` deliveries that were missed came after all, up to `gts`."""

    group: Group
    gts: Timestamp
    count: int


@message
class SnapshotInstalled:
    """State transfer: everything up to `gts` is in a snapshot."""

    group: Group
    gts: Timestamp


@message
class Redelivered:
    """`id` was delivered before a restart, but the application had not applied it durably, or came twice."""

    id: MessageId
    gts: Timestamp


@message
class Collected:
    """`id` was collected here."""

    id: MessageId
    gts: Timestamp


@message
class SessionsExpired:
    """So many client sessions are refused in `group` from now on."""

    group: Group
    count: int
