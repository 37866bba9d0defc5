"""What an application on top of a journal needs of it."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.journals import BYTES_MAX, fill, gts_of, numbers

from braidcast.cluster.application import Application, plain
from braidcast.cluster.journal import Journal


def test_what_an_application_would_need_after_a_restart_stays_until_it_needs_it_no_longer(tmp_path: Path) -> None:
    journal = Journal(tmp_path, BYTES_MAX)
    journal.wanted_after = gts_of(3)
    fill(journal, 1, 40, size=60_000)
    assert 1 < journal.oldest <= 4, "what is below goes, and nothing above"
    assert numbers(journal, gts_of(3)) == list(range(4, 41))
    journal.wanted_after = gts_of(40)
    fill(journal, 41, 44, size=60_000)
    assert journal.oldest > 20


def test_journal_is_the_application_of_a_plain_node(tmp_path: Path) -> None:
    journal = Journal(tmp_path, BYTES_MAX)
    application: Application = plain("g0", journal)
    assert application is journal
