"""A cluster of real processes on this machine: started, found again, stopped.

A directory holds all of it: `cluster.toml`, the nodes' data, and per node a log of what it said and its process id.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from braidcast.cluster.config import ClusterConfig
from braidcast.core.errors import BraidcastError

RUN = "run"
STOP_S = 10.0
LOOK_S = 0.02


class LocalClusterError(BraidcastError):
    """A local cluster that cannot be started or found."""


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """What is known of the process of a node."""

    name: str
    folder: Path
    """Of its cluster."""
    pid_file: Path
    output: Path

    @property
    def pid(self) -> int | None:
        """Of the process if it runs; None otherwise."""
        try:
            pid = int(self.pid_file.read_text())
            if pid <= 0:  # a group of processes, or all there are
                return None
            os.kill(pid, 0)
            command = Path(f"/proc/{pid}/cmdline")
            # Without a command line it has only just been spawned. With another, the number has gone to somebody else.
            if command.exists() and (words := command.read_bytes()) and not self._is_in(words.split(b"\0")):
                return None
        except (OSError, ValueError, OverflowError):
            return None
        return None if _is_zombie(pid) else pid

    @property
    def is_paused(self) -> bool:
        """Whether somebody stopped it (SIGSTOP): it runs, and does nothing."""
        return (pid := self.pid) is not None and any(line.startswith("State:\tT") for line in _status_of(pid))

    def adopt(self, pid: int) -> bool:
        """Take a process that answers for the node as its own; False if it is not of this directory."""
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        self.pid_file.write_text(f"{pid}\n")
        if self.pid == pid:
            return True
        self.pid_file.unlink()
        return False

    def _is_in(self, words: list[bytes]) -> bool:
        return self.name.encode() in words and any(word.startswith(bytes(self.folder) + b"/") for word in words)


class LocalCluster:
    """The processes of the nodes of one configuration."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.folder = config.path.parent
        self.commands = {name: node_command(config.path, name) for name in config.nodes}
        """How each is started; trials put other commands here."""
        self.nodes = {name: _process(self.folder, name) for name in config.nodes}

    def start(self, name: str, *arguments: str) -> int:
        """Start the process of a node; its process id."""
        node = self.nodes[name]
        if (pid := node.pid) is not None:
            return pid
        node.output.parent.mkdir(parents=True, exist_ok=True)
        command = [*self.commands[name], *arguments]
        # Spawned, not Popen: the node outlives whoever starts it. And when this returns it is the node's own program.
        pid = os.posix_spawnp(
            command[0], command, os.environ, setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, node.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )  # fmt: skip
        node.pid_file.write_text(f"{pid}\n")
        return pid

    def start_all(self) -> None:
        """Start every node that does not run."""
        for name in self.nodes:
            self.start(name)

    def running(self) -> dict[str, int]:
        """The nodes that run, with their process ids."""
        return {name: pid for name, node in self.nodes.items() if (pid := node.pid) is not None}

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process of a node, if it runs."""
        if (pid := self.nodes[name].pid) is not None:
            os.kill(pid, number)

    def kill(self, name: str) -> None:
        """End a node as `kill -9` does, and wait until it is gone."""
        self.signal(name, signal.SIGKILL)
        self.wait_until(lambda: self.nodes[name].pid is None, f"node {name} to die")

    def stop(self, name: str) -> None:
        """Let a node stop by itself."""
        self.signal(name, signal.SIGCONT)
        self.signal(name, signal.SIGTERM)
        self.wait_until(lambda: self.nodes[name].pid is None, f"node {name} to stop")

    def stop_all(self) -> list[str]:
        """Stop every node; those that had to be killed."""
        return stop_processes(self.nodes.values())

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = STOP_S) -> None:
        """Wait for something, but not for ever."""
        wait_until(condition, what, seconds)

    def last_words(self, name: str) -> str:
        """The last line that a node said."""
        try:
            lines = self.nodes[name].output.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = STOP_S) -> None:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LocalClusterError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(LOOK_S)


def processes_in(folder: Path) -> list[NodeProcess]:
    """The nodes whose process ids a directory holds, whatever its configuration says."""
    return [_process(folder, file.stem) for file in sorted((folder / RUN).glob("*.pid"))]


def stop_processes(nodes: Iterable[NodeProcess]) -> list[str]:
    """Stop nodes; those that had to be killed."""
    nodes = list(nodes)

    def tell(*numbers: int) -> list[str]:
        running = [(node.name, pid) for node in nodes if (pid := node.pid) is not None]
        for _, pid in running:
            for number in numbers:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        return [name for name, _ in running]

    def wait() -> bool:
        deadline = time.monotonic() + STOP_S
        while any(node.pid is not None for node in nodes):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)
        return True

    tell(signal.SIGCONT, signal.SIGTERM)
    stubborn = [] if wait() else tell(signal.SIGKILL)
    if stubborn and not wait():
        raise LocalClusterError(f"node {stubborn[0]} does not die: its process hangs in the kernel")
    for node in nodes:
        node.pid_file.unlink(missing_ok=True)
    return stubborn


def _process(folder: Path, name: str) -> NodeProcess:
    return NodeProcess(name, folder, folder / RUN / f"{name}.pid", folder / RUN / f"{name}.log")


def node_command(config: Path, name: str) -> list[str]:
    """What starts a node."""
    return [sys.executable, "-m", "braidcast", "node", "--config", str(config), "--id", name]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _is_zombie(pid: int) -> bool:
    """Whether it has ended, and only its parent, if that is this process, has not looked."""
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return True
    except ChildProcessError:
        pass
    return any(line.startswith("State:\tZ") for line in _status_of(pid))


def _status_of(pid: int) -> Iterator[str]:
    try:
        yield from Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return
