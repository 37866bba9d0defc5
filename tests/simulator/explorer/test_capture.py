"""Capture: what counts as state, when two states are equal, and that restoring gives back the same objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from braidcast.core.client import MessageId
from braidcast.core.message import message
from braidcast.core.process import Outbox, Process
from braidcast.core.topology import Pid, Topology
from braidcast.protocols.parts.pending import PendingHeap
from braidcast.simulator.explorer.capture import CannotCapture, Freezer, layout_of

IDLE = "idle"


@message
class Note:
    """A message that states hold."""

    id: MessageId
    text: str


class Entry:
    """A slotted object, as protocols keep in dicts and heaps."""

    __slots__ = ("gts", "note")

    def __init__(self, note: Note) -> None:
        self.note = note
        self.gts = 0


@dataclass(frozen=True)
class Options:
    """Constant."""

    window: int = 3


class Part(Process):
    """A process inside another."""

    __slots__ = ("count", "upcall")

    def __init__(self, out: Outbox, upcall: Callable[[], None]) -> None:
        super().__init__(out)
        self.count = 0
        self.upcall = upcall


class Holder(Process):
    """Holds one of everything."""

    __slots__ = ("entries", "members", "never", "options", "part", "parts", "pending", "status", "topology")

    def __init__(self, out: Outbox, topology: Topology, options: Options) -> None:
        super().__init__(out)
        self.topology = topology
        self.options = options
        self.status = IDLE
        self.entries: dict[int, Entry] = {}
        self.pending: PendingHeap[Entry] = PendingHeap()
        self.members: set[Pid] = set()
        self.part = self.adopt(Part(out, self.called))
        self.parts = {1: Part(out, self.called), 2: Part(out, self.called)}

    def called(self) -> None:
        """An upcall."""


TOPOLOGY = Topology.of_sizes(2)
OPTIONS = Options()


def holder() -> Holder:
    return Holder(Outbox(0), TOPOLOGY, OPTIONS)


def note(number: int) -> Note:
    return Note(MessageId(1000, 1, number), f"note {number}")


def test_one_object_reached_twice_is_one_object_after_restoring() -> None:
    process, freezer = holder(), Freezer()
    entry = process.entries[1] = Entry(note(1))
    process.pending.push(5, entry)
    frozen = freezer.freeze(layout_of(process))
    process.entries.clear()
    freezer.thaw(layout_of(process), frozen)
    process.entries[1].gts = 5
    assert process.pending.next_committed() is process.entries[1]


def test_a_restored_state_can_be_changed_without_changing_what_was_frozen() -> None:
    process, freezer = holder(), Freezer()
    process.entries[1] = Entry(note(1))
    key, frozen = freezer.key(layout_of(process)), freezer.freeze(layout_of(process))
    freezer.thaw(layout_of(process), frozen)
    process.entries[1].gts = 7
    assert freezer.key(layout_of(process)) != key
    freezer.thaw(layout_of(process), frozen)
    assert freezer.key(layout_of(process)) == key


def test_constants_are_left_out_and_stay_the_same_objects() -> None:
    process, freezer = holder(), Freezer()
    layout = layout_of(process)
    assert not {"topology", "options", "part"} & set(layout.names[0])
    freezer.thaw(layout, freezer.freeze(layout))
    assert process.topology is TOPOLOGY
    assert process.options is OPTIONS


def test_a_constant_that_changes_is_an_error() -> None:
    process, freezer = holder(), Freezer()
    layout = layout_of(process)
    process.options = Options(window=4)
    with pytest.raises(CannotCapture, match="options changed"):
        freezer.key(layout)


def test_parts_are_captured_with_their_owner_and_restored_in_place() -> None:
    process, freezer = holder(), Freezer()
    layout = layout_of(process)
    part, second = process.part, process.parts[2]
    part.count, second.count = 3, 4
    key, frozen = freezer.key(layout), freezer.freeze(layout)
    part.count = second.count = 0
    assert freezer.key(layout) != key
    freezer.thaw(layout, frozen)
    assert process.part is part
    assert process.parts[2] is second
    assert (part.count, second.count) == (3, 4)


def test_a_part_made_after_creation_is_an_error() -> None:
    process, freezer = holder(), Freezer()
    layout = layout_of(process)
    process.parts[3] = Part(process.out, process.called)
    with pytest.raises(CannotCapture, match="appeared after creation"):
        freezer.key(layout)


def test_a_status_that_is_compared_by_identity_survives() -> None:
    process, freezer = holder(), Freezer()
    layout = layout_of(process)
    freezer.thaw(layout, freezer.freeze(layout))
    assert process.status is IDLE


def test_messages_are_shared_and_not_copied() -> None:
    process, freezer = holder(), Freezer()
    shared = note(1)
    process.entries[1] = Entry(shared)
    layout = layout_of(process)
    freezer.thaw(layout, freezer.freeze(layout))
    assert process.entries[1].note is shared


def test_a_slot_that_was_never_assigned_is_not_assigned_afterwards() -> None:
    process, freezer = holder(), Freezer()
    layout = layout_of(process)
    frozen = freezer.freeze(layout)
    process.never = 1  # type: ignore[attr-defined]  # declared in __slots__ only
    freezer.thaw(layout, frozen)
    assert not hasattr(process, "never")


def keys_of(first: Callable[[Holder], Any], second: Callable[[Holder], Any], dict_order: bool = False) -> set[bytes]:
    freezer = Freezer(dict_order)
    keys = set()
    for change in (first, second):
        process = holder()
        change(process)
        keys.add(freezer.key(layout_of(process)))
    return keys


def fill(*numbers: int) -> Callable[[Holder], None]:
    def change(process: Holder) -> None:
        for number in numbers:
            entry = process.entries[number] = Entry(note(number))
            process.pending.push(number, entry)
            process.members.add(number << 40)

    return change


def test_the_history_of_dicts_sets_and_heaps_makes_no_difference() -> None:
    assert len(keys_of(fill(1, 2, 3), fill(3, 2, 1))) == 1


def test_the_order_of_dicts_makes_a_difference_on_request() -> None:
    assert len(keys_of(fill(1, 2, 3), fill(3, 2, 1), dict_order=True)) == 2


def test_equal_but_distinct_entries_are_not_one_entry() -> None:
    def aliased(process: Holder) -> None:
        entry = process.entries[1] = Entry(note(1))
        process.pending.push(1, entry)

    def copied(process: Holder) -> None:
        process.entries[1] = Entry(note(1))
        process.pending.push(1, Entry(note(1)))

    assert len(keys_of(aliased, copied)) == 2


def test_a_field_of_an_entry_makes_a_difference() -> None:
    def committed(process: Holder) -> None:
        fill(1)(process)
        process.entries[1].gts = 9

    assert len(keys_of(fill(1), committed)) == 2


class BoundToState(Process):
    """Keeps a method of something that is state."""

    __slots__ = ("pending", "push")

    def __init__(self, out: Outbox) -> None:
        super().__init__(out)
        self.pending: PendingHeap[Entry] = PendingHeap()
        self.push = self.pending.push


def test_a_method_bound_to_state_is_an_error_and_not_a_stale_method() -> None:
    with pytest.raises(CannotCapture, match="bound to a PendingHeap"):
        layout_of(BoundToState(Outbox(0)))
