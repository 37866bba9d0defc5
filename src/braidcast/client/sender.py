"""Multicasting: every message keeps its name until it is answered, so that no retry makes a second one of it.

1. A message goes to the leader of each destination group as far as the sender knows; replies and redirects repair what
   it knows. After a time-out it goes to all members of the groups that have not answered.
2. When a group has another leader, all that waits for the group goes there at once. While the leader's node cannot be
   reached, one message asks all members again and again, until one of them says who leads now.
3. A reply from a group means that the group delivered the message, and that every other destination will. The receipt
   comes when all destination groups have answered.
4. What the sender says of itself (`complete_below`) lets the groups forget what nobody will ask for again. So it stays
   below whatever may still be under way in some group, also if nobody waits for it here: a group that has forgotten
   a message before it delivered it would keep the others waiting for ever. Messages in batches are numbered here, in a
   space of their own, and have a mark of their own.
5. What was refused and may be delivered all the same would hold that back for good, and a session that the groups have
   forgotten stays refused: after either, a new session begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import NamedTuple

from braidcast.client.errors import (
    ClientClosed,
    MessageNotPermitted,
    MessageRefused,
    NotDelivered,
    PayloadTooLarge,
    StateUnusable,
    UnknownGroup,
)
from braidcast.client.link import Line, Link
from braidcast.core.ballots import Ballot, leader_of
from braidcast.core.client import EXPIRED_SESSION, MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.errors import BraidcastError
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Group, Pid
from braidcast.wire.service import NOT_PERMITTED

RETRY_S = 0.5
RETRY_S_MAX = 4.0
PATIENCE = 4
"""What takes so many times as long as usual is asked for again, and nothing before `RETRY_S`: to ask for what is only
late, of a cluster that is busy, makes it later."""
SMOOTHING = 1 / 16
LOOK_S = 0.1
SEEK_S, SEEK_S_MAX, SEEK_GROWTH = 0.02, 0.25, 1.25
LEFT_MAX, LEFT_S_MAX = 1000, 10.0
"""So many refused messages may hold back what is complete, for so long."""


class Receipt(NamedTuple):
    """A message that every destination group has delivered, or will before anything else at a higher timestamp."""

    id: MessageId
    timestamp: Timestamp
    """Orders it among all messages; 0 if the groups no longer remember."""
    part: int = 0
    """Its place among those that have the same timestamp because they travelled in one batch."""


class Unit:
    """A message under way."""

    __slots__ = ("answered", "attempts", "copies", "done", "gts", "multicast", "retry_at", "since")

    def __init__(self, multicast: Multicast, done: asyncio.Future[Receipt], since: float, retry_at: float) -> None:
        self.multicast, self.done, self.since, self.retry_at = multicast, done, since, retry_at
        self.answered: set[Group] = set()
        self.gts: Timestamp = 0
        self.attempts = 0
        self.copies = 1
        """How often it was sent to some group at most: of several, one may be refused and another ordered."""

    def waits_for(self, group: Group) -> bool:
        """Whether this group has to answer yet."""
        return group in self.multicast.dest and group not in self.answered


_session_lock = Lock()
_newest_session = 0


def new_session() -> int:
    """A number that is above those of earlier sessions, as the clock goes, and that nobody in this process has."""
    global _newest_session
    with _session_lock:
        _newest_session = max(_newest_session + 1, time.time_ns() // 1_000_000)
        return _newest_session


class Sender:
    """One session of one client at a time. Not for several threads."""

    def __init__(
        self, link: Link, session: int | None = None, next_session: Callable[[], int] | None = None
    ) -> None:
        self.link = link
        self.session = session if session is not None else new_session()
        self.next_session = next_session or (lambda: max(new_session(), self.session + 1))
        """Gives a number that this client has never used."""
        self.units: dict[MessageId, Unit] = {}
        """Those that not all groups have answered, in the order of submission."""
        self.left: dict[MessageId, Unit] = {}
        """Those of this session that were refused and may be delivered all the same; they are not retried."""
        self.open: dict[int, int] = {}
        """By ascending seq, what this session has named and what is not complete; and the next number in a batch."""
        self.leaders: dict[Group, Pid] = {group: pids[0] for group, pids in enumerate(link.members)}
        self.ballots: dict[Group, Ballot] = {}
        self.seq = 0
        self.batched = 0
        """How many messages it has put into batches."""
        self.retries = 0
        self.usual_s = 0.0
        """How long a message takes, lately, from its submission to the last answer."""
        self._seeking: dict[Group, asyncio.TimerHandle] = {}
        """Groups whose leader's node cannot be reached."""
        link.listen(Reply, self._on_reply)
        link.listen(Redirect, self._on_redirect)
        link.listen(Refused, self._on_refused)
        link.on_connected.append(self._on_connected)
        link.on_lost.append(self._on_lost)
        self._looking = asyncio.get_running_loop().create_task(self._look())

    def dest(self, groups: Iterable[str]) -> Dest:
        """Names of groups as destinations."""
        known = self.link.groups
        numbers = set()
        for name in groups:
            if name not in known:
                raise UnknownGroup(f"there is no group {name!r} in this cluster: it has {', '.join(known)}")
            numbers.add(known[name])
        return tuple(sorted(numbers))

    def name(self) -> MessageId:
        """The name of a message that will be submitted, or the groups remember all later ones of its session."""
        self.seq += 1
        self.open[self.seq] = self.batched
        return MessageId(self.link.client, self.session, self.seq)

    def submit(
        self, dest: Dest, payload: bytes, messages: int = 0, id: MessageId | None = None
    ) -> asyncio.Future[Receipt]:
        """Multicast, a batch of so many `messages` perhaps; the future ends with a receipt, or with `NotDelivered`.

        With an `id` it is a message that has its name already, maybe from an earlier life of the client. A message of
        that name that is under way is the same one.
        """
        leaders = self.leaders
        try:
            to = tuple([leaders[group] for group in dest])
        except KeyError as error:
            raise BraidcastError(f"there is no group number {error} in this cluster") from None
        if not to:
            raise BraidcastError("a message needs at least one group to go to")
        if id is not None and (unit := self.units.get(id)) is not None:
            return unit.done
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Receipt] = loop.create_future()
        if self.link.welcome is not None and len(payload) > self.link.welcome.payload_bytes_max:
            why = f"too large: {len(payload):,} bytes, at most {self.link.welcome.payload_bytes_max:,}"
            if id is not None and id.session == self.session:
                self.open.pop(id.seq, None)
            done.set_exception(PayloadTooLarge(id, why, may_be_delivered=False))
            return done
        multicast = self._multicast(id or self.name(), dest, payload, messages)
        now = loop.time()
        unit = self.units[multicast.id] = Unit(multicast, done, now, now + self.patience_s)
        if multicast.id.session != self.session:
            unit.copies += 1  # an earlier life may have sent it, too
        if not self.link.send(to, multicast):
            for group in dest:
                self._seek(group)
        return done

    def _multicast(self, id: MessageId, dest: Dest, payload: bytes, messages: int) -> Multicast:
        if id.session != self.session:
            return Multicast(id, dest, payload)  # of another life, of which nothing is known here
        if id.seq not in self.open:  # it is complete, and the groups will say so
            return Multicast(id, dest, payload)
        lowest, lowest_batched = next(iter(self.open.items()))
        if not messages:
            return Multicast(id, dest, payload, lowest)
        first = self.batched
        self.batched += messages
        return Multicast(id, dest, payload, lowest, first, messages, lowest_batched)

    async def close(self, why: str = "the sender was closed") -> None:
        """What is still under way may or may not be delivered."""
        self._looking.cancel()
        for timer in self._seeking.values():
            timer.cancel()
        for unit in list(self.units.values()):
            self._give_up(unit, ClientClosed(unit.multicast.id, why, may_be_delivered=True))

    @property
    def patience_s(self) -> float:
        """How long to wait before a message is sent again."""
        return min(max(RETRY_S, PATIENCE * self.usual_s), RETRY_S_MAX)

    def _complete(self, unit: Unit) -> None:
        id = unit.multicast.id
        self.usual_s += SMOOTHING * (asyncio.get_running_loop().time() - unit.since - self.usual_s)
        self.units.pop(id, None)
        self.left.pop(id, None)
        if id.session == self.session:
            self.open.pop(id.seq, None)
        if not unit.done.done():
            unit.done.set_result(Receipt(id, unit.gts))

    def _give_up(self, unit: Unit, why: NotDelivered) -> None:
        id = unit.multicast.id
        self.units.pop(id, None)
        if id.session == self.session:
            if why.may_be_delivered:
                unit.retry_at = asyncio.get_running_loop().time()  # since when it is left
                self.left[id] = unit
            else:
                self.open.pop(id.seq, None)
        if not unit.done.done():
            unit.done.set_exception(why)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _on_reply(self, line: Line, sender: Pid, reply: Reply) -> None:
        unit = self.units.get(reply.id) or self.left.get(reply.id)
        if unit is None or reply.group not in unit.multicast.dest:
            return
        unit.answered.add(reply.group)
        unit.gts = max(unit.gts, reply.gts)
        if len(unit.answered) == len(unit.multicast.dest):
            self._complete(unit)

    def _on_redirect(self, line: Line, sender: Pid, redirect: Redirect) -> None:
        group, leader = redirect.group, leader_of(redirect.ballot)
        if group not in self.leaders or leader not in self.link.members[group]:
            return
        if redirect.ballot < self.ballots.get(group, 0):
            return
        self.ballots[group] = redirect.ballot
        if self.leaders[group] != leader:
            self._follow(group, leader)
        elif sender == leader and (unit := self.units.get(redirect.id)) is not None:
            unit.retry_at = min(unit.retry_at, asyncio.get_running_loop().time() + SEEK_S)  # it does not lead yet

    def _follow(self, group: Group, leader: Pid) -> None:
        """Another one leads: what was sent to the one before may be lost."""
        self.leaders[group] = leader
        retry_at = asyncio.get_running_loop().time() + self.patience_s
        for unit in self.units.values():
            if unit.waits_for(group):
                unit.copies += 1
                unit.retry_at = retry_at
                self.link.send((leader,), unit.multicast)
        self._seek(group)

    def _on_refused(self, line: Line, sender: Pid, refused: Refused) -> None:
        unit = self.units.get(refused.id)
        if unit is not None and not unit.answered:  # one answer proves that it is delivered, whoever refuses a copy
            others = len(unit.multicast.dest) > 1 or unit.copies > 1
            kind = MessageNotPermitted if refused.why.startswith(NOT_PERMITTED) else MessageRefused
            self._give_up(unit, kind(refused.id, refused.why, may_be_delivered=others))
            if len(self.left) > LEFT_MAX or (refused.why == EXPIRED_SESSION and refused.id.session == self.session):
                self._begin_session()

    def _begin_session(self) -> None:
        """What is under way keeps its names; what was left is not looked after any longer."""
        try:
            self.session = self.next_session()
        except StateUnusable:
            return  # it cannot be made durable now; the session goes on as it is
        self.seq = self.batched = 0
        self.open, self.left = {}, {}

    # -- connections -------------------------------------------------------------------------------------------------

    def _led_from(self, line: Line) -> list[Group]:
        return [group for group, leader in self.leaders.items() if leader in line.node.pids]

    def _on_connected(self, line: Line) -> None:
        """What went to that node may be lost: ask again soon."""
        soon = asyncio.get_running_loop().time()
        here = set(self._led_from(line))
        for unit in self.units.values():
            if not here.isdisjoint(unit.multicast.dest):
                unit.retry_at = min(unit.retry_at, soon)

    def _on_lost(self, line: Line) -> None:
        for group in self._led_from(line):
            self._seek(group)

    def _seek(self, group: Group, pause_s: float = SEEK_S) -> None:
        """Ask for the leader of a group, if it cannot be reached and something waits for it."""
        if group in self._seeking or self.link.line_of[self.leaders[group]].connection is not None:
            return
        unit = next((unit for unit in self.units.values() if unit.waits_for(group)), None)
        if unit is not None:
            unit.copies += 1
            self.link.send(self.link.members[group], unit.multicast)
            loop = asyncio.get_running_loop()
            self._seeking[group] = loop.call_later(pause_s, self._seek_again, group, pause_s * SEEK_GROWTH)

    def _seek_again(self, group: Group, pause_s: float) -> None:
        del self._seeking[group]
        self._seek(group, min(pause_s, SEEK_S_MAX))

    # -- retries -----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = asyncio.get_running_loop().time()
            for unit in list(self.units.values()):
                if unit.retry_at <= now:
                    self._retry(unit, now)
            if self.left and next(iter(self.left.values())).retry_at <= now - LEFT_S_MAX:
                self._begin_session()

    def _retry(self, unit: Unit, now: float) -> None:
        unit.attempts += 1
        unit.copies += 1
        unit.retry_at = now + min(self.patience_s * 2 ** min(unit.attempts, 8), RETRY_S_MAX)
        self.retries += 1
        members = self.link.members
        missing = [group for group in unit.multicast.dest if group not in unit.answered]
        self.link.send(tuple([pid for group in missing for pid in members[group]]), unit.multicast)
