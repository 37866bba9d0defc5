"""What a node writes into the history: cheap enough to leave on.

With the detail `order` these are the events by which an order is judged: what clients multicast, deliveries, starts,
and the notes of the protocol. With `everything`, sends, receipts and records, too.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.replica import Replica
from braidcast.core.client import Multicast
from braidcast.core.message import snake_name
from braidcast.core.topology import Pid, Pids
from braidcast.history.event import (
    DELIVER,
    MULTICAST,
    PERSIST,
    RECEIVE,
    RECOVERED,
    RESTART,
    SEND,
    START,
    DiskLost,
    Event,
    Resumed,
)  # fmt: skip
from braidcast.history.manifest import Manifest
from braidcast.history.raw import RawWriter


def manifest_of(config: ClusterConfig, version: str) -> Manifest:
    """The head of the history of a running cluster."""
    return Manifest(
        protocol=config.protocol.name,
        topology=config.topology.groups,
        run=f"{config.name}-{time.strftime('%Y%m%d-%H%M%S')}",
        driver="cluster",
        options=dataclasses.asdict(config.options),
        software_version=version,
        promises=config.protocol.promises,
    )


class NodeRecorder:
    """Records what happens at one node."""

    def __init__(self, config: ClusterConfig, node: str, incarnation: int, version: str) -> None:
        assert config.history is not None, "only a node with a history has a recorder"
        self.writer = RawWriter(config.history, f"{node}-{incarnation:06}", manifest_of(config, version))
        self.write, self.close = self.writer.write, self.writer.close
        self.incarnation = incarnation - 1
        """As histories count: how often the node had restarted."""
        self.everything = config.history_detail == "everything"

    def _add(self, replica: Replica, event: str, peer: Pid | None, what: Any, role: str | None = None) -> None:
        out = replica.out
        self.writer.append(Event(out.now, out.wall, replica.pid, self.incarnation, event, peer, what, role))

    def started(self, replica: Replica, kept: Sequence[Any], *, is_lost: bool) -> None:
        """A replica begins; again with what its journal and its log hold, or with nothing if its disk was lost."""
        if is_lost:
            self._add(replica, RESTART, None, DiskLost())
        elif self.incarnation == 0:
            self._add(replica, START, None, None)
        else:
            self._add(replica, RESTART, None, Resumed(replica.journal.last_gts))
            if self.everything:
                self._recovered(replica, kept)

    def _recovered(self, replica: Replica, kept: Sequence[Any]) -> None:
        """A node may be killed after a commit and before it recorded that: what it said to be durable is not all."""
        checkpoint = replica.checkpoint()
        for record in kept if checkpoint is None else checkpoint:
            self._add(replica, RECOVERED, None, record)

    def multicast(self, replica: Replica, m: Multicast) -> None:
        """A client's message came to this node, maybe not for the first time."""
        out = replica.out
        self.writer.append(Event(out.now, out.wall, m.id.client, 0, MULTICAST, None, m, None))

    def delivered(self, replica: Replica, delivery: Any) -> None:
        """A delivery was handed over."""
        self._add(replica, DELIVER, None, delivery, replica.process.role)

    def received(self, replica: Replica, sender: Pid, message: Any) -> None:
        """A message arrived; only with `everything`."""
        self._add(replica, RECEIVE, sender, message)

    def let_go(self, replica: Replica, sent: Iterable[tuple[Pids, Any]]) -> None:
        """Sends leave; only with `everything`."""
        for to, message in sent:
            for pid in to:
                if pid != replica.pid:
                    self._add(replica, SEND, pid, message)

    def persisted(self, replica: Replica, records: Iterable[Any]) -> None:
        """Records are durable; only with `everything`."""
        for record in records:
            self._add(replica, PERSIST, None, record)

    def noter(self, replica: Replica) -> Callable[[Any], None]:
        """What a process calls with its notes."""
        names: dict[type, str] = {}

        def note(what: Any) -> None:
            kind = type(what)
            name = names.get(kind)
            if name is None:
                name = names[kind] = snake_name(kind)
            self._add(replica, name, None, what)

        return note
