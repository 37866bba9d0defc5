"""What a cluster of real processes does on this machine."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from braidcast.client.places import link_to
from braidcast.client.sender import Sender
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.local import LocalCluster
from braidcast.trials.load import ClosedLoad, Outcome
from braidcast.wire.loops import run

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
READY_S = 15.0


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """What is measured."""

    destinations: int
    outstanding: int
    batch: int
    payload_bytes: int = 20
    seconds: float = 5.0
    warm_up_s: float = 1.0


def measure_cluster(config: ClusterConfig, load: ClusterLoad) -> dict[str, Any]:
    """Start the cluster, load it, stop it; the wait is for the leaders of all destination groups."""
    cluster = LocalCluster(config)
    try:
        cluster.start_all()
        outcome, cpu_s, rss = run(_measure(config, cluster, load))
    finally:
        cluster.stop_all()
    latencies = sorted(outcome.latencies_s)
    return {
        "messages_per_s": round(outcome.messages / outcome.seconds),
        "latency_ms_p50": percentile_ms(latencies, 0.5),
        "latency_ms_p99": percentile_ms(latencies, 0.99),
        "cpu_s_per_1000": round(cpu_s / max(outcome.messages, 1) * 1000, 5),
        "cpu_s_per_1000_client": round(outcome.cpu_s_client / max(outcome.messages, 1) * 1000, 5),
        "processes": len(config.nodes),
        "rss_mib_max": round(rss / 2**20, 1),
    }


async def _measure(config: ClusterConfig, cluster: LocalCluster, load: ClusterLoad) -> tuple[Outcome, float, int]:
    link = await link_to(config.path, READY_S)
    try:
        sender = Sender(link)
        dest = tuple(range(load.destinations))
        await asyncio.wait_for(sender.submit(dest, b"first"), READY_S)
        closed = ClosedLoad(sender, dest, load.outstanding, load.batch, load.payload_bytes)
        processes = list(cluster.running().values())
        measuring = asyncio.create_task(closed.measure(load.warm_up_s, load.seconds))
        await asyncio.sleep(load.warm_up_s)
        before = sum(cpu_s_of(pid) for pid in processes)
        await asyncio.sleep(load.seconds)
        cpu_s = sum(cpu_s_of(pid) for pid in processes) - before
        rss = max(rss_of(pid) for pid in processes)
        outcome = await measuring
        await sender.close()
    finally:
        await link.close()
    return outcome, cpu_s, rss


def cpu_s_of(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def rss_of(pid: int) -> int:
    """The memory that a process has, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def percentile_ms(ordered: list[float], share: float) -> float:
    """Of seconds in ascending order, in milliseconds."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 3) if ordered else 0.0
