"""Without a file to open, what can wait is done later; a node has the limit that its configuration needs."""

from __future__ import annotations

import errno
import logging
import os
import resource
from pathlib import Path

import pytest
from tests.cluster.inprocess import Line, config_in, message, nodes_of, run, until

from braidcast.cluster.journal import Journal
from braidcast.cluster.open_files import files_wanted, raise_limit
from braidcast.core.client import Reply


def test_journal_is_synced_when_there_is_a_file_again_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin_sync, attempts = Journal.begin_sync, 0

    def lacking(journal: Journal) -> None:
        nonlocal attempts
        if journal.unsynced:
            journal.unsynced = False
            attempts += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            journal = nodes["n1"].by_group[0].journal
            monkeypatch.setattr(Journal, "begin_sync", lacking)
            line = await Line.to(nodes, "n1")
            line.submit((0,), message(1))
            await line.hears(Reply)
            await until(lambda: attempts == 3, "three attempts")
            assert journal.mark == 0
            monkeypatch.setattr(Journal, "begin_sync", begin_sync)
            await until(lambda: journal.mark == journal.last_gts, "the sync")
            assert [record.message[:19] for record in caplog.records] == ["too many open files"]
            line.end()

    run(work())


def test_limit_is_raised_as_far_as_it_may_be_and_a_line_says_if_that_is_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    limits, set_to = (256, 5_000), list[tuple[int, int]]()
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: set_to.append(pair))
    assert raise_limit(200)
    assert set_to == []
    assert raise_limit(1_200)
    assert set_to == [(1_200, 5_000)]
    assert caplog.records == []
    wanted = files_wanted(config_in(tmp_path, limits={"connections_max": 10_000}), "n1")
    assert wanted > 10_000
    assert not raise_limit(wanted)
    assert set_to[-1] == (5_000, 5_000)
    (record,) = caplog.records
    assert "may open 5000 files" in record.message
