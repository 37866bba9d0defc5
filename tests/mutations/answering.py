"""Mutants of what a client is told, what an application is handed, and what is kept when all is done.

They order and deliver as they should, so only properties of refusals, of payloads and of final states see them.
"""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.mutant import InCampaign, Mutant

from braidcast.protocols.whitebox.collection import Collection
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.ordering import Ordering

REFUSED = ("refused_for_a_reason",)
PAYLOAD = ("delivered_as_multicast", "applied_as_multicast")
MEMORY = ("memory_is_bounded",)

ANSWERING = [
    Mutant(
        "30-refuses",
        "refuses_every_third",
        "A leader refuses every third message of a client.",
        (
            Edit(
                Ordering.may_propose,
                "    delivered_at = self.dedup.delivered_at(m.id)\n",
                "    if is_asked is None and m.id.seq % 3 == 0:\n"
                "        return self.refuse_client(m, 'out of spirits')\n"
                "    delivered_at = self.dedup.delivered_at(m.id)\n",
            ),
        ),
        killer=InCampaign("calm", 0),
        violates=REFUSED,
    ),
    Mutant(
        "30-lies",
        "refuses_and_orders",
        "A leader tells the client that it refuses, and orders the message all the same.",
        (
            Edit(
                Ordering.may_propose,
                "    delivered_at = self.dedup.delivered_at(m.id)\n",
                "    if is_asked is None and m.id.seq % 3 == 0:\n"
                "        self.refuse_client(m, 'out of spirits')\n"
                "    delivered_at = self.dedup.delivered_at(m.id)\n",
            ),
        ),
        killer=InCampaign("calm", 0),
        violates=REFUSED,
    ),
    Mutant(
        "31",
        "another_payload",
        "Some members hand their application another payload.",
        (
            Edit(
                Delivery.deliver_next,
                "    self.deliver(Delivered(entry.body, entry.gts, entry.repeated))\n",
                "    m = entry.body\n"
                "    m = type(m)(m.id, m.dest, m.payload[1:] + b'?', m.complete_below, m.batch_first, m.batch_count,\n"
                "                m.batch_complete_below)\n"
                "    self.deliver(Delivered(m if self.me % 3 == 1 else entry.body, entry.gts, entry.repeated))\n",
            ),
        ),
        killer=InCampaign("calm", 0),
        violates=PAYLOAD,
    ),
    Mutant(
        "32-half",
        "keeps_half_of_what_it_collects",
        "A group notes that it has collected, and keeps every other entry.",
        (
            Edit(
                Collection.trim,
                "        del self.entries[entry.id]\n",
                "        if self.group or entry.id.seq % 2:\n            del self.entries[entry.id]\n",
            ),
        ),
        killer=InCampaign("resting", 0),
        violates=MEMORY,
    ),
    Mutant(
        "32-log",
        "keeps_what_it_delivered_last",
        "The log of deliveries is not compacted.",
        (Edit(Collection.trim, "if self.log_dead * 2 > len(self.delivered_log):", "if False:"),),
        killer=InCampaign("resting", 0),
        violates=MEMORY,
    ),
    Mutant(
        "32-early",
        "never_forgets_early_arrivals",
        "What came early, for a message that never came, is kept for ever.",
        (Edit(Collection.on_sweep, "    self.forget_stale(self.out.now - forget)\n", ""),),
        killer=InCampaign("resting", 0, 400),
        violates=MEMORY,
    ),
]
