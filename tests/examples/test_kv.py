"""The key-value store: atomic over groups with writers that race and die, and its command line on real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.inprocess import run
from tests.embedded.machines import Lives

from braidcast import StateMachine
from braidcast.cluster.config_text import render_local
from braidcast.cluster.local import free_ports, processes_in
from examples.kv import store
from examples.kv.__main__ import PORTS, main
from examples.kv.server import Server
from examples.kv.store import GROUPS, Keys, get, group_of, put

ROOT = Path(__file__).parents[2]
X, Y, Z = (next(f"key{n}" for n in range(100) if group_of(f"key{n}") == group) for group in GROUPS)


class Stores(Lives):
    def machines(self) -> Mapping[str, StateMachine]:
        return {group: Keys() for group in self.groups}

    def keys(self, name: str, group: str = GROUPS[0]) -> Keys:
        found = self[name].read(group)
        assert isinstance(found, Keys)
        return found


async def stores_in(folder: Path, *names: str) -> Stores:
    file = folder / "cluster.toml"
    file.write_text(render_local("whitebox", free_ports(len(names)), groups=list(GROUPS), replicas=len(names)))
    stores = Stores(file, GROUPS)
    await stores.start(*names)
    return stores


def test_write_is_all_or_nothing_and_says_what_is_there_instead(tmp_path: Path) -> None:
    async def work() -> None:
        stores = await stores_in(tmp_path, "n1")
        keys = stores.keys("n1")
        assert await put(keys, {X: "1", Y: "1"}) == {}
        assert await get(keys, Z, Y, X) == {Z: None, Y: "1", X: "1"}
        assert await put(keys, {X: "2", Y: "2"}, {X: "1", Y: "0", Z: None}) == {Y: "1"}
        assert await put(keys, {X: "2"}, {X: "0"}) == {X: "1"}
        assert await get(keys, X, Y) == {X: "1", Y: "1"}
        assert await put(keys, {X: "2", Z: "2"}, {Y: "1"}) == {}
        assert await put(keys, {X: None}, {X: "2"}) == {}
        assert await get(keys, X, Y, Z) == {X: None, Y: "1", Z: "2"}
        assert await put(keys, {}) == {}
        assert [stores.keys("n1", group).held for group in GROUPS] == [{}, {}, {}]
        assert [stores.keys("n1", group).locked for group in GROUPS] == [{}, {}, {}]
        await stores.stop()

    run(work())


def test_writers_at_all_nodes_that_race_lose_no_update_and_readers_see_no_half(tmp_path: Path) -> None:
    async def increment(keys: Keys, times: int) -> None:
        for _ in range(times):
            found = await get(keys, X, Y)
            while differs := await put(keys, dict.fromkeys((X, Y), str(int(found[X] or 0) + 1)), found):
                found |= differs
                found = await get(keys, X, Y)

    async def watch(keys: Keys) -> int:
        looks = 0
        while (found := await get(keys, X, Y))[X] != "30":
            assert found[X] == found[Y]
            looks += 1
        return looks

    async def work() -> None:
        stores = await stores_in(tmp_path, "n1", "n2", "n3")
        watching = asyncio.create_task(watch(stores.keys("n2")))
        await asyncio.gather(*[increment(stores.keys(name), 5) for name in ("n1", "n2", "n3") for _ in range(2)])
        assert await watching > 10
        assert await get(stores.keys("n3"), X, Y) == {X: "30", Y: "30"}
        await stores.stop()

    run(work())


def test_what_a_dead_writer_set_aside_is_dropped_by_the_next_one_and_it_cannot_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PAUSE_S", 0)

    async def work() -> None:
        stores = await stores_in(tmp_path, "n1")
        keys = stores.keys("n1")
        held = await keys.hold("dead", {X: "dead", Y: "dead"}, {})
        assert all(answer.ok for answer in held.values())
        assert await get(keys, X, Y) == {X: None, Y: None}, "reads do not wait"
        assert await put(keys, {X: "1"}) == {}
        assert await keys.settle("dead", [X, Y], True) == {group_of(X): False, group_of(Y): False}
        assert await get(keys, X, Y) == {X: "1", Y: None}
        await stores.stop()

    run(work())


def test_questions_that_make_no_sense_are_answered_in_a_line(tmp_path: Path) -> None:
    async def work() -> list[Any]:
        stores = await stores_in(tmp_path, "n1")
        server = Server({group: stores.keys("n1", group) for group in GROUPS})
        questions = [b"hello", b"[" * 100_000, b"{}", b'{"get": []}', b'{"get": [1]}', b'{"put": {"a": 1}}',
                     b'{"put": {"a": "1"}, "if": 3}', b'{"put": {"a": "1"}}', b'{"peek": ["a"]}']  # fmt: skip
        answers = [await server.answer(question) for question in questions]
        await stores.stop()
        return answers

    *errors, written, peeked = run(work())
    assert [list(error) for error in errors] == [["error"]] * 7
    assert errors[0] == errors[1] == {"error": "a question is a line of JSON"}
    assert errors[4] == {"error": "a key is a text, not 1"}
    assert written == {"written": True, "differs": {}}
    assert peeked == {"values": {"a": "1"}}


def test_command_line_on_real_processes_one_of_which_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)

    def said(*arguments: str) -> tuple[int, list[str]]:
        code = main(["--data", str(tmp_path / "kv"), *arguments])
        out = capsys.readouterr()
        return code, [*out.out.splitlines(), *out.err.splitlines()]

    code, lines = said("get", X)
    assert (code, "start one with `python -m examples.kv up`" in lines[0]) == (2, True)
    try:
        assert said("up") == (0, [])
        assert said("put", f"{X}=1", f"{Y}=a=b") == (0, [])
        assert said("get", X, Y, Z) == (0, [f"{X}=1", f"{Y}=a=b", Z])
        ports = json.loads((tmp_path / "kv" / PORTS).read_text())
        first = next(process for process in processes_in(tmp_path / "kv") if process.name == next(iter(ports)))
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        assert said("put", f"{X}=2", Z, "--if", f"{X}=1", "--if", Z) == (0, [])
        assert said("put", f"{X}=3", "--if", f"{X}=1") == (1, [f"{X}=2"])
        assert said("up") == (0, [])
        assert said("peek", Y) == (0, [f"{Y}=a=b"])
    finally:
        assert said("down") == (0, [])
    code, lines = said("get", X)
    assert (code, "no node of the store" in lines[0]) == (2, True)
