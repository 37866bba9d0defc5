"""What a campaign must have seen at least once, or it proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from braidcast.history.event import History
from braidcast.properties.violation import Violation


def sometimes(counts: Mapping[str, int], names: Iterable[str], campaign: str = "campaign") -> list[Violation]:
    """A violation for each of `names` that was never counted."""
    return [
        Violation("sometimes", campaign, None, None, None, f"`{name}` at least once", "none in the whole campaign")
        for name in names
        if counts.get(name, 0) <= 0
    ]


def count_events(history: History) -> Counter[str]:
    """How often each event, note or driver's, occurred: add these up over a campaign."""
    return Counter(event.event for event in history.events)
