"""Backups: the cut is consistent, what is written is read back, and nothing that is not whole passes for a backup."""

from __future__ import annotations

from pathlib import Path

import pytest

from braidcast.cluster.backup import (
    ENTRIES_PER_FRAME,
    MAGIC,
    BackedUp,
    BackupDamaged,
    BackupHead,
    BackupReader,
    BackupWriter,
    cut_of,
    is_backup,
)
from braidcast.core.client import MessageId
from braidcast.wire.service import JournalEntry


def entry(index: int, gts: int, *dest: int, payload: bytes = b"x") -> JournalEntry:
    return JournalEntry(index, gts, MessageId(1 << 62, 1, gts), dest, payload)


def write(path: Path, logs: dict[int, list[JournalEntry]], *, cut: int = 1 << 40, after: int = 0) -> Path:
    """A backup of groups g0, g1, ... with these entries."""
    heads = tuple(
        BackedUp(f"g{number}", number, entries[0].index if entries else 1, after, entries[-1].gts if entries else after)
        for number, entries in logs.items()
    )
    with BackupWriter(path) as writer:
        writer.head(BackupHead("shop", "whitebox", ("g0", "g1"), heads, cut, 7, "0"))
        for number, entries in logs.items():
            writer.entries(number, entries)
    return path


SHARED = {0: [entry(1, 10, 0), entry(2, 20, 0, 1), entry(3, 30, 0)], 1: [entry(1, 20, 0, 1), entry(2, 40, 1)]}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    found = BackupReader(write(tmp_path / "b", SHARED))
    assert found.check() == 5
    assert list(found.entries()) == [*[("g0", e) for e in SHARED[0]], *[("g1", e) for e in SHARED[1]]]
    assert [(g.name, g.first, g.last) for g in found.head.groups] == [("g0", 1, 30), ("g1", 1, 40)]
    assert is_backup(tmp_path / "b")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "b"]


def test_many_entries_and_none(tmp_path: Path) -> None:
    many = [entry(7 + i, 100 + i, 0) for i in range(2 * ENTRIES_PER_FRAME + 1)]
    found = BackupReader(write(tmp_path / "b", {0: many, 1: []}, after=99))
    assert found.check() == len(many)
    assert [e for _, e in found.entries()] == many


@pytest.mark.parametrize(
    ("shared", "last", "cut"),
    [
        ([], {0: 10, 1: 20}, 20),
        ([], {}, 0),
        ([(15, (0, 1))], {0: 10, 1: 20}, 14),
        ([(18, (0, 1)), (15, (0, 1))], {0: 10, 1: 20}, 14),
        ([(9, (0, 1))], {0: 10, 1: 20}, 20),
        ([(15, (1, 2))], {0: 10, 1: 20}, 20),
    ],
)
def test_the_cut_is_below_the_first_message_that_a_group_had_not_delivered(
    shared: list[tuple[int, tuple[int, ...]]], last: dict[int, int], cut: int
) -> None:
    assert cut_of(shared, last) == cut


def test_whatever_byte_is_wrong_is_found(tmp_path: Path) -> None:
    whole = write(tmp_path / "b", SHARED).read_bytes()
    bad = tmp_path / "bad"
    for at in range(len(whole)):
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(BackupDamaged):
            BackupReader(bad).check()


def test_whatever_is_missing_at_the_end_is_found(tmp_path: Path) -> None:
    whole = write(tmp_path / "b", SHARED).read_bytes()
    bad = tmp_path / "bad"
    for size in range(len(whole)):
        bad.write_bytes(whole[:size])
        with pytest.raises(BackupDamaged):
            BackupReader(bad).check()
    bad.write_bytes(whole + whole[len(MAGIC) :])
    with pytest.raises(BackupDamaged, match="something follows its end"):
        BackupReader(bad).check()


@pytest.mark.parametrize(
    ("logs", "says"),
    [
        ({0: [entry(1, 10, 0), entry(3, 20, 0)], 1: []}, "entry 3 of group g0 is not the next one"),
        ({0: [entry(1, 20, 0), entry(2, 10, 0)], 1: []}, "entry 2 of group g0 is not the next one"),
        ({0: [entry(1, 10, 1)], 1: []}, "entry 1 of group g0 is not the next one"),
        ({0: [entry(1, 1 << 41, 0)], 1: []}, "entry 1 of group g0 is not the next one"),
        ({0: [entry(1, 10, 0, 1)], 1: []}, "groups g0 and g1 disagree on what they share"),
        ({0: [entry(1, 10, 0, 1)], 1: [entry(1, 11, 0, 1)]}, "disagree on what they share"),
    ],
)
def test_entries_that_do_not_belong_together_are_no_backup(
    tmp_path: Path, logs: dict[int, list[JournalEntry]], says: str
) -> None:
    with pytest.raises(BackupDamaged, match=says):
        BackupReader(write(tmp_path / "b", logs)).check()


def test_what_one_group_no_longer_keeps_is_no_disagreement(tmp_path: Path) -> None:
    heads = (BackedUp("g0", 0, 1, 0, 30), BackedUp("g1", 1, 5, 25, 30))
    with BackupWriter(tmp_path / "b") as writer:
        writer.head(BackupHead("shop", "whitebox", ("g0", "g1"), heads, 30, 7, "0"))
        writer.entries(0, [entry(1, 20, 0, 1), entry(2, 30, 0, 1)])
        writer.entries(1, [entry(5, 30, 0, 1)])
    assert BackupReader(tmp_path / "b").check() == 3


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "b", SHARED)
    before = (tmp_path / "b").read_bytes()
    with pytest.raises(ZeroDivisionError), BackupWriter(tmp_path / "b"):
        _ = 1 // 0
    assert (tmp_path / "b").read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [tmp_path / "b"]


def test_another_file_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("hello")
    assert not is_backup(tmp_path / "b")
    with pytest.raises(BackupDamaged, match="does not begin as one"):
        BackupReader(tmp_path / "b")
    with pytest.raises(BackupDamaged, match="No such file"):
        BackupReader(tmp_path / "c")
