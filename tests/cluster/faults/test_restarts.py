"""Nodes that are stopped and started as an operator does, under load: groups of three on three nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cluster.faults.trial import notes, trial


def test_rolling_restart_loses_and_reorders_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            for name in t.faulty.names:
                await t.faulty.stop(name)
                await t.more_acknowledged(50)
                t.faulty.start(name)
                await t.faulty.wait_ready()
            await t.verdict()

    asyncio.run(scenario())


def test_whole_cluster_stopped_and_started_in_another_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with trial(tmp_path) as t:
            for name in ("n1", "n2", "n3"):
                await t.faulty.stop(name)
            for name in ("n3", "n2", "n1"):
                t.faulty.start(name)
            await t.more_acknowledged()
            await t.verdict()

    asyncio.run(scenario())


def test_follower_away_past_the_collection_mark_gets_a_snapshot(tmp_path: Path) -> None:
    settings: dict[str, dict[str, str | int]] = {
        "cluster.options": {"laggard_entries": 50, "chunk_entries": 16},
        "limits": {"checkpoint_bytes_min": 4096},
    }

    async def scenario() -> int:
        async with trial(tmp_path, settings=settings) as t:
            leaders = await t.faulty.leaders()
            follower = next(name for name in t.faulty.names if name not in leaders.values())
            await t.faulty.stop(follower)
            await t.more_acknowledged(400)
            t.faulty.start(follower)
            await t.more_acknowledged()
            await t.verdict()
            return notes(t.history, "snapshot_installed")

    assert asyncio.run(scenario()) > 0
