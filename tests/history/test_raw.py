"""Raw events of a cluster, and the history that they become."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast
from braidcast.history.event import DELIVER, MULTICAST, RESTART, START, Event
from braidcast.history.manifest import HistoryError, Manifest
from braidcast.history.raw import RAW, RawWriter, seal_raw, with_end
from braidcast.history.store import read_history, read_manifest

MANIFEST = Manifest(protocol="skeen", topology=((0,), (1,)), run="shop-1", driver="cluster")
M = Multicast(MessageId(1 << 62, 1, 1), (0, 1), b"x")


def no_kinds(protocol: str) -> set[type]:
    assert protocol == "skeen"
    return set()


def written(directory: Path, name: str, *events: Event) -> Path:
    writer = RawWriter(directory, name, MANIFEST)
    for event in events:
        writer.append(event)
        writer.write()
    writer.close()
    return directory / RAW / f"{name}.events"


def two_nodes(directory: Path) -> tuple[Path, Path]:
    return (
        written(
            directory, "n1-000001", Event(10, 110, 0, 0, START, None, None),
            Event(20, 120, M.id.client, 0, MULTICAST, None, M), Event(40, 140, 0, 0, DELIVER, None, Delivered(M, 1024)),
        ),
        written(
            directory, "n2-000001", Event(15, 115, 1, 0, START, None, None),
            Event(30, 130, 1, 0, DELIVER, None, Delivered(M, 1024), "leader"),
        ),
    )  # fmt: skip


def test_events_of_all_nodes_become_one_history_in_the_order_of_their_time(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    assert seal_raw(tmp_path, no_kinds, lambda m: with_end(m, quiescent=True)) == 5
    history = read_history(tmp_path)
    assert [(event.t_mono, event.node, event.event) for event in history.events] == [
        (10, 0, START), (15, 1, START), (20, M.id.client, MULTICAST), (30, 1, DELIVER), (40, 0, DELIVER),
    ]  # fmt: skip
    assert history.manifest.quiescent
    assert len(list((tmp_path / RAW).glob("*.events"))) == 2


def test_file_that_ends_anywhere_gives_the_writes_before(tmp_path: Path) -> None:
    """A node that is killed loses at most the write that it was in the middle of."""
    path, _ = two_nodes(tmp_path / "whole")
    data = path.read_bytes()
    counts = set()
    for end in range(len(data)):
        directory = tmp_path / str(end)
        first, _ = two_nodes(directory)
        first.write_bytes(data[:end])
        counts.add(seal_raw(directory, no_kinds) - 2)
    assert counts == {0, 1, 2}


def test_events_of_an_unknown_kind_are_an_error(tmp_path: Path) -> None:
    from braidcast.protocols.whitebox.messages import Leading

    written(tmp_path, "n1-000001", Event(10, 110, 0, 0, "leading", None, Leading(0, 1)))
    with pytest.raises(HistoryError, match="cannot be read"):
        seal_raw(tmp_path, no_kinds)
    assert (tmp_path / RAW).is_dir()
    assert seal_raw(tmp_path, lambda _: {Leading}) == 1


def test_directory_without_raw_events_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no raw events"):
        seal_raw(tmp_path, no_kinds)


def test_directory_that_cannot_hold_a_history_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot hold a history"):
        RawWriter(tmp_path / "file", "n1-000001", MANIFEST)


def test_manifest_is_that_of_the_cluster(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    seal_raw(tmp_path, no_kinds)
    assert read_manifest(tmp_path).driver == "cluster"


def order(directory: Path) -> list[tuple[int, int, int]]:
    return [(event.node, event.incarnation, event.t_mono) for event in read_history(directory).events]


def start(t_mono: int, t_wall: int, node: int, incarnation: int) -> Event:
    return Event(t_mono, t_wall, node, incarnation, START if not incarnation else RESTART, None, None)


def boot(path: Path, name: str) -> None:
    path.with_suffix(".clock").write_text(name)


def test_history_is_sealed_anew_with_what_came_later_and_nothing_is_taken_away(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    assert seal_raw(tmp_path, no_kinds) == 5
    written(tmp_path, "n1-000002", start(50, 150, 0, 1))
    assert [seal_raw(tmp_path, no_kinds) for _ in range(2)] == [6, 6]
    assert order(tmp_path)[-1] == (0, 1, 50)


def test_events_of_a_node_stand_in_the_order_of_its_incarnations_when_the_machine_was_started_anew(
    tmp_path: Path,
) -> None:
    """The clock of the second boot begins again; n2's machine was up all the time."""
    boot(written(tmp_path, "n1-000002", start(5, 2005, 0, 1), start(9, 2009, 0, 1)), "second boot")
    boot(written(tmp_path, "n1-000001", start(1000, 1000, 0, 0)), "first boot")
    boot(written(tmp_path, "n2-000001", start(70_500, 1500, 1, 0), start(71_007, 2007, 1, 0)), "elsewhere")
    seal_raw(tmp_path, no_kinds)
    assert order(tmp_path) == [(0, 0, 1000), (1, 0, 70_500), (0, 1, 5), (1, 0, 71_007), (0, 1, 9)]


def test_events_of_one_machine_stand_by_its_monotonic_clock_when_the_wall_clock_is_set_back(tmp_path: Path) -> None:
    boot(written(tmp_path, "n1-000001", start(10, 9010, 0, 0)), "boot")
    boot(written(tmp_path, "n2-000001", start(20, 20, 1, 0)), "boot")
    seal_raw(tmp_path, no_kinds)
    assert order(tmp_path) == [(0, 0, 10), (1, 0, 20)]


def test_sealing_that_fails_half_way_is_done_again(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    seal_raw(tmp_path, no_kinds)
    (tmp_path / RAW / "stray").mkdir()
    bad = written(tmp_path, "n3-000001", Event(1, 1, 1, 0, "leading", None, M))
    bad.write_bytes(bad.read_bytes()[:8] + b"\xc1" * 3)
    head = bad.read_bytes()[8:]
    bad.write_bytes(struct.pack("<II", len(head), zlib.crc32(head)) + head)
    with pytest.raises(HistoryError, match="cannot be read"):
        seal_raw(tmp_path, no_kinds)
    assert len(read_history(tmp_path).events) == 5
    bad.unlink()
    assert seal_raw(tmp_path, no_kinds) == 5


def test_history_of_another_run_is_not_replaced(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    seal_raw(tmp_path, no_kinds)
    head = tmp_path / RAW / "manifest.json"
    head.write_text(head.read_text().replace("shop-1", "shop-2"))
    with pytest.raises(HistoryError, match=r"another run \(shop-1\)"):
        seal_raw(tmp_path, no_kinds)
    assert len(read_history(tmp_path).events) == 5
