"""The client: every multicast ends, once and in order, whatever happens to the cluster or to who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.client.virtual_cluster import VirtualCluster, cut, pause, virtual_cluster

from braidcast.client.client import Client
from braidcast.client.errors import (
    ClientClosed,
    ClusterUnreachable,
    MessageRefused,
    NotDelivered,
    PayloadTooLarge,
    StateUnusable,
    TimedOut,
    UnknownGroup,
)
from braidcast.client.sender import Receipt
from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError, OptionError


@pytest.fixture
def cluster() -> Iterator[VirtualCluster]:
    with virtual_cluster() as made:
        yield made


def units(cluster: VirtualCluster, group: int = 0) -> list[int]:
    """The size of each unit that a group has delivered; 0 for one message alone."""
    journal = next(iter(cluster.nodes.values())).by_group[group].journal
    return [entry.batch_count for entry in journal.read(journal.after, 1 << 20)]


def test_message_to_two_groups_is_delivered_in_both_at_the_timestamp_of_its_receipt(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            assert client.groups == ("g0", "g1")
            receipt = await client.multicast(b"hello", to={"g0", "g1"})
        for group in client_groups:
            (delivery,) = await cluster.read(group, 1)
            assert (delivery.payload, delivery.timestamp, delivery.part) == (b"hello", receipt.timestamp, 0)
            assert (delivery.group, delivery.destinations) == (group, frozenset(client_groups))
            assert (delivery.id, delivery.sender, delivery.index) == (receipt.id, receipt.id.client, 1)

    client_groups = ("g0", "g1")
    cluster.run(work())
    assert units(cluster) == [0]


def test_messages_of_one_turn_leave_as_one_unit_and_each_has_its_receipt(cluster: VirtualCluster) -> None:
    async def work() -> list[Receipt]:
        async with cluster.client() as client:
            return await asyncio.gather(*[client.multicast(b"%d" % n, to="g0") for n in range(10)])

    receipts = cluster.run(work())
    assert units(cluster) == [10]
    assert len({receipt.timestamp for receipt in receipts}) == 1
    assert [receipt.part for receipt in receipts] == list(range(10))
    deliveries = cluster.run(cluster.read("g0", 10))
    assert [(d.timestamp, d.part) for d in deliveries] == [(r.timestamp, r.part) for r in receipts]
    assert [d.payload for d in deliveries] == [b"%d" % n for n in range(10)]


def test_what_waits_while_a_unit_is_under_way_leaves_as_the_next_one(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            for n in range(20):
                await client.submit(b"%d" % n, to="g0")
                await pause(0)

    cluster.run(work())
    assert len(units(cluster)) < 20
    payloads = [d.payload for d in cluster.run(cluster.read("g0", 20))]
    assert payloads == [b"%d" % n for n in range(20)]


@pytest.mark.parametrize(
    ("options", "expected"), [({"batch_messages_max": 4}, [4, 4, 2]), ({"batch_bytes_max": 41}, [4, 4, 2]), ({}, [10])]
)
def test_batch_is_no_larger_than_it_may_be(cluster: VirtualCluster, options: Any, expected: list[int]) -> None:
    async def work() -> None:
        async with cluster.client(**options) as client:
            await asyncio.gather(*[client.multicast(b"%04d" % n, to="g0") for n in range(10)])

    cluster.run(work())
    assert units(cluster) == expected


def test_message_that_lingers_leaves_with_those_that_come_meanwhile_and_no_later_than_it_may(
    cluster: VirtualCluster,
) -> None:
    async def work() -> float:
        async with cluster.client(linger_ms=50) as client:
            began = cluster.loop.time()
            first = await client.submit(b"0", to="g0")
            for n in (1, 2):
                await pause(0.02)
                await client.submit(b"%d" % n, to="g0")
            await first
            return cluster.loop.time() - began

    assert 0.049 < cluster.run(work()) < 0.06
    assert units(cluster) == [3]


def test_full_batch_does_not_linger(cluster: VirtualCluster) -> None:
    async def work() -> float:
        async with cluster.client(linger_ms=5000, batch_messages_max=3) as client:
            began = cluster.loop.time()
            await asyncio.gather(*[client.multicast(b"", to="g0") for _ in range(3)])
            return cluster.loop.time() - began

    assert cluster.run(work()) < 1
    assert units(cluster) == [3]


def test_deadline_without_a_majority_ends_each_message_and_says_which_may_still_be_delivered(
    cluster: VirtualCluster,
) -> None:
    async def work() -> list[Any]:
        async with cluster.client(timeout=2) as client:
            await client.multicast(b"before", to="g0")
            for name in ("n2", "n3"):
                await cluster.take_down(name)
            first = await client.submit(b"sent", to="g0")
            await pause(0.1)
            second = await client.submit(b"waits", to="g0")
            found = await asyncio.gather(first, second, return_exceptions=True)
            assert client.under_way == 0
        return list(found)

    sent, waits = cluster.run(work())
    assert isinstance(sent, TimedOut)
    assert sent.may_be_delivered
    assert isinstance(sent.id, MessageId)
    assert isinstance(waits, TimedOut)
    assert (waits.may_be_delivered, waits.id) == (False, None)


def test_message_that_timed_out_is_brought_to_its_end_and_what_follows_comes_after_it(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            for name in ("n1", "n2", "n3"):
                cut(client, name)
            with pytest.raises(TimedOut):
                await client.multicast(b"late", to="g0", timeout=0.001)
            await client.multicast(b"next", to="g0")

    cluster.run(work())
    assert [d.payload for d in cluster.run(cluster.read("g0", 2))] == [b"late", b"next"]


def test_cancelled_caller_waits_no_longer_and_nothing_leaks(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client(under_way_max=4) as client:
            for _ in range(5):
                tasks = [asyncio.ensure_future(client.multicast(b"x", to="g0")) for _ in range(8)]
                await pause(0)
                await pause(0)
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(end, asyncio.CancelledError) for end in ends)
            await client.multicast(b"after", to="g0")
            assert client.under_way == 0
            assert client._parts is not None
            assert client._parts.room._value == 4
            assert not client._parts.sender.units
            assert not client._parts.sender.open

    cluster.run(work())


def test_messages_that_nobody_waits_for_do_not_pile_up_behind_one_that_is_stuck(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client(timeout=0.1, under_way_max=10) as client:
            for name in ("n2", "n3"):
                await cluster.take_down(name)
            futures = []
            for _ in range(20):
                futures += [await client.submit(b"x", to="g0") for _ in range(5)]
                await pause(0.2)
            assert client._parts is not None
            (lane,) = client._parts.lanes.values()
            assert len(lane.waiting) <= 10
            found = await asyncio.gather(*futures, return_exceptions=True)
            assert all(isinstance(error, TimedOut) for error in found)

    cluster.run(work())


def test_multicast_waits_while_too_much_is_under_way(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client(under_way_max=2) as client:
            futures = [await client.submit(b"%d" % n, to="g0") for n in range(2)]
            third = asyncio.ensure_future(client.submit(b"2", to="g0"))
            await pause(0)
            assert not third.done()
            await asyncio.gather(*futures)
            await (await third)

    cluster.run(work())
    assert [d.payload for d in cluster.run(cluster.read("g0", 3))] == [b"0", b"1", b"2"]


def test_deadline_also_ends_who_waits_for_room(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client(under_way_max=1) as client:
            for name in ("n2", "n3"):
                await cluster.take_down(name)
            stuck = await client.submit(b"x", to="g0", timeout=5)
            with pytest.raises(TimedOut, match="too much is under way") as found:
                await client.multicast(b"y", to="g0", timeout=1)
            assert not found.value.may_be_delivered
            with pytest.raises(TimedOut):
                await stuck

    cluster.run(work())


def test_closing_ends_everything_that_is_under_way_or_waits_with_an_error(cluster: VirtualCluster) -> None:
    async def work() -> list[Any]:
        tasks: list[asyncio.Task[Receipt]] = []
        client = await cluster.client(under_way_max=2).__aenter__()
        for name in ("n2", "n3"):
            await cluster.take_down(name)
        for n in range(4):
            tasks.append(asyncio.ensure_future(client.multicast(b"%d" % n, to="g0")))
            await pause(0.1)
        await client.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = cluster.run(work())
    assert [type(error) for error in found] == [ClientClosed] * 4
    assert [error.may_be_delivered for error in found] == [True, False, False, False]


def test_leaving_waits_for_what_was_submitted(cluster: VirtualCluster) -> None:
    async def work() -> list[Receipt]:
        async with cluster.client() as client:
            futures = [await client.submit(b"%d" % n, to="g0") for n in range(5)]
        return [future.result() for future in futures]

    assert len(cluster.run(work())) == 5


def test_leader_that_goes_under_load_loses_no_message_and_no_order(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            futures: list[asyncio.Future[Receipt]] = []
            for n in range(300):
                futures.append(await client.submit(b"%d" % n, to=[["g0"], ["g1", "g0"]][n % 2]))
                await pause(0.005)
                if n == 100:
                    await cluster.take_down(cluster.leader())
            await asyncio.gather(*futures)

    cluster.run(work())
    payloads = [int(d.payload) for d in cluster.run(cluster.read("g0", 300))]
    assert sorted(payloads) == list(range(300))
    for parity in (0, 1):  # one set of groups each
        assert [n for n in payloads if n % 2 == parity] == list(range(parity, 300, 2))


@pytest.mark.parametrize("seed", range(5))
def test_connections_that_are_cut_again_and_again_duplicate_and_reorder_nothing(
    cluster: VirtualCluster, seed: int
) -> None:
    random = Random(seed)

    async def work() -> int:
        async with cluster.client(timeout=None, batch_messages_max=3) as client:
            futures: list[asyncio.Future[Receipt]] = []
            for n in range(200):
                futures.append(await client.submit(b"%d" % n, to=["g0", "g1"]))
                await pause(random.random() * 0.01)
                if random.random() < 0.3:
                    cut(client, random.choice(["n1", "n2", "n3"]))
            await asyncio.gather(*futures)
            assert client._parts is not None
            return client._parts.sender.retries

    assert cluster.run(work(), 600) > 0
    for group in ("g0", "g1"):
        assert [int(d.payload) for d in cluster.run(cluster.read(group, 200))] == list(range(200))


def test_payload_that_is_too_large_a_group_that_is_not_there_and_no_group_are_clear_errors(
    cluster: VirtualCluster,
) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            with pytest.raises(PayloadTooLarge, match="1,025 bytes, at most 1,024") as found:
                await client.multicast(bytes(1025), to="g0")
            assert not found.value.may_be_delivered
            with pytest.raises(UnknownGroup, match="it has g0, g1"):
                await client.multicast(b"", to={"g0", "g9"})
            with pytest.raises(BraidcastError, match="at least one group"):
                await client.multicast(b"", to=[])
            with pytest.raises(TypeError, match="bytes, not str"):
                await client.multicast("text", to="g0")  # type: ignore[arg-type]  # what the test is about
            await client.multicast(bytes(1024), to="g0")

    cluster.run(work())


def test_refusal_is_an_error_of_its_kind_and_what_follows_goes_on() -> None:
    async def work(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            await client.multicast(b"before", to="g0")
            for name in ("n2", "n3"):
                await cluster.take_down(name)
            await pause(0.5)
            for _ in range(2):
                with pytest.raises(MessageRefused, match="reaches no quorum of group g0"):
                    await client.multicast(b"", to="g0")

    with virtual_cluster(when_unavailable="refuse") as cluster:
        cluster.run(work(cluster))


def test_client_whose_session_was_forgotten_goes_on_in_another_one_unnoticed(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            first = await client.multicast(b"before", to="g0")
            for _ in range(8):  # the cluster remembers six sessions
                async with cluster.client() as other:
                    await other.multicast(b"other", to="g0")
            receipts = await asyncio.gather(*[client.multicast(b"%d" % n, to="g0") for n in range(3)])
            assert {receipt.id.session > first.id.session for receipt in receipts} == {True}
            assert client.under_way == 0

    cluster.run(work())
    assert [d.payload for d in cluster.run(cluster.read("g0", 12))][-3:] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "options", [{"under_way_max": 0}, {"batch_messages_max": 0}, {"batch_messages_max": 1 << 21}, {"linger_ms": -1}]
)
def test_option_that_cannot_be_is_one_clear_error(options: Any) -> None:
    (name,) = options
    with pytest.raises(OptionError, match=name):
        Client.connect("localhost:7101", **options)


def test_client_that_is_not_open_says_so(cluster: VirtualCluster) -> None:
    async def work() -> None:
        client = cluster.client()
        with pytest.raises(BraidcastError, match="is not open"):
            await client.multicast(b"", to="g0")
        async with client:
            with pytest.raises(BraidcastError, match="open already"):
                await client.__aenter__()
        with pytest.raises(BraidcastError, match="is not open"):
            await client.multicast(b"", to="g0")

    cluster.run(work())


def test_cluster_that_is_not_there_is_looked_for_as_long_as_was_said(cluster: VirtualCluster) -> None:
    async def work(addresses: str, error: str) -> float:
        began = cluster.loop.time()
        with pytest.raises(ClusterUnreachable, match=error):
            await Client.connect(addresses, connect_timeout=3).__aenter__()
        return cluster.loop.time() - began

    assert 3 <= cluster.run(work("localhost:9", "are the nodes running")) < 4
    assert cluster.run(work("no address", "neither a file nor")) == 0


# -- names and lives -------------------------------------------------------------------------------------------------


def test_message_that_was_named_is_delivered_once_however_often_it_is_multicast(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            id = client.new_id()
            both = await asyncio.gather(*[client.multicast(b"once", to="g0", id=id) for _ in range(2)])
            again = await client.multicast(b"once", to="g0", id=str(id))
            assert both[0] == both[1]
            assert again.id == id
            await client.multicast(b"other", to="g0")

    cluster.run(work())
    assert [d.payload for d in cluster.run(cluster.read("g0", 2))] == [b"once", b"other"]


def test_client_that_restarts_keeps_its_id_and_can_ask_again_for_what_it_named(
    cluster: VirtualCluster, tmp_path: Path
) -> None:
    state = tmp_path / "client"

    async def first() -> tuple[MessageId, MessageId, int]:
        async with cluster.client(state=state) as client:
            sent, unsent = client.new_id(), client.new_id()
            receipt = await client.multicast(b"sent", to="g0", id=sent)
            for n in range(5):
                await client.multicast(b"%d" % n, to="g0", id=client.new_id())
            return sent, unsent, receipt.timestamp

    async def second(sent: MessageId, unsent: MessageId, timestamp: int) -> None:
        async with cluster.client(state=state) as client:
            assert client.id == sent.client
            assert client.new_id().session > sent.session
            receipt = await client.multicast(b"sent", to="g0", id=sent)
            assert receipt.timestamp in (timestamp, 0)
            receipt = await client.multicast(b"unsent", to="g0", id=unsent)
            assert receipt.timestamp > timestamp

    cluster.run(second(*cluster.run(first())))
    payloads = [d.payload for d in cluster.run(cluster.read("g0", 7))]
    assert payloads == [b"sent", b"0", b"1", b"2", b"3", b"4", b"unsent"]


def test_sessions_rise_even_if_the_clock_is_set_back(
    cluster: VirtualCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def session() -> int:
        async with cluster.client(state=tmp_path / "client") as client:
            return client.new_id().session

    before = cluster.run(session())
    monkeypatch.setattr("braidcast.client.state.new_session", lambda: 1)
    assert before < cluster.run(session()) < cluster.run(session())


def test_state_file_serves_one_client_at_a_time(cluster: VirtualCluster, tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster.client(state=tmp_path / "client"):
            with pytest.raises(StateUnusable, match="in use"):
                await cluster.client(state=tmp_path / "client").__aenter__()
        async with cluster.client(state=tmp_path / "client"):
            pass

    cluster.run(work())


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "is not the state"),
        ('{"cluster": "other", "client": 4611686018427387905, "session": 3}', "belongs to a client of cluster other"),
        ('{"cluster": "local", "client": "x", "session": 3}', "is not the state"),
    ],
)
def test_state_file_that_is_not_this_client_s_is_one_clear_error_and_stays_as_it_is(
    cluster: VirtualCluster, tmp_path: Path, content: str, error: str
) -> None:
    (tmp_path / "client").write_text(content)
    for _ in range(2):  # and the lock is let go
        with pytest.raises(StateUnusable, match=error):
            cluster.run(cluster.client(state=tmp_path / "client").__aenter__())
    assert (tmp_path / "client").read_text() == content


def test_id_of_another_client_is_refused_here(cluster: VirtualCluster) -> None:
    async def work() -> None:
        async with cluster.client() as client:
            with pytest.raises(StateUnusable, match="is not of this client"):
                await client.multicast(b"", to="g0", id="5.1.1")
            with pytest.raises(BraidcastError, match="not the id of a message"):
                await client.multicast(b"", to="g0", id="five")

    cluster.run(work())


def test_every_end_but_a_receipt_says_whether_it_may_be_delivered() -> None:
    kinds = (ClientClosed, MessageRefused, PayloadTooLarge, TimedOut)
    assert all(issubclass(kind, NotDelivered) for kind in kinds)
    assert issubclass(TimedOut, TimeoutError)
