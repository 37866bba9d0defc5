"""Mutants of the return of members that lost their disk."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.mutant import LIVENESS, ORDER, InCampaign, InScenario, Mutant

from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.process import WhiteBox
from braidcast.protocols.whitebox.recovery import Recovery
from braidcast.protocols.whitebox.rejoining import Rejoining

BEGIN_ANEW = "if heard_in == self.ballot and self.hears_everybody():\n        self.recover_leadership()"
ALL_VOTED = "not all(p in self.votes or p in self.forgetful for p in self.peers)"
NO_VOTE = "if not self.has_vote:"

REJOINING = [
    Mutant(
        "rejoin-amnesia",
        "amnesia_is_ignored",
        "A process that lost its disk goes on as if it had said nothing.",
        (Edit(Rejoining.redo_forgot, "self.life = r.life", "pass"),),
        killer=InCampaign("disk_losses"),
        violates=ORDER,
    ),
    Mutant(
        "rejoin-votes",
        "forgetful_member_votes",
        "A member that lost its disk votes with what it has.",
        (
            Edit(Recovery.on_new_leader, NO_VOTE, "if False:"),
            Edit(Recovery.on_new_state, "s.life != self.life or ", ""),
        ),
        killer=InCampaign("disk_losses", 160),
        violates=ORDER,
    ),
    Mutant(
        "rejoin-stands",
        "forgetful_member_stands",
        "A member that lost its disk stands for election.",
        (
            Edit(Election.on_suspect, NO_VOTE, "if False:"),
            Edit(Recovery.on_new_state, "s.life != self.life or ", ""),
        ),
        killer=InCampaign("disk_losses", 460),
        violates=ORDER,
    ),
    Mutant(
        "rejoin-ballot",
        "restored_in_the_same_ballot",
        "A leader restores a member in a ballot that began before the loss.",
        (
            Edit(
                Rejoining.on_rejoin,
                BEGIN_ANEW,
                "self.restore_members()\n    if sender not in self.restored:\n        self.recover_leadership()",
            ),
            Edit(Rejoining.restore_members, "if heard_in < self.ballot:", "if True:"),
        ),
        killer=InScenario("rejoin_in_the_same_ballot"),
    ),
    Mutant(
        "rejoin-all",
        "restored_with_a_quorum_of_votes",
        "A leader restores a member without the votes of all others.",
        (Edit(Rejoining.restore_members, ALL_VOTED, "False"),),
        killer=InScenario("rejoin_without_all_votes"),
    ),
    Mutant(
        "rejoin-snapshot",
        "votes_before_its_snapshot",
        "A restored member votes before it has what its leader had collected.",
        (Edit(Rejoining.redo_rejoined, "self.life, self.votes_from = 0, r.gts", "self.life = 0"),),
        killer=InScenario("rejoin_before_its_snapshot"),
    ),
    Mutant(
        "rejoin-life",
        "second_loss_taken_for_the_first",
        "A leader that restored a member brings it to the state of the same ballot when it has lost its disk again.",
        (
            Edit(Rejoining.on_rejoin, "if self.restored.get(sender) == r.life:", "if sender in self.restored:"),
            Edit(Recovery.on_new_state, "s.life != self.life or ", ""),
        ),
        killer=InScenario("disk_lost_twice"),
    ),
    Mutant(
        "rejoin-late",
        "late_votes_restore_nobody",
        "A member is restored only by those votes that came before the leader leads.",
        (Edit(Recovery.on_new_leader_ack, "return self.restore_members()", "return None"),),
        killer=InCampaign("disk_losses"),
        violates=LIVENESS,
    ),
    Mutant(
        "rejoin-restart",
        "restart_forgets_the_restoration",
        "After a restart a process that was restored is not.",
        (
            Edit(Rejoining.redo_rejoined, "self.life, self.votes_from = 0, r.gts", "self.votes_from = r.gts"),
            Edit(Rejoining.remember, "self.redo_rejoined(record)", "self.life, self.votes_from = 0, record.gts"),
        ),
        killer=InCampaign("disk_losses"),
    ),
    Mutant(
        "rejoin-silent",
        "asks_only_at_its_start",
        "A member that lost its disk does not ask again with heartbeats.",
        (Edit(Election.on_heartbeat, "return self.send((sender,), Rejoin(self.life))", "return None"),),
        killer=InCampaign("disk_losses"),
        violates=LIVENESS,
    ),
    Mutant(
        "rejoin-start",
        "follows_at_its_start",
        "A process that lost its disk begins as a follower of the first ballot.",
        (
            Edit(
                Election.resume_following,
                "FOLLOWER if self.ballot == self.cballot and not self.life else RECOVERING",
                "FOLLOWER if self.ballot == self.cballot else RECOVERING",
            ),
        ),
        killer=InCampaign("disk_losses"),
    ),
    Mutant(
        "rejoin-state-again",
        "lost_state_is_not_sent_again",
        "A leader does not send the state again to a member whose state was lost on the way.",
        (Edit(Rejoining.on_rejoin, "return self.bring_to_state(sender)  # the first was lost", "return None"),),
        killer=InCampaign("disk_losses"),
        violates=LIVENESS,
    ),
    Mutant(
        "rejoin-checkpoint",
        "checkpoint_forgets_the_loss",
        "A checkpoint does not say that this process has no vote.",
        (Edit(WhiteBox.redo_checkpoint, "self.life, self.votes_from = r.life, r.votes_from", "pass"),),
        killer=InScenario("rejoin_and_restart"),
    ),
    Mutant(
        "rejoin-prevote",
        "forgetful_member_grants_prevotes",
        "A member that lost its disk says that it hears no leader.",
        (Edit(Election.on_pre_vote, NO_VOTE, "if False:"),),
        survives="A prevote only saves disturbance; votes decide.",
        redundant=True,
    ),
    Mutant(
        "rejoin-disturbs",
        "ballot_although_somebody_is_away",
        "A leader begins a ballot for a restoration although not all others can be heard.",
        (Edit(Rejoining.on_rejoin, "heard_in == self.ballot and self.hears_everybody()", "heard_in == self.ballot"),),
        survives="Late votes complete the ballot just as well; it costs an interruption.",
        redundant=True,
    ),
    Mutant(
        "rejoin-record",
        "loss_is_not_recorded",
        "The Forgot record is left out.",
        (Edit(Rejoining.rejoin, "self.persist(record)", "pass"),),
        survives="A driver lets a process whose replaced disk is still empty rejoin again; it costs a ballot.",
        redundant=True,
    ),
    Mutant(
        "rejoin-hearsay",
        "deposed_leader_remembers_the_forgetful",
        "A leader that was deposed still takes for forgetful whom another leader has restored.",
        (Edit(Recovery.promise, "self.forgetful = {}", "self.forgetful = self.forgetful"),),
        survives="It takes two members of five that lose their disks, a leader that is deposed and leads again between "
        "the two losses, and a vote that both the restored one and a candidate forgot.",
    ),
]
