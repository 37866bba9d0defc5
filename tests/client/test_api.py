"""What `braidcast` itself offers: the names, their types as applications see them, and what importing it costs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from inspect import signature
from typing import TYPE_CHECKING

import braidcast
from braidcast import (
    Applied,
    Checkpoint,
    Client,
    Delivery,
    MessageId,
    Receipt,
    Replica,
    Replicated,
    StateMachine,
    Subscriber,
    SyncClient,
    SyncSubscriber,
    replicated,
)

NAMES = {
    "Applied", "BraidcastError", "Checkpoint", "Client", "ClientClosed", "ClusterUnreachable", "Credentials",
    "Delivery", "MessageId", "MessageRefused", "NoLongerKept", "NodeFailed", "NotDelivered", "NotHosted",
    "NotPermitted", "PayloadTooLarge", "Receipt", "Replica", "Replicated", "ResultLost", "StateMachine",
    "StateUnusable", "Subscriber", "SyncClient", "SyncSubscriber", "TimedOut", "UnknownGroup", "__version__",
    "replicated",
}  # fmt: skip
HEAVY = (
    "pyarrow", "braidcast.simulator", "braidcast.protocols", "braidcast.cluster", "braidcast.embedded",
    "braidcast.cli.", "click", "cryptography",
)  # fmt: skip

if TYPE_CHECKING:
    from typing import assert_type  # mypy reads what follows, and nobody runs it

    async def as_applications_write_it() -> None:
        async with Client.connect("cluster.toml", timeout=None, linger_ms=1, state="state") as client:
            assert_type(client, Client)
            assert_type(client.groups, tuple[str, ...])
            assert_type(await client.multicast(b"", to={"accounts", "stock"}), Receipt)
            assert_type(await client.multicast(b"", to="stock", timeout=1, id=client.new_id()), Receipt)
            assert_type(await client.submit(b"", to=["stock"]), asyncio.Future[Receipt])
            assert_type((await client.multicast(b"", "stock")).timestamp, int)
            await client.multicast("text", "stock")  # type: ignore[arg-type]  # a payload is bytes
        async with Subscriber.connect(["localhost:7101"], group="accounts", after="5+1") as deliveries:
            async for delivery in deliveries:
                assert_type(delivery, Delivery)
                assert_type(delivery.payload, bytes)
                assert_type(delivery.destinations, frozenset[str])
                assert_type(delivery.checkpoint, Checkpoint)
                assert_type(delivery.id, MessageId)
            assert_type(await deliveries.take(), list[Delivery])

    class Count:
        count = 0

        def apply(self, delivery: Delivery) -> int:
            return len(delivery.payload)

        def snapshot(self) -> bytes:
            return b""

        def restore(self, state: bytes) -> None: ...

    def shard_of(name: str) -> str:
        return name[:1]

    class Stock(Replicated):
        items: dict[str, int]

        @replicated(to=lambda self, name, by=1: shard_of(name))
        def add(self, name: str, by: int = 1) -> int:
            return self.items[name] + by

        @replicated(to=lambda self, one, two: {shard_of(one), shard_of(two)})
        def swap(self, one: str, two: str) -> float | None:
            assert_type(self.group, str)
            assert_type(self.delivery, Delivery)
            return None

    async def as_state_machines_are_hosted() -> None:
        stock, count = Stock(), Count()
        applications: dict[str, StateMachine] = {"a": stock, "b": count}
        async with Replica(
            "cluster.toml", node="n1", applications=applications, timeout=None, rejoin=False, state_bytes_min=1
        ) as replica:
            assert_type(replica, Replica)
            assert_type(replica.groups, tuple[str, ...])
            applied = await replica.submit(b"", to={"a", "b"}, timeout=1)
            assert_type(applied, Applied)
            assert_type(applied.receipt, Receipt)
            assert_type(await replica.barrier("a"), Receipt)
            assert_type(replica.read("a"), StateMachine)
            assert_type(await stock.add("chair", by=2), int)
            assert_type(await stock.swap("chair", two="table"), dict[str, float | None])
            await stock.add(3)  # type: ignore[arg-type]  # a name is a text
            await stock.add("chair", times=2)  # type: ignore[call-arg]  # there is no such argument
            assert_type(Stock.add.function(stock, "chair", 2), int)
        Replica("cluster.toml", node="n1", applications={"a": object()})  # type: ignore[dict-item]  # no state machine

    def as_scripts_write_it() -> None:
        with Client.connect("cluster.toml").sync() as client:
            assert_type(client, SyncClient)
            assert_type(client.multicast(b"", to="stock"), Receipt)
            assert_type(client.submit(b"", to="stock"), Future[Receipt])
        with Subscriber.connect("cluster.toml", group="accounts", after=Checkpoint(5)).sync() as deliveries:
            assert_type(deliveries, SyncSubscriber)
            for delivery in deliveries:
                assert_type(delivery, Delivery)
            assert_type(deliveries.next(timeout=1), Delivery)


def run_alone(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_these_names_and_no_others_are_for_applications() -> None:
    assert set(braidcast.__all__) == NAMES
    assert set(dir(braidcast)) == NAMES
    assert all(getattr(braidcast, name) is not None for name in NAMES)
    assert not hasattr(braidcast, "Sender")


def test_importing_it_loads_nothing_and_the_client_loads_nothing_heavy() -> None:
    loaded = "import sys; print(*[name for name in sys.modules if name.startswith({!r})])"
    assert run_alone("import braidcast; " + loaded.format(("braidcast.", "msgspec", "asyncio"))) == ""
    assert run_alone("from braidcast import Client, Subscriber; " + loaded.format(HEAVY)) == ""


def parameters(function: Callable[..., object]) -> list[str]:
    return [str(parameter) for name, parameter in signature(function).parameters.items() if name != "self"]


def test_synchronous_calls_take_what_the_others_take() -> None:
    for name in ("multicast", "submit"):
        assert parameters(getattr(SyncClient, name)) == parameters(getattr(Client, name))
