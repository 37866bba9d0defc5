"""Mutants of elections and of restarts."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.mutant import INSIDE, LIVENESS, ORDER, InCampaign, InScenario, Mutant

from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.process import WhiteBox
from braidcast.protocols.whitebox.recovery import Recovery

RESUMED = "FOLLOWER if self.ballot == self.cballot and not self.life else RECOVERING"

ELECTING = [
    Mutant(
        "17-accepted",
        "restart_forgets_accepted",
        "After a restart nothing is ACCEPTED.",
        (Edit(Delivery.redo_accepted, "if entry.phase == START:", "if False:"),),
        killer=InCampaign("early_storms", 3),
        violates=ORDER,
    ),
    Mutant(
        "17-ballot",
        "restart_forgets_the_promise",
        "After a restart a promised ballot is forgotten.",
        (Edit(Recovery.redo_promised, "self.ballot = r.ballot", "pass"),),
        killer=InCampaign("crashes", 2),
        violates=INSIDE,
    ),
    Mutant(
        "17-leads",
        "restart_leads_again",
        "After a restart a leader leads again in its old ballot.",
        (
            Edit(
                Election.resume_following,
                "    self.wait_for_leader()\n",
                "    if self.ballot == self.cballot and leader_of(self.cballot) == self.me:\n"
                "        self.status = LEADER\n"
                "        self.rebuild_pending()\n"
                "        return self.begin_to_beat()\n"
                "    self.wait_for_leader()\n",
            ),
        ),
        killer=InCampaign("early_storms", 2),
        violates=INSIDE,
    ),
    Mutant(
        "17-clock",
        "restart_forgets_the_clock",
        "After a restart the clock is that of the deliveries only.",
        (Edit(Delivery.redo_accepted, "    self.raise_clock(r.clock)\n", ""),),
        killer=InCampaign("relays", 1),
        violates=INSIDE,
    ),
    Mutant(
        "17-follows",
        "restart_joins_what_it_promised",
        "After a restart a process that promised a higher ballot follows in its old one.",
        (Edit(Election.resume_following, RESUMED, "FOLLOWER"),),
        killer=InCampaign("collecting", 3),
        violates=LIVENESS,
    ),
    Mutant(
        "17-first",
        "two_first_lives",
        "The Started record is left out: a crash before any other record makes a second first life.",
        (
            Edit(WhiteBox.start, "    self.persist(Started(self.ballot))", "    pass"),
            # A driver that finds an empty log cannot tell a second life from a first one.
            Edit(
                WhiteBox.start,
                "if self.recovered:",
                "if self.recovered and (self.entries or self.max_delivered_gts or self.ballot >> 16):",
            ),
        ),
        killer=InScenario("two_first_lives"),
    ),
    Mutant(
        "17-installed",
        "restart_forgets_the_state",
        "After a restart an installed state is forgotten, not its ballot.",
        (Edit(Recovery.redo_installed, "self.install(r)", "self.ballot = self.cballot = r.ballot"),),
        killer=InCampaign("relays", 3),
        violates=ORDER,
    ),
    Mutant(
        "21-inflated",
        "higher_ballot_ignored",
        "B5: a leader does not go above a ballot that a member promised.",
        (Edit(Election.on_heartbeat_ack, "return self.recover_leadership()", "return None"),),
        killer=InScenario("candidate_alone"),
    ),
    Mutant(
        "21-late",
        "no_late_join",
        "B5: a process that missed the election does not join the ballot of a heartbeat.",
        (Edit(Election.on_heartbeat, "return self.join(sender, h.ballot)", "return None"),),
        killer=InCampaign("elections", 1),
        violates=LIVENESS,
    ),
    Mutant(
        "21-silent",
        "heartbeat_of_a_lower_ballot",
        "B5: nobody tells a leader that its ballot is below the promised one.",
        (Edit(Election.on_heartbeat, "return self.send((sender,), HeartbeatAck(self.ballot, 0))", "return None"),),
        killer=InScenario("isolated_with_inflated_ballot"),
    ),
    Mutant(
        "21-nack",
        "nack_ignored",
        "A candidate that is refused does not learn how high the ballots are.",
        (Edit(Recovery.on_nack, "max(self.max_ballot, n.promised)", "self.max_ballot"),),
        redundant=True,
        survives=("The candidate learns of the ballot from the next prevote or heartbeat; it costs time only."),
    ),
    Mutant(
        "21-backoff",
        "no_backoff",
        "Attempts do not back off.",
        (Edit(Election.patience, " << self.attempts", ""),),
        redundant=True,
        survives=("Jitter alone ends duels sooner or later; it costs time only."),
    ),
    Mutant(
        "21-quorum",
        "never_steps_down",
        "A leader that hears no quorum goes on leading.",
        (Edit(Election.on_beat, "if not self.hears_quorum():", "if False:"),),
        killer=InScenario("leader_alone_steps_down"),
    ),
    Mutant(
        "21-prevote",
        "prevote_always_granted",
        "A prevote is granted although there is a leader.",
        (Edit(Election.on_pre_vote, " and not self.has_other_leader(sender)", ""),),
        killer=InScenario("deaf_follower"),
    ),
    Mutant(
        "21-prevote-quorum",
        "prevote_without_quorum",
        "One prevote is enough.",
        (Edit(Election.on_pre_vote_ack, "if len(self.prevotes) >= self.quorum:", "if True:"),),
        killer=InScenario("deaf_follower"),
    ),
    Mutant(
        "21-takeover-old",
        "take_over_of_an_old_ballot",
        "A follower stands when a leader asks that leads no more.",
        (Edit(Election.on_take_over, "t.ballot != self.cballot or ", ""),),
        killer=InScenario("hand_over_of_an_old_ballot"),
    ),
    Mutant(
        "21-takeover-stranger",
        "take_over_from_a_follower",
        "A follower asks another one to take over, which obeys although it is not its leader.",
        (
            Edit(Election.on_hand_over, "if self.status is not LEADER:", "if False:"),
            Edit(Election.on_take_over, "if not self.comes_from_its_leader(sender, t.ballot):", "if False:"),
        ),
        killer=InScenario("hand_over_at_a_follower"),
    ),
    Mutant(
        "21-takeover-vote",
        "take_over_without_a_vote",
        "A member that lost its disk, and has not all that it had, stands when its leader asks.",
        (Edit(Election.on_take_over, " or not self.has_vote", ""),),
        killer=InScenario("hand_over_to_one_without_a_vote"),
    ),
    Mutant(
        "21-takeover-rest",
        "proposals_lost_in_a_hand_over",
        "What the old leader proposed while it handed over waits for somebody's time-out.",
        (Edit(Recovery.lead, "if self.takes_over:", "if False:"),),
        killer=InScenario("planned_hand_over"),
    ),
    Mutant(
        "21-prevote-answer",
        "prevote_answers_mixed",
        "Answers to an older prevote count.",
        (Edit(Election.on_pre_vote_ack, "ack.ballot != self.prevote_ballot or ", ""),),
        redundant=True,
        survives=("A prevote only saves disturbance; votes decide."),
    ),
    Mutant(
        "21-prevote-collected",
        "prevote_for_who_lacks_the_collected",
        "A prevote is granted to a candidate that lacks what the voter collected.",
        (Edit(Election.on_pre_vote, "p.gts >= self.collected and ", ""),),
        redundant=True,
        survives=("The vote itself is refused (18-vote); it costs a ballot and time only."),
    ),
]
