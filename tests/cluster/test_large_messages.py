"""Nodes that were away while more was delivered than a frame holds get level all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from braidcast.cli.registry import protocol_named
from braidcast.client.places import link_to
from braidcast.client.sender import Sender
from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import free_ports
from braidcast.settings import CLUSTER_FILE
from braidcast.trials.faulty_cluster import FaultyCluster
from braidcast.trials.proxies import Proxies

PATIENCE_S = 60
COUNT, SIZE = 26, 900_000


async def multicast(faulty: FaultyCluster, nodes: list[str]) -> None:
    """All of them to both groups, acknowledged by both."""
    link = await link_to([faulty.config.nodes[name].address for name in nodes], PATIENCE_S)
    sender = Sender(link)
    async with asyncio.timeout(PATIENCE_S):
        for number in range(COUNT):
            await sender.submit((0, 1), bytes([number]) * SIZE)
    await sender.close()
    await link.close()


@pytest.mark.parametrize("away", ["a follower", "the leader"])
def test_node_that_was_down_for_more_than_a_frame_of_messages_gets_level(tmp_path: Path, away: str) -> None:
    """A follower is sent what it missed; a leader finds another ballot, and is sent the state of that."""
    text = render_local("whitebox", free_ports(3), groups=2, replicas=3, layout="colocated")
    (tmp_path / CLUSTER_FILE).write_text(text, encoding="utf-8")
    config = load_config(tmp_path / CLUSTER_FILE, protocol_named)
    assert config.limits.frame_bytes_max < COUNT * SIZE
    faulty = FaultyCluster(config, Proxies())

    async def scenario() -> None:
        faulty.cluster.start_all()
        await faulty.wait_ready()
        leaders = (await faulty.leaders()).values()
        name = next(name for name in faulty.names if (name in leaders) == (away == "the leader"))
        await faulty.kill(name)
        await faulty.wait_led()
        await multicast(faulty, [other for other in faulty.names if other != name])
        faulty.start(name)
        assert await faulty.wait_settled(PATIENCE_S)
        for status in await faulty.statuses():
            assert status.answer is not None
            assert [replica["delivered"] for replica in status.answer["replicas"]] == [COUNT, COUNT]

    try:
        asyncio.run(scenario())
    finally:
        asyncio.run(faulty.close())
