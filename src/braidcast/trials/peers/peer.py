"""What every system under comparison is to `compare`, and what most of them need."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from braidcast.core.errors import BraidcastError
from braidcast.trials.bench import ClusterLoad

T = TypeVar("T")

READY_S = 20.0
LOOK_S = 0.05
SERVERS = 3


class PeerError(BraidcastError):
    """A system that does not start, or does not do what it is asked."""


class Client(Protocol):
    """What submits to a system."""

    def submit(self) -> asyncio.Future[Any]:
        """Begin one unit of the load; the future ends when the system has acknowledged all of it."""

    async def close(self) -> None:
        """Nothing is under way any more."""


class Peer(Protocol):
    """A system: it is started anew for each measurement, in a directory that goes afterwards."""

    name: str
    durability: str
    """What an acknowledged message survives."""
    acknowledged: str
    """What is true when a message is acknowledged."""
    unit: str
    """How several messages are submitted at once."""
    remark: str
    """What else a reader of its figures must know; may be empty."""

    def missing(self) -> str:
        """What is not installed, and how to get it; empty if nothing is missing."""

    def version(self) -> str:
        """Of all that takes part in the figures."""

    def start(self, folder: Path) -> None:
        """Start its processes."""

    def pids(self) -> Collection[int]:
        """Those processes, without this one."""

    async def connect(self, load: ClusterLoad) -> Client:
        """Wait until it serves, and connect to it."""

    def stop(self) -> None:
        """End its processes, however far it came."""


def found(program: str) -> str | None:
    """Where a server is; Debian puts some where only an administrator looks."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))


def first_line(*command: str) -> str:
    """What a program says of itself."""
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return text.splitlines()[0] if text else "?"


class Servers:
    """The processes of a system: what they said is in its directory, and they are ended by their ids."""

    def __init__(self) -> None:
        self.running: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def start(self, folder: Path, command: Sequence[str]) -> None:
        """Start one more."""
        said = folder / f"server-{len(self.running)}.log"
        with said.open("wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.running.append((command[0], process, said))

    def pids(self) -> list[int]:
        """Of all of them."""
        return [process.pid for _, process, _ in self.running]

    def check(self) -> None:
        """A PeerError if one of them has ended."""
        for name, process, said in self.running:
            if process.poll() is not None:
                words = said.read_text(encoding="utf-8", errors="replace").splitlines()
                last = words[-1] if words else "it said nothing"
                raise PeerError(f"{name} ended with {process.returncode}: {last}")

    def stop(self) -> None:
        """End all of them at once; what they hold is thrown away."""
        for _, process, _ in self.running:
            process.kill()
        for _, process, _ in self.running:
            process.wait()
        self.running.clear()


async def until(attempt: Callable[[], Awaitable[T | None]], servers: Servers, what: str) -> T:
    """The first answer of an attempt that is not None; it may fail while servers start."""
    deadline = time.monotonic() + READY_S
    while True:
        servers.check()
        with suppress(OSError, asyncio.TimeoutError):
            answer = await attempt()
            if answer is not None:
                return answer
        if time.monotonic() > deadline:
            raise PeerError(f"waited {READY_S:.0f} s in vain for {what}")
        await asyncio.sleep(LOOK_S)
