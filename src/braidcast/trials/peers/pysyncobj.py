"""PySyncObj: one Raft log of three Python processes; a unit is so many calls that set a key of a replicated dictionary.

There is no client: whoever calls is a member. So this process is the third member, and the only one with time-outs
short enough to become the leader, which is the best case: a call goes nowhere before it is in the log. What it costs as
a member is in the client's CPU.
"""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
from collections import deque
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any

from braidcast.cluster.local import free_ports
from braidcast.trials.bench import ClusterLoad
from braidcast.trials.peers.peer import SERVERS, PeerError, Servers, until

KEYS = 1024
NEVER_S = 3600.0


def member(own: str, others: list[str], **settings: object) -> tuple[Any, Any]:
    """A member with a replicated dictionary; it runs in a thread of its own."""
    from pysyncobj import SyncObj, SyncObjConf
    from pysyncobj.batteries import ReplDict

    data = ReplDict()
    conf = SyncObjConf(connectionRetryTime=0.1, connectionTimeout=NEVER_S, **settings)
    return SyncObj(own, others, conf, consumers=[data]), data


class Unit:
    """Calls under way whose end is awaited together."""

    __slots__ = ("done", "left")

    def __init__(self, left: int, done: asyncio.Future[Any]) -> None:
        self.left, self.done = left, done


class PySyncObjClient:
    """Calls of this process, which is the leader; they end in the member's thread."""

    def __init__(self, data: Any, load: ClusterLoad) -> None:
        self.data, self.batch, self.payload = data, load.batch, "x" * load.payload_bytes
        self.number = 0
        self.loop = asyncio.get_running_loop()
        self.ended: deque[tuple[Unit, int]] = deque()

    def submit(self) -> asyncio.Future[Any]:
        unit = Unit(self.batch, self.loop.create_future())
        for _ in range(self.batch):
            self.number += 1
            self.data.set(self.number % KEYS, self.payload, callback=lambda _, error: self._tell(unit, error))
        return unit.done

    def _tell(self, unit: Unit, error: int) -> None:
        self.ended.append((unit, error))
        if len(self.ended) == 1:  # otherwise the loop has been woken and not come here yet
            self.loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        while self.ended:
            unit, error = self.ended.popleft()
            unit.left -= 1
            if error and not unit.done.done():
                unit.done.set_exception(PeerError(f"PySyncObj failed a call with {error}"))
            elif not unit.left and not unit.done.done():
                unit.done.set_result(None)

    async def close(self) -> None:
        """The member is ended by who started it."""


class PySyncObj:
    """Three members with the defaults, or sending each call at once instead of gathering them for a tick."""

    durability = "the death of a minority; it keeps no files by default, and syncs none"
    acknowledged = "a majority has it in memory, and the caller, who leads, has applied it"
    unit = "calls, each with an end"
    remark = "it has no clients: the caller is the leader, whose CPU is in the client's"

    def __init__(self, gathering: bool = True) -> None:
        self.name = "PySyncObj" if gathering else "PySyncObj, not gathering"
        self.gathering = gathering
        self.servers = Servers()
        self.own, self.others = "", list[str]()
        self.member: Any = None

    def missing(self) -> str:
        return "" if importlib.util.find_spec("pysyncobj") else "not installed: pip install pysyncobj"

    def version(self) -> str:
        return version("pysyncobj")

    def start(self, folder: Path) -> None:
        self.own, *self.others = [f"127.0.0.1:{port}" for port in free_ports(SERVERS)]
        for address in self.others:
            rest = [other for other in (self.own, *self.others) if other != address]
            command = [sys.executable, "-m", __name__, str(int(self.gathering)), address, *rest]
            self.servers.start(folder, command)

    def pids(self) -> Collection[int]:
        return self.servers.pids()

    async def connect(self, load: ClusterLoad) -> PySyncObjClient:
        self.member, data = member(
            self.own, self.others, appendEntriesUseBatch=self.gathering, raftMinTimeout=0.31, raftMaxTimeout=0.32
        )
        await until(self._leads, self.servers, "PySyncObj to have this process as its leader")
        client = PySyncObjClient(data, load)
        await client.submit()
        return client

    async def _leads(self) -> bool | None:
        return (self.member.isReady() and self.member._isLeader()) or None

    def stop(self) -> None:
        if self.member is not None:
            self.member.destroy_synchronous()
            self.member = None
        self.servers.stop()


if __name__ == "__main__":
    gathers, own_address, *other_addresses = sys.argv[1:]
    member(
        own_address, other_addresses, appendEntriesUseBatch=gathers == "1", raftMinTimeout=NEVER_S - 1,
        raftMaxTimeout=NEVER_S,
    )  # fmt: skip
    signal.pause()
