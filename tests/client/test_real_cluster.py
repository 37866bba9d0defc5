"""The client and the subscriber with TLS, on real processes whose leader is killed under a load that keeps coming."""

from __future__ import annotations

import asyncio
import sys
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
        faulty = await FaultyCluster.make(tmp_path, protocol_named("whitebox"), groups=2, tls=True)
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


LIFE = """
import asyncio, sys
from braidcast import Client

async def life(cluster, state, names, last):
    known = open(names).read().split()
    async with Client.connect(cluster, state=state, connect_timeout=30) as client:
        with open(names, "a") as file:
            while len(known) < 200:
                known.append(str(client.new_id()))
                print(known[-1], file=file, flush=True)
        sends = [client.submit(b"%d" % number, ["g0", "g1"], id=id) for number, id in enumerate(known)]
        ends = [await send for send in sends]
        if last:
            await asyncio.gather(*ends)
        else:
            await ends[50]
            print("dies now", flush=True)
            await asyncio.Event().wait()

asyncio.run(life(*sys.argv[1:4], sys.argv[4] == "last"))
"""


def test_client_that_is_killed_asks_again_under_the_names_it_kept_and_nothing_is_there_twice(tmp_path: Path) -> None:
    async def life(faulty: FaultyCluster, which: str) -> asyncio.subprocess.Process:
        (tmp_path / "names").touch()
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", LIFE, str(faulty.config.path), str(tmp_path / "state"), str(tmp_path / "names"),
            which, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def scenario() -> list[Delivery]:
        faulty = await FaultyCluster.make(tmp_path, protocol_named("whitebox"), groups=2, tls=True)
        kept: list[Delivery] = []
        try:
            faulty.cluster.start_all()
            await faulty.wait_ready()
            async with asyncio.timeout(PATIENCE_S):
                first = await life(faulty, "first")
                assert first.stdout is not None
                assert await first.stdout.readline() == b"dies now\n"
                first.kill()
                await first.communicate()
                last = await life(faulty, "last")
                await last.communicate()
                assert last.returncode == 0
                async with Client.connect(faulty.config.path) as client:
                    await client.multicast(b"200", to="g0")  # behind all others
                await read(faulty, "g0", 201, kept, Checkpoint())
        finally:
            await faulty.close()
        return kept

    deliveries = asyncio.run(scenario())
    assert sorted(int(d.payload) for d in deliveries) == list(range(201))
    assert len({d.sender for d in deliveries[:200]}) == 1
