"""Runs a bank on three processes: starts them, kills leaders, takes audits, closes, and asks the observer."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from braidcast import Client, ClusterUnreachable
from braidcast.cli.registry import protocol_named
from braidcast.client.status import groups_with_leader, statuses
from braidcast.cluster.config import load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import LocalCluster, free_ports
from braidcast.settings import CLUSTER_FILE
from examples.bank.node import names_of
from examples.bank.observer import Observer, Verdict
from examples.bank.shard import EVERYWHERE, SHARDS, Shard

ACCOUNTS, EACH = 30, 100
AUDIT_S = 0.05
KILL_S, DOWN_S = 1.5, 0.4
PATIENCE_S = 60.0


class Bank:
    """The processes of a bank, in a folder."""

    def __init__(self, folder: Path, seed: int, *, together: bool) -> None:
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / CLUSTER_FILE
        self.file.write_text(render_local("whitebox", free_ports(3), groups=list(SHARDS)), encoding="utf-8")
        self.cluster = LocalCluster(load_config(self.file, protocol_named))
        self.nodes = list(self.cluster.config.nodes)
        self.seed, self.together = seed, together
        self.lives = dict.fromkeys(self.nodes, 0)
        self.kills = 0

    def start(self, node: str) -> None:
        """Begin another life of a node."""
        self.lives[node] += 1
        how = "together" if self.together else "separately"
        self.cluster.commands[node] = [
            sys.executable, "-m", "examples.bank.node", str(self.file), node, str(self.lives[node]), str(self.seed),
            how,
        ]  # fmt: skip
        self.cluster.start(node)

    async def leaders(self) -> dict[str, str]:
        """Who leads which shard, as far as somebody says so."""
        addresses = [node.address for node in self.cluster.config.nodes.values()]
        try:
            return groups_with_leader(await statuses(addresses, self.cluster.config.name, 1.0))
        except ClusterUnreachable:
            return {}

    async def kill_leaders(self, random: Random) -> None:
        """Kill the leader of some shard as `kill -9` does, start it again, and so on."""
        while True:
            await asyncio.sleep(KILL_S)
            leaders = await self.leaders()
            if (node := leaders.get(random.choice(SHARDS))) is None:
                continue
            self.kills += 1
            self.cluster.signal(node, signal.SIGKILL)
            await asyncio.to_thread(self.cluster.kill, node)
            await asyncio.sleep(DOWN_S)
            self.start(node)

    def dead(self) -> list[str]:
        """Nodes that ended by themselves."""
        gone = set(self.nodes) - set(self.cluster.running())
        return [f"node {node} ended by itself: {self.cluster.last_words(node)}" for node in sorted(gone)]

    async def states(self) -> list[dict[str, str]]:
        """What the nodes ended with, when all have."""
        files = [self.file.with_name(f"{node}.closed") for node in self.nodes]
        await until(lambda: _all_exist(files), "the nodes to close")
        return [json.loads(file.read_text()) for file in files]


async def _all_exist(files: list[Path]) -> bool:
    return all(file.exists() for file in files)


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:.0f} s in vain for {what}")
        await asyncio.sleep(AUDIT_S)


async def run_bank(
    folder: Path, *, seconds: float = 10.0, kill_leaders: bool = False, together: bool = True, seed: int = 1
) -> Verdict:
    """A bank from its beginning to its end, and what came of it. `folder` is empty, or not there yet."""
    bank = Bank(folder, seed, together=together)
    observer = Observer()
    try:
        for node in bank.nodes:
            bank.start(node)
        await until(lambda: _led(bank), "a leader of every shard")
        watching = asyncio.create_task(observer.read(bank.file))
        async with Client.connect(bank.file, timeout=PATIENCE_S, connect_timeout=PATIENCE_S) as client:
            await _business(bank, client, seconds, kill_leaders=kill_leaders)
            await until(lambda: _led(bank), "a leader of every shard")
            await client.multicast(Shard.close.payload(Shard()), to=EVERYWHERE)
        await asyncio.wait_for(watching, PATIENCE_S)
        if words := bank.dead():
            raise RuntimeError(words[0])
        verdict = observer.judge(ACCOUNTS * EACH, await bank.states())
    finally:
        await asyncio.to_thread(bank.cluster.stop_all)
    verdict.kills = bank.kills
    return verdict


async def _led(bank: Bank) -> bool:
    return len(await bank.leaders()) == len(SHARDS)


async def _business(bank: Bank, client: Client, seconds: float, *, kill_leaders: bool) -> None:
    """Found the bank, and audit it again and again while it works."""
    anybody = Shard()  # to write calls with; its state is nobody's
    await client.multicast(Shard.found.payload(anybody, names_of(ACCOUNTS), EACH), to=EVERYWHERE)
    killing = asyncio.create_task(bank.kill_leaders(Random(bank.seed))) if kill_leaders else None
    deadline, number = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        await client.multicast(Shard.audit.payload(anybody, number), to=EVERYWHERE)
        number += 1
        await asyncio.sleep(AUDIT_S)
    if killing is not None:
        killing.cancel()
        await asyncio.wait({killing})
        for node in bank.nodes:
            if node not in bank.cluster.running():
                bank.start(node)
