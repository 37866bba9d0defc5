"""The life of a message, read from disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.histories import correct_history, correct_run

from braidcast.core.client import MessageId
from braidcast.history.envelope import reader
from braidcast.history.event import Event
from braidcast.history.manifest import HistoryError
from braidcast.history.store import HistoryWriter, read_history, write_history
from braidcast.history.tracing import trace


def names(event: Event, id: MessageId) -> bool:
    what = event.what
    return what is not None and (what.id == id or id in (what.ids or ()) or id in (what.dropped or ()))


def test_everything_that_names_the_message_is_found_in_order_also_in_state_that_was_transferred(tmp_path: Path) -> None:
    run = correct_run(3)
    run.elect(next(g for g, members in enumerate(run.groups) if len(members) > 1))
    write_history(run.history(), tmp_path / "run")
    whole = read_history(tmp_path / "run")
    ids = {reader("multicast", "id")(e.what) for e in whole.events if e.event == "multicast"}
    for id in ids:
        manifest, steps = trace(tmp_path / "run", id)
        assert manifest == whole.manifest
        assert all(step.about for step in steps)
        assert [step.event for step in steps] == [event for event in whole.events if names(event, id)]
    assert any(event.what.ids for event in whole.events if event.what is not None), "no state was transferred"


def test_neighbours_are_of_the_same_node_and_marked(tmp_path: Path) -> None:
    write_history(correct_history(1), tmp_path / "run")
    whole = read_history(tmp_path / "run")
    id = next(e.what.id for e in whole.events if e.event == "multicast")
    _, alone = trace(tmp_path / "run", id)
    _, wider = trace(tmp_path / "run", id, around=1)
    assert [s for s in wider if s.about] == alone
    for step in wider:
        if not step.about:
            mine = [e for e in whole.events if e.node == step.event.node]
            place = next(n for n, e in enumerate(mine) if e is step.event or e == step.event)
            assert any(names(e, id) for e in mine[max(0, place - 1) : place + 2])
    assert len(wider) > len(alone)


def test_several_files_and_writers_make_one_life(tmp_path: Path) -> None:
    history = correct_history(2, faults=False)
    manifest = history.manifest
    for stem in ("a", "b"):
        with HistoryWriter(tmp_path, manifest, stem=stem, seals=False, rows_per_group=7, rows_per_file=20) as out:
            out.extend(event for event in history.events if (event.node in {0, 100}) == (stem == "a"))
    with HistoryWriter(tmp_path, history.manifest, stem="c") as out:
        out.append(Event(10**6, 0, 0, 9, "crash", None, None))
    id = next(e.what.id for e in history.events if e.event == "multicast")
    times = [step.event.t_mono for step in trace(tmp_path, id)[1]]
    assert times == sorted(times)
    assert len(times) == sum(names(event, id) for event in read_history(tmp_path).events)


def test_what_is_no_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"has no manifest\.json"):
        trace(tmp_path, MessageId(1, 1, 1))
