"""Letting other nodes lead: before a node stops, and when an operator wants it.

The node asks its processes that lead (`HandOver`), again and again, since nothing may have come of it. They go on
leading until they are deposed, so there is nothing to undo if nothing comes of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from braidcast.core.application import HandOver
from braidcast.core.topology import Pid

if TYPE_CHECKING:
    from braidcast.cluster.node import Node
    from braidcast.cluster.replica import Replica

log = logging.getLogger(__name__)

HAND_OVER_S = 1.0
"""After which a node that is told to stop does, whoever leads."""
LOOK_S = 0.005
SAY_AGAIN_S = 0.1


async def hand_over(node: Node) -> None:
    """Let others lead all that this node leads; returns when they do, or when it has taken too long."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    leading = [replica for replica in node.replicas.values() if leads(node, replica)]
    left = await _until_followed(node, leading, None)
    for replica in leading:
        group = node.config.group_name(replica.group)
        if replica not in left:
            took_ms = round(1000 * (loop.time() - began))
            log.info("others lead group %s after %d ms", group, took_ms, extra={"group": group, "took_ms": took_ms})
        else:
            log.warning("nobody else leads group %s: it waits for an election", group, extra={"group": group})


async def let_lead(node: Node, group: str, to: str) -> str:
    """Let node `to` lead a group that this one leads; why not, or nothing if it does now."""
    config = node.config
    replica = node.by_group.get(config.group_number(group))
    hosts = config.groups[config.group_number(group)].nodes
    if to not in hosts:
        return f"node {to} has no replica of group {group}: choose {' or '.join(hosts)}"
    if replica is None or not leads(node, replica):
        return f"node {node.name} does not lead group {group}: ask the one that does (braidcast status)"
    if to == node.name:
        return ""
    if HandOver not in replica.process.inputs:
        return f"protocol {node.protocol.name} cannot hand over"
    pid = config.groups[replica.group].pids[hosts.index(to)]
    if await _until_followed(node, [replica], pid):
        return f"node {to} does not lead group {group} after {HAND_OVER_S:g} s: is it up, with a vote, and connected?"
    return ""


def leads(node: Node, replica: Replica) -> bool:
    """Whether it leads its group."""
    node.set_clocks()
    return replica.process.standing.leader == replica.pid


def can_be_led_by_others(node: Node, replica: Replica) -> bool:
    """Whether there is a quorum, with another member, that could elect one."""
    group = replica.group
    hosts = [node.config.node_of(pid) for pid in node.topology.groups[group]]
    reached = sum(node.reaches(host) for host in hosts)
    return reached > 1 and reached >= node.topology.quorum[group] and HandOver in replica.process.inputs


async def _until_followed(node: Node, replicas: Sequence[Replica], to: Pid | None) -> list[Replica]:
    """Ask until each of these follows another; those that do not in time, or cannot any more."""
    loop = asyncio.get_running_loop()
    end = loop.time() + HAND_OVER_S
    say_at = 0.0
    left = list(replicas)
    while not node.over and loop.time() < end and any(can_be_led_by_others(node, replica) for replica in left):
        if loop.time() >= say_at:
            say_at = loop.time() + SAY_AGAIN_S
            for replica in left:
                _say(node, replica, to)
            node.wake()
        await asyncio.sleep(LOOK_S)
        node.set_clocks()
        left = [replica for replica in left if not _is_followed(replica, to)]
    return left


def _say(node: Node, replica: Replica, to: Pid | None) -> None:
    node.carefully(lambda: replica.step(replica.pid, HandOver(to)))


def _is_followed(replica: Replica, to: Pid | None) -> bool:
    leader = replica.process.standing.leader
    return leader == to if to is not None else leader not in (None, replica.pid)
