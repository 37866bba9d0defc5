"""The follower: every entry once and in order, whichever replica tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.fakes import FakeLink
from tests.virtual_loop import VirtualLoop, VirtualTransport

from braidcast.client.errors import NoLongerKept, UnknownGroup
from braidcast.client.follower import AHEAD_BYTES_MAX, Follower
from braidcast.core.client import MessageId
from braidcast.wire.service import Deliveries, JournalEntry, Subscribe, SubscriptionEnded


class Stage:
    """A follower that reads into a list."""

    def __init__(self, after: int = 0) -> None:
        self.loop = VirtualLoop()
        self.link = FakeLink(self.loop)
        self.follower = Follower(self.link, "a", after)
        self.read: list[int] = []
        self.task: asyncio.Task[None] = self.loop.create_task(self._read())
        self.loop.settle()

    async def _read(self) -> None:
        async for entry in self.follower:
            self.read.append(entry.gts)

    def deliver(self, line: str, *timestamps: int, group: int = 0) -> None:
        entries = [JournalEntry(gts, gts, MessageId(1, 1, gts), (0,), b"") for gts in timestamps]
        self.link.answer(Deliveries(group, tuple(entries)), line)

    def end(self, line: str) -> None:
        self.link.answer(SubscriptionEnded(0, "compacted"), line)

    def asked(self) -> list[tuple[str, int]]:
        """Whom it asked since the last look, and from where on."""
        said, self.link.said = self.link.said, []
        return [(name, wanted.after) for name, wanted in said if isinstance(wanted, Subscribe)]

    def lose(self, line: str) -> None:
        self.link.lose(self.link.lines[line])


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.task.cancel()
    made.loop.settle()
    made.loop.calm()


def test_entries_come_in_order_and_the_last_one_is_the_checkpoint(stage: Stage) -> None:
    assert stage.asked() == [("n1", 0)]
    stage.deliver("n1", 1, 2)
    stage.deliver("n1", 3)
    assert stage.read == [1, 2, 3]
    assert stage.follower.after == 3


def test_follower_begins_after_its_checkpoint() -> None:
    stage = Stage(after=5)
    assert stage.asked() == [("n1", 5)]
    stage.deliver("n1", 4, 5, 6)
    assert stage.read == [6]
    stage.task.cancel()
    stage.loop.settle()


def test_follower_goes_on_at_another_replica_where_it_stopped_and_delivers_nothing_twice(stage: Stage) -> None:
    stage.deliver("n1", 1, 2)
    stage.asked()
    stage.lose("n1")
    stage.loop.settle()
    assert stage.asked() == [("n2", 2)]
    stage.deliver("n2", 2, 3)
    stage.deliver("n1", 4)
    assert stage.read == [1, 2, 3]


def test_replica_that_no_longer_keeps_it_is_not_asked_again(stage: Stage) -> None:
    stage.asked()
    stage.end("n1")
    stage.loop.settle()
    assert stage.asked() == [("n2", 0)]
    stage.end("n1")  # late, and not of the one that is asked
    stage.loop.settle()
    assert stage.asked() == []


def test_nobody_keeps_it_any_longer_is_one_clear_error_that_says_from_where(stage: Stage) -> None:
    stage.deliver("n1", 7)
    for line in ("n1", "n2", "n3"):
        stage.end(line)
        stage.loop.settle()
    with pytest.raises(NoLongerKept, match="no replica of group a keeps what follows the timestamp 7"):
        stage.task.result()


def test_replica_that_is_only_out_of_reach_is_waited_for(stage: Stage) -> None:
    stage.end("n1")
    stage.lose("n2")
    stage.lose("n3")
    stage.loop.advance(20)
    assert not stage.task.done()
    stage.asked()
    stage.link.connect(stage.link.lines["n3"])
    stage.loop.settle()
    assert stage.asked() == [("n3", 0)]


def test_connection_that_was_replaced_is_asked_anew(stage: Stage) -> None:
    stage.deliver("n1", 1)
    stage.asked()
    for line in ("n2", "n3", "n1"):
        stage.lose(line)
    stage.link.connect(stage.link.lines["n1"])
    stage.loop.settle()
    assert stage.asked() == [("n1", 1)]
    stage.deliver("n1", 1, 2)
    assert stage.read == [1, 2]


def test_entries_of_another_group_are_not_this_one_s(stage: Stage) -> None:
    stage.deliver("n1", 5, group=1)
    assert stage.read == []


def test_group_that_does_not_exist_is_one_clear_error() -> None:
    with pytest.raises(UnknownGroup, match="it has a, b"):
        Follower(FakeLink(VirtualLoop()), "c")


def test_follower_that_is_not_asked_for_more_stops_reading_until_it_is() -> None:
    loop = VirtualLoop()
    link = FakeLink(loop)
    follower = Follower(link, "a")
    first = loop.create_task(anext(follower))
    loop.settle()
    connection = link.lines["n1"].connection
    assert connection is not None
    connection.connection_made(VirtualTransport(loop, connection))
    half = AHEAD_BYTES_MAX // 2
    for gts in (1, 2, 3):
        link.answer(Deliveries(0, (JournalEntry(gts, gts, MessageId(1, 1, gts), (0,), bytes(half)),)))
    assert first.result().gts == 1
    assert not connection.reading
    assert loop.run(anext(follower)).gts == 2
    assert connection.reading
