"""The journal: numbers without a gap, readers of memory and disk alike, crashes and full disks at any moment."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.journals import (
    BYTES_MAX,
    delivery,
    disk_calls,
    fill,
    full_disk,
    gts_of,
    numbers,
    reopened,
)  # fmt: skip

from braidcast.cluster import journal as journal_module
from braidcast.cluster.journal import Compacted, Journal
from braidcast.cluster.journal_segments import JournalError, Segment
from braidcast.cluster.lacking import FILES

SEGMENT_BYTES = 1 << 16


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.journal"))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "g0", BYTES_MAX)


@pytest.fixture
def no_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the last entry is read from disk."""
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 1)


# -- deliveries and readers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_disk", [True, False])
def test_entries_are_numbered_from_one_and_a_reader_names_the_timestamp_it_has(tmp_path: Path, on_disk: bool) -> None:
    journal = Journal(tmp_path if on_disk else None, BYTES_MAX)
    fill(journal, 1, 20)
    assert numbers(journal) == list(range(1, 21))
    assert numbers(journal, gts_of(13)) == list(range(14, 21))
    assert numbers(journal, gts_of(13) + 1) == list(range(14, 21))
    assert journal.read(gts_of(20), 5) == []
    assert journal.read(gts_of(99), 5) == []


def test_what_is_delivered_again_after_a_restart_is_taken_once(journal: Journal) -> None:
    fill(journal, 1, 10)
    again = reopened(journal)
    assert again.mark == gts_of(10)
    assert [again.append(delivery(index)) for index in (8, 9, 10, 11)] == [False, False, False, True]
    again.write()
    assert numbers(reopened(again)) == list(range(1, 12))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 90_000)),
        st.tuples(st.just("write"), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 40)),
        st.tuples(st.just("snapshot"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, tail_bytes=st.sampled_from([1, 50_000, 1 << 22]))
def test_readers_find_the_same_in_memory_on_disk_and_after_a_snapshot(
    steps: list[tuple[str, int]], tail_bytes: int
) -> None:
    """Against a list of which nothing is thrown away: the limit is beyond what the steps write."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_module, "TAIL_BYTES", tail_bytes)
        journal = Journal(Path(folder, "0"), 8 * SEGMENT_BYTES)
        journal.bytes_max = 1 << 30
        expected = 0
        for number, (step, value) in enumerate(steps, 1):
            if step == "append":
                expected += 1
                assert journal.append(delivery(expected, value))
            elif step == "write":
                journal.write()
            elif step == "reopen":
                journal.write()
                journal = reopened(journal)
                journal.bytes_max = 1 << 30
            elif step == "snapshot":
                journal.write()
                state, gts = journal.state(1 << 30), journal.last_gts
                journal.close()
                journal = Journal(Path(folder, str(number)), 8 * SEGMENT_BYTES)
                journal.bytes_max = 1 << 30
                journal.restore(gts, state)
            journal.write()  # a turn of the node ends so; what is not written is in memory
            after = min(value, expected) if step == "read" else 0
            assert numbers(journal, gts_of(after)) == list(range(after + 1, expected + 1))
            assert journal.next == expected + 1
        journal.close()


def test_oldest_goes_when_the_journal_is_too_large_and_who_asks_is_told(journal: Journal) -> None:
    fill(journal, 1, 40, size=60_000)
    assert journal.oldest > 1
    assert sum(path.stat().st_size for path in segments(journal.folder or Path())) <= BYTES_MAX + 2 * 120_000
    assert numbers(journal, journal.after) == list(range(journal.oldest, 41))
    with pytest.raises(Compacted, match=f"the oldest is {journal.oldest}"):
        journal.read(gts_of(journal.oldest - 2), 1)
    again = reopened(journal)
    assert (again.oldest, again.next) == (journal.oldest, 41)
    assert numbers(again, again.after) == list(range(again.oldest, 41))


def test_journal_in_memory_has_the_same_limit() -> None:
    journal = Journal(None, 10_000)
    fill(journal, 1, 40, size=1_000)
    assert 25 < journal.oldest <= 35
    with pytest.raises(Compacted):
        journal.read(0, 1)
    assert numbers(journal, journal.after) == list(range(journal.oldest, 41))


def test_mark_is_what_a_sync_was_told_of(journal: Journal) -> None:
    fill(journal, 1, 3)
    begun = journal.begin_sync()
    assert begun is not None
    os.close(begun[0])
    assert begun[1] == gts_of(3)
    assert journal.mark == 0, "only who syncs knows when it is durable"
    assert journal.begin_sync() is None, "nothing new"
    fill(journal, 4, 4)
    begun = journal.begin_sync()
    assert begun is not None
    os.close(begun[0])
    assert begun[1] == gts_of(4)


# -- damage ----------------------------------------------------------------------------------------------------------


def test_torn_end_is_cut_off_wherever_it_is(journal: Journal) -> None:
    fill(journal, 1, 4)
    journal.close()
    assert journal.folder is not None
    path = segments(journal.folder)[0]
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        torn = Journal(journal.folder, BYTES_MAX)
        left = torn.next - 1
        assert numbers(torn) == list(range(1, left + 1))
        assert torn.mark == gts_of(left) if left else torn.mark == 0
        assert path.stat().st_size == length, "whoever only looks changes nothing"
        fill(torn, left + 1, 6)
        assert numbers(reopened(torn)) == list(range(1, 7))


def test_damage_of_an_earlier_file_is_an_error_that_names_the_place(journal: Journal) -> None:
    fill(journal, 1, 5, size=40_000)
    journal.close()
    assert journal.folder is not None
    first = segments(journal.folder)[0]
    data = bytearray(first.read_bytes())
    data[len(data) // 2 + 100] ^= 1
    first.write_bytes(data)
    with pytest.raises(JournalError, match=r"00\.journal is damaged at byte \d+: .*rejoin"):
        Journal(journal.folder, BYTES_MAX)


@pytest.mark.parametrize("where", [0, 4, 30])
def test_flipped_byte_before_a_good_frame_of_the_last_file_is_damage_and_nothing_is_touched(
    journal: Journal, where: int
) -> None:
    """In the length, the checksum and the entries."""
    fill(journal, 1, 9, size=1000)
    assert journal.folder is not None
    path = journal.segments[-1].path
    journal.close()
    data = bytearray(path.read_bytes())
    begin = len(data) // 9 * 4
    data[begin + where] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(JournalError, match=rf"00\.journal is damaged at byte {begin}: .* --rejoin"):
            Journal(journal.folder, BYTES_MAX)
        assert path.read_bytes() == data


@pytest.mark.parametrize("lost", [range(512, 1024), range(1024, 2560), range(512)])
def test_sectors_that_were_not_written_before_others_are_a_torn_end(journal: Journal, lost: range) -> None:
    """A power cut before the sync that several frames waited for."""
    fill(journal, 1, 9, size=1000)
    assert journal.folder is not None
    path = journal.segments[-1].path
    journal.close()
    data = bytearray(path.read_bytes())
    data[lost.start : lost.stop] = bytes(len(lost))
    path.write_bytes(data)
    torn = Journal(journal.folder, BYTES_MAX)
    left = torn.next - 1
    assert left < 9
    assert f"{path}" in torn.torn
    fill(torn, left + 1, 12)
    assert numbers(reopened(torn)) == list(range(1, 13))


def test_flipped_byte_in_the_last_frame_is_left_as_it_is_until_something_is_written(journal: Journal) -> None:
    fill(journal, 1, 3, size=1000)
    assert journal.folder is not None
    path = journal.segments[-1].path
    journal.close()
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    torn = Journal(journal.folder, BYTES_MAX)
    assert numbers(torn) == [1, 2]
    torn.write()
    torn.close()
    assert path.read_bytes() == data
    assert "byte" in torn.torn
    fill(torn := Journal(journal.folder, BYTES_MAX), 3, 4)
    assert torn.torn == ""
    assert numbers(reopened(torn)) == [1, 2, 3, 4]


def test_missing_file_and_foreign_file_are_errors(journal: Journal) -> None:
    fill(journal, 1, 9, size=40_000)
    journal.close()
    assert journal.folder is not None
    segments(journal.folder)[1].unlink()
    with pytest.raises(JournalError, match=r"a file is gone; bring it back, or move .* --rejoin"):
        Journal(journal.folder, BYTES_MAX)
    (journal.folder / "notes.journal").touch()
    with pytest.raises(JournalError, match="move it elsewhere"):
        Journal(journal.folder, BYTES_MAX)


@pytest.mark.usefixtures("no_tail")
def test_damage_met_by_a_reader_is_an_error_and_never_a_gap(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    fill(journal, 1, 5, size=40_000)
    assert journal.folder is not None
    first = segments(journal.folder)[0]
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    for _ in range(2):
        with pytest.raises(JournalError, match="damaged"):
            numbers(journal)
    assert [record.getMessage() for record in caplog.records] == [journal.damage], "said once, and kept for `status`"
    assert "damaged at byte" in journal.damage
    assert numbers(journal, gts_of(2)) == [3, 4, 5]
    journal.close()


# -- a full disk -----------------------------------------------------------------------------------------------------


def test_full_disk_loses_nothing_and_what_waits_can_be_read(
    journal: Journal, no_tail: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(journal, 1, 3)
    with full_disk(monkeypatch):
        fill(journal, 4, 9)
        assert journal.lack
        assert journal.unwritten
        assert numbers(journal) == list(range(1, 10))
    journal.write()
    assert not journal.lack
    fill(journal, 10, 12)
    assert numbers(journal) == list(range(1, 13))
    assert numbers(reopened(journal)) == list(range(1, 13))


def test_disk_that_is_full_when_a_new_file_is_needed_loses_nothing(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(journal, 1, 2, size=40_000)
    assert journal.segments[-1].size >= SEGMENT_BYTES, "the next entry begins a file"
    with full_disk(monkeypatch):
        fill(journal, 3, 4)
        assert journal.lack
        assert journal.begin_sync() is not None
    fill(journal, 5, 6)
    assert not journal.lack
    assert numbers(reopened(journal)) == list(range(1, 7))


def test_disk_that_fails_is_an_error(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(journal, 1, 1)

    def fail(_: int, name: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with disk_calls(monkeypatch, fail), pytest.raises(OSError, match=os.strerror(errno.EIO)):
        fill(journal, 2, 2)
    journal.close()


# -- snapshots -------------------------------------------------------------------------------------------------------


def ahead(folder: Path, first: int, last: int, size: int) -> tuple[int, bytes]:
    """The state of a journal that is ahead, and no longer has what is oldest."""
    journal = Journal(None, BYTES_MAX)
    journal.next = first
    journal.oldest, journal.after, journal.tail_after = first, gts_of(first - 1), gts_of(first - 1)
    fill(journal, first, last, size)
    return journal.last_gts, journal.state(BYTES_MAX)


def behind(folder: Path) -> Journal:
    """A journal of three files, the last of them half full."""
    journal = Journal(folder, BYTES_MAX)
    fill(journal, 1, 5, size=40_000)
    assert len(segments(folder)) == 3
    return journal


def test_restored_journal_goes_on_where_the_other_was(tmp_path: Path) -> None:
    journal = behind(tmp_path)
    gts, state = ahead(tmp_path, 30, 34, 40_000)
    journal.restore(gts, state)
    assert journal.last_gts == gts
    fill(journal, 35, 36)
    for each in (journal, reopened(journal)):
        assert numbers(each, each.after) == list(range(30, 37))
        assert each.oldest == 30
        with pytest.raises(Compacted):
            each.read(gts_of(5), 1)


def test_state_holds_the_newest_entries_that_fit_into_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "full", BYTES_MAX)
    fill(journal, 1, 10, size=40_000)
    for bytes_max in (1, 100_000, 250_000):
        other = Journal(tmp_path / f"{bytes_max}", BYTES_MAX)
        other.restore(journal.last_gts, journal.state(bytes_max))
        kept = numbers(other, other.after)
        assert kept == list(range(kept[0], 11))
        assert (len(kept) - 2) * 40_000 <= bytes_max, "or what lies between two places that can be looked up"
        other.close()
    journal.close()


def test_snapshot_of_nothing_that_is_kept_still_tells_the_next_number(tmp_path: Path) -> None:
    journal = Journal(tmp_path, BYTES_MAX)
    state = Journal(None, BYTES_MAX)
    state.next, state.last_gts, state.after = 8, gts_of(7), gts_of(7)
    journal.restore(gts_of(7), state.state(BYTES_MAX))
    again = reopened(journal)
    assert (again.next, again.last_gts, again.mark) == (8, gts_of(7), gts_of(7))
    fill(again, 8, 9)
    assert numbers(again, gts_of(7)) == [8, 9]
    again.close()


def test_unreadable_snapshot_changes_nothing(journal: Journal) -> None:
    fill(journal, 1, 3)
    with pytest.raises(JournalError, match="a snapshot that cannot be read"):
        journal.restore(gts_of(9), b"\xc1")
    assert numbers(reopened(journal)) == [1, 2, 3]


def test_crash_at_any_moment_of_a_restore_leaves_a_journal_that_the_process_brings_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it the process hands over the snapshot again if the journal is below it, so that must be a journal."""
    folder = tmp_path / "g0"
    journal = behind(folder)
    gts, state = ahead(tmp_path, 4, 9, 40_000)
    copies: list[Path] = []

    def copy(number: int, name: str) -> None:
        copies.append(tmp_path / f"{number:03}-{name}")
        shutil.copytree(folder, copies[-1])

    with disk_calls(monkeypatch, copy):
        journal.restore(gts, state)
        fill(journal, 10, 10)
    journal.close()
    assert len(copies) > 20
    for path in copies:
        left = Journal(path, BYTES_MAX)
        kept = numbers(left, left.after)
        assert kept == list(range(left.oldest, left.next))
        assert left.last_gts in (0, left.after, *(gts_of(index) for index in kept))
        if left.mark < gts:
            left.restore(gts, state)
        fill(left, left.next, 12)
        assert numbers(reopened(left), gts_of(3)) == list(range(4, 13)), path.name
        left.close()


def test_old_files_go_and_new_ones_come_one_after_the_other_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a sync between them a power cut could leave any of them: a gap, and a node that does not start."""
    journal = behind(tmp_path)
    gts, state = ahead(tmp_path, 4, 9, 40_000)
    done: list[str] = []
    with disk_calls(monkeypatch, lambda _, name: done.append(name)):
        journal.restore(gts, state)
    journal.close()
    swap = done[done.index("unlink") :]
    assert swap == ["unlink", "fsync"] * 3 + ["replace", "fsync"] * 3
    assert done[: done.index("unlink")].count("fdatasync") == 3


def test_file_that_cannot_be_opened_at_any_moment_is_opened_later_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of deliveries that begin files and take the place of old ones: whoever reads meanwhile is none the wiser."""
    real, moment, failed = os.open, 0, True
    while failed:
        failed, count = False, 0
        journal = Journal(tmp_path / f"{moment}", BYTES_MAX)

        def lacking(*arguments: Any, last: int = moment, **more: Any) -> int:
            nonlocal failed, count
            count += 1
            if count == last + 1:
                failed = True
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(*arguments, **more)

        with monkeypatch.context() as patched:
            patched.setattr(os, "open", lacking)
            for index in range(1, 25):
                before = failed
                fill(journal, index, index, 40_000)
                assert (journal.lack == FILES) == (failed and not before), "once, and it says so"
                assert numbers(journal, journal.after) == list(range(journal.oldest, index + 1))
        assert numbers(reopened(journal), journal.after)[-1] == 24
        shutil.rmtree(tmp_path / f"{moment}")
        moment += 1
    assert moment > 10


def test_state_without_a_file_to_open_is_what_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 100_000)
    journal = Journal(tmp_path / "one", BYTES_MAX)
    fill(journal, 1, 10, size=40_000)

    def lacking(*_: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "entries_above", lacking)
        state = journal.state(BYTES_MAX)
    other = Journal(tmp_path / "other", BYTES_MAX)
    other.restore(journal.last_gts, state)
    assert numbers(other, other.after) == [9, 10]


def test_disk_full_at_any_moment_of_a_restore_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gts, state = ahead(tmp_path, 4, 9, 40_000)
    moment, failed = 0, True
    while failed:
        failed = False
        journal = behind(tmp_path / f"{moment}")

        def fail(number: int, name: str, last: int = moment) -> None:
            nonlocal failed
            if number == last:
                failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with disk_calls(monkeypatch, fail):
            journal.restore(gts, state)
        assert bool(journal.lack) == failed
        assert journal.begin_sync() is None or not failed, "nothing new is durable"
        assert numbers(journal, gts_of(3)) == list(range(4, 10)), "what waits can be read"
        fill(journal, 10, 11)
        assert not journal.lack
        assert numbers(journal, gts_of(3)) == list(range(4, 12))
        assert numbers(reopened(journal), gts_of(3)) == list(range(4, 12))
        shutil.rmtree(tmp_path / f"{moment}")
        moment += 1
    assert moment > 20
