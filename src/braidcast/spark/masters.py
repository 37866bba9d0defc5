"""Master URLs: what they may look like, and whether a master answers, said before Spark waits a minute for it."""

from __future__ import annotations

import re
import socket

from braidcast.core.errors import BraidcastError

LOCAL = "local[*,2]"
"""All cores; a task that failed is tried once more, which plain `local[*]` never does."""
CONNECT_S = 3.0
_KNOWN = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|spark://.+|yarn|k8s://.+")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class BadMaster(BraidcastError):
    """A master URL that means nothing, or a master that does not answer."""


def is_local(master: str) -> bool:
    """Whether driver and executors are one process."""
    return master == "local" or master.startswith("local[")


def is_here(master: str) -> bool:
    """Whether everything happens on this machine, so that nothing need listen beyond loopback."""
    return master.startswith("local") or (
        master.startswith("spark://") and all(host in _LOOPBACK for host, _ in _addresses(master))
    )


def check_master(master: str) -> None:
    """Raise `BadMaster` if `master` is no master URL, or if none of its standalone masters answers."""
    if not _KNOWN.fullmatch(master):
        raise BadMaster(
            f"{master!r} is no master URL: use local[2], spark://HOST:PORT, local-cluster[2,1,1024], yarn or k8s://..."
        )
    if not master.startswith("spark://"):
        return
    problems = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host.strip("[]"), port), CONNECT_S).close()
            return
        except OSError as error:
            problems.append(f"{host}:{port} ({error.strerror or error})")
    raise BadMaster(f"no Spark master answers at {', '.join(problems)}: start it, or leave --master out to run here")


def _addresses(master: str) -> list[tuple[str, int]]:
    found = []
    for place in master.removeprefix("spark://").split(","):
        host, colon, port = place.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise BadMaster(f"{master!r} is no master URL: a standalone master is spark://HOST:PORT")
        found.append((host, int(port)))
    return found
