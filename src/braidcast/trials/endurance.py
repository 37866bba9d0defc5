"""Whether memory stays flat: a long run with a mix of destination sets, one of which never talks to another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from braidcast.client.places import link_to
from braidcast.client.sender import Sender
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.local import LocalCluster
from braidcast.core.topology import Dest
from braidcast.trials.bench import READY_S, rss_of

DESTINATIONS: tuple[Dest, ...] = ((0,), (0, 1), (1,), (2,), (0, 1), (2,))
"""Group 2 keeps to itself."""
SAMPLES = 20
MIB = 1 << 20


def endure(
    config: ClusterConfig, messages: int, batch: int, outstanding: int, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Run so many messages through a cluster, and look at the memory of its nodes meanwhile."""
    cluster = LocalCluster(config)
    try:
        cluster.start_all()
        return asyncio.run(_endure(config, cluster, messages, batch, outstanding, progress))
    finally:
        cluster.stop_all()


async def _endure(
    config: ClusterConfig, cluster: LocalCluster, messages: int, batch: int, outstanding: int,
    progress: Callable[[int], None],
) -> dict[str, Any]:  # fmt: skip
    link = await link_to(config.path, READY_S)
    sender = Sender(link)
    for dest in DESTINATIONS:
        await asyncio.wait_for(sender.submit(dest, b"first"), READY_S)
    processes = cluster.running()
    samples: list[dict[str, float]] = []
    room = asyncio.Semaphore(outstanding)
    sent = 0
    began = time.perf_counter()
    while sent < messages:
        await room.acquire()
        dest = DESTINATIONS[sent // batch % len(DESTINATIONS)]
        done = sender.submit(dest, b"x" * (20 * batch), batch if batch > 1 else 0)
        done.add_done_callback(lambda _: room.release())
        sent += batch
        if sent // batch % 1000 == 0:
            progress(sent)
            await asyncio.sleep(0)
        if sent >= messages * (len(samples) + 1) // SAMPLES:
            samples.append({name: rss_of(pid) / MIB for name, pid in processes.items()})
    for _ in range(outstanding):
        await room.acquire()
    seconds = time.perf_counter() - began
    await sender.close()
    await link.close()
    early = {name: max(s[name] for s in samples[: SAMPLES // 4]) for name in processes}
    late = {name: max(s[name] for s in samples[-SAMPLES // 4 :]) for name in processes}
    return {
        "messages": sent,
        "seconds": round(seconds, 1),
        "messages_per_s": round(sent / seconds),
        "rss_mib_first_quarter": round(max(early.values()), 1),
        "rss_mib_last_quarter": round(max(late.values()), 1),
        "growth_mib_max": round(max(late[name] - early[name] for name in processes), 1),
    }
