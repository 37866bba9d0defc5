"""A campaign of faults on a local cluster of real processes, under load, judged by what it leaves behind.

The nodes talk to each other through proxies that can be cut. At random moments nodes are killed, paused, cut off,
stopped in order or all killed at once, and come back after a while; clients die. Several of these may overlap. In
the end everything is healed, the cluster gets time to finish, and its disks and its history are judged.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from braidcast.cluster.config import HistoryDetail, Layout
from braidcast.core.protocol import Protocol
from braidcast.trials.faulty_cluster import SETTLE_S, FaultyCluster
from braidcast.trials.traffic import Traffic
from braidcast.trials.verdict import Verdict, judge

LOOK_S = 0.25
SHOWN = 20
"""Of what is found; more of it says nothing new."""
KILL, PAUSE, PARTITION, RESTART = "kill", "pause", "partition", "restart"
BLACKOUT, CLIENT_DEATH = "blackout", "client death"
MUST_HAPPEN = (KILL, PAUSE, PARTITION)
PROVES_S = 60.0
"""How long a campaign must be to be expected to have seen them."""


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """What is done to a cluster."""

    protocol: Protocol
    minutes: float = 1.0
    seed: int = 1
    groups: int = 3
    replicas: int = 3
    layout: Layout = "colocated"
    rate_per_s: float = 200.0
    clients: int = 3
    detail: HistoryDetail = "order"
    """Of the history: with `everything` the properties of sends and records are judged, too."""
    gap_s: tuple[float, float] = (0.3, 3.0)
    """Between one fault and the next."""
    lasts_s: tuple[float, float] = (0.2, 5.0)
    weights: tuple[tuple[str, int], ...] = (
        (KILL, 6), (PAUSE, 4), (PARTITION, 5), (RESTART, 3), (BLACKOUT, 1), (CLIENT_DEATH, 2),
    )  # fmt: skip
    tls: bool = False


@dataclass(slots=True)
class ChaosResult:
    """What came of it."""

    seconds: float
    traffic: Traffic
    counts: Counter[str]
    verdict: Verdict

    @property
    def ok(self) -> bool:
        """Whether nothing was lost and every property held."""
        return not self.verdict.lost and not self.verdict.violations

    @property
    def found(self) -> list[str]:
        """What is wrong, a line each."""
        return self.verdict.violations + self.verdict.lost

    def to_json(self) -> dict[str, Any]:
        """The figures."""
        counts = self.counts
        return {
            "minutes": round(self.seconds / 60, 2), "sent": self.traffic.sent,
            "acknowledged": len(self.traffic.acknowledged), "delivered": self.verdict.delivered,
            "kills": counts[KILL], "pauses": counts[PAUSE], "partitions": counts[PARTITION],
            "restarts": counts[RESTART], "blackouts": counts[BLACKOUT], "client_deaths": len(self.traffic.dead),
            "violations": len(self.verdict.violations), "lost": len(self.verdict.lost),
            "found": self.found[:SHOWN],
        }  # fmt: skip


def never_seen(seconds: float, counts: Mapping[str, int], nodes: int) -> list[str]:
    """The faults without which a campaign of some length proves nothing, and which did not happen."""
    wanted = MUST_HAPPEN if nodes > 1 else (KILL, PAUSE)
    return [fault for fault in wanted if not counts.get(fault, 0)] if seconds >= PROVES_S else []


async def run_chaos(plan: ChaosPlan, folder: Path, progress: Callable[[float, str], None]) -> ChaosResult:
    """Run a campaign in an empty directory, which holds the cluster and its history afterwards."""
    random = Random(plan.seed)
    faulty = await FaultyCluster.make(
        folder, plan.protocol, groups=plan.groups, replicas=plan.replicas, layout=plan.layout,
        tls=plan.tls, settings={"cluster": {"history_detail": plan.detail}},
    )
    try:
        faulty.cluster.start_all()
        await faulty.wait_ready()
        traffic = Traffic(faulty.config, random, clients=plan.clients, rate_per_s=plan.rate_per_s)
        await traffic.start()
        campaign = _Campaign(plan, faulty, traffic, random)
        began = time.monotonic()
        try:
            await campaign.run(progress)
        finally:
            campaign.end()
        seconds = time.monotonic() - began
        progress(seconds, ", healed, waiting for the last answers")
        unanswered = await traffic.finish(SETTLE_S)
        is_settled = await faulty.wait_settled()
        campaign.found += faulty.dead()
    finally:
        await faulty.close()
    progress(seconds, ", judging")
    verdict = await asyncio.to_thread(
        judge, faulty.config, traffic.acknowledged, dead_clients=traffic.dead, quiescent=is_settled and not unanswered
    )
    if unanswered:
        campaign.found.append(f"{unanswered} messages were not answered within {SETTLE_S:.0f} s of a whole cluster")
    if not is_settled:
        campaign.found.append(f"the replicas were not level within {SETTLE_S:.0f} s of a whole cluster")
    campaign.found += [f"a client was refused: {error}" for error in traffic.refused]
    verdict.violations = campaign.found + verdict.violations
    return ChaosResult(seconds, traffic, campaign.counts, verdict)


class _Campaign:
    """The faults of one campaign."""

    def __init__(self, plan: ChaosPlan, faulty: FaultyCluster, traffic: Traffic, random: Random) -> None:
        self.plan, self.faulty, self.traffic, self.random = plan, faulty, traffic, random
        self.counts: Counter[str] = Counter()
        self.busy: set[str] = set()
        """Nodes that something is being done to."""
        self.under_way: set[asyncio.Task[None]] = set()
        self.found: list[str] = []
        self.faults = {
            KILL: self._kill, PAUSE: self._pause, PARTITION: self._partition, RESTART: self._restart,
            BLACKOUT: self._blackout, CLIENT_DEATH: self.traffic.replace_a_client,
        }  # fmt: skip

    async def run(self, progress: Callable[[float, str], None]) -> None:
        """Faults until the time is over; then wait until each of them has been undone."""
        plan, random = self.plan, self.random
        loop = asyncio.get_running_loop()
        began = loop.time()
        next_fault = began + random.uniform(*plan.gap_s)
        while (now := loop.time()) < began + plan.minutes * 60:
            if now >= next_fault:
                next_fault = now + random.uniform(*plan.gap_s)
                self._begin(random.choices(*zip(*plan.weights, strict=True))[0])
            await asyncio.sleep(LOOK_S)
            if dead := self.faulty.dead():
                self.found += dead
                break
            acknowledged, faults = len(self.traffic.acknowledged), sum(self.counts.values())
            progress(now - began, f", {acknowledged:,} acknowledged, {faults} faults")
        await asyncio.gather(*self.under_way)

    def end(self) -> None:
        """Whatever is still under way would start nodes again."""
        for task in self.under_way:
            task.cancel()

    def _begin(self, fault: str) -> None:
        task = asyncio.get_running_loop().create_task(self.faults[fault]())
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def _last(self) -> None:
        await asyncio.sleep(self.random.uniform(*self.plan.lasts_s))

    def _take(self) -> str | None:
        """A node that nothing is done to, or None."""
        free = [name for name in self.faulty.names if name not in self.busy]
        if not free:
            return None
        name = self.random.choice(free)
        self.busy.add(name)
        return name

    async def _kill(self) -> None:
        if (name := self._take()) is None:
            return
        self.counts[KILL] += 1
        await self.faulty.kill(name)
        await self._last()
        self._start(name)

    async def _pause(self) -> None:
        if (name := self._take()) is None:
            return
        self.counts[PAUSE] += 1
        self.faulty.pause(name)
        await self._last()
        self.faulty.resume(name)
        self.busy.discard(name)

    async def _restart(self) -> None:
        if (name := self._take()) is None:
            return
        await self.faulty.stop(name)
        self._start(name)

    async def _blackout(self) -> None:
        """All nodes at once."""
        if self.busy:
            return
        names = list(self.faulty.names)
        self.busy.update(names)
        self.counts[BLACKOUT] += 1
        self.counts[KILL] += len(names)
        await self.faulty.kill(*names)
        self.random.shuffle(names)
        for name in names:
            await asyncio.sleep(self.random.uniform(0, 1))
            self._start(name)

    def _start(self, name: str) -> None:
        self.counts[RESTART] += 1
        self.faulty.start(name)
        self.busy.discard(name)

    async def _partition(self) -> None:
        """One node from all others or from another one, in both directions or in one."""
        names, random = self.faulty.names, self.random
        if len(names) < 2:
            return
        one = random.choice(names)
        others = names if random.random() < 0.5 else [random.choice([name for name in names if name != one])]
        directions = self.faulty.between([one], others)
        kind = random.random()
        if kind < 0.6:
            directions += self.faulty.between(others, [one])
        elif kind < 0.8:
            directions = self.faulty.between(others, [one])
        self.counts[PARTITION] += 1
        self.faulty.network.cut(directions)
        await self._last()
        self.faulty.network.heal(directions)
