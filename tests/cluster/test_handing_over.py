"""A node lets others lead before it stops, and nothing that was sent meanwhile is lost or waits for a time-out."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.cluster.inprocess import Line, Nodes, config_in, message, nodes_of, run, until

from braidcast.cluster import handing_over
from braidcast.cluster.handing_over import hand_over, leads, let_lead
from braidcast.core.client import Reply

CALM: dict[str, str | int] = {"suspect_ticks": 600_000_000, "heartbeat_ticks": 100_000}
"""Whoever leads otherwise than by hand-over would have waited for ten minutes."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing_over, "HAND_OVER_S", 20)


def led_by(nodes: Nodes, name: str) -> list[str]:
    """The groups that a node leads."""
    node = nodes[name]
    return [node.config.group_name(r.group) for r in node.replicas.values() if leads(node, r)]


def test_three_nodes_are_restarted_one_after_the_other_and_no_group_waits_for_a_suspicion(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, groups=2, options=CALM)) as nodes:
            for number, name in enumerate(("n1", "n2", "n3"), start=1):
                others = [other for other in nodes.running if other != name]
                await hand_over(nodes[name])
                assert led_by(nodes, name) == []
                assert sorted(g for other in others for g in led_by(nodes, other)) == ["g0", "g1"]
                await nodes.stop(name)
                leaders = [await nodes.led(group) for group in (0, 1)]
                for leader, dest in zip(leaders, ((0,), (1,)), strict=True):
                    host = nodes.node_of(leader).name
                    line = await Line.to(nodes, host)
                    line.submit((leader.pid,), message(number * 10 + leader.group, dest=dest))
                    await line.hears(Reply)
                    line.end()
                await nodes.start(name)
                await nodes.connected()
                await until(lambda: not any(nodes.status(n)["unwell"] for n in nodes.running), "a leader to be heard")

    run(work())


def test_who_cannot_be_followed_stops_all_the_same_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=CALM), "n1", "n2") as nodes:
            await nodes.stop("n2")
            await until(lambda: not nodes["n1"].peers.all["n2"].connected, "n2 to be gone")
            with caplog.at_level(logging.WARNING):
                await asyncio.wait_for(hand_over(nodes["n1"]), 10)
            assert "nobody else leads group g0: it waits for an election" in caplog.messages

    run(work())


def test_a_group_of_one_and_a_protocol_without_leaders_do_not_keep_a_node_from_stopping(tmp_path: Path) -> None:
    async def work(protocol: str, folder: Path) -> None:
        config = config_in(folder, replicas=1, protocol=protocol)
        async with nodes_of(config) as nodes:
            await asyncio.wait_for(hand_over(nodes["n1"]), 10)
            assert (await let_lead(nodes["n1"], "g0", "n1")) == ""

    run(work("whitebox", tmp_path / "w"))
    run(work("skeen", tmp_path / "s"))


def test_it_gives_up_when_nobody_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handing_over, "HAND_OVER_S", 0.02)

    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=CALM)) as nodes:
            for name in ("n2", "n3"):
                nodes.disks[name].hold()  # who is asked promises nothing that is durable, and so says nothing
            with caplog.at_level(logging.WARNING):
                await hand_over(nodes["n1"])
            assert "nobody else leads group g0: it waits for an election" in caplog.messages
            why = await let_lead(nodes["n1"], "g0", "n2")
            assert why == "node n2 does not lead group g0 after 0.02 s: is it up, with a vote, and connected?"

    run(work())
