"""Where a measurement was made: no figure is worth anything without it."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import braidcast


def this_machine() -> dict[str, str | int]:
    """Processor, cores, memory, kernel, Python, and which braidcast."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "braidcast": f"{braidcast.__version__} {commit_of(Path(braidcast.__file__).parent)}".rstrip(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return " ".join(value.split())
    return platform.machine()


def commit_of(folder: Path) -> str:
    """The last commit that changed something in a folder, with a + if files differ from it; empty outside git.

    Of the folder alone, so that a commit of documentation does not make a measurement one of another build.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("log", "-1", "--format=%h", "--", ".")
        return commit and commit + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
