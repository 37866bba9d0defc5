"""A new cluster from a backup: it goes on above all that was ordered, and takes in nobody who was not restored, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.inprocess import CLIENT, Line, Nodes, config_in, message, nodes_of, run, until
from tests.cluster.test_backup import entry, write

from braidcast.cluster.backup import BackupHead, BackupReader
from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.data import open_data
from braidcast.cluster.restoring import ABOVE_CLOCKS, CannotRestore, above, check_restorable, restore
from braidcast.core.client import EXPIRED_SESSION, MessageId, Multicast, Refused, Reply
from braidcast.core.timestamps import clock_of, timestamp
from braidcast.wire.service import JournalEntry

CALM: dict[str, str | int] = {"heartbeat_ticks": 20_000, "suspect_ticks": 100_000}


def ts(clock: int, group: int = 0) -> int:
    return timestamp(clock, group)


LOGS: dict[int, list[JournalEntry]] = {
    0: [entry(4, ts(10), 0, payload=b"a"), entry(5, ts(20), 0, 1, payload=b"b")],
    1: [entry(2, ts(20), 0, 1, payload=b"b"), entry(3, ts(30, 1), 1, payload=b"c")],
}


def places(config: ClusterConfig) -> dict[str, Path]:
    return {name: node.data for name, node in config.nodes.items()}


def backup_in(folder: Path, logs: dict[int, list[JournalEntry]] = LOGS) -> BackupReader:
    folder.mkdir(exist_ok=True)
    return BackupReader(write(folder / "b", logs, cut=ts(30, 1), after=ts(5)))


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_restored_cluster_has_delivered_what_is_in_the_backup_and_goes_on_above_it(
    tmp_path: Path, replicas: int
) -> None:
    backup = backup_in(tmp_path / "from")
    config = config_in(tmp_path, groups=2, replicas=replicas, options=CALM)
    assert backup.check() == 4
    restore(config, backup, places(config))

    async def work() -> None:
        async with nodes_of(config) as nodes:
            leader = await nodes.led(0)
            await nodes.led(1)
            assert await nodes.delivered_everywhere(0, 5) == [b"a", b"b"]
            assert await nodes.delivered_everywhere(1, 3) == [b"b", b"c"]
            line = await Line.to(nodes, nodes.node_of(leader).name)
            line.submit((leader.pid,), Multicast(MessageId(CLIENT, 1, 1), (0,), b"retry of what was delivered"))
            assert [r.why for r in await line.hears(Refused)] == [EXPIRED_SESSION]
            line.submit((leader.pid,), Multicast(MessageId(CLIENT, 8, 1), (0,), b"new"))
            (reply,) = await line.hears(Reply)
            assert clock_of(reply.gts) > 30 + ABOVE_CLOCKS
            assert await nodes.delivered_everywhere(0, 6) == [b"a", b"b", b"new"]
            assert leader.journal.read(ts(5), 9)[0].index == 4
            line.end()
        async with nodes_of(config) as nodes:  # and it is as durable as any other
            await nodes.led(0)
            assert await nodes.delivered_everywhere(0, 6) == [b"a", b"b", b"new"]

    run(work())


def test_a_node_that_was_not_restored_is_turned_away_and_may_rejoin(tmp_path: Path) -> None:
    config = config_in(tmp_path, groups=2, options=CALM)
    restore(config, backup_in(tmp_path / "from"), places(config))
    lost = config.nodes["n3"].data
    lost.rename(tmp_path / "gone")

    async def work() -> None:
        async with nodes_of(config, "n1", "n2") as nodes:
            await nodes.led(0)
            await nodes.start("n3")
            failure = nodes["n3"].failure
            assert failure is not None
            await until(failure.done, "n3 to be told")
            assert "comes with another disk than it had" in failure.result()
            await nodes.stop("n3")
            lost.rename(tmp_path / "stranger")
            await nodes.start("n3", rejoin=True)
            await until(lambda: not nodes.status("n3")["unwell"], "its return")
            assert await nodes.delivered_everywhere(0, 5) == [b"a", b"b"]

    run(work())


def test_directories_of_two_runs_do_not_work_together(tmp_path: Path) -> None:
    config, backup = config_in(tmp_path, groups=2, options=CALM), backup_in(tmp_path / "from")
    restore(config, backup, places(config))
    lost = config.nodes["n3"].data
    lost.rename(tmp_path / "gone")
    restore(config, backup, places(config) | {name: tmp_path / "again" / name for name in ("n1", "n2")})

    async def work() -> None:
        nodes = Nodes(config)
        try:
            await nodes.start()
            failures = [node.failure for node in nodes.running.values() if node.failure is not None]
            await until(lambda: any(failure.done() for failure in failures), "one to be told")
            (why, *_) = [failure.result() for failure in failures if failure.done()]
            assert "were restored in different runs of `braidcast restore`" in why
        finally:
            await nodes.stop()

    run(work())


def test_a_group_that_delivered_nothing_is_restored_to_that(tmp_path: Path) -> None:
    backup = BackupReader(write(tmp_path / "b", {0: [entry(1, ts(10), 0)], 1: []}, cut=ts(10)))
    config = config_in(tmp_path, groups=2, replicas=1, options=CALM)
    restore(config, backup, places(config))

    async def work() -> None:
        async with nodes_of(config) as nodes:
            await nodes.led(1)
            line = await Line.to(nodes, "n1")
            line.submit((0, 1), Multicast(MessageId(CLIENT, 8, 1), (0, 1), b"new"))
            await line.hears(Reply, 2)
            assert [e.index for r in nodes.replicas(1) for e in r.journal.read(0, 9)] == [1]
            line.end()

    run(work())


def test_a_crash_half_way_leaves_nothing_that_a_node_would_start_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_in(tmp_path, groups=2, replicas=1)

    def fail(*_: object) -> None:
        raise OSError(5, "the disk")

    monkeypatch.setattr("braidcast.cluster.identity.Identity.save", fail)
    with pytest.raises(OSError, match="the disk"):
        restore(config, backup_in(tmp_path / "from"), places(config))
    monkeypatch.undo()
    with pytest.raises(Exception, match=r"has no identity\.json but holds"):
        open_data(config, "n1")
    with pytest.raises(CannotRestore, match="is not empty"):
        check_restorable(config, backup_in(tmp_path / "from"), places(config))


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    backup = backup_in(tmp_path / "from")

    def why(backup: BackupReader, config: ClusterConfig) -> str:
        with pytest.raises(CannotRestore) as refused:
            check_restorable(config, backup, places(config))
        assert "\n" not in str(refused.value)
        return str(refused.value)

    assert "lacks group g1 of its cluster" in why(
        BackupReader(write(tmp_path / "half", {0: [entry(1, ts(10), 0)]}, cut=ts(10))), config_in(tmp_path, groups=2)
    )
    assert "the same groups in the same order" in why(backup, config_in(tmp_path, groups=3))
    assert "keeps nothing on disk" in why(backup, config_in(tmp_path, groups=2, cluster={"durability": "memory"}))
    skeen = config_in(tmp_path, groups=2, replicas=1, protocol="skeen")
    assert "is of protocol whitebox, the configuration has skeen" in why(backup, skeen)
    of_skeen = backup_in(tmp_path / "skeen")
    of_skeen.head = BackupHead("c", "skeen", ("g0", "g1"), backup.head.groups, backup.head.cut, 1, "")
    assert "protocol skeen: Skeen cannot continue from a backup" in why(of_skeen, skeen)
    high = BackupReader(write(tmp_path / "high", {0: [], 1: []}, cut=ts((1 << 52) - 5)))
    assert "none are left above them" in why(high, config_in(tmp_path, groups=2))
    assert above(backup) == ts(30 + ABOVE_CLOCKS)


def test_restored_messages_of_a_later_session_come_once(tmp_path: Path) -> None:
    """A client that began its session after the backup retries what was lost: that is new."""
    backup = backup_in(tmp_path / "from")
    config = config_in(tmp_path, groups=2, replicas=1, options=CALM)
    restore(config, backup, places(config))

    async def work() -> None:
        async with nodes_of(config) as nodes:
            await nodes.led(0)
            line = await Line.to(nodes, "n1")
            later = message(1)
            later = Multicast(MessageId(later.id.client, 8, 1), (0,), b"lost with the old cluster")
            for _ in range(2):
                line.submit((0,), later)
            await line.hears(Reply)
            assert await nodes.delivered_everywhere(0, 6) == [b"a", b"b", b"lost with the old cluster"]
            line.end()

    run(work())
