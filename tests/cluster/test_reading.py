"""Reading a log and a journal without their node: all of it, nothing else, and not a byte changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from braidcast.cluster.journal import Journal
from braidcast.cluster.log import Log
from braidcast.cluster.reading import JournalReader, LogReader, NothingThere
from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast


def payloads(reader: LogReader) -> list[bytes]:
    return [payload for _, payload in reader]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def delivered(number: int) -> Delivered:
    return Delivered(Multicast(MessageId(1 << 62, 1, number), (0,), b"m%d" % number), number << 10)


def journal_in(folder: Path, count: int) -> Journal:
    journal = Journal(folder, 1 << 20)
    for number in range(1, count + 1):
        journal.append(delivered(number))
        journal.write()
    return journal


def test_a_log_is_read_while_its_node_has_it_open_and_nothing_changes(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log", segment_bytes=4096)
    for number in range(200):
        log.append(b"%d" % number * 30)
    before = contents(tmp_path / "log")
    assert len(before) > 3
    reader = LogReader(tmp_path / "log")
    assert list(reader) == [(number + 1, b"%d" % number * 30) for number in range(200)]
    assert reader.remarks == []
    assert contents(tmp_path / "log") == before
    log.append(b"still mine")
    log.close()


def test_a_log_begins_with_its_newest_checkpoint(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log")
    log.append(b"replaced")
    log.checkpoint([b"all", b"of it"])
    log.append(b"since")
    log.close()
    assert payloads(LogReader(tmp_path / "log")) == [b"all", b"of it", b"since"]


def test_a_checkpoint_under_way_takes_nothing_from_who_reads(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log", segment_bytes=4096)
    for number in range(100):
        log.append(b"%d" % number * 30)
    reading = iter(LogReader(tmp_path / "log"))
    assert next(reading)[0] == 1
    log.checkpoint([b"all"])
    assert len(list(reading)) == 99
    assert payloads(LogReader(tmp_path / "log")) == [b"all"]
    log.close()


def test_the_end_of_a_commit_that_is_being_written_is_said(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log")
    log.append(b"whole")
    log.append(b"half" * 50)
    log.close()
    (segment,) = (tmp_path / "log").glob("*.log")
    data = segment.read_bytes().rstrip(b"\0")
    segment.write_bytes(data[:-100] + bytes(1000))
    before = contents(tmp_path / "log")
    reader = LogReader(tmp_path / "log")
    assert payloads(reader) == [b"whole"]
    (remark,) = reader.remarks
    assert "behind commit 1" in remark
    assert "it was torn by a crash, or is being written" in remark
    assert contents(tmp_path / "log") == before


def test_damage_ends_the_reading_and_is_said(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log")
    for payload in (b"one", b"two" * 9, b"three"):
        log.append(payload)
    log.close()
    (segment,) = (tmp_path / "log").glob("*.log")
    segment.write_bytes(segment.read_bytes().replace(b"two" * 9, b"twoXtwo" + b"two" * 6 + b"tw"))
    reader = LogReader(tmp_path / "log")
    assert payloads(reader) == [b"one"]
    assert "is damaged at byte" in reader.remarks[0]


def test_a_missing_segment_is_said(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log", segment_bytes=4096)
    for number in range(200):
        log.append(b"%d" % number * 30)
    log.close()
    sorted((tmp_path / "log").glob("*.log"))[1].unlink()
    reader = LogReader(tmp_path / "log")
    assert 0 < len(list(reader)) < 200
    assert "is missing before it" in reader.remarks[0]


def test_a_journal_is_read_while_it_grows(tmp_path: Path) -> None:
    journal = journal_in(tmp_path / "j", 3)
    before = contents(tmp_path / "j")
    reader = JournalReader(tmp_path / "j")
    assert [entry.payload for entry in reader] == [b"m1", b"m2", b"m3"]
    assert reader.remarks == []
    assert contents(tmp_path / "j") == before
    journal.close()


def test_the_torn_end_of_a_journal_is_said(tmp_path: Path) -> None:
    journal_in(tmp_path / "j", 3).close()
    (file,) = (tmp_path / "j").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    reader = JournalReader(tmp_path / "j")
    assert [entry.payload for entry in reader] == [b"m1", b"m2"]
    assert "cannot be read: torn by a crash, or being written" in reader.remarks[0]


def test_a_gap_in_a_journal_is_said(tmp_path: Path) -> None:
    journal_in(tmp_path / "j", 2).close()
    (first,) = (tmp_path / "j").iterdir()
    later = Journal(tmp_path / "l", 1 << 20)
    later.continue_from(4, 3 << 10)
    later.append(delivered(4))
    later.write()
    later.close()
    (second,) = (tmp_path / "l").iterdir()
    shutil.copy(second, first.parent)
    reader = JournalReader(tmp_path / "j")
    assert [entry.index for entry in reader] == [1, 2]
    assert "is damaged at byte 0" in reader.remarks[0]


@pytest.mark.parametrize("reader", [LogReader, JournalReader])
def test_a_directory_without_any_is_an_error(tmp_path: Path, reader: type[LogReader]) -> None:
    with pytest.raises(NothingThere, match=r"holds no (log|journal)"):
        list(reader(tmp_path))
