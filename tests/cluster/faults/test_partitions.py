"""Nodes that cannot reach each other, under load: groups of three on three nodes.

The nodes are in network namespaces where the machine allows it; everywhere, they talk through proxies that can be cut.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.cluster.faults import namespaces
from tests.cluster.faults.trial import WHITEBOX, trial

from braidcast.trials.faulty_cluster import FaultyCluster

NETWORKS = ["proxies", *(["namespaces"] if namespaces.are_possible() else [])]


async def cluster_on(network: str, folder: Path) -> FaultyCluster:
    if network == "namespaces":
        return namespaces.make_cluster(folder, groups=2)
    return await FaultyCluster.make(folder, WHITEBOX, groups=2)


@pytest.mark.parametrize("network", NETWORKS)
def test_leader_cut_off_is_replaced_and_follows_when_it_is_back(tmp_path: Path, network: str) -> None:
    async def scenario() -> None:
        async with trial(tmp_path, faulty=await cluster_on(network, tmp_path)) as t:
            leader = await t.leader_of("g0")
            others = [name for name in t.faulty.names if name != leader]
            cut = t.faulty.between([leader], others) + t.faulty.between(others, [leader])
            t.faulty.network.cut(cut)
            await t.another_leads(leader, "g0")
            await t.more_acknowledged()  # by the two that see each other
            t.faulty.network.heal(cut)
            await t.faulty.wait_ready()
            await t.more_acknowledged()
            await t.verdict()

    asyncio.run(scenario())


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("way", ["deaf", "mute"])
def test_leader_that_hears_nobody_or_that_nobody_hears(tmp_path: Path, network: str, way: str) -> None:
    async def scenario() -> None:
        async with trial(tmp_path, faulty=await cluster_on(network, tmp_path)) as t:
            leader = await t.leader_of("g0")
            cut = t.faulty.between([leader], t.faulty.names)
            if way == "deaf":
                cut = t.faulty.between(t.faulty.names, [leader])
            t.faulty.network.cut(cut)
            await t.another_leads(leader, "g0")
            await t.more_acknowledged()
            t.faulty.network.heal(cut)
            await t.verdict()

    asyncio.run(scenario())


@pytest.mark.parametrize("network", NETWORKS)
def test_nobody_reaches_anybody_and_then_everybody_does(tmp_path: Path, network: str) -> None:
    async def scenario() -> None:
        async with trial(tmp_path, faulty=await cluster_on(network, tmp_path)) as t:
            t.faulty.network.cut(t.faulty.between(t.faulty.names, t.faulty.names))
            before = t.traffic.sent
            await t.until(lambda: t.traffic.sent > before + 300, "messages that nobody can order")
            t.faulty.network.heal_all()
            await t.more_acknowledged()
            await t.verdict()

    asyncio.run(scenario())
