"""braidcast itself: groups of three on three nodes, as on three machines."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

from braidcast import __version__
from braidcast.client.link import Link
from braidcast.client.places import link_to
from braidcast.client.sender import Sender
from braidcast.cluster.config import ClusterConfig, Durability
from braidcast.cluster.local import LocalCluster
from braidcast.core.protocol import Protocol
from braidcast.trials.bench import READY_S, ClusterLoad
from braidcast.trials.throwaway import Settings, write_cluster

SURVIVES = {
    "disk": "loss of power everywhere",
    "memory": "the death of a minority of each group",
}
HELD = {"disk": "on disk (fsync)", "memory": "in memory"}


class BraidcastClient:
    """Multicasts every unit to all groups there are."""

    def __init__(self, link: Link, load: ClusterLoad, groups: int) -> None:
        self.link, self.sender, self.dest = link, Sender(link), tuple(range(groups))
        self.payload = b"x" * (load.payload_bytes * load.batch)
        self.messages = load.batch if load.batch > 1 else 0

    def submit(self) -> asyncio.Future[Any]:
        return self.sender.submit(self.dest, self.payload, self.messages)

    async def close(self) -> None:
        await self.sender.close()
        await self.link.close()


class Braidcast:
    """A cluster with one group, or with several that all messages are for."""

    def __init__(self, protocol: Protocol, durability: Durability, groups: int = 1) -> None:
        self.protocol, self.groups = protocol, groups
        self.name = f"braidcast, {durability}" + (f", {groups} groups" if groups > 1 else "")
        self.durability = SURVIVES[durability]
        leaders = "the leader has" if groups == 1 else "the leaders of both groups have, in one order across them,"
        self.acknowledged = f"{leaders} delivered it, and a majority has it {HELD[durability]}"
        self.unit = "a batch"
        self.remark = "" if groups == 1 else "one order across groups; the others order within one only"
        self.settings: Settings = {"cluster": {"durability": durability}}
        self.config: ClusterConfig | None = None
        self.cluster: LocalCluster | None = None

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return __version__

    def start(self, folder: Path) -> None:
        self.config = write_cluster(folder, self.protocol, "colocated", self.settings, self.groups)
        self.cluster = LocalCluster(self.config)
        self.cluster.start_all()

    def pids(self) -> Collection[int]:
        return [] if self.cluster is None else self.cluster.running().values()

    async def connect(self, load: ClusterLoad) -> BraidcastClient:
        assert self.config is not None, "it was started"
        client = BraidcastClient(await link_to(self.config.path, READY_S), load, self.groups)
        await asyncio.wait_for(client.submit(), READY_S)
        return client

    def stop(self) -> None:
        if self.cluster is not None:
            self.cluster.stop_all()
