"""One simulated machine: a process, its disk, its timers, its clock, and the application above it.

A node carries out what its process puts out, in the order of the contract: timers at once; sends and deliveries when
the records before them are durable. It handles inputs one after another; while it is paused they wait; while it is
down they are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from braidcast.core.application import Connected, Restored, Snapshot, SnapshotWanted
from braidcast.core.process import Batch, Outbox, Process, Ticks
from braidcast.core.timestamps import Timestamp
from braidcast.core.topology import Pid
from braidcast.history.event import DiskLost, Resumed
from braidcast.simulator.application import Application, ApplicationPlan
from braidcast.simulator.clocks import Clock
from braidcast.simulator.disk import Disk
from braidcast.simulator.network import Endpoint, Network
from braidcast.simulator.recorder import Recorder
from braidcast.simulator.timers import Timers
from braidcast.simulator.world import World


class _Work:
    """The target of inputs that waited for the CPU: dead when the node has crashed meanwhile."""

    __slots__ = ("life", "node")
    direct = False

    def __init__(self, node: Node) -> None:
        self.node = node
        self.life = node.life

    def take(self, message: tuple[Pid, Any]) -> None:
        node = self.node
        if node.life != self.life:
            return
        if node.paused:
            node.waiting.append(message)
        else:
            node.handle(*message)


class Node(Endpoint):
    """A machine that runs one process of the topology."""

    is_process = True

    def __init__(
        self,
        pid: Pid,
        network: Network,
        make: Callable[[Outbox], Process],
        disk: Disk,
        application: ApplicationPlan,
        clock: Clock | None = None,
        cpu: Ticks = 0,
        random: Random | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(pid, network)
        self.world: World = network.world
        self.make = make
        self.disk = disk
        self.clock = clock
        self.cpu = cpu
        """What each input costs, in ticks."""
        self.random = random or Random(pid)
        self.recorder = recorder
        self.note = recorder.noter(self) if recorder is not None else None
        self.application = Application(application, self._applied_to)
        self.incarnation = 0
        self.life = 0
        """Goes up at every crash, so that what was scheduled before it is known to be void."""
        self.lost: Resumed | DiskLost | None = None
        """What the last crash took of what the application had, if it took anything."""
        self.up = False
        self.paused = False
        self.waiting: list[tuple[Pid, Any]] = []
        """Inputs that came during a pause."""
        self.free_at: Ticks = 0
        """When the CPU has done everything that has arrived so far."""
        self.by_hand = False
        """Whether timers and news of sessions come only when a manual scenario says so."""
        self.sends_at_once = False
        """Whether sends of a step without records may go without looking further,"""
        self.keeps_at_once = disk.plan.is_instant
        """and whether records are durable, and nothing else, as soon as they are in the log."""
        self._new_process()

    def _new_process(self) -> None:
        self.out = Outbox(self.pid, self.note)
        self.out.applied = self.application.mark
        self.process = self.make(self.out)
        self.step = self.process.step
        self.timers = Timers(self)
        self.work = _Work(self)

    @property
    def wall(self) -> Ticks:
        """What its wall clock shows."""
        return self.world.now if self.clock is None else self.clock.at(self.world.now)

    def refresh(self) -> None:
        """Something has changed about how inputs are to be handled."""
        idle = self.up and not self.paused
        self.ready = idle and not self.cpu and self.clock is None
        self.sends_at_once = self.disk.syncing is None and self.network.plain
        self.network.refresh(self)

    # -- inputs -----------------------------------------------------------------------------------------------

    def receive(self, sender: Pid, message: Any) -> None:
        """An input that the loop of the world did not handle itself."""
        if not self.up:
            self.network.lost += sender != self.pid
        elif self.paused:
            self.waiting.append((sender, message))
        elif self.cpu:
            self.free_at = max(self.free_at, self.world.now) + self.cpu
            self.world.schedule(self.free_at, self.work, (sender, message))
        else:
            self.handle(sender, message)

    def handle(self, sender: Pid, message: Any) -> None:
        """One step, and what it puts out."""
        if self.recorder is not None and sender != self.pid:
            self.recorder.received(self, sender, message)
        out = self.out
        out.now = self.world.now
        out.wall = self.wall
        self.step(sender, message)
        self.release()

    def connected(self, peer: Pid) -> None:
        """A new session with `peer` began."""
        if not self.by_hand:
            self.hear_of_session(peer)

    def hear_of_session(self, peer: Pid) -> None:
        """The process is told of a new session, if it wants to know."""
        if Connected in self.process.inputs:
            self.receive(self.pid, Connected(peer))

    # -- outputs ----------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Let go what the process put out, or start the disk if it rests on records that are not durable."""
        out = self.out
        records, sent, delivered, timers = out.records, out.sent, out.delivered, out.timers
        if timers:
            self.timers.set(timers)
            timers.clear()
        disk = self.disk
        if disk.plan.fsync:
            if records and (not disk.ends or disk.ends[-1] < len(records)):
                disk.ends.append(len(records))
            if disk.syncing is not None:
                return
            if out.waits_from >= 0:
                if out.waits_from:
                    self.network.send(self, sent[: out.waits_from])
                    del sent[: out.waits_from]
                self._begin_sync()
                return
        elif records:
            disk.append(records)
            if self.recorder is not None:
                self.recorder.persisted(self, records)
            records.clear()
            if disk.checkpoint_is_due and (checkpoint := self._checkpoint()) is not None:
                disk.replace(checkpoint)
        if sent:
            self.network.send(self, sent)
            sent.clear()
        if delivered:
            self.deliver(delivered)
            delivered.clear()

    def _begin_sync(self) -> None:
        disk = self.disk
        batch = self.out.take()
        disk.begin_sync(batch, self._checkpoint() if disk.checkpoint_is_due else None)
        self.sends_at_once = False
        self.world.call(self.world.now + disk.plan.fsync, self._end_sync, self.life)

    def _end_sync(self, life: int) -> None:
        if life != self.life:
            return
        batch = self.disk.end_sync()
        self._let_go(batch)
        self.sends_at_once = self.network.plain
        self.release()

    def _let_go(self, batch: Batch) -> None:
        if self.recorder is not None:
            self.recorder.persisted(self, batch.records)
        self.network.send(self, batch.sent)
        self.deliver(batch.delivered)

    def _checkpoint(self) -> list[Any] | None:
        try:
            return list(self.process.checkpoint())
        except NotImplementedError:
            return None

    def deliver(self, delivered: list[Any]) -> None:
        """Hand these to the application."""
        application, recorder, world = self.application, self.recorder, self.world
        for delivery in delivered:
            if self.disk.plan.fsync and application.has(delivery):
                continue  # the mark was lost, and not the effect; without such disks an application need not look
            if recorder is not None:
                recorder.delivered(self, delivery, self.process.role)
            kind = type(delivery)
            if kind is SnapshotWanted:
                answer = Snapshot(delivery.gts, application.state())
                world.call(world.now + application.plan.snapshot, self._answer, self.life, answer)
            elif kind is Restored:
                application.restore(delivery)
            elif application.apply(delivery):
                world.call(world.now + application.plan.lag, self._flush, self.life)

    def _answer(self, life: int, answer: Any) -> None:
        if life == self.life:
            self.receive(self.pid, answer)

    def _flush(self, life: int) -> None:
        if life == self.life:
            self.application.flush()

    def _applied_to(self, mark: Timestamp) -> None:
        self.out.applied = mark

    # -- life -------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start for the first time."""
        self.up = True
        if self.recorder is not None:
            self.recorder.started(self)
        self._start(0)

    def crash(self) -> None:
        """Lose everything that is not durable."""
        survived = self.disk.crash(self.out.batch.records)
        if self.recorder is not None:
            self.recorder.persisted(self, survived)
            self.recorder.crashed(self)
        mark = self.application.crash()
        self.lost = None if mark is None else Resumed(mark)
        self.life += 1
        self.up = self.paused = False
        self.waiting.clear()
        self.timers.stop()
        self.network.crash(self.pid)
        self.refresh()

    def lose_disk(self) -> None:
        """While it is down: everything that was durable is gone, and it will rejoin."""
        self.disk.lose()
        self.application.forget()
        self.lost = DiskLost()

    def restart(self) -> None:
        """Start again from what was durable."""
        self.incarnation += 1
        self.up = True
        self.free_at = self.world.now
        if self.recorder is not None:
            self.recorder.restarted(self, self.lost)
        self._new_process()
        self.out.now, self.out.wall = self.world.now, self.wall
        if self.disk.lost and not self.disk.log:
            self.process.rejoin(self.incarnation)
        else:
            self.process.recover(self.disk.log)
        self.network.restart(self.pid)
        self._start(self.application.mark)

    def _start(self, applied: Timestamp) -> None:
        self.out.now, self.out.wall = self.world.now, self.wall
        self.process.start(applied)
        self.refresh()
        self.release()

    def pause(self) -> None:
        """Stop handling inputs and timers; they wait."""
        self.paused = True
        self.refresh()

    def resume(self) -> None:
        """Handle what has waited."""
        if not self.paused:
            return
        self.paused = False
        self.refresh()
        waiting, self.waiting = self.waiting, []
        for sender, message in waiting:
            self.receive(sender, message)
        self.timers.catch_up()
