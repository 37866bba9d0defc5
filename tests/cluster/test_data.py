"""What a node does with what is left of its data directory: it goes on, or says in a line why not; never amnesia."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.inprocess import PATIENCE_S, Nodes, config_in, nodes_of, run, until

from braidcast.client.link import Link
from braidcast.client.sender import Sender
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.data import locked, open_data
from braidcast.cluster.identity import IN_MEMORY, NAME, IdentityError
from braidcast.cluster.log import LogInUse, LogLost
from braidcast.cluster.serve import serve
from braidcast.core.errors import BraidcastError
from braidcast.wire.subject import new_client_id


def delete_log(data: Path) -> None:
    shutil.rmtree(data / "log")


def delete_segments(data: Path) -> None:
    for path in (data / "log").glob("*.log"):
        path.unlink()


def delete_journals(data: Path) -> None:
    shutil.rmtree(data / "journal")


def delete_log_and_journals(data: Path) -> None:
    delete_log(data)
    delete_journals(data)


def delete_identity(data: Path) -> None:
    (data / NAME).unlink()


async def work_of(nodes: Nodes, first: int = 1, count: int = 10) -> None:
    """So many messages, delivered by all, and durably in the journals; a client, who finds the leader of the moment."""
    link = Link([nodes.config.nodes[name].address for name in nodes.running], new_client_id())
    await link.open_within(PATIENCE_S)
    sender = Sender(link)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*[sender.submit((0,), b"%d" % number) for number in range(first, first + count)])
    await sender.close()
    await link.close()
    await nodes.delivered_everywhere(0, first + count - 1)
    await until(lambda: all(r.journal.mark == r.journal.last_gts for r in nodes.replicas(0)), "durable journals")


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    """A cluster that ran, and has stopped."""
    made = config_in(tmp_path)

    async def work() -> None:
        async with nodes_of(made) as nodes:
            await work_of(nodes)

    run(work())
    return made


def refusal(config: ClusterConfig, name: str = "n1") -> str:
    """What a node says that does not start; it changes nothing of what is left of its log and journal."""
    data = config.nodes[name].data
    before = contents(data)
    nodes = Nodes(config)

    async def work() -> None:
        try:
            await nodes.start(name)
        finally:
            if name in nodes.running:
                await nodes.stop()

    with pytest.raises(BraidcastError) as refused:
        run(work())
    assert "\n" not in str(refused.value)
    assert contents(data) == before
    return str(refused.value)


def contents(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes().rstrip(b"\0") for path in data.rglob("*.log")} | {
        path: path.read_bytes() for path in data.rglob("*.journal")
    }


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """`serve` sets up the logging of its process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


# -- something was deleted -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delete", [delete_log, delete_segments, delete_log_and_journals])
def test_log_deleted_with_kept_identity_is_refused_and_not_a_first_life(
    config: ClusterConfig, delete: Callable[[Path], None]
) -> None:
    delete(config.nodes["n1"].data)
    for _ in range(2):
        why = refusal(config)
        assert "is not the one that this node wrote (it is gone)" in why
        assert "move the node's data directory away and start it with --rejoin" in why


def test_identity_deleted_with_kept_log_is_refused(config: ClusterConfig) -> None:
    delete_identity(config.nodes["n1"].data)
    why = refusal(config)
    assert f"has no {NAME} but holds journal" in why
    assert "move the directory away and start with --rejoin" in why


def test_journal_deleted_with_kept_log_is_written_anew_if_nothing_of_it_is_forgotten(tmp_path: Path) -> None:
    """With a member away nothing is collected. What happens otherwise: `test_lost_journal_is_not_begun_anew_...`."""
    config = config_in(tmp_path)

    async def work() -> None:
        async with nodes_of(config, "n1", "n2") as nodes:
            await work_of(nodes)
            before = nodes.delivered(0)[0]
            await nodes.stop("n1")
            delete_journals(config.nodes["n1"].data)
            await nodes.start("n1")
            assert await nodes.delivered_everywhere(0, 10) == before

    run(work())


def test_log_deleted_after_a_rejoin_does_not_rejoin_again_without_an_operator(config: ClusterConfig) -> None:
    data = config.nodes["n3"].data
    shutil.rmtree(data)

    async def work() -> None:
        async with nodes_of(config, "n1", "n2") as nodes:
            await nodes.start("n3", rejoin=True)
            await nodes.delivered_everywhere(0, 10)
            await until(lambda: nodes["n3"].by_group[0].process.role == "follower", "its vote")

    run(work())
    assert json.loads((data / NAME).read_text(encoding="utf-8"))["rejoins"]
    delete_log(data)
    assert "it is gone" in refusal(config, "n3")


def test_log_of_another_node_and_an_older_copy_are_refused(config: ClusterConfig, tmp_path: Path) -> None:
    mine, copy = config.nodes["n1"].data / "log", tmp_path / "copy"
    shutil.copytree(mine, copy)

    async def work() -> None:
        async with nodes_of(config) as nodes:
            await work_of(nodes, 11)
        async with nodes_of(config) as nodes:
            await nodes.led(0)

    run(work())
    shutil.rmtree(mine)
    shutil.copytree(copy, mine)
    assert "commits are gone from its end" in refusal(config)
    shutil.rmtree(mine)
    shutil.copytree(config.nodes["n2"].data / "log", mine)
    assert "another log is in its place" in refusal(config)


def test_log_that_recovers_nothing_below_a_journal_with_deliveries_is_refused(config: ClusterConfig) -> None:
    """Even if the identity does not know better: say, one that was made by hand."""
    data = config.nodes["n1"].data
    delete_log(data)
    path = data / NAME
    text = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**text, "log": "", "log_number": 0}), encoding="utf-8")
    nodes = Nodes(config)

    async def work() -> None:
        try:
            await nodes.start("n1")
        finally:
            await nodes.stop()

    with pytest.raises(BraidcastError, match=r"the log holds nothing of process 0, whose journal in .* --rejoin"):
        run(work())


def test_log_that_the_identity_knows_nothing_of_is_refused(config: ClusterConfig) -> None:
    path = config.nodes["n1"].data / NAME
    text = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**text, "log": "", "log_number": 0}), encoding="utf-8")
    assert "knows nothing of" in refusal(config)


def test_crash_in_a_first_start_is_followed_by_a_first_life(tmp_path: Path) -> None:
    """Before the log is there, and before it is known: the node has said nothing."""
    config = config_in(tmp_path)
    data = config.nodes["n1"].data
    identity, wal = open_data(config, "n1")
    assert wal is not None
    wal.close()
    text = json.loads(identity.path.read_text(encoding="utf-8"))
    assert text["log"] == wal.id
    identity.path.write_text(json.dumps({**text, "log": "", "log_number": 0}), encoding="utf-8")
    identity, wal = open_data(config, "n1")
    assert wal is not None
    wal.close()
    assert identity.log == text["log"]
    identity.path.write_text(json.dumps({**text, "log": "", "log_number": 0}), encoding="utf-8")
    shutil.rmtree(data / "log")
    identity, wal = open_data(config, "n1")
    assert wal is not None
    wal.close()
    assert identity.log == wal.id != text["log"]


def test_id_of_a_log_is_kept_by_new_segments_and_checkpoints(tmp_path: Path) -> None:
    config = config_in(tmp_path, limits={"segment_bytes": 4096})
    _, wal = open_data(config, "n1")
    assert wal is not None
    made = wal.id
    for _ in range(3):
        for _ in range(5):
            wal.append(bytes(2000))
        wal.close()
        identity, wal = open_data(config, "n1")
        assert wal is not None
        assert (wal.id, identity.log, identity.log_number) == (made, made, wal.number)
        wal.checkpoint([bytes(100)])
        wal.close()
        _, wal = open_data(config, "n1")
        assert wal is not None
        assert wal.id == made
    wal.close()


def test_node_that_kept_its_state_in_memory_has_no_log_to_go_on_from(tmp_path: Path) -> None:
    config = config_in(tmp_path, cluster={"durability": "memory"})
    identity, wal = open_data(config, "n1")
    assert wal is None
    assert identity.log == IN_MEMORY
    with pytest.raises(LogLost, match="--rejoin"):
        open_data(replace(config, durability="disk"), "n1")


# -- two at once, and places that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_second_start_of_a_running_node_changes_nothing(tmp_path: Path, durability: str) -> None:
    config = config_in(tmp_path, cluster={"durability": durability})
    data = config.nodes["n1"].data
    with locked(data, "n1"):
        identity, wal = open_data(config, "n1")
        before = identity.path.read_bytes()
        for rejoin in (False, True):
            with pytest.raises(LogInUse, match="node n1 runs already; stop that one first"):
                serve(config, "n1", rejoin=rejoin)
        assert identity.path.read_bytes() == before
        if wal is not None:
            wal.close()


def test_data_directory_that_is_none_is_refused_with_its_remedy(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    data = config.nodes["n1"].data
    data.parent.mkdir(parents=True, exist_ok=True)
    data.touch()
    with pytest.raises(IdentityError, match="cannot hold the data of node n1: File exists; it must be a directory"):
        serve(config, "n1")
    data.unlink()
    (data / NAME).mkdir(parents=True)
    with pytest.raises(IdentityError, match=r"Is a directory; .* put right what is there"):
        open_data(config, "n1")
    (data / NAME).rmdir()
    _, wal = open_data(config, "n1")
    assert wal is not None
    wal.close()
    shutil.rmtree(data / "log")
    (data / "log").touch()
    with pytest.raises(BraidcastError, match=r"no directory that can be used .* put right what is at that path"):
        open_data(config, "n1")
