"""Mutants of catch-up, snapshots and redelivery."""

from __future__ import annotations

from tests.mutations.collecting import NO_SNAPSHOT
from tests.mutations.edits import Edit
from tests.mutations.explorations import ONE_ELECTION
from tests.mutations.lying import NO_SECOND_LOOK
from tests.mutations.mutant import INSIDE, LIVENESS, ORDER, InCampaign, InScenario, Mutant

from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.election import Election
from braidcast.protocols.whitebox.process import WhiteBox

TABLE_NOW = Edit(CatchingUp.on_snapshot, "table = base.dedup", "table = self.dedup.export()")

CATCHING_UP = [
    Mutant(
        "23",
        "no_delivery_again",
        "After a restart nothing is delivered again, although the application lost it.",
        (Edit(WhiteBox.start, "return self.deliver_again(applied)", "return None"),),
        killer=InScenario("crash_between_effect_and_mark"),
    ),
    Mutant(
        "23-all",
        "everything_again",
        "After a restart everything is delivered again, although the application has it.",
        (Edit(Delivery.deliver_again, "entry.gts > applied and ", ""),),
        killer=InCampaign("crashes", 0),
        violates=ORDER,
    ),
    Mutant(
        "23-restored",
        "snapshot_lost",
        "After a restart an installed snapshot that was not applied is not applied.",
        (Edit(Delivery.deliver_again, "if self.snapshot is not None and applied < self.snapshot.gts:", "if False:"),),
        killer=InScenario("snapshot_recorded_and_not_applied"),
    ),
    Mutant(
        "23-batches",
        "repeated_lost",
        "A checkpoint forgets which messages of a batch were delivered before.",
        (Edit(WhiteBox.redo_checkpoint, "entry.repeated = repeated.get(entry.id, ())", "pass"),),
        killer=InScenario("batch_delivered_again"),
    ),
    Mutant(
        "24",
        "no_snapshot",
        "Who lacks what is collected gets only what is left in the log.",
        (NO_SNAPSHOT,),
        killer=InScenario("follower_past_the_mark"),
    ),
    Mutant(
        "24-never",
        "snapshot_never_sent",
        "Who lacks what is collected gets nothing.",
        (Edit(CatchingUp.resend_after, "return self.want_snapshot_for(follower)", "return None"),),
        killer=InCampaign("laggards", 0),
        violates=LIVENESS,
    ),
    Mutant(
        "24-table",
        "table_of_the_answer",
        "The dedup table of a snapshot is that of when the application answered.",
        (TABLE_NOW,),
        killer=InCampaign("relays", 5),
        violates=ORDER,
    ),
    Mutant(
        "24-no-table",
        "snapshot_without_table",
        "A snapshot comes without the dedup table.",
        (Edit(CatchingUp.redo_transferred, "    self.dedup.load(r.dedup)\n", ""),),
        killer=InCampaign("relays", 3),
        violates=ORDER,
    ),
    Mutant(
        "24-known",
        "snapshot_without_the_uncollected",
        "A snapshot comes without what is delivered and not collected.",
        (Edit(CatchingUp.redo_transferred, "for known in r.known:", "for known in ():"),),
        killer=InScenario("snapshot_with_the_uncollected"),
    ),
    Mutant(
        "24-collected",
        "snapshot_without_its_collected",
        "A snapshot does not tell up to where the log is collected.",
        (Edit(CatchingUp.redo_transferred, "    self.collected = max(self.collected, r.collected)\n", ""),),
        killer=InScenario("snapshot_for_the_next_laggard"),
    ),
    Mutant(
        "24-entries",
        "snapshot_leaves_the_delivered",
        "A snapshot leaves as ACCEPTED what it says is delivered.",
        (Edit(CatchingUp.redo_transferred, "if self.dedup.delivered_at(id) is not None]", "if False]"),),
        killer=InScenario("snapshot_over_the_accepted"),
    ),
    Mutant(
        "24-clock",
        "snapshot_leaves_the_clock",
        "A snapshot does not raise the clock.",
        (Edit(CatchingUp.redo_transferred, "    self.raise_clock(clock_of(r.gts))\n", ""),),
        redundant=True,
        survives=("As 29-clock: a quorum that delivered has the clock."),
    ),
    Mutant(
        "24-old",
        "old_snapshot",
        "A snapshot that is behind is installed all the same.",
        (Edit(CatchingUp.on_snapshot_chunk, "c.gts <= self.max_delivered_gts or ", ""),),
        killer=InCampaign("relays", 3),
        violates=ORDER,
    ),
    Mutant(
        "24-ballot",
        "snapshot_of_another_ballot",
        "A snapshot of another ballot, or while recovering, is installed.",
        (Edit(CatchingUp.on_snapshot_chunk, "self.status is RECOVERING or c.ballot != self.cballot or ", ""),),
        redundant=True,
        survives=("A snapshot holds only what is delivered, which is the same in every ballot."),
    ),
    Mutant(
        "24-pieces",
        "snapshot_piece_by_piece",
        "The first piece of a snapshot is installed without the others.",
        (
            Edit(
                CatchingUp.on_snapshot_chunk,
                "if not pieces:",
                "if c.part:\n        return None\n    pieces = [c]\n    if False:",
            ),
        ),
        killer=InScenario("follower_past_the_mark"),
    ),
    Mutant(
        "24-record",
        "snapshot_not_recorded",
        "An installed snapshot leaves no record.",
        (Edit(CatchingUp.on_snapshot_chunk, "    self.persist(record)\n", ""),),
        killer=InCampaign("laggards", 0),
        violates=INSIDE,
    ),
    Mutant(
        "24-asked",
        "answer_to_another_question",
        "An application's state is sent as that of another point.",
        (Edit(CatchingUp.on_snapshot, " or base.gts != s.gts", ""),),
        redundant=True,
        survives=("One question is open at a time, and the application answers each once."),
    ),
    Mutant(
        "24-leads",
        "snapshot_after_leading",
        "A process that no longer leads sends the snapshot that it asked for.",
        (Edit(CatchingUp.on_snapshot, " or self.status is not LEADER", ""),),
        redundant=True,
        survives=("What was true of the log when it led is still true."),
    ),
    Mutant(
        "31-ballot",
        "resend_of_another_ballot",
        "A resend of another ballot, or while recovering, is taken.",
        (Edit(CatchingUp.on_resend, "self.status is RECOVERING or r.ballot != self.cballot or ", ""),),
        redundant=True,
        survives=(
            "A resend holds only what is delivered, in order and without gaps; that is the same in every ballot."
        ),
    ),
    Mutant(
        "31-leader",
        "catch_up_from_anybody",
        "Who does not lead, or not in that ballot, answers a catch-up.",
        (Edit(CatchingUp.on_catch_up, "self.status is not LEADER or c.ballot != self.cballot or ", ""),),
        redundant=True,
        survives=("Every process's log is a prefix of the same log."),
    ),
    Mutant(
        "31-gap",
        "resend_with_a_gap",
        "A resend that begins above the mark is applied all the same.",
        (Edit(CatchingUp.on_resend, "if r.prev_gts > self.max_delivered_gts:", "if False:"),),
        killer=InScenario("resend_after_a_lost_snapshot"),
    ),
    Mutant(
        "31-twice",
        "resend_twice",
        "A resend delivers again what was delivered.",
        (Edit(CatchingUp.on_resend, "if known.gts <= self.max_delivered_gts:", "if False:"), NO_SECOND_LOOK),
        killer=ONE_ELECTION,
    ),
    Mutant(
        "31-more",
        "resend_once",
        "A follower does not ask for the next piece.",
        (Edit(CatchingUp.on_resend, "if before < self.max_delivered_gts < r.upto:", "if False:"),),
        killer=InScenario("catch_up_in_pieces"),
    ),
    Mutant(
        "31-heartbeat",
        "heartbeat_shows_no_gap",
        "A follower does not ask when a heartbeat shows that it is behind.",
        (Edit(Election.on_heartbeat, "if h.gts > self.max_delivered_gts and not", "if False and not"),),
        killer=InCampaign("losses", 1),
        violates=LIVENESS,
    ),
    Mutant(
        "31-body",
        "resend_without_body",
        "A resend does not bring the body.",
        (Edit(CatchingUp.on_resend, "entry.body = known.body", "pass"),),
        killer=InCampaign("losses", 15),
        violates=LIVENESS,
    ),
]
