"""The client and the subscriber on real processes whose leader is killed under a load that keeps coming."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.client.virtual_cluster import pause

from braidcast.cli.registry import protocol_named
from braidcast.client.client import Client
from braidcast.client.sender import Receipt
from braidcast.client.subscriber import Checkpoint, Delivery, Subscriber
from braidcast.trials.faulty_cluster import FaultyCluster

PATIENCE_S = 60.0
MESSAGES, KILL_AT, RESTART_AT = 1200, 400, 500
GROUPS = (("g0",), ("g0", "g1"), ("g1",))


async def send(faulty: FaultyCluster) -> list[Receipt]:
    """A steady load; the leader of g0 dies in the middle of it."""
    async with Client.connect(faulty.config.path, timeout=PATIENCE_S, under_way_max=200) as client:
        futures = []
        for number in range(MESSAGES):
            if number == KILL_AT:
                await faulty.kill((await faulty.wait_led())["g0"])
            futures.append(await client.submit(b"%d" % number, to=GROUPS[number % 3]))
            if number % 10 == 0:
                await pause(0.005)
        return list(await asyncio.gather(*futures))


async def read(faulty: FaultyCluster, group: str, count: int, kept: list[Delivery], after: Checkpoint) -> Checkpoint:
    """So many deliveries more, and the checkpoint to go on from."""
    async with Subscriber.connect(faulty.config.path, group=group, after=after) as deliveries:
        while len(kept) < count:
            kept.append(await anext(deliveries))
        return deliveries.checkpoint


def test_leader_killed_under_load_every_multicast_has_a_receipt_and_a_restarted_subscriber_sees_each_once(
    tmp_path: Path,
) -> None:
    async def follow(faulty: FaultyCluster, group: str, count: int) -> list[Delivery]:
        kept: list[Delivery] = []
        checkpoint = await read(faulty, group, RESTART_AT, kept, Checkpoint())
        await read(faulty, group, count, kept, Checkpoint.parse(str(checkpoint)))
        return kept

    async def scenario() -> tuple[list[Receipt], list[Delivery], list[Delivery]]:
        faulty = await FaultyCluster.make(tmp_path, protocol_named("whitebox"), groups=2)
        try:
            faulty.cluster.start_all()
            await faulty.wait_ready()
            each = MESSAGES * 2 // 3
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.gather(send(faulty), follow(faulty, "g0", each), follow(faulty, "g1", each))
        finally:
            await faulty.close()

    receipts, *by_group = asyncio.run(scenario())
    assert all(receipt.timestamp for receipt in receipts)
    for name, deliveries in zip(("g0", "g1"), by_group, strict=True):
        expected = {n: (r.timestamp, r.part) for n, r in enumerate(receipts) if name in GROUPS[n % 3]}
        assert {int(d.payload): d.order for d in deliveries} == expected
        assert [d.order for d in deliveries] == sorted(expected.values())
        for kind in range(3):
            numbers = [int(d.payload) for d in deliveries if int(d.payload) % 3 == kind]
            assert numbers == sorted(numbers)
