"""What is checked in every state that a search reaches.

An invariant looks at the processes one by one and then judges what it saw of all of them together. Both are
remembered: `observe` runs once for each local state, `judge` once for each combination of observations. So a check
costs nothing in the many states that differ only in what is in flight.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from braidcast.core.application import Delivered
from braidcast.core.client import MessageId
from braidcast.core.process import Process
from braidcast.core.timestamps import show_timestamp
from braidcast.core.topology import Pid, Topology

Log = tuple[Any, ...]
"""All that one process delivered, restarts included."""


class Invariant(Protocol):
    """Something that holds in every state, or in every final state."""

    name: str
    at_end: bool
    """Judge only final states: nothing is in flight and no timer must fire."""

    def observe(self, process: Process, log: Log) -> Hashable:
        """What matters of one process, whose state is only lent."""

    def judge(self, seen: Mapping[Pid, Any], stopped: frozenset[Pid]) -> Iterator[str]:
        """What is wrong with these observations, one line each; those that stopped for good are among them."""


class DeliveryOrder:
    """Integrity, validity, one timestamp per message, rising at each process, and logs of a group that agree.

    Logs of a group must be prefixes of one another, and every message to a group that lies below the last
    timestamp of a log of the group must be in it. All deliveries that are not `Delivered` are left out.
    """

    name = "delivery order"
    at_end = False

    def __init__(self, topology: Topology, submitted: Sequence[Any]) -> None:
        self.topology = topology
        self.submitted = {m.id: m for m in submitted if hasattr(m, "dest")}

    def observe(self, process: Process, log: Log) -> Hashable:
        """The final deliveries."""
        return tuple([d for d in log if type(d) is Delivered])

    def judge(self, seen: Mapping[Pid, tuple[Delivered, ...]], stopped: frozenset[Pid]) -> Iterator[str]:
        """See the class."""
        for pid, log in seen.items():
            yield from self._judge_one(pid, log)
        yield from self._judge_timestamps(seen)
        for members in self.topology.groups:
            yield from self._judge_group([(p, seen[p]) for p in members])
        yield from self._judge_gaps(seen)

    def _judge_one(self, pid: Pid, log: tuple[Delivered, ...]) -> Iterator[str]:
        group = self.topology.group_of[pid]
        ids: set[MessageId] = set()
        last = 0
        for d in log:
            m = d.multicast
            if group not in m.dest:
                yield f"process {pid} of group {group} delivered {m.id}, which is for {m.dest}"
            if self.submitted.get(m.id) != m:
                yield f"process {pid} delivered {m.id}, which nobody multicast like that"
            if m.id in ids:
                yield f"process {pid} delivered {m.id} twice"
            if d.gts <= last:
                yield f"process {pid} delivered {m.id} at {show_timestamp(d.gts)} after {show_timestamp(last)}"
            ids.add(m.id)
            last = d.gts

    def _judge_timestamps(self, seen: Mapping[Pid, tuple[Delivered, ...]]) -> Iterator[str]:
        gts_of: dict[MessageId, int] = {}
        id_at: dict[int, MessageId] = {}
        for pid, log in seen.items():
            for d in log:
                if gts_of.setdefault(d.multicast.id, d.gts) != d.gts:
                    one, other = show_timestamp(gts_of[d.multicast.id]), show_timestamp(d.gts)
                    yield f"{d.multicast.id} was delivered at {one}, and by process {pid} at {other}"
                if id_at.setdefault(d.gts, d.multicast.id) != d.multicast.id:
                    yield f"{id_at[d.gts]} and {d.multicast.id} were both delivered at {show_timestamp(d.gts)}"

    def _judge_group(self, logs: list[tuple[Pid, tuple[Delivered, ...]]]) -> Iterator[str]:
        longest_pid, longest = max(logs, key=lambda entry: len(entry[1]))
        for pid, log in logs:
            if longest[: len(log)] != log:
                yield f"processes {longest_pid} and {pid} of one group delivered {_ids(longest)} and {_ids(log)}"

    def _judge_gaps(self, seen: Mapping[Pid, tuple[Delivered, ...]]) -> Iterator[str]:
        known = {d.multicast.id: d for log in seen.values() for d in log}
        for pid, log in seen.items():
            if not log:
                continue
            group, has = self.topology.group_of[pid], {d.multicast.id for d in log}
            for id, d in known.items():
                if group in d.multicast.dest and d.gts < log[-1].gts and id not in has:
                    yield f"process {pid} passed over {id}, which others delivered at {show_timestamp(d.gts)}"


class Agreement:
    """In a final state, what one process delivered was delivered by every process of its destinations that is up.

    A process that delivered and then stopped for good counts among those that delivered.
    """

    name = "agreement"
    at_end = True

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def observe(self, process: Process, log: Log) -> Hashable:
        """What was delivered, without its order."""
        return tuple(sorted({(d.multicast.id, d.multicast.dest) for d in log if type(d) is Delivered}))

    def expected(self, seen: Mapping[Pid, Any]) -> set[tuple[MessageId, tuple[int, ...]]]:
        """What must have been delivered everywhere."""
        return {entry for log in seen.values() for entry in log}

    def judge(self, seen: Mapping[Pid, Any], stopped: frozenset[Pid]) -> Iterator[str]:
        """See the class."""
        for id, dest in sorted(self.expected(seen)):
            for pid in self.topology.members(dest):
                if pid not in stopped and (id, dest) not in seen[pid]:
                    yield f"process {pid} never delivers {id}"


class Termination(Agreement):
    """In a final state, every message was delivered by every process of its destinations that is up."""

    name = "termination"

    def __init__(self, topology: Topology, submitted: Sequence[Any]) -> None:
        super().__init__(topology)
        self.submitted = {(m.id, m.dest) for m in submitted if hasattr(m, "dest")}

    def expected(self, seen: Mapping[Pid, Any]) -> set[tuple[MessageId, tuple[int, ...]]]:
        """All that was submitted."""
        return self.submitted


def _ids(log: tuple[Delivered, ...]) -> str:
    return " ".join(str(d.multicast.id) for d in log) or "nothing"
