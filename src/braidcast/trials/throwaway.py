"""Clusters that are there to be measured: in a directory that goes when they have stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from braidcast.cluster.authority import certify_cluster
from braidcast.cluster.config import ClusterConfig, Layout, load_config
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import free_ports
from braidcast.core.protocol import Protocol
from braidcast.settings import CLUSTER_FILE

Settings = dict[str, dict[str, str | int]]
"""Per section of a configuration, what is not as by default."""
REPLICAS = 3


@contextmanager
def throwaway_folder() -> Iterator[Path]:
    """A directory that goes afterwards."""
    folder = Path(mkdtemp(prefix="braidcast-bench-"))
    try:
        yield folder
    finally:
        rmtree(folder)


@contextmanager
def throwaway_cluster(
    protocol: Protocol, layout: Layout, settings: Settings | Callable[[Path], Settings], groups: int = 3, *,
    unix: bool = False, tls: bool = False,
) -> Iterator[ClusterConfig]:  # fmt: skip
    """The configuration of groups of three; settings that need files make them in its directory."""
    with throwaway_folder() as folder:
        given = settings(folder) if callable(settings) else settings
        yield write_cluster(folder, protocol, layout, given, groups, unix=unix, tls=tls)


def write_cluster(
    folder: Path, protocol: Protocol, layout: Layout, settings: Settings, groups: int = 3, *, unix: bool = False,
    tls: bool = False,
) -> ClusterConfig:  # fmt: skip
    """Groups of three on this machine, described in a directory."""
    ports = free_ports(groups * REPLICAS if layout == "spread" else REPLICAS)
    text = render_local(
        protocol.name, ports, groups=groups, replicas=REPLICAS, layout=layout, unix=unix, tls=tls,
        settings=settings,
    )  # fmt: skip
    (folder / CLUSTER_FILE).write_text(text, encoding="utf-8")
    config = load_config(folder / CLUSTER_FILE, lambda _: protocol)
    if tls:
        certify_cluster(config)
    return config
