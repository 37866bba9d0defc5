"""A history indexed once, so that every property is a short walk.

It reads the messages that a run left in memory and the rows that a reader found on disk alike, by the names of their
columns (`history.envelope.reader`), and imports no protocol.

The log of a process is what its application has seen. A crash may cost the application effects that were not
durable: the restart then says up to where they reach (`Resumed`), what is above is delivered again, and both the log
that was lost and the one that continues must satisfy the properties. A snapshot (`Restored`) stands for every
delivery up to its gts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from operator import itemgetter
from typing import Any

from braidcast.core.application import Delivered
from braidcast.core.ballots import Ballot
from braidcast.core.client import MessageId
from braidcast.core.message import message
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Dest, Group, Pid, Pids
from braidcast.history.columns import Row
from braidcast.history.envelope import kind_name, reader, reads
from braidcast.history.event import (
    CRASH,
    DELIVER,
    MULTICAST,
    PERSIST,
    RECOVERED,
    RESTART,
    SEND,
    DiskLost,
    Event,
    History,
)  # fmt: skip
from braidcast.properties.marks import Marks
from braidcast.properties.violation import Violation

DISK_LOST = kind_name(DiskLost)
REJOINS = RESTART, (DISK_LOST,)
"""For `in_order`: where a process begins anew, and nothing that it kept before is there."""
Kind = type | str
"""The class of a message in memory, the name of its kind on disk."""


@message
class Submitted:
    """What a client multicast."""

    position: int
    node: Pid
    incarnation: int
    id: MessageId
    dest: Dest
    batch_first: int
    batch_count: int
    payload: Any
    """The payload in memory, its digest from disk; None if the history has neither."""


@message
class Delivery:
    """One message handed to one application."""

    position: int
    node: Pid
    incarnation: int
    id: MessageId
    dest: Dest
    gts: Timestamp
    """0 if the protocol has none."""
    batch_first: int
    batch_count: int
    repeated: tuple[int, ...]
    payload: Any
    """As in `Submitted`."""


@message
class Restore:
    """The application's state was replaced: it then held everything up to `gts`."""

    position: int
    before: int
    """How many deliveries of the log come before it."""
    gts: Timestamp


class Log:
    """What one application has seen, in order."""

    __slots__ = ("deliveries", "group", "lost", "node", "restores")

    def __init__(self, node: Pid, group: Group) -> None:
        self.node, self.group = node, group
        self.deliveries: list[Delivery] = []
        self.restores: list[Restore] = []
        self.lost = False
        """A crash took back its end; the log that goes on is another one."""

    def segments(self) -> Iterator[tuple[Timestamp, list[Delivery]]]:
        """The deliveries between snapshots, each stretch with the gts that its beginning rests on."""
        start, rests_on = 0, 0
        for restore in self.restores:
            yield rests_on, self.deliveries[start : restore.before]
            start, rests_on = restore.before, restore.gts
        yield rests_on, self.deliveries[start:] if start else self.deliveries

    def up_to(self, gts: Timestamp) -> Log:
        """The log that goes on after a crash took back everything above `gts`."""
        rest = Log(self.node, self.group)
        rest.deliveries = [d for d in self.deliveries if d.gts <= gts]
        kept = len(rest.deliveries)
        rest.restores = [Restore(r.position, min(r.before, kept), r.gts) for r in self.restores if r.gts <= gts]
        return rest


class View:
    """One history, indexed."""

    def __init__(self, history: History) -> None:
        self.history, self.manifest, self.events = history, history.manifest, history.events
        self.groups: tuple[Pids, ...] = history.manifest.topology
        self.group_of: dict[Pid, Group] = {p: g for g, members in enumerate(self.groups) for p in members}
        index: defaultdict[str, defaultdict[Kind, list[int]]] = defaultdict(lambda: defaultdict(list))
        for position, event in enumerate(self.events):
            what = event.what
            kind = type(what)
            index[event.event][kind if kind is not Row else what.kind].append(position)
        self._index = index
        self.multicasts: dict[MessageId, Submitted] = {}
        self.ambiguous: set[MessageId] = set()
        """Names that clients used twice, with other destinations."""
        self._find_multicasts()
        self.logs: list[Log] = []
        """Of every process, the lost ones included."""
        self.log_of: dict[Pid, Log] = {p: Log(p, g) for p, g in self.group_of.items()}
        """The log of each process as it was at the end."""
        self.strays: list[Delivery] = []
        """Deliveries at processes that are in no group."""
        self.resumed: list[tuple[int, Pid, Timestamp]] = []
        """Restarts with lost effects: where, who, and up to which gts the effects reach."""
        self.disk_losses: dict[int, Pid] = {}
        """Restarts of processes that had lost their disks: where and who."""
        self._find_logs()
        self.has_gts = any(log.deliveries and log.deliveries[0].gts for log in self.log_of.values())

    def kinds(self, event: str, name: str | None = None) -> list[tuple[Kind, list[int]]]:
        """The kinds of messages (or those of one name) that events of this name carry, and where."""
        found = self._index.get(event)
        if not found:
            return []
        return [(k, at) for k, at in found.items() if name is None or kind_name(k) == name]

    @property
    def event_names(self) -> list[str]:
        """The names of events that occur."""
        return list(self._index)

    def at(self, event: str, name: str) -> list[int]:
        """The positions of the events of this name that carry this kind of message."""
        return [position for _, at in self.kinds(event, name) for position in at]

    def in_order(self, *wanted: tuple[str, tuple[str, ...]]) -> list[tuple[int, str, Kind]]:
        """The positions of all events that carry one of these kinds, with the name and the kind."""
        found = [
            (position, name, kind)
            for event, names in wanted
            for kind, at in self._index.get(event, {}).items()
            if (name := kind_name(kind)) in names
            for position in at
        ]
        found.sort(key=itemgetter(0))
        return found

    def violation(
        self,
        expected: str,
        seen: str,
        *,
        node: Pid | None = None,
        message: MessageId | None = None,
        group: Group | None = None,
    ) -> Violation:
        """A violation in this run; whoever calls the property adds its name."""
        if group is None and node is not None:
            group = self.group_of.get(node)
        return Violation("", self.manifest.run, group, node, message, expected, seen)

    def dest_of(self, id: MessageId) -> Dest | None:
        """The destinations of a message: the client's word, or else the first delivery's."""
        submitted = self.multicasts.get(id)
        return submitted.dest if submitted else self._delivered_dest.get(id)

    @cached_property
    def _delivered_dest(self) -> dict[MessageId, Dest]:
        return {d.id: d.dest for log in self.logs for d in reversed(log.deliveries)}

    @cached_property
    def gts_of(self) -> dict[MessageId, Timestamp]:
        """The global timestamp that the first delivery of each message shows."""
        found: dict[MessageId, Timestamp] = {}
        for log in self.logs:
            for delivery in log.deliveries:
                if delivery.gts:
                    found.setdefault(delivery.id, delivery.gts)
        return found

    @cached_property
    def delivered(self) -> dict[MessageId, Pid]:
        """Every message that any application has seen, lost logs included, and one of those who delivered it."""
        return {d.id: d.node for log in self.logs for d in log.deliveries}

    @cached_property
    def order_of(self) -> list[tuple[list[Timestamp], list[MessageId]]]:
        """Per group, the messages addressed to it whose gts is known, in the order of gts."""
        orders: list[list[tuple[Timestamp, MessageId]]] = [[] for _ in self.groups]
        for id, gts in self.gts_of.items():
            for group in self.dest_of(id) or ():
                if group < len(orders):
                    orders[group].append((gts, id))
        for order in orders:
            order.sort()
        return [([gts for gts, _ in order], [id for _, id in order]) for order in orders]

    def covered(self, group: Group, upto: Timestamp) -> list[MessageId]:
        """What a snapshot of `group` at `upto` stands for."""
        stamps, ids = self.order_of[group]
        return ids[: bisect_right(stamps, upto)]

    @cached_property
    def marks(self) -> Marks:
        """How far each application was at any time."""
        moves = [(d.position, log.node, d.gts) for log in self.logs for d in log.deliveries]
        moves += [(r.position, log.node, r.gts) for log in self.logs for r in log.restores]
        return Marks(self.group_of, moves, self.resumed, self.disk_losses)

    @cached_property
    def collected(self) -> list[tuple[Pid, int, MessageId, Timestamp]]:
        """What members noted to have forgotten: (process, position, message, gts)."""
        found: list[tuple[Pid, int, MessageId, Timestamp]] = []
        for kind, at in self.kinds("collected"):
            get_id, get_gts = reader(kind, "id"), reader(kind, "gts")
            for position in at:
                event = self.events[position]
                node, what = event.node, event.what
                id, gts = get_id(what), get_gts(what)
                if id is not None and gts and node in self.group_of:
                    found.append((node, position, id, gts))
        return found

    @cached_property
    def abandoned(self) -> frozenset[MessageId]:
        """What a client multicast that crashed, or forgot everything and began again, afterwards."""
        newest: dict[Pid, int] = {}
        for m in self.multicasts.values():
            newest[m.node] = max(newest.get(m.node, 0), m.incarnation)
        crashed = self.crashed_ever
        return frozenset(id for id, m in self.multicasts.items() if m.node in crashed or m.incarnation < newest[m.node])

    @cached_property
    def crashed_ever(self) -> frozenset[Pid]:
        """Processes and clients that were down at some time."""
        events = self.events
        crashes = [events[position].node for _, at in self.kinds(CRASH) for position in at]
        return frozenset(crashes) | frozenset(self.manifest.crashed)

    @cached_property
    def refused(self) -> frozenset[MessageId]:
        """Messages that a process declined to order."""
        return frozenset(id for _, id in self.refusals)

    @cached_property
    def refusals(self) -> list[tuple[int, MessageId]]:
        """Where a process told a client that it would not order a message."""
        found = [(reader(kind, "id"), at) for kind, at in self.kinds(SEND, "refused")]
        return [(position, get(self.events[position].what)) for get, at in found for position in at]

    @cached_property
    def proposals(self) -> list[tuple[Pid, MessageId, Group, Ballot, Timestamp]]:
        """What leaders proposed with ACCEPT: (leader, message, its group, its ballot, local timestamp)."""
        found: list[tuple[Pid, MessageId, Group, Ballot, Timestamp]] = []
        for kind, at in self.kinds(SEND, "accept"):
            if not all(reads(kind, name) for name in ("id", "ballot", "lts")):
                continue
            get_id, get_group = reader(kind, "id"), reader(kind, "group")
            get_ballot, get_lts = reader(kind, "ballot"), reader(kind, "lts")
            last: tuple[Any, Pid | None] = None, None
            for position in at:
                event = self.events[position]
                what = event.what
                if what is last[0] and event.node == last[1]:
                    continue  # the same message to the next receiver
                last = what, event.node
                id, ballot, lts, group = get_id(what), get_ballot(what), get_lts(what), get_group(what)
                if id is not None and ballot is not None and lts is not None and group is not None:
                    found.append((event.node, id, group, ballot, lts))
        return found

    @cached_property
    def lts_proposed(self) -> dict[tuple[MessageId, Group, Ballot], Timestamp]:
        """The local timestamp of each message per group and ballot."""
        return {(id, group, ballot): lts for _, id, group, ballot, lts in self.proposals}

    @cached_property
    def has_acceptances(self) -> bool:
        """Whether processes vote for a message and keep that on disk, in the words of the white-box protocol."""
        return any(self.kinds(SEND, name) for name in ("accept_ack", "new_leader")) or any(
            self.kinds(PERSIST, name) for name in ("accepted", "promised", "marked")
        )

    @cached_property
    def tells_what_disks_held(self) -> bool:
        """Whether each process that restarted with its disk recorded what that held."""
        events = self.events
        lives = [(events[at].node, events[at].incarnation) for _, places in self.kinds(RECOVERED) for at in places]
        told = frozenset(lives)
        return all(
            position in self.disk_losses or (events[position].node, events[position].incarnation) in told
            for _, at in self.kinds(RESTART)
            for position in at
        )

    def _find_multicasts(self) -> None:
        events = self.events
        for kind, at in self.kinds(MULTICAST):
            get_id, get_dest = reader(kind, "id"), reader(kind, "dest")
            get_first, get_count = reader(kind, "batch_first"), reader(kind, "batch_count")
            get_payload = reader(kind, "payload_digest" if isinstance(kind, str) else "payload")
            for position in at:
                event = events[position]
                what = event.what
                id = get_id(what)
                if id not in self.multicasts:
                    self.multicasts[id] = Submitted(
                        position,
                        event.node,
                        event.incarnation,
                        id,
                        get_dest(what) or (),
                        get_first(what) or 0,
                        get_count(what) or 0,
                        get_payload(what),
                    )
                elif self.multicasts[id].dest != (get_dest(what) or ()):
                    self.ambiguous.add(id)

    def _find_logs(self) -> None:
        positions = [position for _, at in self.kinds(DELIVER) for position in at]
        positions += [position for _, at in self.kinds(RESTART) for position in at]
        positions.sort()
        events, log_of = self.events, self.log_of
        for position in positions:
            event = events[position]
            what = event.what
            node = event.node
            log = log_of.get(node)
            if event.event == RESTART:
                upto = None if what is None else what.gts
                if log is not None and upto is not None:
                    if what.kind == DISK_LOST if type(what) is Row else type(what) is DiskLost:
                        self.disk_losses[position] = log.node
                    self.resumed.append((position, log.node, upto))
                    self._take_back(log, upto)
                continue
            if type(what) is Delivered:
                m = what.multicast
                delivery = Delivery(
                    position, node, event.incarnation, m.id, m.dest, what.gts, m.batch_first, m.batch_count,
                    what.repeated, m.payload,
                )  # fmt: skip
            else:
                kind = what.kind if type(what) is Row else kind_name(type(what))
                if kind == "restored" and log is not None:
                    log.restores.append(Restore(position, len(log.deliveries), what.gts))
                if kind != "delivered":
                    continue
                delivery = _delivery(position, event, what)
            if log is None:
                self.strays.append(delivery)
            else:
                log.deliveries.append(delivery)
        self.logs += log_of.values()

    def _take_back(self, log: Log, upto: Timestamp) -> None:
        """A restarted application reaches only up to `upto`."""
        rest = log.up_to(upto)
        if len(rest.deliveries) < len(log.deliveries) or len(rest.restores) < len(log.restores):
            log.lost = True
            self.logs.append(log)
            self.log_of[log.node] = rest


def _delivery(position: int, event: Event, what: Any) -> Delivery:
    kind: Kind = what.kind if type(what) is Row else type(what)
    return Delivery(
        position,
        event.node,
        event.incarnation,
        reader(kind, "id")(what),
        reader(kind, "dest")(what) or (),
        reader(kind, "gts")(what) or 0,
        reader(kind, "batch_first")(what) or 0,
        reader(kind, "batch_count")(what) or 0,
        reader(kind, "repeated")(what) or (),
        reader(kind, "payload_digest")(what) if isinstance(kind, str) else None,
    )
