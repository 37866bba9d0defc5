"""Running on the loop that nodes run on: a result, and nothing left open by whoever interrupts it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from braidcast.wire import loops


def test_what_the_work_returns_is_returned_and_the_loop_is_closed() -> None:
    async def work() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert loops.run(work()).is_closed()


def test_interrupt_while_the_loop_is_made_leaves_neither_loop_nor_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.AbstractEventLoop] = []
    make = loops.new_event_loop

    def interrupted() -> asyncio.AbstractEventLoop:
        made.append(make())
        signal.raise_signal(signal.SIGINT)
        return made[0]

    async def work() -> None:
        raise AssertionError("it never begins")

    monkeypatch.setattr(loops, "new_event_loop", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs tests may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            loops.run(work())
    finally:
        signal.signal(signal.SIGINT, before)
    assert made[0].is_closed()
