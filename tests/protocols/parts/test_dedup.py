"""The dedup table against a plain set of everything that was ever delivered."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from braidcast.core.client import MessageId, Multicast
from braidcast.protocols.parts.dedup import CLIENTS_PER_SESSION, DedupState, DedupTable, SessionState


def unit(
    seq: int, client: int = 7, session: int = 1, complete_below: int = 1, batch: tuple[int, int] = (0, 0)
) -> Multicast:
    return Multicast(MessageId(client, session, seq), (0,), b"", complete_below, *batch)


def test_what_was_not_delivered_is_unknown() -> None:
    table = DedupTable()
    table.add(unit(2), 20)
    assert table.delivered_at(unit(1).id) is None
    assert table.delivered_at(unit(2, session=2).id) is None
    assert table.delivered_at(unit(2, client=8).id) is None


def test_delivered_unit_is_known_with_its_timestamp() -> None:
    table = DedupTable()
    table.add(unit(2), 20)
    assert table.delivered_at(unit(2).id) == 20


def test_below_the_clients_mark_only_the_fact_is_left() -> None:
    """A tombstone: 0, for the timestamp is no longer known."""
    table = DedupTable()
    table.add(unit(1), 10)
    table.add(unit(3, complete_below=3), 30)
    assert [table.delivered_at(unit(seq).id) for seq in (1, 2, 3, 4)] == [0, 0, 30, None]


def test_mark_never_goes_back() -> None:
    table = DedupTable()
    table.add(unit(5, complete_below=5), 50)
    table.add(unit(6, complete_below=2), 60)
    assert table.delivered_at(unit(4).id) == 0


def test_mark_far_ahead_forgets_all_below_it() -> None:
    table = DedupTable()
    table.add(unit(1), 10)
    table.add(unit(1_000_000, complete_below=999_999), 20)
    assert table.sessions[7, 1].delivered == {1_000_000: 20}
    assert table.delivered_at(unit(999_998).id) == 0


def test_memory_is_bounded_by_what_is_under_way() -> None:
    table = DedupTable()
    for seq in range(1, 10_001):
        table.add(unit(seq, complete_below=max(1, seq - 8), batch=(seq * 4, 4)), seq)
    session = table.sessions[7, 1]
    assert len(session.delivered) == 9
    assert table.batched[7, 1] == [4, 40_004]


def test_beyond_the_limit_the_sessions_that_were_silent_longest_are_refused() -> None:
    table = DedupTable()
    for session in (1, 2, 3, 4):
        table.add(unit(1, client=session), session)
    table.add(unit(2, client=1), 5)
    assert table.expire_oldest(keep=3) == 2, "down to three quarters"
    assert [table.is_expired(unit(9, client=c).id) for c in (1, 2, 3, 4)] == [False, True, True, False]
    assert table.delivered_at(unit(1, client=2).id) == 2, "still known while somebody may be behind"


def test_with_a_session_go_the_older_ones_of_its_client_and_no_newer_one() -> None:
    table = DedupTable()
    table.add(unit(1, session=2), 1)
    table.add(unit(1, session=1), 2)
    table.add(unit(1, session=3), 3)
    table.add(unit(1, client=8), 4)
    table.expire_oldest(keep=4)
    assert [table.is_expired(unit(9, session=s).id) for s in (1, 2, 3)] == [True, True, False]
    assert not table.is_expired(unit(9, client=8).id)


def test_expired_sessions_are_forgotten_once_nobody_is_behind_them_and_stay_refused() -> None:
    table = DedupTable()
    table.add(unit(1), 50)
    table.add(unit(1, client=8), 60)
    table.expire_oldest(keep=1)
    table.bury(49)
    assert table.delivered_at(unit(1).id) == 50
    table.bury(50)
    assert table.delivered_at(unit(1).id) is None
    assert table.is_expired(unit(1).id)


def test_what_was_brought_after_expiry_does_not_hide_what_was_there_before() -> None:
    table = DedupTable()
    table.add(unit(1), 1)
    table.add(unit(1, client=8), 2)
    table.expire_oldest(keep=1)
    table.add(unit(2), 3)
    assert [table.delivered_at(unit(seq).id) for seq in (1, 2, 3)] == [1, 3, None]
    table.expire_oldest(keep=1)
    assert [table.delivered_at(unit(seq).id) for seq in (1, 2, 3)] == [1, 3, None]


def test_messages_of_batches_below_the_clients_mark_take_one_interval_however_many_there_were() -> None:
    table = DedupTable()
    for seq in range(1, 101):  # every other batch goes to another group
        m = Multicast(MessageId(7, 1, seq), (0,), b"", seq, seq * 20, 10, max(0, seq - 2) * 20)
        assert table.add(m, seq) == ()
    assert len(table.batched[7, 1]) <= 8
    again = Multicast(MessageId(7, 1, 101), (0,), b"", 101, 40, 10, 1900)
    assert table.add(again, 101) == tuple(range(10)), "below the mark all is complete"


def test_repeated_messages_of_a_batch_are_named_by_their_offsets() -> None:
    table = DedupTable()
    assert table.add(unit(1, batch=(10, 4)), 1) == ()
    assert table.add(unit(2, batch=(12, 4)), 2) == (0, 1)
    assert table.add(unit(3, batch=(8, 10)), 3) == (2, 3, 4, 5, 6, 7)
    assert table.batched[7, 1] == [8, 18]


def test_unit_that_is_no_batch_repeats_nothing() -> None:
    table = DedupTable()
    assert table.add(unit(1), 1) == ()
    assert table.add(unit(2), 2) == ()
    assert not table.batched


def test_export_is_plain_data_in_order() -> None:
    table = DedupTable()
    table.add(unit(2, client=9), 5)
    table.add(unit(3), 6)
    table.add(unit(1, batch=(4, 2)), 7)
    table.floors[3] = 2
    assert table.export() == DedupState(
        (SessionState(7, 1, 1, ((1, 7), (3, 6)), 7), SessionState(9, 1, 1, ((2, 5),), 5)),
        (),
        ((3, 2),),
        ((7, 1, (4, 6)),),
    )


def test_load_replaces_what_was_there() -> None:
    table, other = DedupTable(), DedupTable()
    other.add(unit(1), 1)
    table.add(unit(5, client=9), 5)
    table.load(other.export())
    assert table.export() == other.export()


def test_loaded_table_shares_nothing_with_the_one_it_came_from() -> None:
    table, other = DedupTable(), DedupTable()
    other.add(unit(1, batch=(0, 3)), 1)
    table.load(other.export())
    table.add(unit(2, batch=(3, 3)), 2)
    assert other.delivered_at(unit(2).id) is None
    assert other.batched[7, 1] == [0, 3]


def test_what_was_batched_outlives_its_session() -> None:
    """Found by run 155343706411677: another group, where the session lives on, brings a second batch that overlaps."""
    table = DedupTable()
    table.add(unit(1, batch=(0, 5)), 1)
    table.add(unit(1, client=8), 2)
    assert table.expire_oldest(1)
    table.bury(2)
    assert not table.expired
    assert table.add(unit(2, batch=(3, 4)), 3) == (0, 1)


def test_memory_is_bounded_however_many_clients_there_ever_were() -> None:
    table, keep = DedupTable(), 20
    for client in range(5_000):
        table.add(unit(1, client, session=client, batch=(0, 4)), client + 1)
        if len(table.sessions) > keep:
            table.expire_oldest(keep)
            table.bury(client)
    assert len(table.floors) <= keep * CLIENTS_PER_SESSION
    assert len(table.batched) <= keep * (CLIENTS_PER_SESSION + 1)


def test_client_that_is_forgotten_stays_refused_and_a_new_one_with_a_newer_session_is_not() -> None:
    table, keep = DedupTable(), 2
    for client in range(100):
        table.add(unit(1, client, session=client), client + 1)
        if len(table.sessions) > keep:
            table.expire_oldest(keep)
    assert 3 not in table.floors
    assert table.is_expired(unit(2, client=3, session=3).id)
    assert not table.is_expired(unit(2, client=99, session=99).id), "it is known"
    assert not table.is_expired(unit(1, client=1_000, session=100).id)
    assert table.is_expired(unit(1, client=1_000, session=4).id), "who comes with an old number may be an old client"


def test_order_in_which_clients_are_forgotten_travels_with_the_table() -> None:
    table, other = DedupTable(), DedupTable()
    for gts, client in enumerate((9, 3, 7, 5), 1):
        table.add(unit(1, client), gts)
    table.expire_oldest(1)
    other.load(table.export())
    assert list(other.floors) == list(table.floors) == [9, 3, 7]


batches = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=20)


@settings(deadline=None, max_examples=300)
@given(batches)
def test_intervals_hold_what_a_set_would(made: list[tuple[int, int]]) -> None:
    """Any batches in any order: overlaps, gaps, one inside another, the same again."""
    table, naive = DedupTable(), set[int]()
    for seq, (first, count) in enumerate(made, 1):
        numbers = range(first, first + count)
        assert table.add(unit(seq, batch=(first, count)), seq) == tuple(n - first for n in numbers if n in naive)
        naive.update(numbers)
        intervals = table.batched[7, 1]
        assert intervals == sorted(set(intervals)), "disjoint, ascending, and joined where they touch"
        pairs = zip(intervals[::2], intervals[1::2], strict=True)
        assert {n for start, end in pairs for n in range(start, end)} == naive


class AgainstASet(RuleBasedStateMachine):
    """Deliveries, marks, expiry and transfers of two clients, against dictionaries that forget nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.table = DedupTable()
        self.delivered: dict[MessageId, int] = {}
        self.marks: dict[tuple[int, int], int] = {}
        self.expired: dict[int, int] = {}
        self.gts = 0

    @rule(client=st.integers(1, 2), session=st.integers(1, 3), seq=st.integers(1, 12), behind=st.integers(0, 12))
    def deliver(self, client: int, session: int, seq: int, behind: int) -> None:
        m = unit(seq, client, session, complete_below=max(1, seq - behind))
        if m.id in self.delivered or session <= self.expired.get(client, 0):
            return  # protocols ask before they deliver
        if seq < self.marks.get((client, session), 1):
            return
        self.gts += 1
        self.table.add(m, self.gts)
        self.delivered[m.id] = self.gts
        self.marks[client, session] = max(self.marks.get((client, session), 1), m.complete_below)

    @rule(client=st.integers(1, 2), session=st.integers(1, 3))
    def expire(self, client: int, session: int) -> None:
        self.table.floors[client] = max(self.table.floors.get(client, 0), session + 1)
        self.table.sessions = {key: s for key, s in self.table.sessions.items() if key[0] != client or key[1] > session}
        self.expired[client] = max(self.expired.get(client, 0), session)

    @rule()
    def transfer(self) -> None:
        other = DedupTable()
        other.load(self.table.export())
        self.table = other

    @invariant()
    def agrees(self) -> None:
        for client in (1, 2):
            for session in (1, 2, 3):
                for seq in range(1, 13):
                    id = MessageId(client, session, seq)
                    gone = session <= self.expired.get(client, 0)
                    assert self.table.is_expired(id) == gone
                    if gone:
                        assert self.table.delivered_at(id) is None
                    elif seq < self.marks.get((client, session), 1):
                        assert self.table.delivered_at(id) == 0
                    else:
                        assert self.table.delivered_at(id) == self.delivered.get(id)


AgainstASet.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestAgainstASet = AgainstASet.TestCase


@given(
    units=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 8), st.integers(1, 4)), min_size=20, max_size=120),
    sweeps=st.sets(st.integers(0, 120)),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_when_tables_of_expired_sessions_are_cleared_changes_no_answer(
    units: list[tuple[int, int, int]], sweeps: set[int]
) -> None:
    """Two replicas deliver the same; one clears at moments of its own, the other never."""
    swept, unswept = DedupTable(), DedupTable()
    for number, (client, first, count) in enumerate(units, 1):
        m = Multicast(MessageId(client, 1, number), (0,), b"", 1, first, count)
        answers = []
        for table in (swept, unswept):
            answers.append((table.is_expired(m.id), table.add(m, number)))
            if len(table.sessions) > 1:
                table.expire_oldest(1)
        assert answers[0] == answers[1]
        if number in sweeps:
            swept.bury(number)
