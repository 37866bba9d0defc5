"""Nodes as they are, in virtual time: on a network in memory, without a disk, and the same every time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from tests.virtual_loop import VirtualLoop

from braidcast.cli.registry import protocol_named
from braidcast.client import link as link_module
from braidcast.cluster import door, node, peers, replica
from braidcast.cluster.config import ClusterConfig, load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.identity import Identity
from braidcast.cluster.node import Node

FRAME_BYTES_MAX = 1 << 16
CONNECTIONS_MAX = 12
DELIVERY = ("leader", "early")
PORTS = (7101, 7102, 7103)


class Unsaved(Identity):
    """An identity that no disk remembers."""

    def save(self) -> None:
        """Not here."""


@cache
def config_of(delivery: str) -> ClusterConfig:
    """Two groups of three on three nodes, with everything small."""
    text = render_local(
        "whitebox", list(PORTS), groups=2, replicas=3, layout="colocated",
        settings={
            "cluster": {"durability": "memory"},
            "cluster.options": {
                "follower_delivery": delivery, "chunk_entries": 3, "chunk_bytes": 4096, "laggard_entries": 8,
                "sessions_max": 6,
            },
            "limits": {
                "frame_bytes_max": FRAME_BYTES_MAX, "peer_buffer_bytes_max": 4 * FRAME_BYTES_MAX,
                "client_buffer_bytes_max": 2 * FRAME_BYTES_MAX, "payload_bytes_max": 1024,
                "connections_max": CONNECTIONS_MAX, "pending_messages_max": 64, "journal_bytes_max": 4096,
            },
        },
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.toml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, protocol_named)


def make_node(config: ClusterConfig, name: str, incarnation: int = 1, *, rejoins: bool = False) -> Node:
    """A node that has not started."""
    disk = f"disk of {name}" + (" again" if rejoins else "")
    identity = Unsaved(
        config.path, config.name, config.fingerprint, name, disk, incarnation, rejoins
    )
    return Node(config, identity, None)


@contextmanager
def virtual(loop: VirtualLoop) -> Iterator[None]:
    """Nodes in here live in the loop's time, and leave nothing to chance."""
    clock = SimpleNamespace(monotonic=loop.time)
    with ExitStack() as stack:
        for module, name, value in (
            (node, "monotonic_us", lambda: int(loop.now * 1e6)),
            (node, "wall_us", lambda: int(loop.now * 1e6)),
            (node, "time", clock),
            (door, "time", clock),
            (peers, "random", lambda: 0.5),
            (replica, "random", lambda: 0.5),
            (link_module, "random", lambda: 0.5),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield
