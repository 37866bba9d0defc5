"""A state machine on top of a journal that gets the state of another replica, or has a store of its own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.cluster.inprocess import run
from tests.cluster.journals import BYTES_MAX, CLIENT, delivery, gts_of
from tests.embedded.bench import Bench, applied, batch, die, fill, tape
from tests.embedded.machines import Store, Tape

from braidcast.client.subscriber import Checkpoint
from braidcast.cluster.journal import Journal
from braidcast.cluster.journal_segments import JournalError
from braidcast.core.application import Delivered
from braidcast.core.client import MessageId, Multicast
from braidcast.embedded.errors import StateLost
from braidcast.embedded.hosting import Both
from braidcast.embedded.state_file import Kept, write_state

# -- another replica's state -----------------------------------------------------------------------------------------


def test_state_of_another_replica_replaces_what_is_here_and_survives(tmp_path: Path, bench: Bench) -> None:
    leader, laggard = Bench(tmp_path, name="n2").life(), bench.life()
    fill(leader, 1, 30)
    fill(laggard, 1, 4)
    laggard.restore(gts_of(30), leader.state(1 << 20))
    assert (tape(laggard), applied(laggard)) == (list(range(1, 31)), 4)
    assert (laggard.mark, laggard.journal.wanted_after) == (gts_of(30), gts_of(30))
    assert (laggard.grown_bytes, laggard.state_bytes) == (0, len(laggard.machine.snapshot()))
    fill(laggard, 31, 32)
    die(laggard)
    again = bench.life()
    assert (tape(again), applied(again)) == (list(range(1, 33)), 2)
    assert again.journal.next == 33


def test_without_room_for_anothers_state_everything_waits_and_nothing_of_it_is_on_disk(
    tmp_path: Path, bench: Bench, no_room: pytest.MonkeyPatch
) -> None:
    leader, laggard = Bench(tmp_path, name="n2").life(), bench.life()
    fill(leader, 1, 30)
    fill(laggard, 1, 4)
    laggard.restore(gts_of(30), leader.state(1 << 20))
    assert laggard.lack
    laggard.append(delivery(31))
    laggard.write()
    assert laggard.lack
    died = Journal(bench.folder / "journal", BYTES_MAX)
    assert died.next == 5, "the journal must not be ahead of the state"
    died.close()
    no_room.undo()
    laggard.write()
    assert not laggard.lack
    die(laggard)
    assert tape(bench.life()) == list(range(1, 32))


def test_crash_between_anothers_state_and_its_journal_takes_both_again(tmp_path: Path, bench: Bench) -> None:
    leader, laggard = Bench(tmp_path, name="n2").life(), bench.life()
    fill(leader, 1, 30)
    fill(laggard, 1, 4)
    die(laggard)
    write_state(bench.path, Kept(gts_of(30), leader.machine.snapshot()))  # and then it died
    again = bench.life()
    assert (again.done.timestamp, again.journal.next) == (gts_of(30), 5)
    again.restore(gts_of(30), leader.state(1 << 20))
    assert isinstance(again.machine, Tape)
    assert (tape(again), again.machine.restored, again.journal.next) == (list(range(1, 31)), 1, 31)


def test_snapshot_of_a_plain_node_is_refused(tmp_path: Path, bench: Bench) -> None:
    plain = Journal(tmp_path / "plain", BYTES_MAX)
    plain.append(delivery(1))
    with pytest.raises(JournalError, match="all nodes of group g0 must host the same one"):
        bench.life().restore(gts_of(1), plain.state(1 << 20))


def test_plain_node_refuses_the_snapshot_of_a_state_machine(tmp_path: Path, bench: Bench) -> None:
    hosted = bench.life()
    fill(hosted, 1, 3)
    with pytest.raises(JournalError, match="cannot be read"):
        Journal(tmp_path / "plain", BYTES_MAX).restore(gts_of(3), hosted.state(1 << 20))


def test_state_that_no_peer_buffer_holds_is_said(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        hosted = bench.life()
        fill(hosted, 1, 3, size=1000)
        hosted.state(1 << 20)
        assert not caplog.records
        fill(hosted, 4, 43, size=60_000)
        assert len(hosted.machine.snapshot()) < len(hosted.state(2_600_000)) < 2_800_000, "the journal gets the rest"
        assert not caplog.records
        hosted.state(1000)
        assert "peer_buffer_bytes_max" in caplog.text
        hosted.close()

    run(work())


# -- state machines with a store of their own ------------------------------------------------------------------------


def test_own_store_is_not_written_twice_and_gets_what_follows_its_checkpoint(tmp_path: Path, bench: Bench) -> None:
    hosted = bench.life(Store(tmp_path / "store"))
    fill(hosted, 1, 5)
    hosted.close()
    assert not bench.path.exists()
    again = bench.life(Store(tmp_path / "store"))
    assert (tape(again), applied(again)) == ([1, 2, 3, 4, 5], 0)
    again.append(delivery(6))
    die(again)  # the store has it, the journal does not
    third = bench.life(Store(tmp_path / "store"))
    assert third.append(delivery(6))
    fill(third, 7, 7)
    assert (tape(third), applied(third)) == ([1, 2, 3, 4, 5, 6, 7], 1)


def test_own_store_that_died_within_a_batch_gets_the_rest_of_it(tmp_path: Path, bench: Bench) -> None:
    hosted = bench.life(Store(tmp_path / "store"))
    fill(hosted, 1, 1)
    hosted.append(batch(2, b"2", b"3", b"4"))
    hosted.write()
    die(hosted)
    store = Store(tmp_path / "store")
    store.db.execute("delete from tape where rowid > 2")
    store.db.execute("update progress set checkpoint = ?", (str(Checkpoint(gts_of(1), 1)),))
    again = bench.life(store)
    assert (tape(again), applied(again)) == ([1, 2, 3, 4], 2)
    assert store.checkpoint == Checkpoint(gts_of(2))


def test_own_store_restored_up_to_a_barrier_needs_nothing_below_it(tmp_path: Path, bench: Bench) -> None:
    leader = Bench(tmp_path, name="n2").life(Store(tmp_path / "leader"))
    fill(leader, 1, 5)
    barriers = Journal(None, 1)
    for index in range(1, 12):
        barriers.append(Delivered(Multicast(MessageId(CLIENT, 1, index), (0,), b""), gts_of(index)))
    laggard = bench.life(Store(tmp_path / "laggard"))
    laggard.restore(gts_of(11), msgspec.msgpack.encode(Both(leader.machine.snapshot(), barriers.state(1))))
    assert laggard.journal.wanted_after == gts_of(11)
    assert laggard.journal.after > gts_of(5), "the case at hand: its journal begins above its checkpoint"
    die(laggard)
    again = bench.life(Store(tmp_path / "laggard"))
    fill(again, 12, 12)
    assert tape(again) == [1, 2, 3, 4, 5, 12]
    die(again)
    (tmp_path / "laggard").unlink()
    with pytest.raises(StateLost):
        bench.life(Store(tmp_path / "laggard"))


def test_journal_of_an_own_store_keeps_what_is_above_its_checkpoint(tmp_path: Path) -> None:
    bench = Bench(tmp_path, bytes_min=1)
    hosted = bench.life(Store(tmp_path / "store"))
    fill(hosted, 1, 3)
    assert hosted.journal.wanted_after == gts_of(3)
