"""How long a cluster is without a leader when the leader's node is killed under load, and what waited is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from braidcast.cluster.local import LocalClusterError
from braidcast.core.client import MessageId, Multicast
from braidcast.core.process import Ticks
from braidcast.core.protocol import Protocol
from braidcast.history.event import MULTICAST, History
from braidcast.history.store import read_history
from braidcast.trials.bench import percentile_ms
from braidcast.trials.faulty_cluster import SETTLE_S, FaultyCluster
from braidcast.trials.traffic import Traffic, within
from braidcast.trials.verdict import judge
from braidcast.wire.clocks import monotonic_us

US_PER_S = 1_000_000
CALM_S = 4.0
"""Before a kill: time-outs are longer while a leadership is young, and what is measured is the loss of an old one."""
LEADING = "leading"
"""The note of a process that begins to lead; protocols with leaders call it so."""


@dataclass(slots=True)
class Kill:
    """One leader that was killed."""

    at: Ticks
    groups: tuple[int, ...]
    """Those that its node led."""
    replaced: dict[int, Ticks] = field(default_factory=dict)
    """When each of them had another leader."""


def measure_failover(
    protocol: Protocol, folder: Path, rounds: int, rate_per_s: float, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Kill the node that leads the first group, so many times; three groups of three on three nodes."""
    return asyncio.run(_measure(protocol, folder, rounds, rate_per_s, progress))


async def _measure(
    protocol: Protocol, folder: Path, rounds: int, rate_per_s: float, progress: Callable[[int], None]
) -> dict[str, Any]:
    faulty = await FaultyCluster.make(folder, protocol)
    acknowledged_at: dict[MessageId, Ticks] = {}

    def ended(multicast: Multicast, at: float) -> None:
        acknowledged_at[multicast.id] = int(at * US_PER_S)

    kills: list[Kill] = []
    try:
        faulty.cluster.start_all()
        await faulty.wait_ready()
        traffic = Traffic(faulty.config, Random(1), rate_per_s=rate_per_s)
        traffic.when_ended = ended
        await traffic.start()
        for number in range(rounds):
            await asyncio.sleep(CALM_S)
            await _acknowledge(traffic, rate_per_s)
            leaders = await faulty.wait_led()
            victim = leaders[faulty.config.groups[0].name]
            led = tuple(g for g, group in enumerate(faulty.config.groups) if leaders[group.name] == victim)
            kills.append(Kill(monotonic_us(), led))
            await faulty.kill(victim)
            await _acknowledge(traffic, rate_per_s)
            faulty.start(victim)
            await faulty.wait_ready()
            progress(number + 1)
        await traffic.finish(SETTLE_S)
        await faulty.wait_settled()
    finally:
        await faulty.close()
    verdict = judge(faulty.config, traffic.acknowledged)
    assert faulty.config.history is not None, "trials have histories"
    history = read_history(faulty.config.history)
    _find_successors(history, kills)
    leader_us = [max(kill.replaced.values()) - kill.at for kill in kills if kill.replaced]
    drain_us = [_drained(history, kill, acknowledged_at) - kill.at for kill in kills if kill.replaced]
    return {
        "rounds": len(kills), "messages_per_s": round(rate_per_s),
        "leader_ms_p50": percentile_ms([us / US_PER_S for us in sorted(leader_us)], 0.5),
        "leader_ms_max": round(max(leader_us, default=0) / 1000, 1),
        "drain_ms_p50": percentile_ms([us / US_PER_S for us in sorted(drain_us)], 0.5),
        "drain_ms_max": round(max(drain_us, default=0) / 1000, 1),
        "violations": len(verdict.violations), "lost": len(verdict.lost),
    }  # fmt: skip


async def _acknowledge(traffic: Traffic, count: float) -> None:
    """Wait until about a second's worth of messages more has been acknowledged."""
    enough = len(traffic.acknowledged) + count
    if not await within(SETTLE_S, lambda: len(traffic.acknowledged) >= enough):
        raise LocalClusterError(f"the cluster does not go on after a leader was killed: {traffic.under_way} wait")


def _find_successors(history: History, kills: list[Kill]) -> None:
    group_of = {pid: g for g, members in enumerate(history.manifest.topology) for pid in members}
    led = [(event.t_mono, group_of[event.node]) for event in history.events if event.event == LEADING]
    for kill in kills:
        for at, group in led:
            if at > kill.at and group in kill.groups:
                kill.replaced.setdefault(group, at)


def _drained(history: History, kill: Kill, acknowledged_at: dict[MessageId, Ticks]) -> Ticks:
    """When all was acknowledged that had been submitted before the last of the groups had a leader again."""
    led = max(kill.replaced.values())
    waited = [
        acknowledged_at[event.what.id] for event in history.events
        if event.event == MULTICAST and event.t_mono <= led and event.what.id in acknowledged_at
    ]  # fmt: skip
    return max(led, *waited)
