"""Results between the state machine and who waits for them, in whatever order they and their receipts come."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from tests.cluster.inprocess import run, turns

from braidcast.client.sender import Receipt
from braidcast.client.subscriber import Checkpoint, Delivery
from braidcast.core.client import MessageId
from braidcast.embedded.errors import ResultLost
from braidcast.embedded.results import Results


def message(seq: int, part: int = 0, client: int = 7) -> Delivery:
    return Delivery(b"m", 10 * seq, part, "g", frozenset("g"), seq, MessageId(client, 1, seq), Checkpoint(10 * seq))


def receipt(seq: int, part: int = 0) -> Receipt:
    return Receipt(MessageId(7, 1, seq), 10 * seq, part)


def results(unasked_max: int = 10) -> Results:
    made = Results(unasked_max)
    made.client = 7
    return made


def test_result_comes_before_its_receipt_or_after_it_and_each_part_has_its_own() -> None:
    async def work() -> None:
        some = results()
        some.put(message(1, 0), "first")
        some.put(message(1, 1), "second")
        assert await some.of("g", receipt(1, 1), 10) == "second"
        assert await some.of("g", receipt(1, 0), 10) == "first"
        waits = asyncio.create_task(some.of("g", receipt(2), 10))
        await turns(1)
        some.put(message(2), "third")
        assert await waits == "third"
        assert (some.asked, some.unasked) == ({}, {})

    run(work())


def test_results_of_others_are_not_kept_and_of_own_ones_only_so_many() -> None:
    async def work() -> None:
        some = results(unasked_max=2)
        some.put(message(1, client=8), "not mine")
        assert some.unasked == {}
        for seq in (1, 2, 3):
            some.put(message(seq), seq)
        assert list(some.unasked.values()) == [2, 3]
        with pytest.raises(ResultLost, match=r"message 7.1.1 was delivered, but its result in group g is unknown"):
            await some.of("g", receipt(1), 30)

    run(work())


def test_who_waits_for_what_will_not_come_is_told() -> None:
    async def work() -> None:
        some = results()
        waits = [asyncio.create_task(some.of("g", receipt(seq), 0)) for seq in (1, 2, 3)]
        await turns(1)
        some.skip("h", 30)
        some.skip("g", 10)
        await turns(1)
        assert [task.done() for task in waits] == [True, False, False]
        some.put(message(2), "in time")
        some.end("the node stops")
        found: list[Any] = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(each) for each in found] == [ResultLost, str, ResultLost]
        assert [found[0].why, found[2].why] == ["its effect came with the state of another replica", "the node stops"]
        with pytest.raises(ResultLost, match="the node stops"):
            await some.of("g", receipt(4), 0)
        copy = pickle.loads(pickle.dumps(found[2]))
        assert (str(copy), copy.receipt) == (str(found[2]), receipt(3))

    run(work())


def test_who_gives_up_leaves_nothing_behind() -> None:
    async def work() -> None:
        some = results()
        waits = asyncio.create_task(some.of("g", receipt(1), 0))
        await turns(1)
        waits.cancel()
        some.put(message(1), "at that very moment")
        await turns(1)
        assert (some.asked, some.unasked) == ({}, {})
        some.put(message(2), "too late")
        assert list(some.unasked.values()) == ["too late"]

    run(work())
