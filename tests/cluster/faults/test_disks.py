"""Power cuts and full disks under load: groups of three on three nodes, whose disks forget what was not synced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from tests.cluster.faults.node_with_faults import Faults
from tests.cluster.faults.trial import WHITEBOX, Trial, trial

from braidcast.trials.faulty_cluster import FaultyCluster


def with_faults(faulty: FaultyCluster) -> dict[str, Faults]:
    """Let all nodes run on disks and clocks that misbehave on demand."""
    for command in faulty.cluster.commands.values():
        at = command.index("braidcast")
        command[at : at + 2] = ["tests.cluster.faults.node_with_faults"]
    return {name: Faults(node.data) for name, node in faulty.config.nodes.items()}


@asynccontextmanager
async def faulty_trial(folder: Path) -> AsyncIterator[tuple[Trial, dict[str, Faults]]]:
    faulty = await FaultyCluster.make(
        folder, WHITEBOX, groups=2, settings={"limits": {"checkpoint_bytes_min": 65536, "segment_bytes": 32768}}
    )
    faults = with_faults(faulty)
    async with trial(folder, faulty=faulty) as t:
        yield t, faults


def test_power_cut_at_all_nodes_loses_only_what_nobody_was_told(tmp_path: Path) -> None:
    async def scenario() -> int:
        random, lost = Random(1), 0
        async with faulty_trial(tmp_path) as (t, faults):
            for _ in range(4):
                await t.faulty.kill(*t.faulty.names)
                lost += sum(each.lose_unsynced(random) for each in faults.values())
                t.faulty.start(*t.faulty.names)
                await t.more_acknowledged()
            await t.verdict()
        return lost

    assert asyncio.run(scenario()) > 0, "some writes were not synced, or this shows nothing"


def test_power_cut_at_one_node_after_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        random = Random(2)
        async with faulty_trial(tmp_path) as (t, faults):
            for name in t.faulty.names * 2:
                await t.faulty.kill(name)
                faults[name].lose_unsynced(random)
                t.faulty.start(name)
                await t.more_acknowledged(50)
            await t.verdict()

    asyncio.run(scenario())


def test_full_disks_stop_acknowledging_say_so_and_go_on_when_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty_trial(tmp_path) as (t, faults):
            for name in ("n1", "n2"):
                faults[name].full.touch()
            full: list[bool] = []
            while full != [True, True]:
                answers = [(await t.status_of(name)).answer for name in ("n1", "n2")]
                full = [bool(answer and answer["disk"]["lack"]) for answer in answers]
            stuck, sent = len(t.traffic.acknowledged), t.traffic.sent
            await t.until(lambda: t.traffic.sent > sent + 300, "messages that no quorum can keep")
            assert len(t.traffic.acknowledged) == stuck
            for name in ("n1", "n2"):
                faults[name].full.unlink()
            await t.more_acknowledged()
            await t.verdict()
        said = t.cluster.nodes["n1"].output.read_text()
        assert "the disk is full): make room, nothing is lost; nothing is acknowledged until then" in said
        assert "commits succeed again" in said

    asyncio.run(scenario())


def test_wall_clocks_that_jump_by_hours_change_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty_trial(tmp_path) as (t, faults):
            for n1, n2 in ((3600, -3600), (-7200, 86400), (0, -10)):
                faults["n1"].clock.write_text(str(n1))
                faults["n2"].clock.write_text(str(n2))
                await t.more_acknowledged(50)
            await t.faulty.kill("n1")
            t.faulty.start("n1")
            await t.more_acknowledged(50)
            await t.verdict()

    asyncio.run(scenario())
