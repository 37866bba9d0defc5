"""One node of the bank: a replica of every shard, and tellers that transfer money until the bank is closed.

`python -m examples.bank.node CONFIG NAME LIFE SEED together|separately`; the driver starts it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import Random

from braidcast import BraidcastError, NotDelivered, Replica, ResultLost
from examples.bank.shard import SHARDS, Shard, transfer, transfer_separately

TELLERS = 6
AMOUNT_MAX = 60
TIMEOUT_S = 10
LOOK_S = 0.05


def names_of(count: int) -> list[str]:
    """The accounts of a bank with so many."""
    return [f"account{number:03}" for number in range(count)]


async def teller(shards: dict[str, Shard], name: str, random: Random, *, together: bool) -> None:
    """Transfer money between accounts that chance names, one after the other."""
    move, number = transfer if together else transfer_separately, 0
    shard = shards[SHARDS[0]]
    while not (accounts := sorted(account for each in shards.values() for account in each.balance)):
        await asyncio.sleep(LOOK_S)  # not founded yet
    while not any(each.closed for each in shards.values()):
        source, target = random.sample(accounts, 2)
        number += 1
        with suppress(NotDelivered, ResultLost):  # then it may have happened, or half of it; the audits will tell
            await move(shard, f"{name}.{number}", source, target, random.randint(1, AMOUNT_MAX))


def summary(shards: dict[str, Shard]) -> dict[str, str]:
    """What tells whether two replicas have the same state."""
    return {group: sha256(shard.snapshot()).hexdigest() for group, shard in shards.items()}


async def serve(config: Path, node: str, life: str, seed: str, how: str) -> None:
    """Run until told to stop."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    shards = {group: Shard() for group in SHARDS}
    async with Replica(config, node=node, applications=shards, timeout=TIMEOUT_S):
        names = [f"{node}.{life}.{number}" for number in range(TELLERS)]
        tellers = [
            asyncio.create_task(teller(shards, name, Random(f"{seed} {name}"), together=how == "together"))
            for name in names
        ]
        closing = asyncio.create_task(close(shards, config.with_name(f"{node}.closed")))
        await told.wait()
        for task in (closing, *tellers):
            task.cancel()
        await asyncio.wait({closing, *tellers})


async def close(shards: dict[str, Shard], file: Path) -> None:
    """Say what the shards were when the bank was closed; until all nodes have, each stays, for the others."""
    while not all(shard.closed for shard in shards.values()):
        await asyncio.sleep(LOOK_S)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(summary(shards)))
    new.replace(file)  # the driver reads all of it or nothing


def main() -> None:
    """As the driver calls it."""
    config, node, life, seed, how = sys.argv[1:]
    try:
        asyncio.run(serve(Path(config), node, life, seed, how))
    except BraidcastError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
