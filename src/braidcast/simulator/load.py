"""What clients do, decided before a run begins: a list of submissions, drawn from rates or written down."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from braidcast.core.process import Ticks
from braidcast.core.topology import Dest, Pid, Topology
from braidcast.simulator.delays import Delay, DelaySource, Uniform

FIRST_CLIENT: Pid = 1000
"""Clients are numbered from here, unless a topology has processes there."""

EVERY_NOW_AND_THEN: Delay = Uniform(0, 40)


@dataclass(frozen=True)
class Submission:
    """A client multicasts one ordered unit."""

    at: Ticks
    client: Pid
    dest: Dest
    payload: bytes = b""
    batch_count: int = 0
    """How many messages of its own the client puts into this unit; 0: it is no batch."""
    via: tuple[Pid, ...] = ()
    """Whom it is sent to first; none: the leader of each destination group, as the client knows it."""
    again_after: Ticks = 0
    """Send it once more after so many ticks, whatever has happened; 0: no."""
    dies: bool = False
    """The client dies between two sends: only the first receiver gets it, and nothing is ever retried."""
    name: str = ""
    """What a scenario calls it."""
    new_session: bool = False
    """The client was restarted just before: it has forgotten everything but its name and begins a new session."""


@dataclass(frozen=True)
class Load:
    """Rates from which submissions are drawn."""

    clients: int = 2
    messages: int = 20
    """In all, over all clients."""
    start: Ticks = 0
    gap: Delay = EVERY_NOW_AND_THEN
    """Ticks between submissions of one client."""
    spread: tuple[int, ...] = ()
    """How often a message has 1, 2, ... destination groups, as weights; none: all numbers equally often."""
    payload_bytes: int = 0
    batches: float = 0.0
    batch_messages_max: int = 8
    duplicates: float = 0.0
    deaths: float = 0.0
    new_sessions: float = 0.0


@dataclass(frozen=True)
class ClientPlan:
    """How clients behave."""

    timeout: Ticks = 1000
    """Retry to all members of the groups that have not replied; doubles with every retry, up to 8 times this."""
    window: int = 0
    """How many units a client has under way at most; 0: no limit."""
    to_all: bool = False
    """Send to all members at once, not to leaders."""
    rebatch: float = 0.0
    """How often a batch that timed out is put into a second unit as well, as a client may after a long silence."""


def clients_of(topology: Topology, count: int) -> tuple[Pid, ...]:
    """The ids of `count` clients, none of which is a process."""
    first = max(FIRST_CLIENT, max(topology.pids) + 1)
    return tuple(range(first, first + count))


def draw_load(load: Load, topology: Topology, random: Random) -> tuple[Submission, ...]:
    """Submissions in order of time."""
    clients = clients_of(topology, load.clients)
    groups = range(len(topology.groups))
    weights = load.spread[: len(groups)] or (1,) * len(groups)
    gaps = DelaySource(load.gap, random)
    clock = dict.fromkeys(clients, load.start)
    dead: set[Pid] = set()
    found: list[Submission] = []
    for i in range(load.messages):
        client = clients[i % len(clients)]
        if client in dead:
            continue
        clock[client] += gaps.draw()
        count = random.choices(range(1, len(weights) + 1), weights)[0]
        dies = random.random() < load.deaths and len(dead) < len(clients) - 1
        if dies:
            dead.add(client)
        found.append(
            Submission(
                at=clock[client],
                client=client,
                dest=tuple(sorted(random.sample(groups, count))),
                payload=random.randbytes(load.payload_bytes),
                batch_count=random.randint(2, load.batch_messages_max) if random.random() < load.batches else 0,
                again_after=1 + gaps.draw() if random.random() < load.duplicates else 0,
                dies=dies,
                new_session=random.random() < load.new_sessions,
            )
        )
    return tuple(sorted(found, key=lambda submission: submission.at))
