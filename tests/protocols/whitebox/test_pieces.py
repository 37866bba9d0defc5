"""Pieces: no message grows with how many messages, bytes or sessions there are, and no part of a transfer counts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.protocols.whitebox.harness import CLIENT, Bench, ts, unit

from braidcast.core.application import Restored, Snapshot, SnapshotWanted
from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId, Multicast
from braidcast.protocols.parts.dedup import DedupTable, joined_tables
from braidcast.protocols.whitebox.messages import (
    Accept,
    Bodies,
    CatchUp,
    Heartbeat,
    Known,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Pull,
    Resend,
    SnapshotChunk,
    VoteComplete,
)
from braidcast.protocols.whitebox.options import Options
from braidcast.protocols.whitebox.pieces import ITEM_BYTES, Pieces, cut, size_of

FIXED_BYTES = 300
"""More than what is in a message besides what is cut."""


class Measured(Bench):
    """Remembers the largest message of each kind that was ever sent."""

    def __init__(self, *sizes: int, **options: Any) -> None:
        self.largest: dict[str, int] = {}
        super().__init__(*sizes, **options)

    def _carry_out(self, pid: int) -> None:
        for _, message in self.out(pid).batch.sent:
            name = type(message).__name__
            self.largest[name] = max(self.largest.get(name, 0), len(msgspec.msgpack.encode(message)))
        super()._carry_out(pid)

    def too_large(self, payload: int = 0) -> dict[str, int]:
        """Kinds of which a message was larger than a piece may be."""
        most = max(self.options.chunk_bytes, payload + ITEM_BYTES) + FIXED_BYTES
        return {name: size for name, size in self.largest.items() if size > most}


def large(seq: int, *dest: int, size: int = 900, **fields: Any) -> Multicast:
    return unit(seq, *dest, payload=b"x" * size, **fields)


def voted(count: int = 4, **options: Any) -> tuple[Bench, list[NewLeaderAck]]:
    """The vote of 2 for 1, in pieces of one message each, is in flight."""
    bench = Bench(3, chunk_entries=1, **options)
    for seq in range(1, count + 1):
        bench.submit(unit(seq, 0))
    bench.run()
    bench.crash(0)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    pieces = bench.in_flight(NewLeaderAck, 2, 1)
    bench.queue.clear()
    return bench, pieces


# -- cutting ----------------------------------------------------------------------------------------------------------


def test_cut_keeps_the_order_and_the_limits_of_count_and_size() -> None:
    options = Options(chunk_entries=3, chunk_bytes=4 * ITEM_BYTES)
    known = [Known(MessageId(100, 1, n), (0,), 3, n, n, large(n, size=ITEM_BYTES if n == 2 else 1)) for n in range(9)]
    pieces = list(cut(options, known=known, numbers=range(5)))
    assert [k for piece in pieces for k in piece["known"]] == known
    assert [n for piece in pieces for n in piece["numbers"]] == [*range(5)]
    assert all(len(piece["known"]) + len(piece["numbers"]) <= 3 for piece in pieces)
    assert all(sum(map(size_of, piece["known"])) <= options.chunk_bytes for piece in pieces)


def test_one_that_is_too_large_travels_alone() -> None:
    known = [Known(MessageId(100, 1, n), (0,), 3, n, n, large(n, size=size)) for n, size in enumerate((1, 9000, 1))]
    assert [len(piece["known"]) for piece in cut(Options(chunk_bytes=500), known=known)] == [1, 1, 1]


def test_nothing_is_one_piece() -> None:
    assert list(cut(Options(), known=(), dropped=())) == [{"known": (), "dropped": ()}]


@pytest.mark.parametrize("groups", [1, 40])
@pytest.mark.parametrize("payload", [0, 1, 5000])
def test_size_of_is_no_less_than_what_travels(groups: int, payload: int) -> None:
    most = (1 << 63) - 1
    body = Multicast(MessageId(most, most, most), (60_000,) * groups, b"x" * payload, most, most, most, most)
    table = DedupTable()
    for seq in range(50):
        table.add(Multicast(MessageId(most, most, 10**18 + seq), (0,), b"", 0, 10**17 * seq, 1), most)
    state = table.export()
    items = [body, Known(body.id, body.dest, 3, most, most, body, most), body.id, *state.sessions, *state.batched]
    for item in items:
        assert len(msgspec.msgpack.encode(item)) <= size_of(item)


def test_pieces_are_put_together_in_order_and_once() -> None:
    pieces: Pieces[NewLeaderAck] = Pieces()
    sent = [NewLeaderAck(1, 1, 0, 0, 0, (), part, 3) for part in range(3)]
    assert pieces.add((1,), sent[2]) == []
    assert pieces.add((1,), sent[0]) == []
    assert pieces.add((1,), sent[0]) == []
    assert pieces.add((1,), sent[1]) == sent
    assert len(pieces) == 0


def test_pieces_of_another_transfer_take_the_place_of_those_held() -> None:
    pieces: Pieces[NewLeaderAck] = Pieces()
    one, two = (NewLeaderAck(1, 1, 0, 0, 0, (), part, 2) for part in range(2))
    assert pieces.add((1,), one) == []
    assert pieces.add((2,), two) == []
    assert pieces.add((2,), one) == [one, two]


# -- catch-up ---------------------------------------------------------------------------------------------------------


def test_resend_is_cut_by_bytes_and_the_follower_asks_on() -> None:
    bench = Measured(3, chunk_bytes=2500)
    for seq in range(1, 8):
        bench.submit(large(seq, 0))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    bench.step(0, 2, CatchUp(bench[0].cballot, 0))
    assert [len(resend.known) for resend in bench.in_flight(Resend)] == [2]
    bench.run()
    assert bench.order(2) == [1, 2, 3, 4, 5, 6, 7]
    assert bench.too_large() == {}


def test_message_larger_than_a_piece_is_resent_alone() -> None:
    bench = Measured(3, chunk_bytes=500)
    for seq in range(1, 4):
        bench.submit(large(seq, 0, size=2000 if seq == 2 else 1))
    bench.run(unless=lambda s, receiver, m: receiver == 2)
    bench.drop()
    bench.beat(0)
    assert bench.order(2) == [1, 2, 3]
    assert bench.too_large(2000) == {}


def test_table_of_a_snapshot_travels_in_pieces_and_arrives_whole() -> None:
    """Many sessions, and one with many units: neither makes a message large."""
    bench = Measured(3, laggard_entries=1, chunk_bytes=2000, chunk_entries=30)
    bench.down.add(2)
    for client in range(100):
        bench.submit(unit(1, 0, client=CLIENT + client))
    for seq in range(2, 120):
        bench.submit(unit(2 * seq, 0, batch_first=3 * seq, batch_count=1))
    bench.run()
    bench.beat(0)
    bench.beat(0)
    bench.down.clear()
    bench.beat(0)
    wanted = next(d for d in bench.delivered[0] if isinstance(d, SnapshotWanted))
    bench.step(0, 0, Snapshot(wanted.gts, b"s" * 5000))
    assert len(bench.in_flight(SnapshotChunk)) > 6
    bench.run()
    assert bench.delivered[2] == [Restored(wanted.gts, b"s" * 5000)]
    assert bench[2].dedup.export() == bench[0].dedup.export()
    assert bench.too_large() == {}


def test_rows_of_a_table_may_be_joined_from_any_cut() -> None:
    table, other = DedupTable(), DedupTable()
    for seq in range(1, 20):
        table.add(unit(seq, 0, batch_first=4 * seq, batch_count=2), ts(seq))
    pieces = list(cut(Options(chunk_entries=2), sessions=table.export(3).sessions, batched=table.export(3).batched))
    assert len(pieces) > 5
    state = table.export(3)
    other.load(joined_tables([type(state)(p["sessions"], (), (), p["batched"]) for p in pieces]))
    assert other.export() == table.export()


# -- votes ------------------------------------------------------------------------------------------------------------


def test_vote_counts_when_all_its_pieces_came_in_any_order() -> None:
    bench, pieces = voted()
    assert [(piece.part, piece.parts, len(piece.known)) for piece in pieces] == [(n, 4, 1) for n in range(4)]
    for piece in (pieces[3], pieces[0], pieces[0], pieces[2]):
        bench.step(1, 2, piece)
        assert set(bench[1].votes) == {1}
        assert bench[1].cballot != bench[1].ballot
    bench.step(1, 2, pieces[1])
    assert len(bench[1].votes[2].known) == 4
    assert bench.noted(1, VoteComplete)[-1] == VoteComplete(ballot(1, 1), 2, 4)
    bench.run()
    assert bench[1].role == "leader"


def test_vote_that_is_sent_again_completes_the_first_sending() -> None:
    """What a voter knows does not change within a ballot, so a heartbeat's repetition fills the gaps."""
    bench, pieces = voted(2)
    bench.step(1, 2, pieces[0])
    assert list(bench[2].vote()) == pieces
    bench.step(1, 2, pieces[1])
    assert set(bench[1].votes) == {1, 2}


def test_pieces_of_votes_in_two_ballots_are_not_put_together() -> None:
    bench, old = voted(2)
    bench.step(1, 2, old[0])
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    new = bench.in_flight(NewLeaderAck, 2, 1)
    bench.queue.clear()
    bench.step(1, 2, new[1])
    bench.step(1, 2, old[0])
    assert set(bench[1].votes) == {1}
    assert bench.refused(1, "vote in another ballot") == 1
    bench.step(1, 2, new[0])
    assert set(bench[1].votes) == {1, 2}


def test_pieces_of_votes_that_differ_are_not_put_together() -> None:
    """Before and after a restart, say: the clock, the marks and the ballot joined last tell votes apart."""
    bench, pieces = voted(2)
    bench.step(1, 2, pieces[0])
    b = pieces[1]
    bench.step(1, 2, NewLeaderAck(b.ballot, b.cballot, b.clock + 1, b.gts, b.collected, b.known, 1, 2))
    assert set(bench[1].votes) == {1}


@pytest.mark.parametrize(("part", "parts"), [(-1, 2), (2, 2), (0, 0), (5, 3)])
def test_piece_of_a_vote_that_cannot_be_is_refused(part: int, parts: int) -> None:
    bench, pieces = voted(1)
    p = pieces[0]
    bench.step(1, 2, NewLeaderAck(p.ballot, p.cballot, p.clock, p.gts, p.collected, p.known, part, parts))
    assert bench.refused(1, "vote that cannot be") == 1
    assert set(bench[1].votes) == {1}


def test_late_vote_asks_for_the_state_when_it_is_complete() -> None:
    bench = Bench(3, chunk_entries=1)
    bench.submit(unit(1, 0))
    bench.submit(unit(2, 0))
    bench.run()
    bench.down.add(2)
    bench.elect(1)
    bench.down.clear()
    bench.step(2, 1, Heartbeat(bench[1].cballot, bench[1].max_delivered_gts, 0, ()))
    bench.queue = [flight for flight in bench.queue if isinstance(flight[2], NewLeaderAck)]
    first = bench.queue.pop(0)
    bench.run()
    assert not bench.in_flight(NewState)
    bench.step(first[1], first[0], first[2])
    bench.run()
    assert bench[2].cballot == bench[1].cballot


# -- bodies and state -------------------------------------------------------------------------------------------------


def test_what_came_of_a_late_vote_is_forgotten_when_its_voter_has_joined_otherwise() -> None:
    """Some of its pieces were lost, and the same vote, sent again, was complete."""
    bench, votes = voted()
    for piece in votes:
        bench.step(1, 2, piece)
    bench.run()
    assert bench[1].role == "leader"
    bench.step(1, 2, votes[0])
    assert bench[1].vote_pieces
    bench.beat(1)
    assert not bench[1].vote_pieces


def lacking(count: int, **options: Any) -> Measured:
    """1 is a candidate and lacks the bodies of so many messages that 2 has accepted; its pull is in flight."""
    bench = Measured(3, **options)
    for seq in range(1, count + 1):
        bench.submit(large(seq, 0))
    bench.deliver(0, 2, Accept)
    bench.queue.clear()
    bench.crash(0)
    bench.nominate(1)
    bench.deliver(1, 2, NewLeader)
    bench.deliver(2, 1, NewLeaderAck)
    return bench


def test_bodies_are_pulled_piece_by_piece() -> None:
    bench = lacking(7, chunk_bytes=2500)
    bodies: list[int] = []
    while bench.deliver(1, 2, Pull):
        bodies += [len(answer.bodies) for answer in bench.in_flight(Bodies)]
        assert bench.in_flight(NewState) == []
        bench.deliver(2, 1, Bodies)
    assert bodies == [2, 2, 2, 1]
    bench.run()
    assert bench.order(1) == bench.order(2) == [1, 2, 3, 4, 5, 6, 7]
    assert bench.too_large() == {}


def test_pull_names_no_more_than_a_piece_holds() -> None:
    bench = lacking(5, chunk_entries=2)
    assert [len(pull.ids) for pull in bench.in_flight(Pull)] == [2]
    bench.run()
    assert bench[1].role == "leader"
    assert bench.order(1) == [1, 2, 3, 4, 5]


def test_voter_that_has_no_body_is_not_asked_for_ever() -> None:
    bench = lacking(2)
    bench.queue.clear()
    bench.step(1, 2, Bodies(bench[1].ballot, ()))
    assert bench.in_flight(Pull) == []
    bench.step(1, 2, Bodies(bench[1].ballot, (large(1, 0),)))
    assert [pull.ids for pull in bench.in_flight(Pull, 1, 2)] == [(unit(2, 0).id,)]


def test_state_is_cut_by_bytes_and_installed_together() -> None:
    bench = Measured(3, 3, chunk_bytes=2500)
    bench.down.add(2)
    for seq in range(1, 8):
        bench.submit(large(seq, 0))
    bench.run()
    bench.crash(0)
    bench.down.discard(2)
    bench.nominate(1)
    bench.run(unless=lambda s, r, message: isinstance(message, NewState))
    states = bench.in_flight(NewState, 1, 2)
    assert [len(state.known) for state in states] == [2, 2, 2, 1]
    for state in states[:-1]:
        bench.step(2, 1, state)
        assert bench[2].entries == {}
    bench.queue.clear()
    bench.step(2, 1, states[-1])
    assert len(bench[2].entries) == 7
    assert bench[2].cballot == bench[1].cballot
    assert bench.too_large() == {}


def test_drops_and_proposals_of_a_state_travel_in_pieces() -> None:
    bench = Bench(3, chunk_entries=2, follower_delivery="early")
    for seq in range(1, 6):
        bench.submit(unit(seq, 0))
    bench.deliver(0, 2, Accept)  # accepted at 2 and at 0 only, and 0 is gone
    bench.queue.clear()
    bench.down |= {0, 2}
    bench.nominate(1)
    b = bench[1].ballot
    bench.step(1, 2, NewLeaderAck(b, 0, 0, 0, 0, ()))  # a vote of 2 from before it accepted anything
    bench.step(1, 2, NewStateAck(b, 0))
    bench.queue.clear()
    for seq in range(11, 16):
        bench.submit(unit(seq, 0), 1)
    bench.queue.clear()
    bench.down.discard(2)
    bench.step(2, 1, Heartbeat(bench[1].cballot, 0, 0, ()))
    bench.deliver(2, 1, NewLeaderAck)
    states = bench.in_flight(NewState, 1, 2)
    assert sum([len(state.dropped) for state in states]) == 5
    assert max([len(s.known) + len(s.dropped) + len(s.proposed) for s in states]) == 2
    bench.deliver(1, 2, NewState)
    assert all(bench.entry(2, unit(seq, 0)).phase < 2 for seq in range(1, 6))
    assert bench[2].gaps == {number for state in states for number in state.proposed}


def test_nothing_that_is_sent_is_larger_than_a_piece_whatever_happens() -> None:
    """Large messages, leaders that change, members that were away: every message is measured."""
    bench = Measured(3, 3, chunk_bytes=2000, chunk_entries=10)
    seq = 0
    for leader in (1, 2, 0, 1):
        bench.down.add((leader + 1) % 3)
        for _ in range(12):
            seq += 1
            bench.submit(large(seq, 0, 1, size=seq * 37 % 1500), *bench[leader].peers, 3)
        bench.run()
        bench.down.clear()
        bench.elect(leader)
        bench.beat(leader)
        bench.beat(3)
    bench.run()
    assert len(bench.order(0)) == seq
    assert bench.order(0) == bench.order(1) == bench.order(2)
    assert {"Resend", "NewState", "NewLeaderAck"} <= bench.largest.keys()
    assert bench.too_large() == {}
