"""Multicasting: every message keeps its name until it is answered, so that no retry makes a second one of it.

1. A message goes to the leader of each destination group as far as the sender knows; replies and redirects repair what
   it knows. After a time-out it goes to all members of the groups that have not answered.
2. A reply from a group means that the group delivered the message, and that every other destination will. The receipt
   comes when all destination groups have answered.
3. What the sender says of itself (`complete_below`) lets the groups forget what nobody will ask for again. So it stays
   below whatever may still be under way in some group, also if nobody waits for it here: a group that has forgotten
   a message before it delivered it would keep the others waiting for ever.
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

    __slots__ = ("answered", "attempts", "copies", "done", "gts", "multicast", "retry_at")

    def __init__(self, multicast: Multicast, done: asyncio.Future[Receipt], retry_at: float) -> None:
        self.multicast, self.done, self.retry_at = multicast, done, retry_at
        self.answered: set[Group] = set()
        self.gts: Timestamp = 0
        self.attempts = 0
        self.copies = 1
        """How often it was sent to some group at most: of several, one may be refused and another ordered."""


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
        """Those that not all groups have answered, lowest seq first."""
        self.left: dict[MessageId, Unit] = {}
        """The same for those that are given up; they are not retried."""
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
        leaders = self.leaders
        try:
            to = tuple([leaders[group] for group in dest])
        except KeyError as error:
            raise BraidcastError(f"there is no group number {error} in this cluster") from None
        if not to:
            raise BraidcastError("a message needs at least one group to go to")
        self.seq += 1
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Receipt] = loop.create_future()
        lowest = next(iter(self.units)).seq if self.units else self.seq
        if self.left:
            lowest = min(lowest, next(iter(self.left)).seq)
        multicast = Multicast(MessageId(self.link.client, self.session, self.seq), dest, payload, lowest, *batch)
        if self.link.welcome is not None and len(payload) > self.link.welcome.payload_bytes_max:
            why = f"too large: {len(payload):,} bytes, at most {self.link.welcome.payload_bytes_max:,}"
            done.set_exception(NotDelivered(multicast.id, why, may_be_delivered=False))
            return done
        self.units[multicast.id] = Unit(multicast, done, loop.time() + RETRY_S)
        self.link.send(to, multicast)
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
        if isinstance(outcome, NotDelivered) or len(unit.answered) == len(unit.multicast.dest):
            self.units.pop(unit.multicast.id, None)
            self.left.pop(unit.multicast.id, None)
        if isinstance(outcome, NotDelivered) and outcome.may_be_delivered:
            self._leave(unit)
        if unit.done.done():
            return
        if isinstance(outcome, NotDelivered):
            unit.done.set_exception(outcome)
        else:
            unit.done.set_result(outcome)

    def _leave(self, unit: Unit) -> None:
        """Keep `left` in order, whatever the order in which messages are given up."""
        in_order = not self.left or next(reversed(self.left)) < unit.multicast.id
        self.left[unit.multicast.id] = unit
        if not in_order:
            self.left = dict(sorted(self.left.items()))

    # -- answers -----------------------------------------------------------------------------------------------------

    def _on_reply(self, line: Line, sender: Pid, reply: Reply) -> None:
        unit = self.units.get(reply.id) or self.left.get(reply.id)
        if unit is None or reply.group not in unit.multicast.dest:
            return
        unit.answered.add(reply.group)
        unit.gts = max(unit.gts, reply.gts)
        if self.first_reply or len(unit.answered) == len(unit.multicast.dest):
            self._finish(unit, Receipt(reply.id, unit.gts))

    def _on_redirect(self, line: Line, sender: Pid, redirect: Redirect) -> None:
        group, leader = redirect.group, leader_of(redirect.ballot)
        if group not in self.leaders or leader not in self.link.members[group]:
            return
        if redirect.ballot < self.ballots.get(group, 0):
            return
        self.ballots[group] = redirect.ballot
        if self.leaders[group] == leader:
            return
        self.leaders[group] = leader
        unit = self.units.get(redirect.id)
        if unit is not None and group in unit.multicast.dest and group not in unit.answered:
            unit.copies += 1
            self.link.send((leader,), unit.multicast)

    def _on_refused(self, line: Line, sender: Pid, refused: Refused) -> None:
        unit = self.units.get(refused.id)
        if unit is not None and not unit.answered:  # one answer proves that it is delivered, whoever refuses a copy
            others = len(unit.multicast.dest) > 1 or unit.copies > 1
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
        unit.copies += 1
        unit.retry_at = now + min(RETRY_S * 2 ** min(unit.attempts, 8), RETRY_S_MAX)
        self.retries += 1
        members = self.link.members
        missing = [group for group in unit.multicast.dest if group not in unit.answered]
        self.link.send(tuple([pid for group in missing for pid in members[group]]), unit.multicast)


