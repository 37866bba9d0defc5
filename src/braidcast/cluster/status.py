"""How a node is, for people and their tools: worked out when somebody asks, from what is there anyway.

Everything else that shows a node, the metrics and `/healthz` and the tables of the command line, is made from this.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braidcast.cluster.node import Node
    from braidcast.cluster.replica import Replica

COMMIT_S_MAX = 2.0
"""A commit that takes longer hangs: nothing leaves the node meanwhile."""


def status_of(node: Node) -> dict[str, Any]:
    """Everything worth knowing, as plain data; in the loop of the node."""
    config, durability = node.config, node.durability
    node.set_clocks()
    status: dict[str, Any] = {
        "cluster": config.name,
        "node": node.name,
        "process": os.getpid(),
        "incarnation": node.identity.incarnation,
        "uptime_s": round(time.monotonic() - node.began, 3),
        "durability": config.durability,
        "disk": None if durability is None else {
            "lack": node.disk_lack, "commits": durability.commits, "commit_s": round(durability.waiting_s, 3),
            "checkpoint_waits": durability.checkpoint_waits,
            "log_bytes": durability.wal.bytes_since_checkpoint + durability.wal.checkpoint_bytes,
            "free_bytes": free_bytes(config.nodes[node.name].data),
        },
        "replicas": [_replica(node, replica) for replica in node.replicas.values()],
        "peers": [
            {
                "node": peer.name, "connected": peer.connected, "sessions": peer.sessions, "trouble": peer.trouble,
                "waiting_bytes": peer.behind_bytes,
            }
            for peer in node.peers.all.values()
        ],
        "tls": None if (tls := node.peers.tls) is None else {
            "until": tls.until.isoformat() if tls.until is not None else None, "trouble": tls.complaint,
        },
        "clients": len(node.clients),
        "reads_clients": node.admission.admit(),
        "refused": dict(node.refused),
    }  # fmt: skip
    status["unwell"] = why_unwell(status)
    return status


def _replica(node: Node, replica: Replica) -> dict[str, Any]:
    config, journal, process = node.config, replica.journal, replica.process
    standing = process.standing
    return {
        "group": config.group_name(replica.group), "pid": replica.pid, "role": process.role, "votes": standing.votes,
        "leader": None if standing.leader is None else config.node_of(standing.leader),
        "leads": standing.leader == replica.pid,
        "ballot": standing.ballot, "promised": standing.promised,
        "backlog": process.backlog, "backlog_bytes": process.backlog_bytes,
        "held_back": len(replica.out.sent) + len(replica.out.delivered),
        "delivered": journal.next - 1, "messages": journal.messages, "bytes": journal.bytes,
        "gts": journal.last_gts, "durable": standing.durable,
        "followers": [
            {"node": config.node_of(pid), "gts": gts, "behind": journal.count_after(gts)}
            for pid, gts in standing.followers
        ],
        "journal_oldest": journal.oldest, "journal_after": journal.after,
        "journal_bytes": sum(segment.size for segment in journal.segments),
        "journal_damage": journal.damage,
        "refused": dict(replica.out.refused),
    }  # fmt: skip


def why_unwell(status: Mapping[str, Any]) -> list[str]:
    """Why a node takes no part in the work of its groups, a line each; nothing if it does."""
    found = []
    if (disk := status["disk"]) is not None:
        if disk["lack"]:
            found.append(f"{disk['lack']}: nothing is acknowledged meanwhile")
        elif disk["commit_s"] > COMMIT_S_MAX:
            found.append(f"a commit has been waiting for the disk for {disk['commit_s']:.0f} s")
    for replica in status["replicas"]:
        if not replica["votes"]:
            found.append(f"group {replica['group']}: lost its disk and is not restored, so it has no vote")
        elif replica["leader"] is None:
            found.append(f"group {replica['group']}: neither leads nor hears a leader")
    return found


def free_bytes(folder: Path) -> int:
    """What there is room for on the disk of a directory; 0 if nobody can tell."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
