"""What is explored: a protocol on a topology, what is in flight at the start, and what the environment may do.

The environment's moves are budgets. A budget of n means at most n of these moves in a schedule, at any moments; a
move that no budget allows never happens. Messages in flight are delivered in every order that is FIFO per channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from braidcast.core.client import MessageId, Multicast
from braidcast.core.errors import OptionError
from braidcast.core.process import Outbox, Process, Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Dest, Pid, Topology

FIRST_CLIENT = 1000
"""Clients get the pids from here on, one for each message, so that their channels are independent."""

NOW: Ticks = 1_000_000_000
"""The monotonic clock of every step: so late that nothing was heard recently."""


class Submission(NamedTuple):
    """An input that is in flight at the start."""

    sender: Pid
    to: Pid
    message: Any


@dataclass(frozen=True)
class Setup:
    """One configuration to explore."""

    protocol: Protocol
    topology: Topology
    options: Any = None
    """The protocol's options; `None` for its defaults."""
    submissions: tuple[Submission, ...] = ()
    elections: int = 0
    """How often a pending `protocol.suspicion` timer may fire."""
    crashes: int = 0
    """How often a process may crash and restart at once with what was durable; what is in flight to it is lost."""
    disk_losses: int = 0
    """How often a process may crash, lose its disk and rejoin; what is in flight to it is lost."""
    stops: int = 0
    """How many processes may crash for good."""
    losses: int = 0
    """How often the session between two processes may break; what is in flight on it, both ways, is lost."""
    resubmissions: int = 0
    """How often a client may send all its copies once more."""
    timers: Mapping[str, int | None] = field(default_factory=dict)
    """Kind of timer -> how often it may fire; `None` for always. Timers that are not named never fire."""
    walls: Mapping[Pid, Sequence[Ticks]] = field(default_factory=dict)
    """Readings that the wall clock of a process goes through, each from any moment on; it may step back."""
    patient: bool = False
    """Whether a client's copy waits until its receiver leads, as if the client knew who does; otherwise it may come
    at any moment, and a follower that forwards it makes many more states. Nothing waits where there is no leader."""
    connected: bool = False
    """Whether both ends of a new session get `Connected` as its first message."""
    now: Ticks = NOW
    dict_order: bool = False
    """Whether two states that differ in the order of a dict are two states."""

    def make(self, pid: Pid) -> Process:
        """A new process, not yet started."""
        options = self.protocol.options() if self.options is None else self.options
        return self.protocol.make(Outbox(pid), self.topology, options)

    def budgets(self) -> dict[str, int | None]:
        """All budgets of the environment by name; timers by the name of their kind."""
        budgets: dict[str, int | None] = dict(self.timers)
        if self.elections:
            if self.protocol.suspicion is None:
                raise OptionError(f"{self.protocol.name} has no elections: explore it without them")
            budgets[self.protocol.suspicion.__name__] = self.elections
        if self.disk_losses and not self.protocol.rejoins:
            raise OptionError(f"{self.protocol.name} cannot take back a process that lost its disk: explore without it")
        for name in MOVES_OF_THE_ENVIRONMENT:
            if count := getattr(self, name):
                budgets[name] = count
        return budgets


FAULTS = ("crashes", "disk_losses", "stops", "losses")
MOVES_OF_THE_ENVIRONMENT = (*FAULTS, "resubmissions")


def submit(
    topology: Topology,
    messages: int | Sequence[Dest],
    to: Literal["members", "leaders"] = "members",
) -> tuple[Submission, ...]:
    """Copies of so many multicasts, each of its own client: to all groups, or each to the groups that are given.

    The copies go to every member of the destinations, or only to the first member of each, who leads at the start.
    With elections they must go to all members, or a new leader may never hear of a message.
    """
    everywhere = tuple(range(len(topology.groups)))
    destinations = [everywhere] * messages if isinstance(messages, int) else list(messages)
    copies: list[Submission] = []
    for number, dest in enumerate(destinations):
        client = FIRST_CLIENT + number
        multicast = Multicast(MessageId(client, 1, 1), dest, b"m%d" % (number + 1))
        receivers: Iterable[Pid] = topology.members(dest)
        if to == "leaders":
            receivers = [topology.groups[g][0] for g in dest]
        copies += [Submission(client, p, multicast) for p in receivers]
    return tuple(copies)


def standard_setup(
    protocol: Protocol,
    topology: Topology,
    messages: int | Sequence[Dest] = 1,
    options: Any = None,
    **budgets: Any,
) -> Setup:
    """Multicasts and budgets, with clients as they suit these.

    Without faults each leader gets its copy. With faults every member gets one, and if there are leaders, a copy waits
    until its receiver leads: whoever leads in the end has it, and no state is spent on followers that pass it on.
    """
    protocol.check_topology(topology)
    if not protocol.tolerates_faults and (asked := [name for name in FAULTS if budgets.get(name)]):
        raise OptionError(f"{protocol.name} tolerates no faults: explore it without {' and '.join(asked)}")
    faults = any(budgets.values())
    submissions = submit(topology, messages, to="members" if faults else "leaders")
    patient = faults and protocol.suspicion is not None
    # A process that lost its disk asks those it hears of to restore it.
    connected = bool(budgets.get("disk_losses"))
    return Setup(protocol, topology, options, submissions, patient=patient, connected=connected, **budgets)
