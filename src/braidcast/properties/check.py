"""All properties, and the judgement of a history by them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from braidcast.core.errors import OptionError
from braidcast.history.event import History
from braidcast.properties import agreement, collection, durability, genuineness, integrity, internals, ordering
from braidcast.properties.property import Property
from braidcast.properties.view import View
from braidcast.properties.violation import Violation

PROPERTIES: Final[dict[str, Property]] = {
    found.name: found
    for found in (
        integrity.delivered_was_multicast,
        integrity.delivered_as_multicast,
        integrity.delivered_where_addressed,
        integrity.no_duplicates,
        integrity.batch_messages_once,
        integrity.replies_are_true,
        integrity.refused_for_a_reason,
        ordering.one_gts_per_message,
        ordering.one_message_per_gts,
        ordering.gts_increases,
        ordering.one_order,
        ordering.group_logs_are_prefixes,
        ordering.no_gaps,
        ordering.fifo,
        agreement.agreement,
        agreement.termination,
        genuineness.genuineness,
        genuineness.transfer_is_genuine,
        genuineness.no_cross_traffic,
        internals.one_lts_per_ballot,
        internals.one_message_per_lts,
        internals.one_gts_decided,
        internals.ballots_rise,
        internals.clocks_rise,
        durability.persist_precedes_send,
        durability.persist_precedes_delivery,
        durability.durable_is_recovered,
        collection.collected_here_is_delivered_here,
        collection.collected_here_is_stable_elsewhere,
        collection.durable_reports_are_true,
        collection.stable_reports_are_true,
    )
}
"""By name, in the order in which they are judged: the first violation is the most telling one."""


@dataclass(frozen=True)
class Judgement:
    """What came of judging a history: a property without a violation holds, or was never looked at."""

    violations: list[Violation]
    judged: tuple[str, ...]
    """The properties that apply to this history."""
    skipped: dict[str, str]
    """The others, each with the histories that it can judge."""


def check(history: History, only: Iterable[str] | None = None) -> list[Violation]:
    """Every violation in a history, of all properties that apply to it or of those named in `only`."""
    return judge_history(history, only).violations


def judge_history(history: History, only: Iterable[str] | None = None) -> Judgement:
    """The same, and which properties were judged."""
    view, wanted = View(history), select(only)
    applying = [found for found in wanted if found.scope.holds(view)]
    return Judgement(
        [violation for found in applying for violation in found(view)],
        tuple([found.name for found in applying]),
        {found.name: found.scope.text for found in wanted if found not in applying},
    )


def select(only: Iterable[str] | None = None) -> list[Property]:
    """The named properties, all of them if none is named."""
    if only is None:
        return list(PROPERTIES.values())
    names = list(only)
    if unknown := [name for name in names if name not in PROPERTIES]:
        raise OptionError(f"there is no property {unknown[0]!r}: known are {', '.join(PROPERTIES)}")
    return [PROPERTIES[name] for name in names]


def properties_table() -> str:
    """The table of properties in Markdown, as `docs/properties.md` shows it."""
    lines = ["| property | family | states | judges | source |", "|---|---|---|---|---|"]
    lines += [f"| `{p.name}` | {p.family} | {p.statement} | {p.scope.text} | {p.source} |" for p in PROPERTIES.values()]
    return "\n".join(lines) + "\n"
