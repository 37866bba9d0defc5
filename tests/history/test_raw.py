"""Raw events of a cluster, and the history that they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast
from braidcast.history.event import DELIVER, MULTICAST, START, Event
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
    assert not (tmp_path / RAW).exists()


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
    assert seal_raw(tmp_path, lambda _: {Leading}, overwrite=True) == 1


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
