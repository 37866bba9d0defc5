"""Guards against what only a process that lies, or another version of it, can send.

No run can tell these mutants from the protocol: simulated processes do not lie. Each dies in
`tests/cluster/test_refusals.py`, which says the message that the guard is there for.
"""

from __future__ import annotations

from tests.mutations.edits import Edit
from tests.mutations.mutant import Mutant

from braidcast.protocols.whitebox.catchup import CatchingUp
from braidcast.protocols.whitebox.delivery import Delivery
from braidcast.protocols.whitebox.ordering import Ordering
from braidcast.protocols.whitebox.recovery import Recovery
from braidcast.protocols.whitebox.state import State

NO_SECOND_LOOK = Edit(Delivery.has_delivered, "entry = self.entries.get(id)", "return False")
"""Goes with mutants of the mark: a message below it is delivered already, and this guard would notice, too."""
ANY_KNOWLEDGE = Edit(State.concerns, " and is_sound(k)", "")
WHY = "Only a leader or a member that lies sends it: tests/cluster/test_refusals.py does."


def unheard_of(number: str, name: str, broken: str, *edits: Edit) -> Mutant:
    """A mutant that no honest run can tell from the protocol."""
    return Mutant(number, name, broken, edits, redundant=True, survives=WHY)


LYING = [
    unheard_of("32", "second_timestamp", "A message is delivered again at another timestamp.", NO_SECOND_LOOK),
    unheard_of("32-known", "unsound_knowledge", "Knowledge may lack its timestamps or have another's body.",
               ANY_KNOWLEDGE),
    unheard_of("32-body", "body_of_another", "An ACCEPT may carry the body of another message.",
               Edit(Ordering.on_accept, "if body is not None and", "if False and")),
    unheard_of("32-stamp", "timestamp_of_another_group", "An ACCEPT may carry another group's timestamp.",
               Edit(Ordering.on_accept, "if a.lts <= 0 or", "if False and")),
    unheard_of("32-name", "client_named_like_a_process", "A MULTICAST may bear the name of a process.",
               Edit(Ordering.on_multicast, "m.id.client in self.home or ", "")),
    unheard_of("32-forwarded", "forwarded_in_a_process_name", "A forwarded MULTICAST may bear the name of a process.",
               Edit(Ordering.on_forwarded, "if f.body.id.client in self.home:", "if False:")),
    unheard_of("32-snapshot", "impossible_snapshot", "A snapshot may be out of order, or lack bodies.",
               Edit(CatchingUp.on_snapshot_chunk,
                    "if not self.can_follow(known, c.gts) or not table.is_whole:", "if False:")),
    unheard_of("32-state", "state_without_bodies", "A state may lack a body that the follower lacks.",
               Edit(Recovery.on_new_state, "if any(k.body is None and not self.has_body(k.id)", "if any(False")),
    unheard_of("32-bodies", "bodies_with_other_destinations", "A body may have other destinations than was reported.",
               Edit(Recovery.on_bodies, " and known.dest == body.dest", "")),
]  # fmt: skip
