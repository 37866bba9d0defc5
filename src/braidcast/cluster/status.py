"""How a node is, for people and their tools."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braidcast.cluster.node import Node


def status_of(node: Node) -> dict[str, Any]:
    """Everything worth knowing, as plain data."""
    config, durability = node.config, node.durability
    return {
        "cluster": config.name,
        "node": node.name,
        "process": os.getpid(),
        "incarnation": node.identity.incarnation,
        "uptime_s": round(time.monotonic() - node.began, 1),
        "durability": config.durability,
        "disk": None if durability is None else {
            "lack": node.disk_lack, "commits": durability.commits,
            "checkpoint_waits": durability.checkpoint_waits,
            "log_bytes": durability.wal.bytes_since_checkpoint + durability.wal.checkpoint_bytes,
        },
        "replicas": [
            {
                "group": config.group_name(replica.group), "pid": replica.pid, "role": replica.process.role,
                "backlog": replica.process.backlog, "delivered": replica.journal.next - 1,
                "gts": replica.journal.last_gts, "refused": dict(replica.out.refused),
                "journal_damage": replica.journal.damage,
            }
            for replica in node.replicas.values()
        ],
        "peers": [
            {"node": peer.name, "connected": peer.connected, "sessions": peer.sessions, "trouble": peer.trouble}
            for peer in node.peers.all.values()
        ],
        "clients": len(node.clients),
        "reads_clients": node.admission.admit(),
        "refused": dict(node.refused),
    }  # fmt: skip
