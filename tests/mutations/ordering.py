"""Mutants of the normal case: proposing, accepting, committing, retrying."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.explorations import TWO_MESSAGES
from tests.mutations.mutant import INSIDE, LIVENESS, ORDER, InCampaign, InScenario, Mutant

from braidcast.core.timestamps import Timestamp
from braidcast.protocols.parts.pending import E, PendingHeap
from braidcast.protocols.whitebox.entry import ACCEPTED, PROPOSED, Entry
from braidcast.protocols.whitebox.ordering import Ordering
from braidcast.protocols.whitebox.recovery import Recovery


class _Ignoring(PendingHeap[E]):
    """Delivers past what waits in one phase."""

    __slots__ = ("_found",)
    ignored = 0

    def next_committed(self) -> E | None:
        for ts, entry in sorted(self._at.items()):
            if entry.gts:
                if entry.gts != ts:
                    self.discard(ts)
                    self.push(entry.gts, entry)
                    return self.next_committed()
                self._found: Timestamp = ts
                return entry
            if getattr(entry, "phase", None) != self.ignored:
                return None
        return None

    def pop(self) -> None:
        self.discard(self._found)


class _IgnoringProposed(_Ignoring[E]):
    __slots__ = ()
    ignored = PROPOSED


class _IgnoringAccepted(_Ignoring[E]):
    __slots__ = ()
    ignored = ACCEPTED


CLOCK_BUMP = Edit(Ordering.acknowledge, "behind = self.clock < entry.bound >> GROUP_BITS", "behind = False")
NO_BUMP_AT_COMMIT = Edit(Ordering.commit_if_accepted, "    self.raise_clock(entry.gts >> GROUP_BITS)\n", "")
NO_RETRY_NOW_AND_THEN = Edit(Ordering.retry_stuck, "if not entry.gts and now >= entry.retry_at", "if False")
NO_RETRY_WHEN_CONNECTED = Edit(Ordering.on_connected, "if self.status is LEADER and group is not None", "if False")
NO_RETRY_WHEN_LEADING = Edit(Recovery.lead, "self.retry_stuck()", "pass")

ORDERING = [
    Mutant(
        "2",
        "no_clock_bump",
        "Line 14 is left out: accepting a message does not raise the clock.",
        (CLOCK_BUMP,),
        killer=InCampaign("collecting", 0),
        violates=INSIDE,
    ),
    Mutant(
        "7",
        "no_vector_matching",
        "Acknowledgements count whatever ballots they acknowledge.",
        (
            Edit(Ordering.on_accept_ack, "if vector == entry.vector:", "if entry.vector:"),
            Edit(Ordering.on_accept_ack, "and vector == entry.vector", "and entry.vector"),
            Edit(Ordering.on_accept_ack, "entry.acks.get(vector, 0)", "entry.acks.get((), 0)"),
            Edit(Ordering.on_accept_ack, "entry.acks[vector]", "entry.acks[()]"),
        ),
        killer=InCampaign("early_storms", 2),
        violates=ORDER,
    ),
    Mutant(
        "8",
        "fresh_lts_on_duplicate",
        "A message that comes again gets a timestamp again.",
        (
            Edit(
                Ordering.propose,
                "if entry is None or entry.phase == START:",
                "if entry is None or entry.phase < COMMITTED:\n"
                "        if entry is not None: self.pending.discard(entry.lts)",
            ),
        ),
        killer=InCampaign("calm", 0),
        violates=INSIDE,
    ),
    Mutant(
        "9-proposed",
        "delivery_past_proposed",
        "Line 21 does not look at what is PROPOSED.",
        (),
        parts=(("PendingHeap", _IgnoringProposed),),
        killer=InCampaign("calm", 0),
        violates=ORDER,
    ),
    Mutant(
        "9-accepted",
        "delivery_past_accepted",
        "Line 21 does not look at what is ACCEPTED.",
        (),
        parts=(("PendingHeap", _IgnoringAccepted),),
        killer=TWO_MESSAGES,
    ),
    Mutant(
        "12-recovering",
        "ack_while_recovering",
        "Line 11's `status` is left out.",
        (Edit(Ordering.acknowledge, " or self.status is RECOVERING", ""),),
        killer=InCampaign("relays", 11),
        violates=ORDER,
    ),
    Mutant(
        "12-ballot",
        "ack_in_another_ballot",
        "Line 11's `cballot = Bal(g0)` is left out.",
        (Edit(Ordering.acknowledge, "mine.ballot != self.cballot or ", ""),),
        killer=InCampaign("early_storms", 2),
        violates=ORDER,
    ),
    Mutant(
        "15",
        "self_accept_deferred",
        "The leader commits without having raised its clock: its own ACCEPT is handled after the others' (B4).",
        (Edit(Ordering.acknowledge, "if behind:  #", "if behind and self.status is not LEADER:  #"), NO_BUMP_AT_COMMIT),
        killer=TWO_MESSAGES,
    ),
    Mutant(
        "15-self",
        "not_including_myself",
        "Line 17's `including myself` is left out.",
        (Edit(Ordering.accepted_in_current_ballot, "if not acks >> self.me & 1:", "if False:"),),
        redundant=True,
        survives=(
            "The leader handles its own ACCEPT within the step, so its own acknowledgement is always among them."
        ),
    ),
    Mutant(
        "15-commit",
        "no_bump_at_commit",
        "Line 19 does not raise the clock.",
        (NO_BUMP_AT_COMMIT,),
        redundant=True,
        survives=(
            "Line 14, which the leader has run by then, has raised the clock already; B4 asks for one of the two."
        ),
    ),
    Mutant(
        "19",
        "no_retry",
        "Nobody retries: a message that one leader lacks waits for ever.",
        (NO_RETRY_NOW_AND_THEN, NO_RETRY_WHEN_CONNECTED, NO_RETRY_WHEN_LEADING),
        killer=InScenario("client_dies_between_sends"),
    ),
    Mutant(
        "19-timer",
        "no_retry_now_and_then",
        "Retries happen only on leading and on reconnecting.",
        (NO_RETRY_NOW_AND_THEN,),
        killer=InCampaign("losses", 0),
        violates=LIVENESS,
    ),
    Mutant(
        "19-leading",
        "no_retry_when_leading",
        "A new leader does not retry what it found ACCEPTED.",
        (NO_RETRY_WHEN_LEADING,),
        killer=InScenario("retry_when_leading"),
    ),
    Mutant(
        "19-connected",
        "no_retry_when_connected",
        "A leader does not retry when a session is back.",
        (NO_RETRY_WHEN_CONNECTED,),
        killer=InScenario("retry_when_connected"),
    ),
    Mutant(
        "19-own",
        "retry_only_elsewhere",
        "A retry goes to the other groups, and not as ACCEPT to the own one.",
        (Edit(Ordering.retry, "    self.send_accept(entry)\n", ""),),
        killer=InCampaign("laggards", 1),
        violates=LIVENESS,
    ),
    Mutant(
        "19-hint",
        "retry_to_the_known_leaders",
        "A retry goes only to those last known to lead.",
        (
            Edit(
                Ordering.retry,
                "guess = not entry.attempts and len(known) == len(dest)",
                "guess = len(known) == len(dest)",
            ),
        ),
        killer=InScenario("stale_leader_hint"),
    ),
    Mutant(
        "19-committed",
        "no_accept_for_committed",
        "A retry of what is committed here is not answered with ACCEPT.",
        (
            Edit(
                Ordering.propose,
                "elif is_asked is None:",
                "elif is_asked is None or entry.phase == COMMITTED:",
            ),
        ),
        killer=InCampaign("collecting", 2),
        violates=LIVENESS,
    ),
    Mutant(
        "20",
        "newest_arrival",
        "Of the ACCEPTs of a group the last to arrive is kept, not that of the highest ballot (B6).",
        (
            Edit(
                Entry.hold,
                "    elif held.ballot > accept.ballot:\n"
                "        self.accepts[accept.group] = held\n"
                "        return False\n",
                "",
            ),
        ),
        killer=InScenario("old_accept_last"),
    ),
    Mutant(
        "20-bound",
        "stale_bound",
        "An ACCEPT that replaces another leaves the highest timestamp as it was.",
        (Edit(Entry.hold, "self.bound = max([a.lts for a in self.accepts.values()])", "pass"),),
        killer=InCampaign("storms", 0),
        violates=ORDER,
    ),
    Mutant(
        "20-old",
        "accept_of_an_old_ballot",
        "An own-group ACCEPT of a ballot below cballot is not dropped (B6).",
        (Edit(Ordering.on_accept, " and a.ballot < self.cballot", " and False"),),
        redundant=True,
        survives=(
            "Line 11 refuses it once more, and the next ACCEPT of the own leader has a higher ballot and replaces it."
        ),
    ),
    Mutant(
        "20-again",
        "no_second_look",
        "After NEW_STATE nobody looks again at the ACCEPTs that were held for it (B6).",
        (Edit(Recovery.on_new_state, "    self.look_again()\n", ""),),
        killer=InCampaign("elections", 12),
        violates=ORDER,
    ),
    Mutant(
        "27-collected",
        "accept_what_is_collected",
        "An ACCEPT makes an entry for a message that is collected here.",
        (Edit(Ordering.on_accept, "if self.dedup.delivered_at(a.id) or self.is_behind(a):", "if False:"),),
        killer=InScenario("late_accept_of_the_collected"),
    ),
    Mutant(
        "27-impostor",
        "accept_from_anybody",
        "An ACCEPT counts although its sender does not lead that ballot.",
        (
            Edit(
                Ordering.on_accept, "if a.ballot & PID_MASK != sender or self.home.get(sender) != a.group:", "if False:"
            ),
        ),
        redundant=True,
        survives=("No process sends an ACCEPT in another's ballot; the guard is against strangers."),
    ),
    Mutant(
        "27-foreign",
        "accept_for_another_group",
        "An ACCEPT counts although the message is not for this group.",
        (Edit(Ordering.on_accept, "self.group not in a.dest or a.group not in a.dest or ", ""),),
        redundant=True,
        survives="An ACCEPT is sent to the members of its destinations only; the guard is against strangers.",
    ),
    Mutant(
        "27-dest",
        "other_destinations",
        "An id that comes again with other destinations is proposed again.",
        (Edit(Ordering.may_propose, "if entry is not None and entry.dest not in ((), dest):", "if False:"),),
        redundant=True,
        survives="Clients of the simulator never use an id twice for two messages.",
    ),
    Mutant(
        "27-expired",
        "expired_session",
        "A message of an expired session is taken for new.",
        (Edit(Ordering.may_propose, "if is_asked is None and self.dedup.is_expired(m.id):", "if False:"),),
        killer=InScenario("expired_session"),
    ),
    Mutant(
        "27-body",
        "ack_without_body",
        "An ACCEPT is acknowledged although the body is not here.",
        (
            Edit(Ordering.acknowledge, "if body is None:", "if False:"),
            Edit(
                Ordering.acknowledge,
                "    self.persist(Accepted(body, mine.lts, self.clock))\n    elif",
                "    if body is not None: self.persist(Accepted(body, mine.lts, self.clock))\n    elif",
            ),
        ),
        redundant=True,
        survives=("Every ACCEPT of the own leader carries the body; the guard is against strangers."),
    ),
    Mutant(
        "28-quorums",
        "quorum_in_all_groups_together",
        "Enough acknowledgements in all, not a quorum in each group.",
        (Edit(Ordering.commit_if_accepted, "if (acks & members).bit_count() < quorum:", "if False:"),),
        killer=InCampaign("storms", 0),
        violates=ORDER,
    ),
    Mutant(
        "28-leader",
        "anybody_commits",
        "Line 18's `status = LEADER` is left out.",
        (
            Edit(
                Ordering.accepted_in_current_ballot,
                "if self.status is LEADER:",
                "if True:",
            ),
        ),
        killer=InCampaign("elections", 3),
        violates=ORDER,
    ),
    Mutant(
        "28-number",
        "commit_twice",
        "An acknowledgement after the commit commits again.",
        (Edit(Ordering.on_accept_ack, "if entry.gts or ", "if "),),
        redundant=True,
        survives=("Committing again comes to the same timestamp, and delivery forgets the acknowledgements."),
    ),
    Mutant(
        "34-share",
        "all_is_retried_at_once",
        "A leader retries everything that is stuck with one heartbeat, however large it is (decision 0012).",
        (Edit(Ordering.retry_stuck, "if left <= 0 or not count:", "if not count:"),),
        killer=InScenario("large_messages_are_stuck"),
    ),
    Mutant(
        "34-large",
        "larger_than_the_share_is_never_retried",
        "A message that is larger than what may be retried with one heartbeat waits for ever.",
        (Edit(Ordering.retry_stuck, "if left <= 0 or", "if left < len(entry.body.payload) or"),),
        killer=InScenario("large_messages_are_stuck"),
    ),
    Mutant(
        "28-count",
        "half_a_quorum",
        "The quorum is half of the group, without one more.",
        (
            Edit(Ordering.commit_if_accepted, ".bit_count() < quorum", ".bit_count() < quorum - 1"),
            Edit(Ordering.on_accept_ack, ">= entry.quorums", ">= 1"),
        ),
        killer=InCampaign("storms", 1),
        violates=ORDER,
    ),
]
