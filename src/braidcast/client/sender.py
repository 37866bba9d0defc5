"""Multicasting: every message keeps its name until it is answered, so that no retry makes a second one of it.

1. A message goes to the leader of each destination group as far as the sender knows; replies and redirects repair what
   it knows. After a time-out it goes to all members of the groups that have not answered.
2. A reply from a group means that the group delivered the message, and that every other destination will. The receipt
   comes when all destination groups have answered.
3. What the sender says of itself (`complete_below`) lets the groups forget what nobody will ask for again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable
from typing import NamedTuple

from braidcast.client.errors import NotDelivered
from braidcast.client.link import Line, Link
from braidcast.core.ballots import Ballot, leader_of
from braidcast.core.client import MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Group, Pid

RETRY_S = 0.5
RETRY_S_MAX = 4.0
LOOK_S = 0.1


class Receipt(NamedTuple):
    """A message that every destination group has delivered, or will before anything else at a higher timestamp."""

    id: MessageId
    timestamp: Timestamp
    """Orders it among all messages; 0 if the groups no longer remember."""


class Unit:
    """A message under way."""

    __slots__ = ("answered", "attempts", "done", "gts", "multicast", "retry_at")

    def __init__(self, multicast: Multicast, done: asyncio.Future[Receipt], retry_at: float) -> None:
        self.multicast, self.done, self.retry_at = multicast, done, retry_at
        self.answered: set[Group] = set()
        self.gts: Timestamp = 0
        self.attempts = 0


def new_client_id() -> Pid:
    """A name that no other client has."""
    return secrets.randbits(62) | 1 << 62


class Sender:
    """One session of one client. Not for several threads."""

    def __init__(self, link: Link, session: int | None = None, *, first_reply: bool = False) -> None:
        self.link = link
        self.session = session if session is not None else time.time_ns() // 1_000_000
        self.first_reply = first_reply
        """One reply is proof enough: do not wait for the other groups."""
        self.units: dict[MessageId, Unit] = {}
        self.leaders: dict[Group, Pid] = {group: pids[0] for group, pids in enumerate(link.members)}
        self.ballots: dict[Group, Ballot] = {}
        self.seq = 0
        self.retries = 0
        link.listen(Reply, self._on_reply)
        link.listen(Redirect, self._on_redirect)
        link.listen(Refused, self._on_refused)
        link.on_connected.append(self._on_connected)
        self._looking = asyncio.get_running_loop().create_task(self._look())

    def dest(self, groups: Iterable[str]) -> Dest:
        """Names of groups as destinations."""
        numbers = []
        for name in groups:
            if name not in self.link.groups:
                known = ", ".join(self.link.groups)
                raise BraidcastError(f"there is no group {name!r} in this cluster: it has {known}")
            numbers.append(self.link.groups[name])
        return tuple(sorted(set(numbers)))

    def submit(self, dest: Dest, payload: bytes, *, batch: tuple[int, int, int] = (0, 0, 0)) -> asyncio.Future[Receipt]:
        """Multicast; the future ends with a receipt, or with `NotDelivered`."""
        self.seq += 1
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Receipt] = loop.create_future()
        lowest = next(iter(self.units)).seq if self.units else self.seq
        multicast = Multicast(MessageId(self.link.client, self.session, self.seq), dest, payload, lowest, *batch)
        self.units[multicast.id] = Unit(multicast, done, loop.time() + RETRY_S)
        leaders = self.leaders
        self.link.send(tuple([leaders[group] for group in dest]), multicast)
        return done

    async def close(self, why: str = "the sender was closed") -> None:
        """What is still under way may or may not be delivered."""
        self._looking.cancel()
        for unit in list(self.units.values()):
            self._finish(unit, NotDelivered(unit.multicast.id, why, may_be_delivered=True))

    def give_up(self, done: asyncio.Future[Receipt]) -> None:
        """Stop trying; the message may or may not be delivered."""
        for unit in list(self.units.values()):
            if unit.done is done:
                self._finish(unit, NotDelivered(unit.multicast.id, "given up", may_be_delivered=True))

    def _finish(self, unit: Unit, outcome: Receipt | NotDelivered) -> None:
        self.units.pop(unit.multicast.id, None)
        if unit.done.done():
            return
        if isinstance(outcome, NotDelivered):
            unit.done.set_exception(outcome)
        else:
            unit.done.set_result(outcome)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _on_reply(self, line: Line, sender: Pid, reply: Reply) -> None:
        unit = self.units.get(reply.id)
        if unit is None:
            return
        unit.answered.add(reply.group)
        unit.gts = max(unit.gts, reply.gts)
        if self.first_reply or len(unit.answered) == len(unit.multicast.dest):
            self._finish(unit, Receipt(reply.id, unit.gts))

    def _on_redirect(self, line: Line, sender: Pid, redirect: Redirect) -> None:
        group, leader = redirect.group, leader_of(redirect.ballot)
        if redirect.ballot < self.ballots.get(group, 0) or leader not in self.link.members[group]:
            return
        self.ballots[group] = redirect.ballot
        if self.leaders[group] == leader:
            return
        self.leaders[group] = leader
        unit = self.units.get(redirect.id)
        if unit is not None and group not in unit.answered:
            self.link.send((leader,), unit.multicast)

    def _on_refused(self, line: Line, sender: Pid, refused: Refused) -> None:
        unit = self.units.get(refused.id)
        if unit is not None:
            others = len(unit.multicast.dest) > 1 or unit.attempts > 0
            self._finish(unit, NotDelivered(refused.id, refused.why, may_be_delivered=others))

    def _on_connected(self, line: Line) -> None:
        """What went to that node may be lost: ask again soon."""
        soon = asyncio.get_running_loop().time()
        here = {group for group, leader in self.leaders.items() if leader in line.node.pids}
        for unit in self.units.values():
            if not here.isdisjoint(unit.multicast.dest):
                unit.retry_at = min(unit.retry_at, soon)

    # -- retries -----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = asyncio.get_running_loop().time()
            for unit in list(self.units.values()):
                if unit.retry_at <= now:
                    self._retry(unit, now)

    def _retry(self, unit: Unit, now: float) -> None:
        unit.attempts += 1
        unit.retry_at = now + min(RETRY_S * 2 ** min(unit.attempts, 8), RETRY_S_MAX)
        self.retries += 1
        members = self.link.members
        missing = [group for group in unit.multicast.dest if group not in unit.answered]
        self.link.send(tuple([pid for group in missing for pid in members[group]]), unit.multicast)


