"""What a journal counts for who watches it, and how it begins when it continues another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.journals import BYTES_MAX, fill, gts_of, numbers, reopened

from braidcast.cluster.journal import Compacted, Journal
from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "g0", BYTES_MAX)


def test_what_is_delivered_in_this_life_is_counted_by_messages_and_bytes(journal: Journal) -> None:
    batch = Multicast(MessageId(9, 1, 1), (0,), b"payload", batch_first=4, batch_count=5)
    journal.append(Delivered(batch, gts_of(1), (0, 1)))
    journal.append(Delivered(Multicast(MessageId(9, 1, 2), (0,), b"abc"), gts_of(2)))
    journal.append(Delivered(Multicast(MessageId(9, 1, 2), (0,), b"again"), gts_of(2)))
    assert (journal.messages, journal.bytes) == (4, 10)
    journal.write()
    assert (reopened(journal).messages, reopened(journal).bytes) == (0, 0)


def test_how_many_follow_a_timestamp_is_counted_as_far_as_memory_reaches(journal: Journal) -> None:
    fill(journal, 1, 10)
    assert [journal.count_after(gts) for gts in (0, gts_of(3), gts_of(10), gts_of(99))] == [10, 7, 0, 0]


def test_a_journal_that_continues_another_one_begins_where_that_ended(journal: Journal) -> None:
    journal.continue_from(5, gts_of(4))
    again = reopened(journal)
    assert (again.next, again.mark) == (5, gts_of(4))
    fill(again, 5, 7)
    assert numbers(reopened(again), gts_of(4)) == [5, 6, 7]
    with pytest.raises(Compacted, match="the oldest is 5"):
        again.read(gts_of(3), 9)
