"""The subscriber: every message of a batch once and in order, after whatever checkpoint, from whichever replica."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.virtual_cluster import VirtualCluster, pause, virtual_cluster

from braidcast.client.errors import UnknownGroup
from braidcast.client.subscriber import Checkpoint, Delivery, Subscriber
from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError
from braidcast.wire.batches import messages_of, packed
from braidcast.wire.service import JournalEntry


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    with virtual_cluster() as made:
        yield made


async def fill(cluster: VirtualCluster, rounds: int) -> None:
    """Batches of five, some of them for both groups, and a message alone after each."""
    async with cluster.client() as client:
        for number in range(rounds):
            to = ["g0"] if number % 2 else ["g0", "g1"]
            await asyncio.gather(*[client.multicast(b"%d.%d" % (number, part), to) for part in range(5)])
            await client.multicast(b"%d" % number, to)


def test_checkpoint_of_each_delivery_goes_on_with_the_next_one_also_inside_a_batch(cluster: VirtualCluster) -> None:
    cluster.run(fill(cluster, 3))
    all_of_them: list[Delivery] = cluster.run(cluster.read("g0", 18))
    assert len({delivery.order for delivery in all_of_them}) == 18
    assert [d.checkpoint for d in all_of_them] == sorted(d.checkpoint for d in all_of_them)
    for place, delivery in enumerate(all_of_them[:-1]):
        rest = cluster.run(cluster.read("g0", 17 - place, str(delivery.checkpoint)))
        assert rest == all_of_them[place + 1 :]


def test_deliveries_of_two_groups_agree_on_the_order_of_what_both_have(cluster: VirtualCluster) -> None:
    cluster.run(fill(cluster, 4))
    first, second = cluster.run(cluster.read("g0", 24)), cluster.run(cluster.read("g1", 12))
    assert [d.order for d in first if "g1" in d.destinations] == [d.order for d in second]


def test_what_is_at_hand_is_taken_together_but_no_more_than_was_asked_for(cluster: VirtualCluster) -> None:
    async def work() -> list[int]:
        async with Subscriber.connect(cluster.addresses, group="g0") as deliveries:
            first = await deliveries.take(2)
            await pause(0.1)
            second, third = await deliveries.take(7), await deliveries.take()
            assert deliveries.checkpoint == third[-1].checkpoint
            return [len(first), len(second), len(third)]

    cluster.run(fill(cluster, 3))
    assert cluster.run(work()) == [2, 7, 9]


def test_subscriber_waits_for_what_comes_and_goes_on_when_its_replica_is_gone(cluster: VirtualCluster) -> None:
    async def work() -> list[bytes]:
        found: list[bytes] = []

        async def read() -> None:
            async with Subscriber.connect(cluster.addresses, group="g0") as deliveries:
                async for delivery in deliveries:
                    found.append(delivery.payload)

        reading = asyncio.ensure_future(read())
        async with cluster.client() as client:
            for number in range(40):
                await client.multicast(b"%d" % number, "g0")
                if number == 20:
                    await cluster.take_down("n1")
        await pause(1)
        reading.cancel()
        return found

    assert cluster.run(work()) == [b"%d" % number for number in range(40)]


def test_subscriber_that_is_not_open_and_a_group_that_is_not_there_are_clear_errors(cluster: VirtualCluster) -> None:
    async def work() -> None:
        subscriber = Subscriber.connect(cluster.addresses, group="g7")
        with pytest.raises(BraidcastError, match="is not open"):
            await anext(subscriber)
        with pytest.raises(UnknownGroup, match="it has g0, g1"):
            await subscriber.__aenter__()
        open_one = Subscriber.connect(cluster.addresses, group="g0")
        async with open_one:
            with pytest.raises(BraidcastError, match="open already"):
                await open_one.__aenter__()

    cluster.run(work())


@pytest.mark.parametrize("checkpoint", [Checkpoint(), Checkpoint(5), Checkpoint(1 << 61, 7)])
def test_checkpoint_is_read_back_from_its_text(checkpoint: Checkpoint) -> None:
    assert Checkpoint.parse(str(checkpoint)) == checkpoint


@pytest.mark.parametrize("text", ["x", "1+", "+1", "1+2+3", "-1", "1" * 30])
def test_text_that_is_no_checkpoint_is_one_clear_error(text: str) -> None:
    with pytest.raises(BraidcastError, match="is not a checkpoint"):
        Checkpoint.parse(text)


def entry(payload: bytes, count: int = 0, repeated: tuple[int, ...] = ()) -> JournalEntry:
    return JournalEntry(1, 1 << 10, MessageId(1, 1, 1), (0,), payload, 0, count, repeated)


@pytest.mark.parametrize(
    ("journaled", "messages"),
    [
        (entry(b"one"), [(0, b"one")]),
        (entry(packed([b"a", b"", b"c"]), 3), [(0, b"a"), (1, b""), (2, b"c")]),
        (entry(packed([b"a", b"b", b"c"]), 3, (0, 2)), [(1, b"b")]),
        (entry(packed([b"a", b"b"]), 2, (0, 1)), []),
        (entry(packed([b"a", b"b"]), 3), [(0, packed([b"a", b"b"]))]),
        (entry(b"not packed", 2), [(0, b"not packed")]),
        (entry(b"", 2), [(0, b"")]),
        (entry(b"not packed", 2, (0, 1)), []),
    ],
    ids=["alone", "batch", "repeated", "all repeated", "another count", "not packed", "empty", "not packed, repeated"],
)
def test_messages_of_an_entry_whoever_sent_it(journaled: JournalEntry, messages: list[tuple[int, bytes]]) -> None:
    assert list(messages_of(journaled)) == messages
