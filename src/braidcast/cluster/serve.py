"""Running a node as a process: its data, its loop, the signals that end it."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys

from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.data import locked, open_data
from braidcast.cluster.node import Node
from braidcast.core.errors import BraidcastError
from braidcast.wire.loops import run

log = logging.getLogger(__name__)

OBJECTS_PER_COLLECTION = 200_000
"""Entries live long and die by their counts: a cyclic collector that looks at them often costs half of the node."""


class NodeFailed(BraidcastError):
    """A node that cannot go on."""


def serve(config: ClusterConfig, name: str, *, rejoin: bool = False) -> None:
    """Run a node until it is told to stop; raises if it cannot go on."""
    node_config = config.node(name)
    if rejoin:
        _check_rejoin(config, name)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    with locked(node_config.data, name):
        _serve_locked(config, name, rejoin)


def _serve_locked(config: ClusterConfig, name: str, rejoin: bool) -> None:
    identity, wal = open_data(config, name, rejoin=rejoin)
    if wal is None and identity.incarnation > 1 and not rejoin:
        raise NodeFailed(
            f"node {name} keeps its state in memory only (durability = \"memory\") and ran before, so it has lost what "
            f"it promised: start it with --rejoin if the others run; if they do not, everything is lost, and a new "
            f"cluster begins with empty directories"
        )
    if wal is not None and wal.torn_bytes:
        log.warning("cut off %d bytes of a commit that was not finished when the power went", wal.torn_bytes)
    node = Node(config, identity, wal)
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_COLLECTION, 50, 100)
    run(_serve(node))


def _check_rejoin(config: ClusterConfig, name: str) -> None:
    if not config.protocol.rejoins:
        raise NodeFailed(f"{config.protocol.name} cannot take back a member that lost its disk")
    for pid in config.pids_of(name):
        group = config.topology.group_of[pid]
        if len(config.topology.groups[group]) == 1:
            raise NodeFailed(
                f"nobody can restore group {config.group_name(group)}: node {name} has its only replica; what it held "
                f"is lost, begin a new cluster"
            )


async def _serve(node: Node) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await node.start()
    assert node.failure is not None, "made by start"
    groups = ", ".join(node.config.group_name(group) for group in node.by_group)
    log.info("node %s is up at %s, incarnation %d: %s", node.name, node.config.nodes[node.name].address,
             node.identity.incarnation, groups)  # fmt: skip
    waiting = loop.create_task(told.wait())
    done, _ = await asyncio.wait((waiting, node.failure), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    await node.stop()
    if node.failure in done:
        raise NodeFailed(node.failure.result())
    log.info("node %s has stopped", node.name)
