"""Histories on disk: what is written is read, and what is damaged or foreign is one clear line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.properties.histories import changed

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast, Reply
from braidcast.core.message import message
from braidcast.history.columns import Row
from braidcast.history.event import Event, History, Resumed
from braidcast.history.manifest import HistoryError, Manifest
from braidcast.history.schema import SCHEMA
from braidcast.history.store import HistoryWriter, read_history, read_manifest, read_table, seal, write_history

MANIFEST = Manifest(
    "whitebox", ((0, 1, 2), (3,)), "run-7", seed=7, options={"retry_ticks": 5}, quiescent=True, crashed=(2,)
)
M = Multicast(MessageId(100, 1, 2), (0, 1), b"payload", 1, 10, 3)


@message
class AcceptAck:
    id: MessageId
    group: int
    vector: tuple[int, ...]


def a_history(events: int = 5) -> History:
    some: list[tuple[str, int, int, int | None, Any, str | None]] = [
        ("start", 0, 0, None, None, None),
        ("multicast", 100, 0, None, M, None),
        ("send", 0, 0, 3, AcceptAck(M.id, 0, (65536, 3)), None),
        ("deliver", 0, 0, None, Delivered(M, 2048, (1,)), "leader"),
        ("restart", 0, 1, None, Resumed(2048), None),
        ("reply", 100, 0, 0, Reply(M.id, 1, 2048), None),
    ]
    made = [
        Event(time, time + 3, node, incarnation, event, peer, what, role)
        for time in range(events)
        for event, node, incarnation, peer, what, role in [some[time % len(some)]]
    ]
    return History(MANIFEST, made)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(a_history(6), tmp_path / "run")
    return tmp_path / "run"


def test_a_history_comes_back_with_rows_for_messages(folder: Path) -> None:
    found = read_history(folder)
    assert found.manifest == MANIFEST == read_manifest(folder)
    assert [changed(e, what=None) for e in found.events] == [changed(e, what=None) for e in a_history(6).events]
    start, multicast, send, delivery, restart, reply = [e.what for e in found.events]
    assert start is None
    digest = crc32(M.payload)
    assert multicast == Row("multicast", M.id, M.dest, batch_first=10, batch_count=3, payload_digest=digest)
    assert send == Row("accept_ack", M.id, group=0, vector=(65536, 3))
    assert delivery == Row(
        "delivered", M.id, M.dest, batch_first=10, batch_count=3, gts=2048, repeated=(1,), payload_digest=digest
    )
    assert isinstance(delivery.id, MessageId)
    assert restart == Row("resumed", gts=2048)
    assert reply == Row("reply", M.id, group=1, gts=2048)


def test_a_history_that_was_written_before_there_were_digests_can_be_read(folder: Path) -> None:
    rewrite(folder, lambda table: table.drop_columns(["payload_digest"]))
    multicast = read_history(folder).events[1].what
    assert (multicast.id, multicast.payload_digest) == (M.id, None)
    assert read_table(folder).schema.equals(SCHEMA)


def test_a_history_that_was_read_can_be_written_again(folder: Path, tmp_path: Path) -> None:
    found = read_history(folder)
    write_history(found, tmp_path / "again")
    assert read_history(tmp_path / "again").events == found.events


def test_seqno_counts_within_the_incarnation_of_a_node_and_group_is_that_of_the_node(folder: Path) -> None:
    table = read_table(folder).to_pydict()
    assert table["node"] == [0, 100, 0, 0, 0, 100]
    assert table["incarnation"] == [0, 0, 0, 0, 1, 0]
    assert table["seqno"] == [0, 0, 1, 2, 0, 1]
    assert table["group"] == [0, None, 0, 0, 0, None]
    assert table["about_group"] == [None, None, 0, None, None, 1]


def test_a_long_run_goes_to_several_files_of_bounded_row_groups(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, MANIFEST, rows_per_group=10, rows_per_file=30) as writer:
        writer.extend(a_history(75).events)
    files = sorted(path.name for path in (tmp_path / "events").iterdir())
    assert files == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert pq.read_metadata(tmp_path / "events" / files[0]).num_row_groups == 3
    assert [e.t_mono for e in read_history(tmp_path).events] == list(range(75))


def test_writers_may_share_a_directory_and_their_events_are_merged_by_time(tmp_path: Path) -> None:
    events = a_history(20).events
    first = HistoryWriter(tmp_path, MANIFEST, stem="node-1", seals=False)
    second = HistoryWriter(tmp_path, MANIFEST, stem="node-2", seals=False)
    for event in events:
        (first if event.t_mono % 3 else second).append(event)
    first.roll()
    second.roll()
    seal(tmp_path, MANIFEST)
    assert [e.t_mono for e in read_history(tmp_path).events] == list(range(20))


def test_the_manifest_may_learn_at_the_end_how_the_run_ended(tmp_path: Path) -> None:
    ended = Manifest("whitebox", ((0,),), "run-7", quiescent=True)
    with HistoryWriter(tmp_path, Manifest("whitebox", ((0,),), "run-7")) as writer:
        writer.extend(a_history().events)
        writer.seal(ended)
    assert read_manifest(tmp_path) == ended


def test_a_writer_that_dies_leaves_no_history_and_what_was_rolled_can_be_sealed(tmp_path: Path) -> None:
    def die_writing() -> None:
        with HistoryWriter(tmp_path, MANIFEST, rows_per_group=2) as writer:
            writer.extend(a_history(6).events)
            writer.roll()
            writer.extend(a_history(5).events)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        die_writing()
    assert [path.name for path in (tmp_path / "events").iterdir()] == ["part-00000.parquet"]
    with pytest.raises(HistoryError, match="no manifest"):
        read_history(tmp_path)
    seal(tmp_path, MANIFEST)
    assert len(read_history(tmp_path).events) == 6


def test_a_file_in_progress_is_not_seen(folder: Path) -> None:
    (folder / "events" / ".part-00001.parquet.tmp").write_bytes(b"half of it")
    assert len(read_history(folder).events) == 6


def test_an_existing_history_is_not_overwritten_unless_asked(folder: Path) -> None:
    with pytest.raises(HistoryError, match="already holds a history: choose another directory"):
        write_history(a_history(3), folder)
    assert len(read_history(folder).events) == 6
    write_history(a_history(3), folder, overwrite=True)
    assert len(read_history(folder).events) == 3


def test_a_history_without_events_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="has no events"):
        write_history(History(MANIFEST, []), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_number_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    huge = changed(a_history(1).events[0], what=Reply(M.id, 0, 1 << 64))
    with pytest.raises(HistoryError, match="'run-7' does not fit the schema"):
        write_history(History(MANIFEST, [huge]), tmp_path)


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(HistoryError, match="a file is in the way"):
        write_history(a_history(), tmp_path / "run")


def part(folder: Path) -> Path:
    return folder / "events" / "part-00000.parquet"


def edit_manifest(folder: Path, **values: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def rewrite(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(part(folder), partitioning=None)), part(folder))


def truncate(folder: Path) -> None:
    part(folder).write_bytes(part(folder).read_bytes()[:-20])


def flip_bytes(folder: Path) -> None:
    data = bytearray(part(folder).read_bytes())
    for place in range(40, 400):
        data[place] ^= 255
    part(folder).write_bytes(bytes(data))


def one_row_short(folder: Path) -> None:
    rewrite(folder, lambda table: table.slice(1))


def as_int32(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("gts")
    return table.set_column(place, "gts", table.column("gts").cast(pa.int32()))


def of_another_run(table: pa.Table) -> pa.Table:
    names = pa.array(["run-8"] * table.num_rows)
    return table.set_column(0, SCHEMA.field("run"), names)


def with_holes(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("node")
    holes = pa.array([None] * table.num_rows, pa.int64())
    return table.set_column(place, pa.field("node", pa.int64()), holes)


def emptied(columns: str, row: int) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        for name in columns.split():
            place = table.schema.get_field_index(name)
            values = table.column(name).to_pylist()
            values[row] = None
            table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
        return table

    return change


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "has no manifest.json"),
    "manifest is no JSON": (lambda f: (f / "manifest.json").write_text("{oops"), "is not JSON"),
    "manifest is no text": (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe"), "cannot be read"),
    "manifest is a list": (lambda f: (f / "manifest.json").write_text("[]"), "holds a JSON list"),
    "manifest of something else": (lambda f: (f / "manifest.json").write_text("{}"), "no usable schema_version"),
    "newer version": (lambda f: edit_manifest(f, schema_version=2), "version 2.*upgrade braidcast"),
    "no topology": (lambda f: edit_manifest(f, topology=None), "'topology' must be list"),
    "impossible topology": (lambda f: edit_manifest(f, topology=[[0], [0]]), "groups must be disjoint"),
    "no files listed": (lambda f: edit_manifest(f, files=7), "does not list its event files"),
    "empty list of files": (lambda f: edit_manifest(f, files={}), "holds no events"),
    "file elsewhere": (lambda f: edit_manifest(f, files={"../x.parquet": 1}), "outside events"),
    "missing file": (lambda f: part(f).unlink(), "is missing, but the manifest lists it"),
    "extra file": (
        lambda f: (f / "events" / "part-00001.parquet").write_bytes(part(f).read_bytes()),
        "is not in the manifest",
    ),
    "truncated": (truncate, "is damaged"),
    "corrupt": (flip_bytes, "is damaged"),
    "emptied": (lambda f: part(f).write_bytes(b""), "is damaged"),
    "rows lost": (one_row_short, "has 5 events, but the manifest says 6"),
    "column missing": (lambda f: rewrite(f, lambda t: t.drop_columns(["gts"])), "no column gts"),
    "foreign column": (
        lambda f: rewrite(f, lambda t: t.append_column("price", pa.array([1] * 6))),
        "unknown columns price",
    ),
    "narrow type": (lambda f: rewrite(f, as_int32), "column gts is int32, it must be int64"),
    "other order": (lambda f: rewrite(f, lambda t: t.select(t.column_names[::-1])), "in another order"),
    "foreign file": (
        lambda f: rewrite(f, lambda t: t.replace_schema_metadata({})),
        "schema version none",
    ),
    "another run": (lambda f: rewrite(f, of_another_run), "of run 'run-8'"),
    "no promises": (lambda f: edit_manifest(f, promises=None), "'promises' must be list"),
    "an event without a kind": (lambda f: rewrite(f, emptied("kind", 2)), "a send event of node 0 has no kind"),
    "half a message id": (lambda f: rewrite(f, emptied("client", 2)), "a message id has holes"),
    "a multicast without an id": (
        lambda f: rewrite(f, emptied("client session seq", 1)), "a multicast event of node 100 has no message id",
    ),
    "a delivery without an id": (
        lambda f: rewrite(f, emptied("client session seq", 3)), "a deliver event of node 0 has no message id",
    ),
    "a reply without an id": (
        lambda f: rewrite(f, emptied("client session seq", 5)), "a reply event of node 100 has no message id",
    ),
    "effects lost up to nowhere": (lambda f: rewrite(f, emptied("gts", 4)), "a restart event of node 0 has no gts"),
    "holes": (lambda f: rewrite(f, with_holes), "column node has holes"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_or_foreign_history_is_one_clear_line(folder: Path, name: str) -> None:
    damage, expected = DAMAGE[name]
    damage(folder)
    with pytest.raises(HistoryError, match=expected) as caught:
        read_history(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_a_directory_that_does_not_exist_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="is not a directory: give the directory of a recorded run"):
        read_history(tmp_path / "nowhere")
