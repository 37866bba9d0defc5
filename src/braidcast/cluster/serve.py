"""Running a node as a process: its data, its loop, its admin port, the signals that end it.

Told to stop, a node first lets others lead what it leads; told again, it stops at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal

from braidcast.cluster.admin import Admin
from braidcast.cluster.application import Host, plain
from braidcast.cluster.config import ClusterConfig, LogFormat
from braidcast.cluster.data import locked, open_data
from braidcast.cluster.handing_over import hand_over
from braidcast.cluster.logs import log_to_stderr
from braidcast.cluster.node import Node
from braidcast.core.errors import BraidcastError
from braidcast.wire.loops import run

log = logging.getLogger(__name__)

OBJECTS_PER_COLLECTION = 200_000
"""Entries live long and die by their counts: a cyclic collector that looks at them often costs half of the node."""


class NodeFailed(BraidcastError):
    """A node that cannot go on."""


def serve(config: ClusterConfig, name: str, *, rejoin: bool = False, log_format: LogFormat | None = None) -> None:
    """Run a node until it is told to stop; raises if it cannot go on."""
    node_config = config.node(name)
    if rejoin:
        check_rejoin(config, name)
    log_to_stderr(name, log_format or config.log)
    with locked(node_config.data, name):
        node = open_node(config, name, rejoin=rejoin)
        gc.collect()
        gc.freeze()
        gc.set_threshold(OBJECTS_PER_COLLECTION, 50, 100)
        run(_serve(node))


def open_node(config: ClusterConfig, name: str, *, rejoin: bool = False, host: Host = plain) -> Node:
    """A node with its data, whose directory is locked."""
    identity, wal = open_data(config, name, rejoin=rejoin)
    if wal is None and identity.incarnation > 1 and not rejoin:
        raise NodeFailed(
            f"node {name} keeps its state in memory only (durability = \"memory\") and ran before, so it has lost what "
            f"it promised: start it with --rejoin if the others run; if they do not, everything is lost, and a new "
            f"cluster begins with empty directories"
        )
    if wal is not None and wal.torn_bytes:
        log.warning("cut off %d bytes of a commit that was not finished when the power went", wal.torn_bytes)
    try:
        return Node(config, identity, wal, host)
    except BaseException:
        if wal is not None:
            wal.close()
        raise


def check_rejoin(config: ClusterConfig, name: str) -> None:
    """Fail unless others can restore what a node lost."""
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
    loop.add_signal_handler(signal.SIGHUP, node.door.reload)
    address = node.config.nodes[node.name].admin
    admin = None if address is None else Admin(node, address)
    if admin is not None:
        admin.open()  # before the node: its recovery may take a while
    try:
        await node.start()
        await _serve_until(node, told)
    finally:
        if admin is not None:
            admin.close()


async def _serve_until(node: Node, told: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    assert node.failure is not None, "made by start"
    groups = ", ".join(node.config.group_name(group) for group in node.by_group)
    log.info("node %s is up at %s, incarnation %d: %s", node.name, node.config.nodes[node.name].address,
             node.identity.incarnation, groups,
             extra={"incarnation": node.identity.incarnation, "groups": groups.split(", ")})  # fmt: skip
    for work in (asyncio.Event().wait, lambda: hand_over(node)):
        doing, waiting = loop.create_task(work()), loop.create_task(told.wait())
        await asyncio.wait((doing, waiting, node.failure), return_when=asyncio.FIRST_COMPLETED)
        told.clear()
        for task in (doing, waiting):
            task.cancel()
        await asyncio.gather(doing, waiting, return_exceptions=True)
        if node.failure.done():
            break
    await node.stop()
    if node.failure.done():
        log.critical("node %s ends: %s", node.name, node.failure.result())
        raise NodeFailed(node.failure.result())
    log.info("node %s has stopped", node.name)
