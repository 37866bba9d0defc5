"""Memoised steps: what a process does on an input is executed once for each (local state, input) and looked up after.

A *local state* is all that the rest of the search must know of one process: its captured state, what it delivered,
its durable records, its pending timers. Local states and events (who sends what to whom) are numbered, and a step
maps a pair of numbers to a `Result`. In white-box, groups 3+3 with one message, 140,000 global transitions need a
few hundred executions.

What can no longer be seen is forgotten: without a crash left in the budget the records are dropped, without a firing
left the pending timers of that kind. `Mode` says what is kept; all local states of a global state have one mode.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from braidcast.core.application import Connected, Restored, Snapshot, SnapshotWanted
from braidcast.core.process import APPLIED_WITH_RECORDS, Process
from braidcast.core.topology import Pid
from braidcast.simulator.explorer.capture import Freezer, Layout, layout_of
from braidcast.simulator.explorer.oracle import Invariant, Log
from braidcast.simulator.explorer.queues import Event, Queue, Queues
from braidcast.simulator.explorer.setup import NOW, Setup

Local = int
T = TypeVar("T")
RESTART, STOP, CLOCK_STEP, RESTART_FORGETFUL, LOSE_DISK, MODE = -1, -2, -3, -4, -5, -17
"""Keys beside the events in the memory of a local state; MODE - m is the change to mode m, LOSE_DISK - n the rejoining
in life n, which is at most LIVES_MAX."""
LIVES_MAX = 11


class Result(NamedTuple):
    """What a step comes to."""

    local: Local
    sends: tuple[tuple[Queue, int], ...]
    """Per channel, the sequence of events to append."""
    mark: int
    """What the change of the local state changes in a fingerprint."""
    events: tuple[Event, ...]
    """All that was sent, in order."""


WAITS = Result(-1, (), 0, ())
"""The result of an input that cannot come yet."""


class Mode(NamedTuple):
    """What of a local state can still be seen."""

    records: bool
    timers: frozenset[str]


class OutOfTime(Exception):
    """The time for the search was over before it began."""


class Steps:
    """All local states and events that ever occurred, and the steps between them."""

    def __init__(self, setup: Setup, invariants: Sequence[Invariant], deadline: float | None = None) -> None:
        self.setup = setup
        self.deadline = deadline
        """When the search has to end, by `time.perf_counter`."""
        self.invariants = invariants
        self.pids: tuple[Pid, ...] = setup.topology.pids
        self.index_of = {pid: index for index, pid in enumerate(self.pids)}
        self.executed = 0
        self._patient = setup.patient and setup.protocol.suspicion is not None
        self._random = Random(0)
        self.queues = Queues(self._random)
        self.freezer = Freezer(setup.dict_order)
        self._bench = [setup.make(pid) for pid in self._in_time(self.pids)]
        self._layouts = [layout_of(process) for process in self._bench]

        self.receiver: list[int] = []
        """Per event, the index of the process that gets it; -1 for events that go elsewhere."""
        self.event: list[tuple[Pid, Pid, Any]] = []
        self.is_timer: list[bool] = []
        self._events: dict[tuple[Pid, Pid, Any, bool], Event] = {}

        self.memo: list[dict[int, Result]] = []
        self.mark: list[int] = []
        self.timers: list[tuple[Event, ...]] = []
        self.view: list[int] = []
        """Per local state, a number for what the invariants of every state see of it."""
        self.end_view: list[int] = []
        self.delivered: list[int] = []
        self.again: list[int] = []
        """Per local state, how many of the newest deliveries are to come again: their marks were lost in a crash."""
        self.error: list[str] = []
        self.stopped: list[bool] = []
        self.wall: list[int] = []
        self._frozen: list[bytes] = []
        self._state: list[bytes] = []
        self._owner: list[int] = []
        self._mode: list[int] = []
        self._records: list[tuple[int, ...]] = []
        self._locals: dict[Any, Local] = {}

        self.modes: list[Mode] = []
        self.logs: list[Log] = []
        self._log_numbers: dict[Log, int] = {}
        self.views: list[tuple[int, ...]] = []
        self._view_numbers: dict[tuple[int, ...], int] = {}
        self.observations: list[Any] = []
        self._observation_numbers: dict[Any, int] = {}

    # -- the start -----------------------------------------------------------------------------------------------
    def start(self, mode: Mode) -> list[Result]:
        """Start every process; the results are in the order of `pids`."""
        started = []
        for index, process in enumerate(self._in_time(self._bench)):
            started.append(self._finish(index, None, process, self._layouts[index], self._mode_number(mode), "start"))
        return started

    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.deadline is not None and time.perf_counter() > self.deadline

    def _in_time(self, items: Sequence[T]) -> Iterator[T]:
        for item in items:
            if self.is_late():
                raise OutOfTime
            yield item

    def event_of(self, sender: Pid, to: Pid, message: Any, is_timer: bool = False) -> Event:
        """The number of an event."""
        key = (sender, to, message, is_timer)
        number = self._events.get(key)
        if number is None:
            number = self._events[key] = len(self.event)
            self.event.append((sender, to, message))
            self.receiver.append(self.index_of.get(to, -1))
            self.is_timer.append(is_timer)
        return number

    def grouped(self, events: Sequence[Event]) -> tuple[tuple[Queue, int], ...]:
        """Events by channel."""
        by_channel: dict[Queue, list[Event]] = {}
        for e in events:
            sender, to, _ = self.event[e]
            by_channel.setdefault(self.queues.channel_of(sender, to), []).append(e)
        return tuple([(c, self.queues.sequence(tuple(sent))) for c, sent in by_channel.items()])

    # -- steps ---------------------------------------------------------------------------------------------------
    def execute(self, local: Local, event: Event) -> Result:
        """Run the step of a local state on a message or timer; the caller looked in `memo` first."""
        sender, _, message = self.event[event]
        index = self._owner[local]
        process, layout = self._bench[index], self._layouts[index]
        self.freezer.thaw(layout, self._frozen[local])
        if self._patient and sender not in self.index_of and process.role != "leader":
            self.memo[local][event] = WAITS
            return WAITS
        fired = event if self.is_timer[event] else None
        if type(message) is Connected:
            sender = process.me  # it travels with what the peer sends, but comes from the driver
        result = self._finish(index, local, process, layout, self._mode[local], (sender, message), fired)
        self.memo[local][event] = result
        return result

    def restart(self, local: Local, *, forgets: bool = False) -> Result:
        """Crash a process and start it again with its records; with all but the newest unhurried ones if it forgets."""
        key = RESTART_FORGETFUL if forgets else RESTART
        result = self.memo[local].get(key)
        if result is None:
            index = self._owner[local]
            process = self.setup.make(self.pids[index])
            kept, lost = self._records[local], 0
            if forgets:
                kept, lost = kept[: -self._unhurried_at_end(local)], self._unhurried_at_end(local)
            how = ("restart", [self.freezer.messages[number] for number in kept], kept, lost)
            result = self._finish(index, local, process, layout_of(process), self._mode[local], how)
            self.memo[local][key] = result
        return result

    def may_forget(self, local: Local) -> bool:
        """Whether a crash may take records of it that were put out."""
        return bool(self._unhurried_at_end(local))

    def _unhurried_at_end(self, local: Local) -> int:
        unhurried, count = self._bench[0].unhurried, 0
        for number in reversed(self._records[local]):
            if type(self.freezer.messages[number]) not in unhurried:
                break
            count += 1
        return count

    def lose_disk(self, local: Local, life: int) -> Result:
        """Crash a process, take its records and its application's state, and let it rejoin."""
        assert 0 < life <= LIVES_MAX, "keys of lives end where those of modes begin"
        result = self.memo[local].get(LOSE_DISK - life)
        if result is None:
            index = self._owner[local]
            process = self.setup.make(self.pids[index])
            how = ("rejoin", life)
            result = self._finish(index, local, process, layout_of(process), self._mode[local], how)
            self.memo[local][LOSE_DISK - life] = result
        return result

    def stop(self, local: Local) -> Result:
        """Crash a process for good."""
        return self._copy(local, STOP, stopped=True, timers=())

    def handles(self, kind: type) -> bool:
        """Whether processes handle a kind of message."""
        return kind in self._bench[0].inputs

    def step_clock(self, local: Local) -> Result | None:
        """Put the wall clock of a process to its next reading, if it has one."""
        wall = self.wall[local] + 1
        if wall >= len(self.setup.walls.get(self.pids[self._owner[local]], ())) or self.stopped[local]:
            return None
        return self._copy(local, CLOCK_STEP, wall=wall)

    def change_mode(self, local: Local, mode: int) -> Result:
        """Forget what cannot be seen in a mode."""
        kept = self.modes[mode]
        timers = tuple([e for e in self.timers[local] if type(self.event[e][2]).__name__ in kept.timers])
        records = self._records[local] if kept.records else ()
        return self._copy(local, MODE - mode, mode=mode, timers=timers, records=records)

    def _mode_number(self, mode: Mode) -> int:
        if mode not in self.modes:
            self.modes.append(mode)
        return self.modes.index(mode)

    def mode_of(self, mode: Mode) -> int:
        """The number of a mode."""
        return self._mode_number(mode)

    def wall_of(self, index: int, reading: int) -> int:
        """What the wall clock of a process shows at one of its readings."""
        readings = self.setup.walls.get(self.pids[index])
        return readings[reading] if readings else NOW

    def _finish(
        self, index: int, before: Local | None, process: Process, layout: Layout, mode: int, how: Any,
        fired: Event | None = None,
    ) -> Result:  # fmt: skip
        """Let a process do something, and find what it comes to."""
        self.executed += 1
        out = process.out
        wall = self.wall[before] if before is not None else 0
        out.now, out.wall, out.applied = self.setup.now, self.wall_of(index, wall), APPLIED_WITH_RECORDS
        is_back = how[0] in ("restart", "rejoin")
        log: Log = ()
        kept: tuple[int, ...] = ()
        again = 0
        if before is not None and how[0] != "rejoin":
            log, kept, again = self.logs[self.delivered[before]], self._records[before], self.again[before]
        if how[0] == "restart":
            kept, again = how[2], again + how[3]
        records: list[Any] = []
        sent: list[tuple[tuple[Pid, ...], Any]] = []
        set_timers: list[tuple[Any, Any, Any]] = []
        error = ""
        try:
            if how == "start":
                process.start(0)
            elif how[0] == "restart":
                process.recover(how[1])
                process.start(APPLIED_WITH_RECORDS)
            elif how[0] == "rejoin":
                process.rejoin(how[1])
                process.start(0)
            else:
                process.step(*how)
            while True:
                batch = out.take()
                records += batch.records
                sent += batch.sent
                set_timers += batch.timers
                asked, log, again = self._apply(batch.delivered, log, again)
                if not asked:
                    break
                for snapshot in asked:
                    process.step(process.me, snapshot)
        except Exception as raised:  # whatever a protocol raises is a finding, with the schedule that leads to it
            error = f"process {process.me} raised {type(raised).__name__}: {raised}"
            out.to_self.clear()
            out.take()
        pending = self.timers[before] if before is not None and not is_back else ()
        local = self._intern(
            index=index, mode=mode, state=self.freezer.key(layout), log=log, wall=wall,
            records=self._appended(kept, records, mode),
            timers=self._pending(process.me, pending, fired, set_timers, mode), stopped=False, error=error, again=again,
            process=process, layout=layout,
        )  # fmt: skip
        events = tuple(
            [self.event_of(process.me, q, m) for to, m in sent for q in to if q != process.me and q in self.index_of]
        )
        mark = self.mark[local] ^ (self.mark[before] if before is not None else 0)
        return Result(local, self.grouped(events), mark, events)

    def _apply(self, delivered: list[Any], log: Log, again: int) -> tuple[list[Snapshot], Log, int]:
        """The application: its state is its log of deliveries, and a snapshot is the number of a log. It must be given
        the newest `again` of them again, and nothing else first."""
        asked = []
        for d in delivered:
            if isinstance(d, SnapshotWanted):
                asked.append(Snapshot(d.gts, b"%d" % self.log_number(log)))
            elif isinstance(d, Restored):
                log, again = self.logs[int(d.state)], 0
            elif again and d == log[-again]:
                again -= 1
            else:
                log = (*log, d)
        return asked, log, again

    def log_number(self, log: Log) -> int:
        """The number of a log of deliveries."""
        number = self._log_numbers.get(log)
        if number is None:
            number = self._log_numbers[log] = len(self.logs)
            self.logs.append(log)
        return number

    def _appended(self, durable: tuple[int, ...], records: list[Any], mode: int) -> tuple[int, ...]:
        if not records or not self.modes[mode].records:
            return durable
        return durable + tuple([self.freezer.number_of(record) for record in records])

    def _pending(
        self, me: Pid, before: tuple[Event, ...], fired: Event | None, changes: list[tuple[Any, Any, Any]], mode: int
    ) -> tuple[Event, ...]:
        kinds = self.modes[mode].timers
        pending = {e for e in before if e != fired}
        for timer, after, _ in changes:
            if type(timer).__name__ in kinds:
                e = self.event_of(me, me, timer, is_timer=True)
                if after is None:
                    pending.discard(e)
                else:
                    pending.add(e)
        return tuple(sorted(pending))

    # -- local states --------------------------------------------------------------------------------------------
    def _copy(self, local: Local, key: int, **changed: Any) -> Result:
        """A local state that differs in a few things from another one."""
        result = self.memo[local].get(key)
        if result is None:
            known: dict[str, Any] = {
                "index": self._owner[local], "mode": self._mode[local], "wall": self.wall[local],
                "state": self._state[local], "log": self.logs[self.delivered[local]],
                "records": self._records[local], "timers": self.timers[local], "stopped": self.stopped[local],
                "error": self.error[local], "again": self.again[local], "like": local,
            }  # fmt: skip
            made = self._intern(**known | changed)
            result = self.memo[local][key] = Result(made, (), self.mark[local] ^ self.mark[made], ())
        return result

    def _intern(
        self, *, index: int, mode: int, state: bytes, log: Log, records: tuple[int, ...],
        timers: tuple[Event, ...], wall: int, stopped: bool, error: str, again: int, process: Process | None = None,
        layout: Layout | None = None, like: Local | None = None,
    ) -> Local:  # fmt: skip
        """The number of a local state: the one that `process` is in now, or one whose process is `like` another's."""
        delivered = self.log_number(log)
        key = (index, mode, state, delivered, records, timers, wall, stopped, error, again)
        local = self._locals.get(key)
        if local is None:
            local = self._locals[key] = len(self.mark)
            self.memo.append({})
            self.mark.append(self._random.getrandbits(64))
            self._owner.append(index)
            self._mode.append(mode)
            self._state.append(state)
            if like is not None:
                self._frozen.append(self._frozen[like])
            else:
                assert layout is not None
                self._frozen.append(self.freezer.freeze(layout))
            self.delivered.append(delivered)
            self.again.append(again)
            self._records.append(records)
            self.timers.append(timers)
            self.wall.append(wall)
            self.stopped.append(stopped)
            self.error.append(error)
            self._observe(process, log, like, stopped)
        return local

    def _observe(self, process: Process | None, log: Log, like: Local | None, stopped: bool) -> None:
        """Note what the invariants see of the newest local state."""
        views = []
        for at_end in (False, True):
            if process is not None:
                seen = [
                    self._observation_number(invariant.observe(process, log))
                    for invariant in self.invariants
                    if invariant.at_end == at_end
                ]
            else:
                assert like is not None
                seen = list(self.views[(self.end_view if at_end else self.view)[like]][1:])
            views.append(self._view_number((int(stopped), *seen)))
        self.view.append(views[0])
        self.end_view.append(views[1])

    def _observation_number(self, seen: Any) -> int:
        number = self._observation_numbers.get(seen)
        if number is None:
            number = self._observation_numbers[seen] = len(self.observations)
            self.observations.append(seen)
        return number

    def _view_number(self, view: tuple[int, ...]) -> int:
        number = self._view_numbers.get(view)
        if number is None:
            number = self._view_numbers[view] = len(self.views)
            self.views.append(view)
        return number

    def judge(self, locals_: Sequence[Local], at_end: bool) -> list[tuple[str, str]]:
        """What the invariants say of a combination of local states: (invariant, what is wrong)."""
        found: list[tuple[str, str]] = []
        views = [self.views[(self.end_view if at_end else self.view)[local]] for local in locals_]
        stopped = frozenset(pid for pid, local in zip(self.pids, locals_, strict=True) if self.stopped[local])
        invariants = [invariant for invariant in self.invariants if invariant.at_end == at_end]
        for place, invariant in enumerate(invariants, 1):
            seen = {pid: self.observations[view[place]] for pid, view in zip(self.pids, views, strict=True)}
            found += [(invariant.name, what) for what in invariant.judge(seen, stopped)]
        return found

    def count(self) -> int:
        """How many local states there are."""
        return len(self.mark)
