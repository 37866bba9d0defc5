"""Agreement and termination: once the run is quiet, what anybody has delivered is delivered everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from braidcast.core.client import MessageId
from braidcast.properties.property import QUIESCENT, states
from braidcast.properties.view import View
from braidcast.properties.violation import Violation


@states(
    "What any process delivered, even one that crashed, every correct member of every destination delivers.",
    "section 5, agreement; 000, section II",
    QUIESCENT,
)
def agreement(view: View) -> Iterator[Violation]:
    for node, id in _missing(view, view.delivered):
        yield view.violation(
            f"a delivery, as at node {view.delivered[id]}", "none until the end", node=node, message=id
        )


@states(
    "What a client that stayed alive multicast, every correct member of every destination delivers.",
    "section 5, termination; 001, section II",
    QUIESCENT,
)
def termination(view: View) -> Iterator[Violation]:
    exempt = view.abandoned | view.refused
    owed = [id for id in view.multicasts if id not in view.delivered and id not in exempt]
    for node, id in _missing(view, owed):
        yield view.violation("a delivery, its client stayed alive", "none anywhere", node=node, message=id)


def _missing(view: View, ids: Iterable[MessageId]) -> Iterator[tuple[int, MessageId]]:
    """Who, of the correct, has not got which of these."""
    owed: list[set[MessageId]] = [set() for _ in view.groups]
    for id in ids:
        for group in view.dest_of(id) or ():
            if group < len(owed):
                owed[group].add(id)
    for node in view.manifest.correct:
        log = view.log_of[node]
        missing = owed[log.group].difference([d.id for d in log.deliveries])
        if missing and log.restores:
            missing.difference_update(view.covered(log.group, max(r.gts for r in log.restores)))
        for id in sorted(missing):
            yield node, id
