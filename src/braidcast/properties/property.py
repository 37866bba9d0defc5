"""A property: a named predicate, what it states, where that is stated, and which histories it can judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from braidcast.history.event import PERSIST, RECOVERED
from braidcast.history.manifest import FIFO, GENUINE
from braidcast.properties.view import View
from braidcast.properties.violation import Violation

Judge = Callable[[View], Iterator[Violation]]


class Scope(NamedTuple):
    """The histories that a property can judge."""

    text: str
    holds: Callable[[View], bool]


ANY = Scope("every history", lambda _: True)
WITH_GTS = Scope("deliveries that carry a gts", lambda view: view.has_gts)
QUIESCENT = Scope("quiescent runs", lambda view: view.manifest.quiescent)
PROMISED_FIFO = Scope("protocols that promise FIFO", lambda view: FIFO in view.manifest.promises)
PROMISED_GENUINE = Scope(
    "protocols that promise genuineness, in histories that record what is sent",
    lambda view: GENUINE in view.manifest.promises and bool(view.kinds("send")),
)
WITH_RECORDS = Scope("protocols with white-box records and messages", lambda view: view.has_acceptances)
WITH_DISKS = Scope(
    "protocols with white-box records and messages; of a cluster only if its nodes have disks, and recorded at each "
    "restart what was on them",
    lambda view: (
        view.has_acceptances
        and (view.manifest.driver != "cluster" or (bool(view.kinds(PERSIST)) and view.tells_what_disks_held))
    ),
)
WITH_RECOVERY = Scope(
    "histories of nodes that recorded at a restart what was on their disks", lambda view: bool(view.kinds(RECOVERED))
)
WITH_BALLOTS = Scope("protocols that persist ballots or clocks", lambda view: bool(view.kinds("persist")))
WITH_COLLECTION = Scope("runs that note `collected`", lambda view: bool(view.kinds("collected")))
WITH_PAYLOADS = Scope(
    "histories with payloads or their digests",
    lambda view: any(submitted.payload is not None for submitted in view.multicasts.values()),
)
WITH_TRAFFIC = Scope("histories that record what is sent", lambda view: bool(view.kinds("send")))


@dataclass(frozen=True)
class Property:
    """What must always hold."""

    name: str
    family: str
    """The module that holds it."""
    statement: str
    source: str
    """The section of protocols.md or of the paper that states it."""
    scope: Scope
    judge: Judge

    def __call__(self, view: View) -> Iterator[Violation]:
        """Every violation that a history shows, once; none if it is out of scope."""
        if self.scope.holds(view):
            yield from self.violations(view)

    def violations(self, view: View) -> Iterator[Violation]:
        """The same of a part of a history, whose scope is known from the whole."""
        for violation in dict.fromkeys(self.judge(view)):
            yield violation._replace(property=self.name)


def states(statement: str, source: str, scope: Scope = ANY) -> Callable[[Judge], Property]:
    """Make a predicate a property, named after its function."""

    def make(judge: Judge) -> Property:
        family = judge.__module__.rpartition(".")[2]
        return Property(judge.__name__, family, statement, source, scope, judge)

    return make
