"""The contract: handlers are found by name and type, self-messages belong to the step, outputs come out in order."""

from __future__ import annotations

import pytest

from braidcast.core.message import message
from braidcast.core.process import APPLIED_WITH_RECORDS, NOTHING_WAITS, Outbox, Process


@message
class Ping:
    """A message."""

    number: int


@message
class PongBack:
    """Another."""

    number: int


@message
class Stored:
    """A record."""

    number: int


class Echo(Process):
    """Answers, counts down by messages to itself, writes what it heard."""

    __slots__ = ("heard",)

    def __init__(self, out: Outbox) -> None:
        super().__init__(out)
        self.heard: list[tuple[int, object]] = []

    def on_ping(self, sender: int, p: Ping) -> None:
        self.heard.append((sender, p))
        self.persist(Stored(p.number))
        if p.number:
            self.send((self.me, 9), Ping(p.number - 1))
            self.send((self.me,), PongBack(p.number))

    def on_pong_back(self, sender: int, p: PongBack) -> None:
        self.heard.append((sender, p))

    def redo_stored(self, r: Stored) -> None:
        self.heard.append((-1, r))


@message
class PartPing:
    """For the part."""


@message
class PartStored:
    """Of the part."""


class Part(Process):
    """A part with an input and a record of its own."""

    __slots__ = ("count",)

    def __init__(self, out: Outbox) -> None:
        super().__init__(out)
        self.count = 0

    def on_part_ping(self, sender: int, p: PartPing) -> None:
        self.count += 1
        self.persist(PartStored())

    def redo_part_stored(self, r: PartStored) -> None:
        self.count += 1


class Whole(Process):
    """A process made of a part."""

    __slots__ = ("part",)

    def __init__(self, out: Outbox, part: Part) -> None:
        super().__init__(out)
        self.part = self.adopt(part)


def test_handler_that_does_not_say_its_message_is_an_error_at_import() -> None:
    with pytest.raises(TypeError, match=r"^Wrong\.on_pong handles Ping: name the handler after its message$"):

        class Wrong(Process):
            def on_pong(self, sender: int, p: Ping) -> None: ...


def test_handler_without_types_is_an_error_at_import() -> None:
    with pytest.raises(TypeError, match=r"^Wrong\.on_ping handles nothing: name the handler after its message$"):

        class Wrong(Process):
            def on_ping(self, sender, p):  # type: ignore[no-untyped-def]
                ...


def test_misnamed_record_handler_is_an_error_at_import() -> None:
    with pytest.raises(TypeError, match=r"^Wrong\.redo_ping handles Stored: name the handler after its message$"):

        class Wrong(Process):
            def redo_ping(self, r: Stored) -> None: ...


def test_handler_of_a_subclass_takes_the_place_of_the_inherited_one() -> None:
    class Deaf(Echo):
        def on_ping(self, sender: int, p: Ping) -> None:
            self.heard.append((sender, "nothing"))

    process = Deaf(Outbox(1))
    process.step(2, Ping(5))
    process.step(2, PongBack(1))
    assert process.heard == [(2, "nothing"), (2, PongBack(1))]


def test_messages_to_oneself_are_handled_in_the_same_step_in_order() -> None:
    process = Echo(Outbox(1))
    process.step(7, Ping(2))
    assert process.heard == [(7, Ping(2)), (1, Ping(1)), (1, PongBack(2)), (1, Ping(0)), (1, PongBack(1))]


def test_unknown_message_is_refused_and_counted() -> None:
    out = Outbox(1)
    process = Echo(out)
    for unknown in (Stored(1), "text", None):
        process.step(2, unknown)
    assert out.refused == {"no handler": 3}
    assert process.heard == []


def test_records_are_replayed_and_not_handled() -> None:
    process = Echo(Outbox(1))
    process.recover([Stored(1), Stored(2)])
    assert process.heard == [(-1, Stored(1)), (-1, Stored(2))]
    assert process.out.take().records == []


def test_adopted_part_gets_its_inputs_and_records() -> None:
    out = Outbox(1)
    whole = Whole(out, Part(out))
    whole.step(2, PartPing())
    whole.recover([PartStored()])
    assert whole.part.count == 2
    assert out.take().records == [PartStored()]


@pytest.mark.parametrize("first", [Part, Echo])
def test_two_handlers_for_one_message_are_refused(first: type[Process]) -> None:
    out = Outbox(1)
    whole = Whole(out, Part(out))
    if first is Echo:
        whole.adopt(Echo(out))
    kind = "PartPing" if first is Part else "Ping, PongBack"
    with pytest.raises(TypeError, match=rf"^two handlers for {kind}$"):
        whole.adopt(first(out))


def test_two_handlers_for_one_record_are_refused() -> None:
    class OnlyRecord(Process):
        def redo_stored(self, r: Stored) -> None: ...

    out = Outbox(1)
    echo = Echo(out)
    with pytest.raises(TypeError, match=r"^two handlers for Stored$"):
        echo.adopt(OnlyRecord(out))


def test_equal_inputs_give_equal_outputs() -> None:
    one, two = Echo(Outbox(1)), Echo(Outbox(1))
    for process in (one, two):
        process.step(7, Ping(3))
        process.step(8, PongBack(3))
    assert one.out.take() == two.out.take()
    assert one.heard == two.heard


class Marks(Echo):
    """Its records of kind `Stored` are for nobody to wait for."""

    __slots__ = ()
    unhurried = (Stored,)

    def on_part_ping(self, sender: int, p: PartPing) -> None:
        self.persist(PartStored())
        self.send((9,), p)


def test_what_is_sent_waits_only_for_records_that_were_put_out_before_it() -> None:
    process = Echo(Outbox(1))
    process.send((9,), Ping(1))
    process.step(7, Ping(1))
    assert process.out.waits_from == 1
    process.step(7, Ping(0))
    assert process.out.waits_from == 1, "the first record counts"
    process.out.take()
    assert process.out.waits_from == NOTHING_WAITS


def test_nothing_waits_for_unhurried_records_but_what_comes_after_others() -> None:
    process = Marks(Outbox(1))
    process.step(7, Ping(1))
    assert process.out.waits_from == NOTHING_WAITS
    process.step(7, PartPing())
    assert process.out.waits_from == 2


def test_unhurried_records_of_a_part_are_so_for_the_whole() -> None:
    out = Outbox(1)
    Marks(out)
    Whole(out, Part(out)).persist(Stored(1))
    assert out.waits_from == NOTHING_WAITS


def test_take_gives_everything_once_and_the_driver_owns_it() -> None:
    out = Outbox(1)
    process = Echo(out)
    process.step(7, Ping(1))
    out.deliver("delivery")
    out.set_timer(PongBack(1), 10, spread=5)
    out.cancel_timer(PongBack(2))
    batch = out.take()
    assert batch.records == [Stored(1), Stored(0)]
    assert batch.sent == [((1, 9), Ping(0)), ((1,), PongBack(1))]
    assert batch.delivered == ["delivery"]
    assert batch.timers == [(PongBack(1), 10, 5), (PongBack(2), None, 0)]
    assert out.take() == ([], [], [], [])
    process.step(7, Ping(0))
    assert batch.records == [Stored(1), Stored(0)], "what was taken does not change any more"
    assert out.take().records == [Stored(0)]


def test_part_and_whole_keep_writing_to_the_same_outbox_after_a_take() -> None:
    out = Outbox(1)
    whole = Whole(out, Part(out))
    out.take()
    whole.step(2, PartPing())
    whole.persist(Stored(1))
    whole.deliver("delivery")
    assert out.take()[0::2] == ([PartStored(), Stored(1)], ["delivery"])


def test_message_to_others_only_is_not_handled_here() -> None:
    out = Outbox(1)
    process = Echo(out)
    process.send((2, 3), Ping(1))
    process.step(2, PongBack(0))
    assert process.heard == [(2, PongBack(0))]


def test_refusals_are_counted_by_reason() -> None:
    out = Outbox(1)
    for why in ("late", "late", "odd"):
        out.refuse(why)
    assert out.refused == {"late": 2, "odd": 1}


def test_defaults_of_a_process() -> None:
    process = Echo(Outbox(1))
    assert process.role == "member"
    assert process.note is None
    assert process.out.applied == APPLIED_WITH_RECORDS
    process.start()
    with pytest.raises(NotImplementedError, match=r"^Echo keeps its whole log$"):
        process.checkpoint()


def test_notes_go_to_whoever_listens() -> None:
    notes: list[object] = []
    process = Echo(Outbox(1, notes.append))
    if note := process.note:
        note(Ping(1))
    assert notes == [Ping(1)]
