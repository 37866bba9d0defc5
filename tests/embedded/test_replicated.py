"""Methods that are multicast when they are called: alone, and on replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from tests.cluster.inprocess import run, until
from tests.embedded.machines import Lives, cluster_in

from braidcast.client.client import Client
from braidcast.client.subscriber import Checkpoint, Delivery
from braidcast.core.client import MessageId
from braidcast.core.errors import BraidcastError
from braidcast.embedded.errors import NotHosted
from braidcast.embedded.machine import StateMachine
from braidcast.embedded.replicated import Replicated, replicated

NODES = ("n1", "n2", "n3")
GROUPS = ("g0", "g1")


class Item(msgspec.Struct):
    name: str
    count: int


def group_of(name: str) -> str:
    return GROUPS[len(name) % 2]


class Stock(Replicated):
    """Items, each in the group of its name."""

    kind: ClassVar[str] = "stock"
    items: dict[str, Item]
    order: list[int]

    def __init__(self) -> None:
        self.items = {}
        self.order = []

    @replicated(to=lambda self, name, by=1: group_of(name))
    def add(self, name: str, by: int = 1) -> int:
        """More of an item."""
        item = self.items.setdefault(name, Item(name, 0))
        if item.count + by < 0:
            raise ValueError(f"only {item.count} of {name}")
        item.count += by
        return item.count

    @replicated(to=lambda self, names: set(map(group_of, names)))
    def count(self, names: list[str]) -> dict[str, int]:
        self.order.append(self.delivery.timestamp)
        return {name: self.items[name].count for name in names if group_of(name) == self.group and name in self.items}

    @replicated(to=lambda self: "g0")
    def twice(self) -> Any:
        return self.add("no")


class Later(Stock):
    """A later version of it."""

    since: int

    def __init__(self) -> None:
        super().__init__()
        self.since = 2


def delivery(payload: bytes, group: str = "g0") -> Delivery:
    return Delivery(payload, 5, 0, group, frozenset({group}), 1, MessageId(1, 1, 1), Checkpoint(5))


class Stocks(Lives):
    def machines(self) -> Mapping[str, StateMachine]:
        return {group: Stock() for group in self.groups}

    def stock(self, name: str, group: str) -> Stock:
        found = self[name].read(group)
        assert isinstance(found, Stock)
        return found


# -- on replicas -----------------------------------------------------------------------------------------------------


def test_call_goes_where_its_arguments_say_and_gives_what_the_method_gave_there(tmp_path: Path) -> None:
    async def work() -> None:
        lives = Stocks(cluster_in(tmp_path, groups=2), GROUPS)
        await lives.start(*NODES)
        stock = lives.stock("n1", "g0")
        assert await stock.add("even", 3) == 3
        assert await stock.add("odd", by=4) == 4
        assert await lives.stock("n2", "g1").add(name="odd") == 5
        assert await stock.count(["even", "odd"]) == {"g0": {"even": 3}, "g1": {"odd": 5}}
        with pytest.raises(ValueError, match="only 3 of even") as caught:
            await stock.add("even", -4)
        assert caught.value.__notes__
        found = await asyncio.gather(*[lives.stock(name, "g0").add("even", 1) for name in NODES])
        assert sorted(found) == [4, 5, 6]
        await lives.stop("n3")
        await lives.start("n3")
        again = lives.stock("n3", "g1")
        assert await again.count(["odd"]) == {"g1": {"odd": 5}}
        assert again.items == {"odd": Item("odd", 5)}
        await lives.stop()

    run(work())


def test_garbage_of_a_client_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path, replicas=1)
        lives = Stocks(file, ("g0",))
        await lives.start("n1")
        calls: list[Any] = [["snapshot", []], ["add", []], ["add", ["even", "three"]], ["add", ["even", 1, 1]], "add"]
        garbage = [b"\xc1", b"hello", b"\x91" * 5000, *map(msgspec.msgpack.encode, calls)]
        async with Client.connect(file) as client:
            for payload in garbage:
                await client.multicast(payload, to="g0")
        assert await lives.stock("n1", "g0").add("even") == 1
        assert lives["n1"].hosted["g0"].raised == len(garbage)
        await lives.stop()

    run(work())
    assert "a message that calls no method of Stock" in caplog.text


def test_group_that_is_not_here_cannot_tell_a_result(tmp_path: Path) -> None:
    async def work() -> None:
        lives = Stocks(cluster_in(tmp_path, groups=2, replicas=1), ("g0",))
        await lives.start("n1")
        stock = lives.stock("n1", "g0")
        with pytest.raises(NotHosted, match=r"Stock.add is for group g1, which has no state machine at this node"):
            await stock.add("odd")
        assert await stock.count(["even", "odd"]) == {"g0": {}}
        await lives.stop()

    run(work())


def test_call_inside_a_call_is_an_error_at_the_caller(tmp_path: Path) -> None:
    async def work() -> None:
        lives = Stocks(cluster_in(tmp_path, replicas=1), ("g0",))
        await lives.start("n1")
        before = asyncio.all_tasks()
        with pytest.raises(BraidcastError, match=r"Stock.add was called while .* put what both do into a plain method"):
            await lives.stock("n1", "g0").twice()
        await until(lambda: asyncio.all_tasks() == before, "nothing left")
        await lives.stop()

    run(work())


# -- alone -----------------------------------------------------------------------------------------------------------


def test_state_comes_back_with_its_types_and_the_same_bytes() -> None:
    stock, again = Stock(), Stock()
    for machine, names in ((stock, ("even", "four")), (again, ("four", "even"))):
        for name in names:
            machine.apply(delivery(Stock.add.payload(machine, name, 2)))
    assert list(msgspec.msgpack.decode(stock.snapshot())) == ["items", "order"], "and nothing of the class"
    assert stock.snapshot() == again.snapshot(), "whatever the order in which a dictionary was filled"
    other = Stock()
    other.items["gone"] = Item("gone", 1)
    other.restore(stock.snapshot())
    assert other.items == {"even": Item("even", 2), "four": Item("four", 2)}


def test_later_version_keeps_what_it_has_got_and_misses_what_it_has_lost() -> None:
    later = Later()
    later.restore(Stock().snapshot())
    assert later.since == 2
    with pytest.raises(TypeError, match="Stock has no since, which is in its state"):
        Stock().restore(later.snapshot())
    later.apply(delivery(Later.add.payload(later, "even", 1)))
    assert later.items["even"].count == 1


def test_what_is_not_state_cannot_be_set() -> None:
    with pytest.raises(AttributeError, match=r"Stock.cache would be lost in a restart: annotate it"):
        Stock().cache = {}
    with pytest.raises(AttributeError, match=r"Stock\.group"):
        Stock().group = "g0"


def test_arguments_of_the_wrong_kind_are_refused_before_they_are_sent() -> None:
    stock = Stock()
    with pytest.raises(TypeError, match=r"Stock.add cannot be called so: Expected `int`, got `str`"):
        Stock.add.payload(stock, "even", "three")  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(TypeError, match="unexpected keyword argument 'times'"):
        Stock.add.payload(stock, "even", times=3)  # type: ignore[call-arg]  # that is the mistake
    with pytest.raises(TypeError, match="object"):
        Stock.add.payload(stock, "even", object())  # type: ignore[arg-type]  # that is the mistake


def test_call_of_an_object_that_no_replica_has_says_what_to_do() -> None:
    with pytest.raises(BraidcastError, match=r"Stock.add was called outside of a replica: give the object"):
        asyncio.run(Stock().add("even"))


def test_methods_that_could_not_be_the_same_everywhere_are_refused_where_they_are_written() -> None:
    async def waits(self: Stock) -> None: ...

    def anything(self: Stock, *names: str) -> None: ...

    def untyped(self: Stock, name) -> None: ...  # type: ignore[no-untyped-def]  # that is the mistake

    with pytest.raises(TypeError, match=r"waits is asynchronous: a replicated method must not wait"):
        replicated(to=lambda self: "g0")(waits)
    for method in (anything, untyped):
        with pytest.raises(TypeError, match=r"must name and annotate each of its arguments"):
            replicated(to=lambda self: "g0")(method)


def test_method_is_documented_and_its_function_can_be_tried_alone() -> None:
    assert Stock.add.__doc__ == "More of an item."
    assert Stock.add.function(Stock(), "even", 2) == 2


def test_annotation_that_cannot_be_read_is_found_before_the_node_starts(tmp_path: Path) -> None:
    class Wrong(Replicated):
        @replicated(to=lambda self, what: "g0")
        def do(self, what: NoSuchType) -> None:  # type: ignore[name-defined]  # noqa: F821  # that is the mistake
            """Nothing."""

    async def work() -> None:
        lives = Lives(cluster_in(tmp_path, replicas=1), ("g0",))
        with pytest.raises(NameError, match="NoSuchType"):
            await lives.start("n1", machines={"g0": Wrong()})

    run(work())
