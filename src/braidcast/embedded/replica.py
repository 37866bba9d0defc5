"""`Replica`: a node of a cluster inside an application.

    async with Replica("cluster.toml", node="n1", applications={"accounts": Accounts()}) as replica:
        applied = await replica.submit(b"...", to={"accounts", "stock"})

1. It is the node that the configuration names: with the same files, for the same peers and clients, instead of
   `braidcast node`. It runs in the event loop of its caller, of whichever kind, and applies there, too: while a state
   machine is busy, nothing else is done.
2. `submit` ends when the message is delivered everywhere and applied here, or with an error as those of a client.
3. When the node cannot go on, the task that entered the `async with` block is cancelled, and the block ends with
   `NodeFailed`: an application does not go on with a replica that does not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Any

from braidcast.cli.registry import protocol_named
from braidcast.client.client import Client
from braidcast.client.errors import TimedOut, UnknownGroup
from braidcast.client.places import Identity, place_of
from braidcast.client.sender import Receipt
from braidcast.cluster.config import ClusterConfig, load_config
from braidcast.cluster.data import locked
from braidcast.cluster.journal import Journal
from braidcast.cluster.node import Node
from braidcast.cluster.serve import NodeFailed, check_rejoin, open_node
from braidcast.core.errors import BraidcastError
from braidcast.embedded.errors import NotHosted
from braidcast.embedded.hosting import Hosted, Surroundings
from braidcast.embedded.machine import StateMachine
from braidcast.embedded.replicated import Replicated
from braidcast.embedded.results import Raised, Results
from braidcast.settings import CLUSTER_FILE

UNDER_WAY_MAX = 10_000
STATES = "state"
"""The folder of the states in the data directory of a node."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A message that was delivered everywhere, and applied here."""

    receipt: Receipt
    results: dict[str, Any]
    """By group: what `apply` returned, for the groups of the message that have a state machine at this node."""

    @property
    def result(self) -> Any:
        """The result, if there is one only."""
        if len(self.results) != 1:
            raise BraidcastError(f"there are {len(self.results)} results: ask for one in `results`, by group")
        return next(iter(self.results.values()))


class Replica:
    """A node with state machines. Used in an `async with` block, once."""

    def __init__(
        self, cluster: str | os.PathLike[str], *, node: str, applications: Mapping[str, StateMachine],
        timeout: float | None = 30.0, rejoin: bool = False, state_bytes_min: int = 16 << 20,
        identity: Identity = None,
    ) -> None:  # fmt: skip
        """The node of that name, of the cluster that a configuration or the directory of `braidcast up` describes.

        `applications`: by group, the state machines; a new object for each, since the node brings it to its state.
        `timeout`: seconds after which a submission ends with `TimedOut`; None for never.
        `rejoin`: the disk of this node was lost, and the others shall restore it (`--rejoin` of `braidcast node`).
        `state_bytes_min`: a state is written to disk each time the journal has grown by so much, or by twice its size.
        `identity`: with TLS, the client as which it submits, as that of `Client.connect`.
        """
        self.cluster, self.name, self.applications = Path(cluster), node, dict(applications)
        self.timeout, self.rejoin, self.state_bytes_min = timeout, rejoin, state_bytes_min
        self.identity = identity
        self.hosted: dict[str, Hosted] = {}
        self.node: Node | None = None
        self._client: Client | None = None
        self._results = Results(2 * UNDER_WAY_MAX)
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[Any] | None = None
        self._failure = ""
        self._under_way = 0
        self._idle = asyncio.Event()

    # -- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Replica:
        if self.node is not None:
            raise BraidcastError("this replica was open already: make another one, with new state machines")
        path = self.cluster / CLUSTER_FILE if self.cluster.is_dir() else self.cluster
        config = load_config(path, protocol_named)
        self._check(config)
        if self.rejoin:
            check_rejoin(config, self.name)
        try:
            await self._open(config)
            if self._failure:
                raise NodeFailed(self._failure)
        except BaseException:
            await self._stack.aclose()
            raise
        self._task = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaving waits for what is under way; leaving with an exception does not."""
        task, self._task, was_cancelled = self._task, None, bool(self._failure)
        try:
            if kind is None and self._under_way:
                self._idle.clear()
                await self._idle.wait()
        finally:
            await self._stack.__aexit__(kind, error, trace)
        others = task.uncancel() if was_cancelled and task is not None else 0
        if self._failure and (kind is None or (kind is asyncio.CancelledError and was_cancelled and not others)):
            raise NodeFailed(self._failure) from None

    async def _open(self, config: ClusterConfig) -> None:
        stack = self._stack
        stack.enter_context(locked(config.node(self.name).data, self.name))
        disk = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="state"))
        names = {number: group.name for number, group in enumerate(config.groups)}
        around = Surroundings(names, self._results, disk, self._fail, self.state_bytes_min)

        def host(group: str, journal: Journal) -> Hosted | Journal:
            machine = self.applications.get(group)
            if machine is None:
                return journal
            path = config.node(self.name).data / STATES / group if journal.folder is not None else None
            made = self.hosted[group] = Hosted(group, machine, journal, path, around)
            return made

        node = self.node = open_node(config, self.name, rejoin=self.rejoin, host=host)
        stack.push_async_callback(node.stop)
        for hosted in self.hosted.values():
            hosted.open()
        await node.start()
        assert node.failure is not None, "made by start"
        node.failure.add_done_callback(self._on_failure)
        stack.callback(self._results.end, "the replica was closed")
        place = place_of(config.path, self.identity)
        mine = config.node(self.name).address
        first = replace(place, addresses=(mine, *[address for address in place.addresses if address != mine]))
        client = Client.connect(first, timeout=self.timeout, under_way_max=UNDER_WAY_MAX)
        self._client = await stack.enter_async_context(client)
        self._results.client = client.id

    def _check(self, config: ClusterConfig) -> None:
        """Fail unless the node can host these."""
        config.node(self.name)
        here = [group.name for group in config.groups if self.name in group.nodes]
        for group, machine in self.applications.items():
            if group not in [known.name for known in config.groups]:
                names = ", ".join(known.name for known in config.groups)
                raise UnknownGroup(f"there is no group {group!r} in this cluster: it has {names}")
            if group not in here:
                raise NotHosted(f"node {self.name} has no replica of group {group}: it has {', '.join(here)}")
            if iscoroutinefunction(getattr(machine, "apply", None)):
                raise BraidcastError(f"apply of group {group} is asynchronous: a state machine must not wait")
            if isinstance(machine, Replicated):
                machine.belong_to(self, group)
        if len({id(machine) for machine in self.applications.values()}) < len(self.applications):
            raise BraidcastError("two groups have the same state machine: give each group an object of its own")

    def _fail(self, why: str) -> None:
        if self.node is not None:
            self.node.fail(why)

    def _on_failure(self, failure: asyncio.Future[str]) -> None:
        if not failure.cancelled():
            self._failure = failure.result()
            self._results.end(self._failure)
            if self._task is not None:
                self._task.cancel()

    # -- use ---------------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that have a state machine here."""
        return tuple(self.applications)

    async def submit(
        self, payload: bytes, to: str | Iterable[str], *, timeout: float | EllipsisType | None = ...
    ) -> Applied:
        """Multicast to these groups; ends when each of them has delivered it, and those that are here have applied it.

        If `apply` raised here, this raises the same exception, with a note of the group and the timestamp: the message
        was delivered, and need not be sent again. (If several groups raised, that of the first by name.) Otherwise it
        raises what `Client.multicast` raises, or `ResultLost`.
        """
        client, seconds = self._open_client(), self.timeout if timeout is ... else timeout
        self._under_way += 1
        try:
            return await self._submit(client, payload, to, seconds)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def _submit(self, client: Client, payload: bytes, to: str | Iterable[str], seconds: float | None) -> Applied:
        dest = sorted({to} if isinstance(to, str) else set(to))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds if seconds is not None else None
        receipt = await client.multicast(payload, dest, timeout=seconds)
        results: dict[str, Any] = {}
        try:
            async with asyncio.timeout_at(deadline):
                for group in dest:
                    if (hosted := self.hosted.get(group)) is not None:
                        results[group] = await self._results.of(group, receipt, hosted.done.timestamp)
        except TimeoutError:
            why = f"delivered at {receipt.timestamp}, but not applied here in time"
            raise TimedOut(receipt.id, why, may_be_delivered=True) from None
        for group, result in results.items():
            if isinstance(result, Raised):
                result.error.add_note(f"raised by the state machine of group {group} at timestamp {receipt.timestamp}")
                raise result.error
        return Applied(receipt, results)

    async def barrier(self, to: str | Iterable[str], *, timeout: float | EllipsisType | None = ...) -> Receipt:
        """Wait until the state machines here have applied what these groups had delivered when this was called.

        It is a message without payload, which no state machine sees. Everything whose receipt anybody had before the
        call, for one of these groups, is then in what `read` gives for that group.
        """
        return (await self.submit(b"", to, timeout=timeout)).receipt

    def read(self, group: str) -> StateMachine:
        """The state machine of a group, as it is here and now: some prefix of the order of its group, maybe not the
        newest. Between two `await`s of its reader it does not change. Do not change it."""
        if group not in self.applications:
            raise NotHosted(f"group {group} has no state machine at node {self.name}: {', '.join(self.groups)} have")
        return self.applications[group]

    def _open_client(self) -> Client:
        if self._client is None:
            raise BraidcastError("this replica is not open: use it inside `async with Replica(...) as replica:`")
        return self._client
