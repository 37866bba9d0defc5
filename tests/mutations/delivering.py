"""Mutants of delivery: which DELIVER counts, what a gap calls for, what is answered."""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.explorations import ONE_ELECTION
from tests.mutations.lying import NO_SECOND_LOOK
from tests.mutations.mutant import LIVENESS, ORDER, InCampaign, InScenario, Mutant

from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.ordering import Ordering

DELIVERING = [
    Mutant(
        "10",
        "deliver_in_any_ballot",
        "Line 25's `cballot = b` is left out, and what makes up for it: that a gap shows, whatever the ballot.",
        (
            Edit(Delivery.on_deliver, " or d.ballot != self.cballot", ""),
            Edit(
                Delivery.on_deliver,
                "d.prev_gts > self.max_delivered_gts or",
                "d.ballot == self.cballot and d.prev_gts > self.max_delivered_gts or",
            ),
        ),
        killer=InCampaign("relays", 1),
        violates=ORDER,
    ),
    Mutant(
        "10-ballot",
        "deliver_without_gaps_in_any_ballot",
        "Line 25's `cballot = b` is left out, but a gap shows.",
        (Edit(Delivery.on_deliver, " or d.ballot != self.cballot", ""),),
        redundant=True,
        survives="What a DELIVER says is committed, in whatever ballot, and nothing is missing before it.",
    ),
    Mutant(
        "10-recovering",
        "deliver_while_recovering",
        "Line 25's `status` is left out.",
        (Edit(Delivery.on_deliver, "self.status is RECOVERING or ", ""),),
        redundant=True,
        survives=(
            "What a DELIVER says is committed, prev_gts shows any gap, and COMMITTED is sticky, also after the vote."
        ),
    ),
    Mutant(
        "10-both",
        "deliver_whenever",
        "Line 25's `status` and `cballot` are both left out.",
        (Edit(Delivery.on_deliver, "self.status is RECOVERING or d.ballot != self.cballot or ", ""),),
        redundant=True,
        survives="As 10-ballot and 10-recovering.",
    ),
    Mutant(
        "11",
        "deliver_below_the_mark",
        "Line 25's `max_delivered_gts < gts` is left out.",
        (Edit(Delivery.on_deliver, "if d.gts <= self.max_delivered_gts:", "if False:"), NO_SECOND_LOOK),
        killer=ONE_ELECTION,
    ),
    Mutant(
        "16",
        "no_prev_gts",
        "A follower that missed a DELIVER applies the next one all the same.",
        (Edit(Delivery.on_deliver, "d.prev_gts > self.max_delivered_gts or ", ""),),
        killer=InCampaign("crashes", 1),
        violates=ORDER,
    ),
    Mutant(
        "16-body",
        "skip_unknown_delivery",
        "A DELIVER whose message is not here is skipped: no catch-up.",
        (
            Edit(
                Delivery.on_deliver,
                "if d.prev_gts > self.max_delivered_gts or entry is None or not self.find_body(entry):",
                "if entry is None or not self.find_body(entry):\n"
                "        self.max_delivered_gts = d.gts\n"
                "        return None\n"
                "    if d.prev_gts > self.max_delivered_gts:",
            ),
        ),
        killer=InCampaign("crashes", 1),
        violates=ORDER,
    ),
    Mutant(
        "29-gap",
        "gap_without_catch_up",
        "A follower that sees a gap waits instead of asking.",
        (Edit(Delivery.on_deliver, "return self.ask_for_missed(sender)", "return None"),),
        killer=InScenario("catch_up_in_pieces"),
    ),
    Mutant(
        "29-reply",
        "reply_before_delivery",
        "A duplicate of what is committed but not delivered gets a reply.",
        (
            Edit(
                Ordering.propose,
                "if entry.phase == COMMITTED and entry.gts <= self.max_delivered_gts:",
                "if entry.phase == COMMITTED:",
            ),
        ),
        survives=(
            "What is committed will be delivered, so the reply is true, only early; no property "
            "asks that a delivery comes before it."
        ),
    ),
    Mutant(
        "29-learn",
        "delivery_without_record",
        "What is delivered without having been accepted here leaves no body on disk.",
        (Edit(Delivery.learn_committed, "if entry.phase < ACCEPTED:", "if False:"),),
        killer=InCampaign("crashes", 0),
    ),
    Mutant(
        "29-clock",
        "deliver_leaves_the_clock",
        "Line 29 does not raise the clock.",
        (Edit(Delivery.learn_committed, "if gts >> GROUP_BITS > self.clock:", "if False:"),),
        redundant=True,
        survives=(
            "Whoever accepted the message has raised its clock, and a new leader takes the highest clock of a quorum."
        ),
    ),
    Mutant(
        "29-behind",
        "clock_not_recorded",
        "A clock that rises after the message was accepted leaves no record.",
        (
            Edit(
                Ordering.acknowledge,
                "    elif behind:\n        self.persist(Accepted(body, mine.lts, self.clock))\n",
                "",
            ),
        ),
        killer=InScenario("clock_of_the_accepted_is_durable"),
    ),
    Mutant(
        "29-sweep",
        "forgets_what_is_not_stale",
        "What came early is forgotten at once.",
        (Edit(Ordering.forget_stale, " and e.since < before", ""),),
        redundant=True,
        survives=("What is forgotten comes again with a retry; it costs time only."),
    ),
    Mutant(
        "29-sweep-all",
        "forgets_more_than_early_arrivals",
        "What is PROPOSED is forgotten like what came early.",
        (Edit(Ordering.forget_stale, "e.phase == START and e.since < before", "e.phase <= 1 and e.since < before"),),
        killer=InCampaign("laggards", 2),
        violates=LIVENESS,
    ),
    Mutant(
        "29-forward",
        "no_forwarding",
        "A follower drops what a client sends it, and names no leader.",
        (Edit(Ordering.on_multicast, "self.point_to_leader(sender, m)", "pass"),),
        killer=InScenario("follower_forwards"),
    ),
]
