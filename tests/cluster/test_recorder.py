"""What nodes record is a history that the properties accept, with either detail; and it is written before it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.inprocess import Line, config_in, message, nodes_of, run

from braidcast.cli.registry import protocol_named
from braidcast.core.client import Reply
from braidcast.history.event import DELIVER, MULTICAST, PERSIST, RECEIVE, RESTART, SEND, START
from braidcast.history.raw import RAW, event_kinds, seal_raw
from braidcast.history.store import read_history
from braidcast.properties.check import check

ALWAYS = {START, RESTART, MULTICAST, DELIVER}
EVERYTHING = {SEND, RECEIVE, PERSIST}


@pytest.mark.parametrize("detail", ["order", "everything"])
def test_history_of_two_groups_with_a_restart_is_sound(tmp_path: Path, detail: str) -> None:
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
    assert len(list((tmp_path / "history" / RAW).glob("*.events"))) == 6, "a file for each life of each node"
    seal_raw(tmp_path / "history", lambda name: event_kinds(protocol_named(name)))
    history = read_history(tmp_path / "history")
    kinds = {event.event for event in history.events}
    assert kinds >= ALWAYS
    assert (kinds & EVERYTHING == EVERYTHING) == (detail == "everything")
    assert check(history) == []


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
