"""The data directory of a node as it starts: locked, then known to be its own, then its log.

1. Nothing is changed before the lock is held, so a second start of a running node leaves no trace.
2. Only a directory without an identity begins a first life. The log's id is in the identity, durably, before the node
   says anything; from then on the node starts with that log or not at all.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.identity import LOCK, Identity, no_place, open_identity
from braidcast.cluster.log import FIRST, Disk, Log, LogInUse, LogLost


@contextmanager
def locked(folder: Path, node: str) -> Iterator[None]:
    """Hold a data directory, which is made if need be, against every other process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise no_place(folder, node, error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogInUse(
                f"{folder} is in use by another process: node {node} runs already; stop that one first, or give this "
                f"one a directory of its own"
            ) from None
        yield
    finally:
        os.close(lock)


def open_data(
    config: ClusterConfig, name: str, *, rejoin: bool = False, disk: Disk | None = None
) -> tuple[Identity, Log | None]:
    """Who a node is, and its log unless it keeps its state in memory; the directory is locked."""
    folder, in_memory = config.node(name).data, config.durability == "memory"
    identity = open_identity(folder, config.name, config.fingerprint, name, rejoin=rejoin, in_memory=in_memory)
    if in_memory:
        return identity, None
    wal = Log.open(
        folder / "log", segment_bytes=config.limits.segment_bytes, disk=disk or Disk(),
        id=identity.log, number=max(FIRST, identity.log_number),
    )  # fmt: skip
    try:
        _remember(identity, wal)
    except BaseException:
        wal.close()
        raise
    return identity, wal


def _remember(identity: Identity, wal: Log) -> None:
    """Know the log from now on, and how far it is."""
    folder = identity.path.parent
    if not identity.log and wal.number != FIRST:
        raise LogLost(
            f"{folder} holds a log that its identity.json knows nothing of: bring back the files that belong together, "
            f"or move the directory away and start node {identity.node} with --rejoin"
        )
    identity.log, identity.log_number = wal.id, wal.number
    try:
        identity.save()
    except OSError as error:
        raise no_place(folder, identity.node, error) from None
