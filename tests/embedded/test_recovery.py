"""State machines through crashes, restarts, snapshots of others and lost disks; with nodes in one loop, and killed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.inprocess import run, until
from tests.embedded.machines import Lives, Store, Tape, cluster_in, replicas_of

from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import load_config
from braidcast.cluster.node import Node
from braidcast.cluster.serve import NodeFailed
from braidcast.core.errors import BraidcastError
from braidcast.embedded.errors import ResultLost
from braidcast.embedded.replica import Replica

NODES = ("n1", "n2", "n3")
PATIENCE_S = 60


async def submit(lives: Lives, node: str, first: int, last: int) -> None:
    await asyncio.gather(*[lives[node].submit(b"%d" % n, to="g0") for n in range(first, last + 1)])


def deafened(replica: Replica) -> Callable[[], None]:
    """Let its node hear nothing of its peers; call what is returned, and it does again."""
    node: Any = replica.node
    node._take = lambda peer, items: None
    return lambda: delattr(node, "_take")


async def collected(lives: Lives) -> None:
    """Wait until the leader has forgotten what a laggard would need."""
    processes: list[Any] = [replica.node.by_group[0].process for replica in lives.replicas.values() if replica.node]

    def is_collected() -> bool:
        return any(process.role == "leader" and len(process.delivered_log) < 20 for process in processes)

    await until(is_collected, "collection without the laggard")


def numbers(last: int) -> list[bytes]:
    return [b"%d" % n for n in range(1, last + 1)]


def test_restart_replays_the_tail_and_only_that(tmp_path: Path) -> None:
    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path), *NODES, state_bytes_min=1) as lives:
            await submit(lives, "n1", 1, 30)
            await lives.same(30)
            hosted = lives["n3"].hosted["g0"]
            await until(lambda: hosted.mark and hosted.saving is None, "a state on disk")
            hosted.around.disk.submit(lambda: None).result()
            hosted.path = None  # nothing more is kept
            await submit(lives, "n1", 31, 50)
            await lives.same(50)
            lives.die("n3")
            await lives.stop("n3")
            await submit(lives, "n1", 51, 60)
            await lives.start("n3")
            assert await lives.same(60) == numbers(60)
            tape = lives.tape("n3")
            assert (tape.restored, 30 <= tape.applied < 60) == (1, True)

    run(work())


def test_replica_that_was_away_too_long_gets_the_state_and_not_the_results(tmp_path: Path) -> None:
    settings: dict[str, str | int] = {"laggard_entries": 5, "chunk_entries": 2, "chunk_bytes": 100}

    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path, cluster_options=settings), *NODES) as lives:
            await submit(lives, "n3", 1, 10)
            await lives.same(10)
            await lives.stop("n3")
            for n in range(11, 61):
                await lives["n1"].submit(b"%d" % n, to="g0")
            await collected(lives)
            await lives.start("n3")
            assert await lives.same(60) == numbers(60)
            tape = lives.tape("n3")
            assert (tape.restored, tape.applied < 50) == (2, True), "its own state, then the others'"
            await submit(lives, "n3", 61, 62)
            await lives.stop("n3")
            await lives.start("n3")
            assert await lives.same(62) == numbers(62)

    run(work())


def test_who_waits_for_a_result_that_comes_as_a_state_is_told(tmp_path: Path) -> None:
    settings: dict[str, str | int] = {"laggard_entries": 5}

    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path, cluster_options=settings), *NODES) as lives:
            await submit(lives, "n3", 1, 1)
            hear_again = deafened(lives["n3"])
            waits = asyncio.create_task(lives["n3"].submit(b"2", to="g0"))
            await until(lambda: len(lives.tape("n1").tape) == 2, "the message at others")
            for n in range(3, 41):
                await lives["n1"].submit(b"%d" % n, to="g0")
            await collected(lives)
            hear_again()
            with pytest.raises(ResultLost, match="unknown: its effect came with the state of another replica") as lost:
                await asyncio.wait_for(waits, PATIENCE_S)
            assert lost.value.receipt.timestamp
            assert lost.value.group == "g0"
            assert await lives.same(40) == numbers(40)

    run(work())


@pytest.mark.parametrize("fails", [True, False])
def test_who_waits_for_a_result_when_the_node_ends_is_told(tmp_path: Path, fails: bool) -> None:
    waiting: list[asyncio.Task[Any]] = []

    async def inside(lives: Lives) -> None:
        async with Replica(lives.file, node="n3", applications={"g0": Tape()}) as replica:
            await replica.submit(b"1", to="g0")
            deafened(replica)
            waiting.append(asyncio.create_task(replica.submit(b"2", to="g0")))
            await until(lambda: len(lives.tape("n1").tape) == 2, "the message at others")
            await until(lambda: replica._results.asked, "the wait for its result")
            assert replica.node is not None
            if fails:
                replica.node.fail("the disk is on fire")
                await asyncio.Event().wait()
            raise EOFError

    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path), "n1", "n2") as lives:
            with pytest.raises(NodeFailed if fails else EOFError):
                await inside(lives)
            with pytest.raises(ResultLost, match="the disk is on fire" if fails else "the replica was closed"):
                await waiting[0]

    run(work())


def test_node_that_fails_while_it_opens_is_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Node.start

    async def fail_soon(node: Node) -> None:
        await start(node)
        node.fail("broken at once")

    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path, replicas=1)) as lives:
            with monkeypatch.context() as patch:
                patch.setattr(Node, "start", fail_soon)
                with pytest.raises(NodeFailed, match="broken at once"):
                    await lives.start("n1")
            await lives.start("n1")
            await submit(lives, "n1", 1, 1)

    run(work())


def test_lost_disk_is_restored_with_the_state(tmp_path: Path) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path, cluster_options={"laggard_entries": 5})
        config = load_config(file, protocol_named)
        async with replicas_of(file, *NODES) as lives:
            await submit(lives, "n1", 1, 40)
            await lives.same(40)
            await lives.stop("n3")
            shutil.rmtree(config.node("n3").data)
            await lives.start("n3", rejoin=True)
            assert await lives.same(40) == numbers(40)
            await submit(lives, "n3", 41, 45)
            assert await lives.same(45) == numbers(45)

    run(work())


def test_in_memory_nothing_is_written_and_a_restart_is_a_rejoin(tmp_path: Path) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path, cluster={"durability": "memory"})
        async with replicas_of(file, *NODES, state_bytes_min=1) as lives:
            await submit(lives, "n1", 1, 20)
            await lives.same(20)
            await lives.stop("n3")
            with pytest.raises(NodeFailed, match="keeps its state in memory only"):
                await lives.start("n3")
            await lives.start("n3", rejoin=True)
            assert await lives.same(20) == numbers(20)
        assert not list(tmp_path.rglob("state"))

    run(work())


def test_node_that_had_no_state_machine_gets_one_that_applies_the_whole_journal(tmp_path: Path) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path, replicas=1)
        async with replicas_of(file, "n1", groups=()) as lives:
            await submit(lives, "n1", 1, 10)
        async with replicas_of(file, "n1") as lives:
            assert await lives.same(10) == numbers(10)

    run(work())


def test_replica_that_cannot_open_lets_go_of_everything(tmp_path: Path) -> None:
    async def work() -> None:
        file = cluster_in(tmp_path, replicas=1)
        path = load_config(file, protocol_named).node("n1").data / "state" / "g0"
        async with replicas_of(file, "n1") as lives:
            await submit(lives, "n1", 1, 3)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        before = asyncio.all_tasks()
        async with replicas_of(file) as lives:
            with pytest.raises(BraidcastError, match="is damaged"):
                await lives.start("n1")
            await until(lambda: asyncio.all_tasks() == before, "the end of all tasks")
            path.write_bytes(whole)
            await lives.start("n1")
            assert await lives.same(3) == numbers(3)

    run(work())


def test_state_machine_with_a_store_of_its_own_goes_on_from_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with replicas_of(cluster_in(tmp_path, replicas=1)) as lives:
            for life in range(3):
                store = Store(tmp_path / "store")
                await lives.start("n1", machines={"g0": store})
                assert store.tape == numbers(10 * life)
                await submit(lives, "n1", 10 * life + 1, 10 * life + 10)
                assert (store.tape, store.applied) == (numbers(10 * life + 10), 10)
                await lives.stop("n1")

    run(work())


LIFE = """
import asyncio, os, signal, sys
from braidcast.embedded import hosting
from braidcast.embedded.hosting import Hosted
from braidcast.embedded.replica import Replica
from braidcast.cluster.journal import Journal
from tests.embedded.machines import Tape

def die_before(kind, name, when=lambda *_: True):
    done = getattr(kind, name)
    def first_die(*given):
        if when(*given):
            os.kill(os.getpid(), signal.SIGKILL)
        return done(*given)
    setattr(kind, name, first_die)

def die_after(kind, name, when=lambda *_: True):
    done = getattr(kind, name)
    def then_die(*given):
        result = done(*given)
        if when(*given):
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(kind, name, then_die)

async def life(file, how):
    tape = Tape()
    last = 0
    async with Replica(file, node="n1", applications={"g0": tape}, state_bytes_min=400) as replica:
        if not tape.tape:
            for n in range(1, 11):
                await replica.submit(b"%d" % n, to="g0")
        await replica.barrier("g0")  # what was accepted before the death is delivered now
        last = len(tape.tape)
        some = lambda *_: len(tape.tape) >= last + 7
        if how == "after the effect, before the journal":
            die_before(Journal, "write", some)
        elif how == "after the journal, before the mark":
            die_after(Journal, "write", some)
        elif how == "before the state is on disk":
            die_before(hosting, "write_state")
        elif how == "after the state is on disk":
            die_after(hosting, "write_state")
        elif how == "before the mark is known":
            die_before(Hosted, "_saved")
        for n in range(last + 1, last + 41):
            await replica.submit(b"%d" % n, to="g0")
        print(*[int(payload) for payload in tape.tape])

file, *deaths = sys.argv[1:]
for how in deaths:
    if (child := os.fork()) == 0:
        asyncio.run(life(file, how))
        sys.exit()
    print(how, "->", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_killed_between_effect_and_mark_every_effect_is_there_once(tmp_path: Path) -> None:
    deaths = ["after the effect, before the journal", "after the journal, before the mark",
              "before the state is on disk", "after the state is on disk", "before the mark is known"]  # fmt: skip
    file = cluster_in(tmp_path, replicas=1)
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(file), *deaths, "not at all"], capture_output=True, text=True,
        timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    *died, numbered, lived = done.stdout.splitlines()
    assert died == [f"{how} -> -9" for how in deaths], done.stderr
    assert lived == "not at all -> 0", done.stderr
    found = [int(word) for word in numbered.split()]
    assert found == list(range(1, len(found) + 1))
    assert len(found) > 50
