"""Garbage collection (1.6): the safe rule (a) and (b), tombstones, sessions, laggards, and staying genuine."""

from __future__ import annotations

import pytest
from tests.protocols.whitebox.harness import CLIENT, OPTIONS, Bench, retry, ts, unit

from braidcast.core.application import Delivered, Snapshot
from braidcast.core.ballots import ballot
from braidcast.core.client import Multicast, Refused, Reply
from braidcast.core.process import APPLIED_WITH_RECORDS, Outbox
from braidcast.protocols.whitebox.messages import Beat, Collected, Heartbeat, Stable, Sweep, Transferred, Trimmed
from braidcast.protocols.whitebox.process import WhiteBox

B1 = ballot(1, 3)


def collect(bench: Bench, *leaders: int) -> None:
    """Enough heartbeats for marks to go up and floors to come down."""
    for _ in range(5):
        for leader in leaders or (0,):
            bench.beat(leader)


def test_message_goes_once_every_member_delivered_it() -> None:
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    collect(bench)
    assert [m.id in bench[p].entries for p in range(3)] == [False] * 3
    assert bench.noted(1, Collected) == [Collected(m.id, ts(1))]
    assert bench.records(1, Trimmed) == [Trimmed((((0,), ts(1)),))]


def test_rule_a_one_member_that_has_not_delivered_holds_it_back() -> None:
    """(a): a quorum is not enough ("own quorum without snapshot" is unsafe by run 3)."""
    bench = Bench(3)
    bench.down.add(2)
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    collect(bench)
    assert [m.id in bench[p].entries for p in (0, 1)] == [True, True]
    bench.down.clear()
    collect(bench)
    assert [m.id in bench[p].entries for p in range(3)] == [False] * 3


def test_rule_a_counts_what_the_application_made_durable_only() -> None:
    """1.3: delivered is not enough: an application that loses it on a crash must get it again from the log."""
    bench = Bench(3)
    bench.out(1).applied = 0
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    collect(bench)
    assert m.id in bench[0].entries
    bench.out(1).applied = ts(1)
    collect(bench)
    assert m.id not in bench[0].entries


def test_rule_b_another_group_that_is_not_stable_holds_it_back() -> None:
    """(b): "own group only" is unsafe by run 7: group 1 may have to ask again."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run()
    for _ in range(3):
        bench.fire(0, Beat())
        bench.run(unless=lambda s, receiver, message: receiver >= 3)
    assert [m.id in bench[p].entries for p in range(3)] == [True] * 3
    bench.run()
    collect(bench, 0, 3)
    assert [m.id in bench[p].entries for p in range(6)] == [False] * 6


def test_rule_b_needs_a_quorum_of_the_other_group() -> None:
    bench = Bench(3, 3)
    bench.out(4).applied = bench.out(5).applied = 0
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run()
    collect(bench, 0, 3)
    assert m.id in bench[0].entries
    bench.out(4).applied = APPLIED_WITH_RECORDS
    collect(bench, 0, 3)
    assert m.id not in bench[0].entries
    assert m.id in bench[3].entries, "p5 has not made it durable: rule (a) in group 1"


def test_rules_hold_for_a_follower_by_its_leaders_word() -> None:
    """A heartbeat carries floor and stability; neither alone makes p1 collect."""
    bench = Bench(3, 3)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run()
    b, gts = bench[0].cballot, bench[0].max_delivered_gts
    bench.step(1, 0, Heartbeat(b, gts, gts, ()))
    bench.step(1, 0, Heartbeat(b, gts, 0, ((1, gts, B1),)))
    assert m.id in bench[1].entries
    bench.step(1, 0, Heartbeat(b, gts, gts, ()))
    assert m.id not in bench[1].entries


def test_a_floor_above_what_is_delivered_here_collects_only_what_is() -> None:
    bench = Bench(3)
    bench.submit(unit(1, 0))
    bench.run()
    bench.step(1, 0, Heartbeat(bench[1].cballot, ts(1), ts(50), ()))
    assert bench[1].collected == ts(1)


def test_messages_of_the_own_group_go_although_shared_ones_wait() -> None:
    """By destinations: what waits for group 1 does not hold up the rest."""
    bench = Bench(3, 3)
    shared, own = unit(1, 0, 1), unit(2, 0)
    bench.submit(shared)
    bench.submit(own)
    bench.run()
    for _ in range(3):
        bench.fire(0, Beat())
        bench.run(unless=lambda s, receiver, message: receiver >= 3)
    assert set(bench[0].entries) == {shared.id}


def test_laggard_does_not_hold_up_collection_for_ever() -> None:
    """(a), second half: beyond laggard_entries a quorum will do, and the laggard gets a snapshot."""
    bench = Bench(3, laggard_entries=3)
    bench.down.add(2)
    for seq in range(1, 4):
        bench.submit(unit(seq, 0))
    bench.run()
    collect(bench)
    assert len(bench[0].entries) == 3
    bench.submit(unit(4, 0))
    bench.run()
    collect(bench)
    assert bench[0].collected == bench[1].collected == ts(3)


def test_large_messages_do_not_wait_for_a_laggard_for_ever_either() -> None:
    """The same by bytes: each leader and follower knows what it keeps, after a restart and from a checkpoint, too."""
    bench = Bench(3, laggard_bytes=20)
    bench.down.add(2)
    for seq in (1, 2):
        bench.submit(unit(seq, 0, payload=bytes(10)))
    bench.run()
    collect(bench)
    assert [bench[p].retained_bytes for p in (0, 1)] == [20, 20], "no more than may be kept"
    again = bench.revived(1)
    anew = WhiteBox(Outbox(1), bench.topology, bench.options)
    anew.recover(bench[1].checkpoint())
    assert again.retained_bytes == anew.retained_bytes == 20
    bench.submit(unit(3, 0, payload=b"."))
    bench.run()
    collect(bench)
    assert bench[0].collected == bench[1].collected == ts(2)
    assert [bench[p].retained_bytes for p in (0, 1)] == [1, 1]


def test_tombstone_answers_a_duplicate_with_reply() -> None:
    """1.6: "MULTICAST of a tombstoned id: reply DONE(gts), never propose" ("without tombstones": run 1)."""
    bench = Bench(3)
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    collect(bench)
    bench.answers.clear()
    bench.submit(m)
    assert bench.answers == [(0, Reply(m.id, 0, ts(1)))]
    assert not bench.queue
    assert bench[0].clock == 1


def test_tombstone_below_the_clients_mark_no_longer_knows_when() -> None:
    """1.6: the client said that all below 3 are complete; their timestamps are forgotten, not that they were."""
    bench = Bench(3)
    for seq in (1, 2):
        bench.submit(unit(seq, 0))
    bench.submit(unit(3, 0, complete_below=3))
    bench.run()
    collect(bench)
    bench.answers.clear()
    bench.submit(unit(1, 0))
    assert bench.told(Reply) == [Reply(unit(1, 0).id, 0, 0)]


def expire_first_session(bench: Bench) -> Multicast:
    """A message is delivered and collected; then other clients come, more than the group remembers."""
    m = unit(1, 0)
    bench.submit(m)
    bench.run()
    for client in (200, 300):
        bench.submit(unit(1, 0, client=client))
        bench.run()
    collect(bench)
    for pid in range(3):
        bench.fire(pid, Sweep())
    bench.answers.clear()
    return m


def test_expired_session_is_refused_never_new() -> None:
    """1.6: "an expired session is refused, never treated as new"."""
    bench = Bench(3, sessions_max=2)
    m = expire_first_session(bench)
    bench.submit(m)
    assert bench.told(Refused) == [Refused(m.id, 0, "expired session")]
    bench.submit(unit(1, 0, session=2))
    bench.run()
    assert bench.order(0) == [1, 1, 1, 1]


def test_expiry_survives_a_restart_and_is_the_same_at_every_member() -> None:
    bench = Bench(3, sessions_max=2)
    m = expire_first_session(bench)
    for pid in range(3):
        assert bench[pid].dedup.is_expired(m.id)
        assert bench.revived(pid).dedup.is_expired(m.id)


def test_leader_of_another_group_is_not_refused_for_an_expired_session() -> None:
    """It has proposed the message, and refusing would block its group for ever; a client is told."""
    bench = Bench(1, 1, sessions_max=1)
    for client in (CLIENT, 200):
        bench.submit(unit(1, 0, client=client))
        bench.run()
    m = unit(2, 0, 1)
    bench.submit(m, 0)
    assert bench.told(Refused)
    bench.submit(m, 1)
    bench.now += OPTIONS.retry_ticks
    bench.fire(1, Beat())
    bench.run()
    assert bench.order(1) == [2]


def settle(bench: Bench, leaders: tuple[int, ...] = (0, 3), rounds: int = 30) -> None:
    """Time passes, and what got stuck is retried."""
    for _ in range(rounds):
        bench.now += OPTIONS.heartbeat_ticks
        for leader in leaders:
            bench.fire(leader, Beat())
        bench.run()


def test_late_retry_of_what_is_collected_and_forgotten_is_not_new() -> None:
    """Its session is expired and buried: only what group 1 said of itself tells that it is late."""
    bench = Bench(3, 3, sessions_max=1)
    m = unit(1, 0, 1)
    bench.submit(m)
    bench.run()
    settle(bench)
    for client in (200, 300, 400):
        bench.submit(unit(1, 0, client=client))
        bench.run()
    settle(bench)
    for pid in range(3):
        bench.fire(pid, Sweep())
    assert bench[0].dedup.delivered_at(m.id) is None, "nobody remembers it"
    bench.step(0, 3, retry(bench, 3, m))
    assert bench.refused(0, "late retry") == 1
    assert not bench.queue


def test_late_retry_is_known_as_such_after_a_restart_a_checkpoint_and_a_snapshot() -> None:
    bench = Bench(3, 3, laggard_entries=1)
    bench.down.add(2)
    for seq in (1, 2, 3, 4):
        bench.submit(unit(seq, 0, 1))
        bench.run()
    settle(bench)
    known = bench[0].stability([1])
    assert known
    assert bench.revived(0).stability([1]) == known
    checkpoint = list(bench[0].checkpoint())
    bench.logs[0] = checkpoint
    assert bench.revived(0).stability([1]) == known
    bench.down.clear()
    bench.fire(0, Beat())
    bench.run(unless=lambda s, receiver, m: isinstance(m, Heartbeat) and receiver == 1)
    bench.step(0, 0, Snapshot(bench[0].max_delivered_gts, b"state"))
    bench.run()
    assert bench.records(2, Transferred)
    assert bench.revived(2).stability([1]) == known


@pytest.mark.parametrize("lie", ["mark", "given up", "refused"])
def test_false_word_of_a_client_does_not_block_another_group(lie: str) -> None:
    """Group 0 takes the client's unit for complete; group 1, where it is under way, waits for it all the same."""
    bench = Bench(3, 3)
    if lie == "mark":  # more is complete, it says, than it has sent
        bench.submit(unit(2, 0, complete_below=2))
        bench.run()
        first = unit(1, 0, 1)
        bench.submit(first)
        bench.run()
    elif lie == "given up":
        first = unit(1, 0, 1)
        bench.submit(first, 3)
        bench.run(unless=lambda s, receiver, m: s == 3 and receiver < 3)
        bench.drop(3, 0)
        bench.submit(unit(2, 0, complete_below=2))
        bench.run()
    else:
        bench = Bench(3, 3, sessions_max=1)
        bench.submit(unit(1, 0, 1))
        bench.run()
        for client in (200, 300, 400):
            bench.submit(unit(1, 0, client=client))
            bench.run()
        settle(bench)
        first = unit(2, 0, 1)
        bench.submit(first)  # group 0 refuses it, and the client goes on in the same session
        assert bench.told(Refused)
        bench.submit(unit(3, 0, 1, complete_below=3))
    settle(bench)
    other = unit(1, 1, client=900)
    bench.submit(other)
    settle(bench)
    assert other.id in [d.multicast.id for d in bench.delivered[3]]
    for pid in (0, 3):
        assert [d.multicast.id for d in bench.delivered[pid]].count(first.id) == 1


@pytest.mark.parametrize("mark", [0, 3, 10**6])
def test_client_that_calls_complete_what_it_has_not_sent_is_refused(mark: int) -> None:
    bench = Bench(3)
    m = unit(2, 0, complete_below=mark)
    bench.submit(m)
    assert bench.told(Refused) == [Refused(m.id, 0, "complete before it is delivered")]


def test_id_used_again_for_other_groups_does_not_block_them_for_ever() -> None:
    """Its first message must be collected and complete; until then the second one waits, and what is behind it."""
    bench = Bench(3, 3)
    bench.submit(unit(1, 0))
    bench.run()
    bench.submit(unit(1, 0, 1), 3)
    bench.run()
    other = unit(1, 1, client=900)
    bench.submit(other)
    settle(bench)
    assert other.id not in [d.multicast.id for d in bench.delivered[3]]
    bench.submit(unit(2, 0, complete_below=2))
    settle(bench, rounds=60)
    assert other.id in [d.multicast.id for d in bench.delivered[3]]


def test_stable_goes_only_to_groups_that_share_messages() -> None:
    """1.6: "stay genuine"."""
    bench = Bench(3, 3, 3)
    bench.submit(unit(1, 0, 2))
    bench.run()
    bench.fire(0, Beat())
    assert {receiver for _, receiver, m in bench.queue if isinstance(m, Stable)} == {6, 7, 8}
    collect(bench, 0, 6)
    bench.fire(0, Beat())
    assert not bench.in_flight(Stable), "nothing is shared any more"


def test_stability_is_asked_back_from_a_leader_only() -> None:
    bench = Bench(3, 3)
    bench.step(0, 3, Stable(1, ts(4), True, B1))
    bench.step(1, 3, Stable(1, ts(4), True, B1))
    assert [(s, m) for s, _, m in bench.queue] == [(0, Stable(0, 0, False, ballot(0, 0)))]
    assert bench[1].stable == {1: ts(4)}


def test_stability_never_goes_back() -> None:
    bench = Bench(3, 3)
    bench.step(0, 3, Stable(1, ts(4), False, B1))
    bench.step(0, 4, Stable(1, ts(2), False, ballot(1, 4)))
    assert bench[0].stable == {1: ts(4)}


def test_stability_in_the_name_of_another_group_is_refused() -> None:
    bench = Bench(3, 3)
    bench.step(0, 1, Stable(1, ts(4), False, B1))
    assert bench.refused(0, "stability of another group") == 1
    assert not bench[0].stable


@pytest.mark.parametrize("mode", ["leader", "early"])
def test_memory_does_not_grow_with_what_was_delivered(mode: str) -> None:
    """What is left is the dedup table, and the client's mark empties that too."""
    bench = Bench(3, 3, follower_delivery=mode)
    for seq in range(1, 101):
        bench.submit(unit(seq, 0, 1, complete_below=max(1, seq - 2)))
        bench.run()
        if not seq % 10:
            collect(bench, 0, 3)
    for pid in range(6):
        process = bench[pid]
        assert not process.entries
        assert not any(process.retained.values())
        assert len(process.delivered_log) <= 2
        assert len(process.dedup.sessions[100, 1].delivered) <= 3


def test_collected_log_is_compacted_but_stays_in_order() -> None:
    """Entries that are gone are marked first; what is kept between them can still be resent in order."""
    bench = Bench(3, 3)
    for seq in range(1, 11):
        bench.submit(unit(seq, *((0, 1) if seq in (3, 7) else (0,))))
    bench.run()
    for _ in range(3):
        bench.fire(0, Beat())
        bench.run(unless=lambda s, receiver, message: receiver >= 3)
    kept = [entry.id.seq for entry in bench[0].delivered_log]
    assert kept == [3, 7]


def test_expired_tombstone_does_not_bring_a_message_back() -> None:
    """1.6, Integrity: p2 accepted m and went away; p1 delivered and collected m, and then its session expired too."""
    bench = Bench(3, laggard_entries=1, sessions_max=1)
    m = unit(1, 0)
    bench.submit(m)
    bench.deliver(0, 2)
    bench.down.add(2)
    bench.run()
    for seq in (2, 3):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.beat(0)
    bench.beat(0)
    bench.submit(unit(1, 0, client=300))
    bench.run()
    for pid in (0, 1):
        bench.fire(pid, Sweep())
    assert bench[1].dedup.is_expired(m.id)
    bench.down = {0}
    bench.elect(1)
    bench.submit(unit(1, 0, client=200), 1)
    bench.run()
    gts = [d.gts for d in bench.delivered[1] if isinstance(d, Delivered)]
    assert gts == sorted(set(gts))
    assert [d.multicast for d in bench.delivered[1] if isinstance(d, Delivered)].count(m) == 1
