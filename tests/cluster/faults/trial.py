"""A trial: a cluster of real processes under load, something bad that happens to it, and the verdict.

The verdict is the same for every trial: once the cluster is whole again everything is answered, nothing that was
acknowledged is missing on any disk that should have it, all replicas of a group hold the same, and the history of all
that the nodes did satisfies every property.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from braidcast.cli.registry import protocol_named
from braidcast.client.status import NodeStatus, statuses
from braidcast.core.client import Multicast
from braidcast.history.event import History
from braidcast.history.store import read_history
from braidcast.trials.faulty_cluster import FaultyCluster
from braidcast.trials.traffic import Traffic, within
from braidcast.trials.verdict import judge

PATIENCE_S = 30.0
"""How long a condition may take on a busy machine; it says nothing of how fast anything should be."""
WHITEBOX = protocol_named("whitebox")
Settings = dict[str, dict[str, str | int]]


class Trial:
    """A cluster, and the load on it."""

    def __init__(self, faulty: FaultyCluster, traffic: Traffic) -> None:
        self.faulty, self.traffic = faulty, traffic
        self.config, self.cluster = faulty.config, faulty.cluster

    @property
    def history(self) -> History:
        """What happened; after the verdict."""
        assert self.config.history is not None
        return read_history(self.config.history)

    async def more_acknowledged(self, count: int = 100) -> None:
        """Wait until so many messages more, submitted from now on, are acknowledged."""
        missing: set[object] = set()
        seen = 0

        def hear(multicast: Multicast, at: float) -> None:
            nonlocal seen
            seen += multicast.id not in missing

        for client in self.traffic.clients:
            missing.update(client.sender.units)
        self.traffic.when_ended = hear
        await self.until(lambda: seen >= count, f"{count} acknowledgements, there are {seen}")
        self.traffic.when_ended = None

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition, but not for ever."""
        assert await within(PATIENCE_S, condition), f"waited {PATIENCE_S:.0f} s in vain for {what}"

    async def leader_of(self, group: str = "g0") -> str:
        """The node that leads a group, as soon as one says so."""
        return (await self.faulty.wait_led())[group]

    async def another_leads(self, than: str, group: str = "g0") -> None:
        """Wait until a majority has another leader; the old one may still believe that it leads."""

        async def look() -> None:
            while True:
                leaders = [
                    status.name for status in await self.faulty.statuses() if status.answer is not None
                    for replica in status.answer["replicas"]
                    if replica["group"] == group and replica["role"] == "leader"
                ]  # fmt: skip
                if any(name != than for name in leaders):
                    return

        async with asyncio.timeout(PATIENCE_S):
            await look()

    async def status_of(self, name: str) -> NodeStatus:
        """How one node says it is."""
        found = await statuses([self.config.nodes[name].address], self.config.name, PATIENCE_S)
        return next(status for status in found if status.name == name)

    async def verdict(self) -> None:
        """Heal everything, let it finish, stop it, and judge."""
        faulty = self.faulty
        faulty.network.heal_all()
        for name in faulty.names:
            faulty.resume(name)
        faulty.start(*faulty.down.copy())
        assert await self.traffic.finish(PATIENCE_S) == 0, "everything is answered once the cluster is whole"
        assert self.traffic.refused == []
        assert await faulty.wait_settled(PATIENCE_S), "the replicas get level once the cluster is whole"
        assert faulty.dead() == []
        await faulty.close()
        found = judge(self.config, self.traffic.acknowledged, dead_clients=self.traffic.dead)
        assert found.lost == []
        assert found.violations == []
        assert len(self.traffic.acknowledged) == self.traffic.sent > 0


@asynccontextmanager
async def trial(
    folder: Path, *, settings: Settings | None = None, groups: int = 2, rate_per_s: float = 300.0,
    faulty: FaultyCluster | None = None,
) -> AsyncIterator[Trial]:  # fmt: skip
    """Groups of three on three nodes, all up, and the load flowing."""
    if faulty is None:
        faulty = await FaultyCluster.make(folder, WHITEBOX, groups=groups, settings=settings)
    try:
        faulty.cluster.start_all()
        await faulty.wait_ready()
        traffic = Traffic(faulty.config, Random(1), clients=2, rate_per_s=rate_per_s)
        await traffic.start()
        running = Trial(faulty, traffic)
        await running.more_acknowledged(50)
        yield running
    finally:
        await faulty.close()


def notes(history: History, name: str) -> int:
    """How often the nodes noted this."""
    return sum(1 for event in history.events if event.event == name)
