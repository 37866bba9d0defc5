"""What nodes record is a history that the properties accept, with either detail; and it is written before it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.inprocess import Line, config_in, message, nodes_of, run
from tests.properties.histories import changed

from braidcast.cli.registry import protocol_named
from braidcast.core.client import Reply
from braidcast.history.event import DELIVER, MULTICAST, PERSIST, RECEIVE, RECOVERED, RESTART, SEND, START, History
from braidcast.history.raw import RAW, event_kinds, seal_raw
from braidcast.history.store import read_history
from braidcast.properties.check import check, judge_history

ALWAYS = {START, RESTART, MULTICAST, DELIVER}
EVERYTHING = {SEND, RECEIVE, PERSIST}
OF_DISKS = ("persist_precedes_send", "persist_precedes_delivery", "durable_is_recovered")


def two_lives(tmp_path: Path, detail: str) -> History:
    """What nodes of two groups record that are stopped and started again, with messages before and after."""

    async def work() -> None:
        config = config_in(tmp_path, groups=2, cluster={"history": "history", "history_detail": detail})
        async with nodes_of(config) as nodes:
            for life in range(2):
                leader = await nodes.led(0)
                line = await Line.to(nodes, nodes.node_of(leader).name)
                numbers = range(10 * life + 1, 10 * life + 11)
                line.submit((leader.pid,), *[message(number, dest=((0,), (0, 1))[number % 2]) for number in numbers])
                await nodes.delivered_everywhere(0, 10 * life + 10)
                line.end()
                await nodes.stop()
                if not life:
                    await nodes.start()

    run(work())
    seal_raw(tmp_path / "history", lambda name: event_kinds(protocol_named(name)))
    return read_history(tmp_path / "history")


@pytest.mark.parametrize("detail", ["order", "everything"])
def test_history_of_two_groups_with_a_restart_is_sound(tmp_path: Path, detail: str) -> None:
    history = two_lives(tmp_path, detail)
    assert len(list((tmp_path / "history" / RAW).glob("*.events"))) == 6, "a file for each life of each node"
    kinds = {event.event for event in history.events}
    assert kinds >= ALWAYS
    assert (kinds & EVERYTHING == EVERYTHING) == (detail == "everything")
    judgement = judge_history(history)
    assert judgement.violations == []
    assert (set(judgement.judged) >= set(OF_DISKS)) == (detail == "everything")


def test_history_of_nodes_that_died_before_they_recorded_a_commit_rests_on_what_their_disks_held(
    tmp_path: Path,
) -> None:
    history = two_lives(tmp_path, "everything")
    killed = [event for event in history.events if event.incarnation or event.event not in (PERSIST, SEND, DELIVER)]
    assert [event.what.kind for event in killed if event.event == RECOVERED] == ["checkpoint"] * 6
    # What they had committed before they died is acknowledged and delivered again in their next life.
    again = [event for event in history.events if not event.incarnation and event.event in (SEND, DELIVER)]
    again = [event for event in again if event.what.kind in ("accept_ack", "delivered")]
    late = History(history.manifest, [*killed, *again])
    assert check(late, OF_DISKS) == []
    untold = [changed(event, what=replace(event.what, ids=None, gts=0)) if event.event == RECOVERED else event
              for event in late.events]  # fmt: skip
    found = check(History(history.manifest, untold), OF_DISKS)
    assert {violation.property for violation in found} == {"persist_precedes_send", "persist_precedes_delivery"}


def test_delivery_is_recorded_before_anybody_hears_of_it(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_in(tmp_path, replicas=1, cluster={"history": "history"})
        async with nodes_of(config) as nodes:
            recorder, line = nodes["n1"].recorder, await Line.to(nodes, "n1")
            assert recorder is not None
            line.submit((0,), message(1))
            await line.hears(Reply)
            assert recorder.writer.events == []
            (path,) = (tmp_path / "history" / RAW).glob("*.events")
            assert path.stat().st_size == recorder.writer.size
            line.end()

    run(work())
