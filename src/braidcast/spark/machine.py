"""What the machine has that Spark would use."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 1 << 30
MEMORY_MIN_GIB, MEMORY_MAX_GIB = 1, 16
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def cores() -> int:
    """How many this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """Of the machine, or of the container if that is less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [int(text) for path in CGROUP_LIMITS if (text := _read(path)).isdecimal()]
    return min([whole, *limits])


def driver_memory_gib() -> int:
    """What Spark gets here if nobody says: a third, since Python works beside it and the files want to be cached."""
    return max(MEMORY_MIN_GIB, min(MEMORY_MAX_GIB, memory_bytes() // 3 // GIB))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
