"""How many files and connections the operating system lets a node have open.

What a node needs is known before it starts, so it raises its limit as far as it may and says if that does not suffice.
Where it runs out all the same, what can wait is done later: see `lacking`.
"""

from __future__ import annotations

import logging

from braidcast.cluster.config import ClusterConfig

try:
    import resource
except ImportError:  # not on every platform; then nothing is known of limits
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

STRANGERS_MAX = 64
"""Connections that are nobody's yet, besides one for each node."""
OWN_FILES = 64
"""The log, the history, the loop, standard streams, what is open for a moment,"""
REPLICA_FILES = 16
"""and the journal of each replica."""


def files_wanted(config: ClusterConfig, node: str) -> int:
    """What a node may have open at a time."""
    connections = config.limits.connections_max + STRANGERS_MAX + 3 * len(config.nodes)
    return connections + OWN_FILES + REPLICA_FILES * len(config.pids_of(node))


def raise_limit(wanted: int) -> bool:
    """Raise the soft limit, to the hard one at most; whether that suffices."""
    if resource is None:
        return True
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft == endless or soft >= wanted:
        return True
    most = wanted if hard == endless else min(wanted, hard)
    try:
        if most > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    except (OSError, ValueError):
        pass  # not allowed after all
    if soft < wanted:
        log.warning(
            "this process may open %d files, and connections_max asks for up to %d: raise the limit (ulimit -n) or "
            "lower connections_max", soft, wanted,
        )  # fmt: skip
    return soft >= wanted
