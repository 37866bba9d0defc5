"""Nodes that hang and go on later (SIGSTOP, SIGCONT), under load: groups of three on three nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cluster.faults.trial import trial


def test_hung_leader_is_replaced_and_follows_when_it_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            leader = await t.leader_of("g0")
            t.faulty.pause(leader)
            await t.another_leads(leader, "g0")
            await t.more_acknowledged()
            t.faulty.resume(leader)
            await t.more_acknowledged()
            await t.verdict()

    asyncio.run(scenario())


def test_two_of_three_nodes_hang_nothing_is_acknowledged_until_one_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            t.faulty.pause("n1")
            t.faulty.pause("n3")
            before = t.traffic.sent
            await t.until(lambda: t.traffic.sent > before + 300, "messages that nobody can order")
            stuck = len(t.traffic.acknowledged)
            await t.until(lambda: t.traffic.sent > before + 600, "more of them")
            assert len(t.traffic.acknowledged) == stuck
            t.faulty.resume("n3")
            await t.more_acknowledged()
            t.faulty.resume("n1")
            await t.verdict()

    asyncio.run(scenario())
