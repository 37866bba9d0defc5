"""The pending heap against the rule it stands for: Figure 1 line 17 (Figure 4 line 21), scanned naively."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from braidcast.protocols.parts.pending import PendingHeap


@dataclass(eq=False)
class Entry:
    """A message with a local timestamp; its global one is 0 until it is committed."""

    lts: int
    gts: int = 0


def heap_of(*entries: Entry) -> PendingHeap[Entry]:
    heap: PendingHeap[Entry] = PendingHeap()
    for entry in entries:
        heap.push(entry.lts, entry)
    return heap


def test_nothing_is_next_in_an_empty_heap() -> None:
    assert heap_of().next_committed() is None


def test_timestamp_that_was_given_twice_leaves_one_entry_waiting_and_the_heap_whole() -> None:
    moved, there, last = Entry(1, 5), Entry(5, 5), Entry(7, 7)
    heap = heap_of(moved, there, last, there)
    assert heap.next_committed() is there
    heap.pop()
    assert heap.next_committed() is last
    heap.pop()
    assert heap.next_committed() is None
    assert not len(heap)


def test_lowest_is_next_when_it_is_committed() -> None:
    low, high = Entry(1, 1), Entry(2, 2)
    heap = heap_of(high, low)
    assert heap.next_committed() is low
    heap.pop()
    assert heap.next_committed() is high


def test_committed_message_waits_for_an_uncommitted_one_below_it() -> None:
    blocked, blocker = Entry(2, 2), Entry(1)
    heap = heap_of(blocked, blocker)
    assert heap.next_committed() is None
    blocker.gts = 5
    assert heap.next_committed() is blocked


def test_message_committed_higher_moves_behind_one_with_a_lower_timestamp() -> None:
    """Re-keying: m waits at 1, is committed at 9, and a message that waits at 4 may still end below 9."""
    moved, between = Entry(1, 9), Entry(4)
    heap = heap_of(moved, between)
    assert heap.next_committed() is None
    assert heap.in_order() == [between, moved]
    between.gts = 4
    assert heap.next_committed() is between


def test_given_up_entry_blocks_nobody() -> None:
    blocker, blocked = Entry(1), Entry(2, 2)
    heap = heap_of(blocker, blocked)
    heap.discard(1)
    heap.discard(7)
    assert heap.next_committed() is blocked
    assert len(heap) == 1


def test_canonical_state_does_not_depend_on_how_it_came_about() -> None:
    entries = [Entry(n) for n in (3, 1, 2)]
    one, two = heap_of(*entries), heap_of(*reversed(entries))
    assert one.canonical() == two.canonical()


class AgainstTheNaiveRule(RuleBasedStateMachine):
    """Propose, commit, deliver, give up, in any order; timestamps are unique as they are in the protocols."""

    def __init__(self) -> None:
        super().__init__()
        self.heap: PendingHeap[Entry] = PendingHeap()
        self.waiting: list[Entry] = []
        self.clock = 0
        self.highest_delivered = 0

    def naive_next(self) -> Entry | None:
        """Line 17 as it is printed."""
        found = [
            m
            for m in self.waiting
            if m.gts and all(other.lts > m.gts for other in self.waiting if not other.gts)
        ]
        return min(found, key=lambda m: m.gts) if found else None

    @rule()
    def propose(self) -> None:
        self.clock += 1
        entry = Entry(self.clock * 10)
        self.waiting.append(entry)
        self.heap.push(entry.lts, entry)

    @precondition(lambda self: any(not m.gts for m in self.waiting))
    @rule(data=st.data(), raised=st.integers(0, 3))
    def commit(self, data: st.DataObject, raised: int) -> None:
        """At its own timestamp, or above it at another group's, which raises the clock."""
        entry = data.draw(st.sampled_from([m for m in self.waiting if not m.gts]))
        if not raised:
            entry.gts = entry.lts
        else:
            entry.gts = (max(self.clock, entry.lts // 10) + raised) * 10 + 1
            self.clock = max(self.clock, entry.gts // 10)

    @precondition(lambda self: self.naive_next() is not None)
    @rule()
    def deliver(self) -> None:
        entry = self.heap.next_committed()
        assert entry is not None
        assert entry.gts > self.highest_delivered
        self.highest_delivered = entry.gts
        self.heap.pop()
        self.waiting.remove(entry)

    @precondition(lambda self: any(not m.gts for m in self.waiting))
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from([m for m in self.waiting if not m.gts]))
        self.waiting.remove(entry)
        self.heap.discard(entry.lts)

    @invariant()
    def agrees(self) -> None:
        assert self.heap.next_committed() is self.naive_next()
        assert len(self.heap) == len(self.waiting)
        assert {id(m) for m in self.heap.in_order()} == {id(m) for m in self.waiting}


AgainstTheNaiveRule.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestAgainstTheNaiveRule = AgainstTheNaiveRule.TestCase
