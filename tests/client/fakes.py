"""A link whose nodes are lists: what is sent is kept, and answers are said by the test."""

from __future__ import annotations

from typing import Any

from tests.virtual_loop import VirtualLoop

from braidcast.client.link import Line, Link
from braidcast.wire.connection import Connection, ConnectionLimits
from braidcast.wire.handshake import GroupInfo, NodeInfo, Welcome

GROUPS = (GroupInfo("a", 0, (0, 1, 2)), GroupInfo("b", 1, (3, 4, 5)))
NODES = tuple([NodeInfo(f"n{n + 1}", f"127.0.0.1:{7101 + n}", (n, n + 3)) for n in range(3)])
CLIENT = 1 << 62 | 9


def welcome_of(node: str, fingerprint: str = "abc", **changed: Any) -> Welcome:
    """As that node says it."""
    said = {
        "cluster": "shop", "fingerprint": fingerprint, "node": node, "groups": GROUPS, "nodes": NODES,
        "frame_bytes_max": 1 << 16, "payload_bytes_max": 1 << 10, **changed,
    }  # fmt: skip
    return Welcome(**said)


class FakeLink(Link):
    """Connected to everybody, and to nobody."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__([], CLIENT)
        self.loop = loop
        self._learn(welcome_of("n1"))
        self.sent: list[tuple[tuple[int, ...], Any]] = []
        self.said: list[tuple[str, Any]] = []
        for line in self.lines.values():
            self.connect(line)

    def connect(self, line: Line) -> None:
        """A new connection of that line."""
        line.connection = Connection(ConnectionLimits(1, 1), lambda *_: None, lambda *_: None)
        with self.loop.running():
            for hear in self.on_connected:
                hear(line)

    def lose(self, line: Line) -> None:
        """The connection of that line ends."""
        line.connection = None
        with self.loop.running():
            for hear in self.on_lost:
                hear(line)
        self.loop.settle()

    def send(self, to: tuple[int, ...], message: Any) -> bool:
        self.sent.append((to, message))
        return all(self.line_of[pid].connection is not None for pid in to)

    def say(self, line: Line, message: Any) -> None:
        self.said.append((line.node.name, message))

    def answer(self, message: Any, line: str = "n1", sender: int = 0) -> None:
        """A node says something."""
        with self.loop.running():
            for hear in self._listeners.get(type(message), ()):
                hear(self.lines[line], sender, message)
        self.loop.settle()

    def taken(self) -> list[tuple[tuple[int, ...], Any]]:
        """What was sent since the last look."""
        sent, self.sent = self.sent, []
        return sent
