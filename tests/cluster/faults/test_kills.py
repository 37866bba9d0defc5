"""Nodes that die without a word, under load: groups of three on three nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cluster.faults.trial import Trial, notes, trial


def test_leader_killed_under_load_everything_acknowledged_is_delivered_once_everywhere(tmp_path: Path) -> None:
    async def scenario() -> Trial:
        async with trial(tmp_path) as t:
            leader = await t.leader_of("g0")
            await t.faulty.kill(leader)
            await t.another_leads(leader, "g0")
            await t.more_acknowledged()  # with two nodes of three
            await t.verdict()
            return t

    t = asyncio.run(scenario())
    assert notes(t.history, "leading") > 0


def test_every_node_killed_in_turn_each_while_the_one_before_recovers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            for name in t.faulty.names * 2:
                await t.faulty.kill(name)
                t.faulty.start(name)
                await t.more_acknowledged(50)
            await t.verdict()

    asyncio.run(scenario())


def test_all_nodes_killed_at_once_go_on_from_their_disks_in_any_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            for order in (["n3", "n1", "n2"], ["n2", "n3", "n1"]):
                await t.faulty.kill(*order)
                t.faulty.start(*order)
                await t.more_acknowledged()
            await t.verdict()

    asyncio.run(scenario())


def test_node_killed_while_it_starts_and_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            for _ in range(5):
                await t.faulty.kill("n2")
                t.faulty.start("n2")
            await t.more_acknowledged()
            await t.verdict()

    asyncio.run(scenario())


def test_client_dies_under_load_what_it_left_is_delivered_everywhere_or_nowhere(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            for _ in range(5):
                await t.traffic.replace_a_client()
                await t.more_acknowledged(20)
            t.traffic.sent = len(t.traffic.acknowledged) + t.traffic.under_way  # what the dead left is not counted
            await t.verdict()

    asyncio.run(scenario())
