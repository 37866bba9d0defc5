"""A node that lost its disk: turned away until an operator lets it rejoin, then restored, and a full member again."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from braidcast.cli.registry import protocol_named
from braidcast.client.follower import Follower
from braidcast.client.places import link_to
from braidcast.client.sender import Sender
from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, free_ports
from braidcast.history.raw import event_kinds, seal_raw
from braidcast.history.store import read_history
from braidcast.properties.check import check
from braidcast.settings import CLUSTER_FILE
from braidcast.trials.faulty_cluster import FaultyCluster
from braidcast.trials.proxies import Proxies

PATIENCE_S = 30


def cluster_in(folder: Path, durability: str = "disk", groups: int = 2) -> LocalCluster:
    text = render_local(
        "whitebox", free_ports(3), groups=groups, replicas=3, layout="colocated",
        settings={
            "cluster": {"durability": durability, "history": "history"},
            "cluster.options": {"laggard_entries": 20, "chunk_entries": 7},
        },
    )  # fmt: skip
    (folder / CLUSTER_FILE).write_text(text, encoding="utf-8")
    return LocalCluster(load_config(folder / CLUSTER_FILE, protocol_named))


@pytest.fixture(params=["disk", "memory"])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    made = cluster_in(tmp_path, request.param)
    made.start_all()
    asyncio.run(FaultyCluster(made.config, Proxies()).wait_ready())  # who never ran has no disk to lose
    yield made
    made.stop_all()


def run_node(cluster: LocalCluster, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A node that is expected to end by itself."""
    command = [
        sys.executable, "-m", "braidcast", "node", "--config", str(cluster.config.path), "--id", name, *arguments,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


async def multicast(cluster: LocalCluster, count: int, nodes: list[str]) -> None:
    """So many messages to both groups, acknowledged by both; only these nodes are asked."""
    link = await link_to([cluster.config.nodes[name].address for name in nodes], PATIENCE_S)
    sender = Sender(link)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*[sender.submit((0, 1), f"{n}".encode()) for n in range(count)])
    await sender.close()
    await link.close()


async def journal(cluster: LocalCluster, name: str, group: int, count: int) -> list[tuple[int, bytes]]:
    """The first deliveries of a group, as that node has them."""
    link = await link_to([cluster.config.nodes[name].address], PATIENCE_S)
    follower = Follower(link, cluster.config.group_name(group))
    follower.hosts = [link.lines[name]]
    found: list[tuple[int, bytes]] = []
    async with asyncio.timeout(PATIENCE_S):
        async for entry in follower:
            found.append((entry.gts, entry.payload))
            if len(found) == count:
                break
    await link.close()
    return found


def test_node_without_its_disk_is_turned_away_then_rejoins_and_counts_again(cluster: LocalCluster) -> None:
    everybody = list(cluster.nodes)
    asyncio.run(multicast(cluster, 60, everybody))
    asyncio.run(journal(cluster, "n3", 0, 60))  # or nobody may know it yet, and a node that promised nothing is welcome
    cluster.kill("n3")
    asyncio.run(multicast(cluster, 60, ["n1", "n2"]))
    if cluster.config.durability == "disk":
        shutil.rmtree(cluster.config.nodes["n3"].data)

    refused = run_node(cluster, "n3")
    assert refused.returncode == 2
    assert "--rejoin" in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr
    if cluster.config.durability == "disk":
        shutil.rmtree(cluster.config.nodes["n3"].data)

    cluster.start("n3", "--rejoin")
    expected = asyncio.run(journal(cluster, "n1", 0, 120))
    assert asyncio.run(journal(cluster, "n3", 0, 120)) == expected
    cluster.kill("n1")
    asyncio.run(multicast(cluster, 10, ["n2", "n3"]))  # the two are a quorum only if n3 has its vote back
    if cluster.config.durability == "disk":
        cluster.kill("n3")
        cluster.start("n3")
        cluster.start("n1")
        asyncio.run(multicast(cluster, 10, everybody))

    cluster.stop_all()
    history = cluster.config.history
    assert history is not None
    seal_raw(history, lambda _: event_kinds(cluster.config.protocol))
    assert check(read_history(history)) == []


def test_rejoin_with_data_and_rejoin_of_an_only_replica_are_refused_in_a_line(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    cluster.start_all()
    asyncio.run(multicast(cluster, 1, list(cluster.nodes)))
    cluster.stop_all()
    refused = run_node(cluster, "n3", "--rejoin")
    assert refused.returncode == 2
    assert "nothing is lost" in refused.stderr

    alone = tmp_path / "alone"
    alone.mkdir()
    text = render_local("whitebox", free_ports(1), groups=1, replicas=1, layout="colocated")
    (alone / CLUSTER_FILE).write_text(text, encoding="utf-8")
    lonely = run_node(LocalCluster(load_config(alone / CLUSTER_FILE, protocol_named)), "n1", "--rejoin")
    assert lonely.returncode == 2
    assert "its only replica" in lonely.stderr
