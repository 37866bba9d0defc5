"""Clients: endpoints outside the topology that multicast, wait for a reply from every group, and try again.

A client is done with a unit when every destination group has replied. It sends to those it believes to lead, follows
redirects, and after a time-out sends to every member of the groups that are silent. It never forms a unit twice: a
retry is the very same message.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from braidcast.core.ballots import Ballot, leader_of
from braidcast.core.client import MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.process import Ticks
from braidcast.core.topology import Group, Pid, Topology
from braidcast.simulator.load import ClientPlan, Submission
from braidcast.simulator.network import Endpoint, Network
from braidcast.simulator.recorder import Recorder

TIMEOUT_DOUBLINGS_MAX = 3
REDIRECTS_MAX = 4
"""Redirects followed per attempt: two processes that each take the other for the leader would keep it busy."""


class Unit:
    """A message under way."""

    __slots__ = ("attempts", "deadline", "multicast", "redirects", "submitted_at", "waiting")

    def __init__(self, multicast: Multicast, now: Ticks) -> None:
        self.multicast = multicast
        self.waiting = set(multicast.dest)
        """Groups that have not replied."""
        self.submitted_at = now
        self.deadline: Ticks = 0
        self.attempts = 0
        self.redirects = 0


class Client(Endpoint):
    """One client."""

    def __init__(
        self,
        pid: Pid,
        network: Network,
        topology: Topology,
        plan: ClientPlan,
        random: Random,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(pid, network)
        self.world = network.world
        self.topology = topology
        self.plan = plan
        self.random = random
        self.recorder = recorder
        self.up = True
        self.session = 1
        self.seq = 0
        self.numbered = 0
        """How many messages of its own it has put into batches of this session."""
        self.leaders: dict[Group, Pid] = {g: members[0] for g, members in enumerate(topology.groups)}
        self.ballots: dict[Group, Ballot] = {}
        self.units: dict[MessageId, Unit] = {}
        """Under way, lowest seq first."""
        self.waiting: deque[Submission] = deque()
        """Submissions beyond the window."""
        self.latencies: dict[MessageId, Ticks] = {}
        """Of every complete unit, from the first send to the reply of the last group."""
        self.submitted: list[Multicast] = []
        self.named: dict[str, Multicast] = {}
        """What scenarios call them."""
        self.refused: dict[MessageId, str] = {}
        self.forgotten: list[MessageId] = []
        """Under way when the client died or was restarted: nobody waits for these."""
        self.checking = False

    @property
    def idle(self) -> bool:
        """Whether it waits for nothing."""
        return not self.units and not self.waiting

    # -- submitting -------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> None:
        """Multicast, now or when the window has room."""
        if not self.up:
            return
        if submission.new_session:
            self.restart()
        if self.plan.window and len(self.units) >= self.plan.window:
            self.waiting.append(submission)
        else:
            self._submit(submission)

    def _submit(self, submission: Submission) -> None:
        multicast = self._form(submission.dest, submission.payload, submission.batch_count)
        if submission.name:
            self.named[submission.name] = multicast
        if submission.dies:
            receivers = submission.via or self._receivers(multicast.dest)
            self.network.send(self, [(receivers[:1], multicast)])
            self.die()
            return
        if submission.again_after:
            self.world.call(self.world.now + submission.again_after, self._again, multicast)
        self._send(self.units[multicast.id], submission.via)

    def _form(self, dest: tuple[Group, ...], payload: bytes, count: int, first: int | None = None) -> Multicast:
        self.seq += 1
        if count and first is None:
            first, self.numbered = self.numbered, self.numbered + count
        lowest = next(iter(self.units)).seq if self.units else self.seq
        id = MessageId(self.pid, self.session, self.seq)
        batches = [unit.multicast.batch_first for unit in self.units.values() if unit.multicast.batch_count]
        complete = min([*batches, first or 0]) if count else 0
        multicast = Multicast(id, dest, payload, lowest, first or 0, count, complete)
        self.submitted.append(multicast)
        self.units[id] = Unit(multicast, self.world.now)
        if self.recorder is not None:
            self.recorder.multicast(self, multicast)
        return multicast

    def _receivers(self, groups: tuple[Group, ...]) -> tuple[Pid, ...]:
        if self.plan.to_all:
            return self.topology.members(groups)
        return tuple([self.leaders[g] for g in groups])

    def _send(self, unit: Unit, to: tuple[Pid, ...] = ()) -> None:
        unit.attempts += 1
        unit.redirects = 0
        doublings = min(unit.attempts - 1, TIMEOUT_DOUBLINGS_MAX)
        unit.deadline = self.world.now + (self.plan.timeout << doublings)
        self.network.send(self, [(to or self._receivers(unit.multicast.dest), unit.multicast)])
        if not self.checking:
            self.checking = True
            self.world.call(self.world.now + self._check_interval, self._check)

    def _again(self, multicast: Multicast) -> None:
        if self.up:
            self.network.send(self, [(self._receivers(multicast.dest), multicast)])

    @property
    def _check_interval(self) -> Ticks:
        return max(1, self.plan.timeout // 4)

    def _check(self) -> None:
        """Retry what is overdue; one event for all units, at a quarter of the time-out."""
        self.checking = False
        now = self.world.now
        for unit in [unit for unit in self.units.values() if unit.deadline <= now]:
            multicast = unit.multicast
            self._send(unit, self.topology.members(tuple(sorted(unit.waiting))))
            if multicast.batch_count and unit.attempts == 2 and self.random.random() < self.plan.rebatch:
                count, first = multicast.batch_count, multicast.batch_first
                self._send(self.units[self._form(multicast.dest, multicast.payload, count, first).id])
        if self.units and not self.checking:
            self.checking = True
            self.world.call(now + self._check_interval, self._check)

    # -- answers ----------------------------------------------------------------------------------------------

    def receive(self, sender: Pid, message: Any) -> None:
        """An answer came."""
        if not self.up:
            return
        kind = type(message)
        if kind is Reply:
            self._replied(sender, message)
        elif kind is Redirect:
            self._redirected(message)
        elif kind is Refused and self.units.pop(message.id, None) is not None:
            self.refused[message.id] = message.why
            self.restart()

    def _replied(self, sender: Pid, reply: Reply) -> None:
        if self.recorder is not None:
            self.recorder.replied(self, sender, reply)
        unit = self.units.get(reply.id)
        if unit is None:
            return
        unit.waiting.discard(reply.group)
        if unit.waiting:
            return
        del self.units[reply.id]
        self.latencies[reply.id] = self.world.now - unit.submitted_at
        if self.waiting:
            self._submit(self.waiting.popleft())

    def _redirected(self, redirect: Redirect) -> None:
        unit = self.units.get(redirect.id)
        known = self.ballots.get(redirect.group, -1)
        if redirect.ballot > known:
            self.ballots[redirect.group] = redirect.ballot
            self.leaders[redirect.group] = leader_of(redirect.ballot)
        if unit is not None and redirect.ballot >= known and unit.redirects < REDIRECTS_MAX:
            unit.redirects += 1
            self.network.send(self, [((self.leaders[redirect.group],), unit.multicast)])

    # -- life -------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Forget everything; begin a new session."""
        self._forget()
        if self.recorder is not None:
            self.recorder.crashed(self)
        self.session += 1
        self.incarnation += 1
        self.seq = self.numbered = 0
        if self.recorder is not None:
            self.recorder.restarted(self, None)

    def die(self) -> None:
        """Never do anything again."""
        self._forget()
        self.waiting.clear()
        self.up = False
        if self.recorder is not None:
            self.recorder.crashed(self)

    def _forget(self) -> None:
        self.forgotten += self.units
        self.units.clear()
