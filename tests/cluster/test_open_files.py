"""Without a file to open, what can wait is done later; a node has the limit that its configuration needs."""

from __future__ import annotations

import errno
import logging
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.inprocess import CLIENT, Line, config_in, message, nodes_of, run, turns, until

from braidcast.cluster import journal as journal_module
from braidcast.cluster.journal import Journal
from braidcast.cluster.journal_segments import Segment
from braidcast.cluster.lacking import FILES
from braidcast.cluster.open_files import files_wanted, raise_limit
from braidcast.core.client import Reply
from braidcast.wire.service import Deliveries, Subscribe


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


def no_file(*_: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_node_that_cannot_open_a_file_of_its_journal_holds_back_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            line = await Line.to(nodes, "n1")
            with monkeypatch.context() as patched:
                patched.setattr(Segment, "create", no_file)
                line.submit((0,), message(1))
                await until(lambda: nodes.status("n1")["disk"]["lack"] == FILES, "word of it")
                await turns()
                assert line.heard(Reply) == []
                assert not nodes["n1"].over
            await line.hears(Reply)
            assert nodes.status("n1")["disk"]["lack"] == ""
            line.end()

    run(work())


def test_subscriber_waits_for_a_file_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 1)
    attempts = 0

    def lacking(*_: Any) -> Any:
        nonlocal attempts
        attempts += 1
        no_file()

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, replicas=1)) as nodes:
            line = await Line.to(nodes, "n1")
            for number in range(1, 11):
                line.submit((0,), message(number))
                await line.hears(Reply, number)  # what is written need not stay in memory
            with monkeypatch.context() as patched:
                patched.setattr(Segment, "entries_above", lacking)
                line.say([(CLIENT, (), Subscribe(0, 0))])
                await until(lambda: attempts >= 3, "three attempts")
                assert line.heard(Deliveries) == []
            await until(lambda: sum(len(some.entries) for some in line.heard(Deliveries)) == 10, "all of them")
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
