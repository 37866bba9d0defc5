"""A local cluster of real processes whose nodes can be killed, paused, stopped and cut off from each other.

Its nodes reach each other through proxies: each has a configuration of its own that says so (`peer_address`). Clients
use the true addresses.
"""

from __future__ import annotations

import asyncio
import signal
import time
import typing
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from braidcast.client.errors import ClusterUnreachable
from braidcast.client.places import place_of
from braidcast.client.status import NodeStatus, groups_with_leader, is_settled, statuses
from braidcast.cluster.authority import certify_cluster
from braidcast.cluster.config import ClusterConfig, Layout, load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, LocalClusterError, free_ports, node_command
from braidcast.core.protocol import Protocol
from braidcast.settings import CLUSTER_FILE
from braidcast.trials.proxies import Direction, Proxies

READY_S = 15.0
SETTLE_S = 60.0
"""How long a cluster may take to answer everything once it is whole."""
LOOK_S = 0.05
ANSWER_S = 1.0


class Network(typing.Protocol):
    """Ways between nodes that can be cut; cuts of one direction add up."""

    def cut(self, directions: Iterable[Direction]) -> None: ...
    def heal(self, directions: Iterable[Direction]) -> None: ...
    def heal_all(self) -> None: ...
    def close(self) -> None: ...


class FaultyCluster:
    """A local cluster, and what can be done to it."""

    def __init__(self, config: ClusterConfig, network: Network) -> None:
        self.config, self.network = config, network
        self.cluster = LocalCluster(config)
        self.names = list(config.nodes)
        self.down: set[str] = set()
        """Nodes that do not run because somebody stopped them."""
        self.closing = False

    @classmethod
    async def make(
        cls, folder: Path, protocol: Protocol, *, groups: int = 3, replicas: int = 3, layout: Layout = "colocated",
        tls: bool = False, settings: dict[str, dict[str, str | int]] | None = None,
    ) -> FaultyCluster:  # fmt: skip
        """Write the configurations, one that clients use and one for each node, and open proxies between them."""
        ports = free_ports(groups * replicas if layout == "spread" else replicas)
        settings = {**(settings or {}), "cluster": {"history": "history", **(settings or {}).get("cluster", {})}}
        text = render_local(
            protocol.name, ports, groups=groups, replicas=replicas, layout=layout, tls=tls, settings=settings
        )
        folder = folder.resolve()  # nodes are told of their own configuration in it, and found by that
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CLUSTER_FILE).write_text(text, encoding="utf-8")
        proxies = Proxies()
        made = cls(load_config(folder / CLUSTER_FILE, lambda _: protocol), proxies)
        if tls:
            certify_cluster(made.config)
        for name in made.names:
            seen = text
            for other, node in made.config.nodes.items():
                if name < other:  # the node with the lower name dials
                    port = await proxies.open(name, other, node.host, node.port)
                    line = f'address = "{node.address}"\n'
                    seen = seen.replace(line, f'{line}peer_address = "127.0.0.1:{port}"\n')
            file = folder / f"cluster-{name}.toml"
            file.write_text(seen, encoding="utf-8")
            made.cluster.commands[name] = node_command(file, name)
        return made

    # -- faults ------------------------------------------------------------------------------------------------------

    async def kill(self, *names: str) -> None:
        """As `kill -9` does."""
        self.down.update(names)
        for name in names:
            self.cluster.signal(name, signal.SIGKILL)
        for name in names:
            await asyncio.to_thread(self.cluster.kill, name)

    async def stop(self, name: str) -> None:
        """Let a node stop by itself."""
        self.down.add(name)
        await asyncio.to_thread(self.cluster.stop, name)

    def start(self, *names: str) -> None:
        """Start what was stopped; nothing when all of it ends."""
        for name in names if not self.closing else ():
            self.cluster.start(name)
            self.down.discard(name)

    def pause(self, name: str) -> None:
        """A node that hangs: it does nothing, and its connections stay."""
        self.cluster.signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """It goes on where it was."""
        self.cluster.signal(name, signal.SIGCONT)

    def between(self, some: Iterable[str], others: Iterable[str]) -> list[Direction]:
        """What the ones say to the others."""
        others = list(others)
        return [(a, b) for a in some for b in others if a != b]

    def dead(self) -> list[str]:
        """Nodes that ended although nobody stopped them, with their last words."""
        gone = set(self.names) - self.down - set(self.cluster.running())
        return [f"node {name} ended by itself: {self.cluster.last_words(name)}" for name in sorted(gone)]

    # -- conditions --------------------------------------------------------------------------------------------------

    async def wait_ready(self, seconds: float = READY_S) -> None:
        """Wait until all nodes answer, know each other, and every group has a leader."""

        async def ready() -> bool:
            found = await self.statuses()
            met = all(s.answer is not None and all(p["connected"] for p in s.answer["peers"]) for s in found)
            return bool(found) and met and len(groups_with_leader(found)) == len(self.config.groups)

        if not await _true_within(seconds, ready):
            raise LocalClusterError(f"the cluster is not ready after {seconds:.0f} s")

    async def wait_led(self, seconds: float = READY_S) -> dict[str, str]:
        """Wait until every group has a leader; who leads which."""
        leaders: dict[str, str] = {}

        async def led() -> bool:
            leaders.update(await self.leaders())
            return len(leaders) == len(self.config.groups)

        if not await _true_within(seconds, led):
            raise LocalClusterError(f"not every group has a leader after {seconds:.0f} s")
        return leaders

    async def leaders(self) -> dict[str, str]:
        """Who says that it leads which group."""
        return groups_with_leader(await self.statuses())

    async def wait_settled(self, seconds: float = SETTLE_S) -> bool:
        """Wait until all replicas of each group have delivered the same, and nothing is under way."""

        async def settled() -> bool:
            found = await self.statuses()
            return bool(found) and is_settled(found)

        return await _true_within(seconds, settled)

    async def statuses(self) -> list[NodeStatus]:
        """How every node says it is; empty if none answers."""
        place = place_of(self.config.path)
        try:
            return await statuses(place.addresses, place.name, ANSWER_S, place.certificates)
        except ClusterUnreachable:
            return []

    async def close(self) -> None:
        """Stop every node and close the proxies."""
        self.closing = True
        await asyncio.to_thread(self.cluster.stop_all)
        self.network.close()


async def _true_within(seconds: float, condition: Callable[[], Awaitable[bool]]) -> bool:
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
