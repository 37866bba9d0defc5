"""Options as text: what is accepted, and what is said about the rest, in one line that says what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from braidcast.core.errors import BraidcastError, OptionError
from braidcast.core.process import Outbox, Process
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology


@dataclass(frozen=True)
class Options:
    """Of a toy."""

    ticks: int = 5
    fast: bool = False
    mode: Literal["one", "two"] = "one"

    def __post_init__(self) -> None:
        if self.ticks < 1:
            raise ValueError(f"option ticks must be at least 1, not {self.ticks}")


@dataclass(frozen=True)
class NoOptions:
    """None."""


@dataclass(frozen=True)
class OddOptions:
    """One that text cannot give."""

    names: tuple[str, ...] = ()


def make(out: Outbox, topology: Topology, options: Any) -> Process:
    return Process(out)


TOY = Protocol("toy", "A toy", make, Options)


def test_defaults() -> None:
    assert TOY.parse_options({}) == Options()


@pytest.mark.parametrize("text", ["on", "true", "yes", "1", "TRUE", "On"])
def test_on(text: str) -> None:
    assert TOY.parse_options({"fast": text}).fast is True


@pytest.mark.parametrize("text", ["off", "false", "no", "0", "OFF"])
def test_off(text: str) -> None:
    assert TOY.parse_options({"fast": text}).fast is False


def test_numbers_and_words() -> None:
    assert TOY.parse_options({"ticks": "1_000", "mode": "two"}) == Options(1_000, False, "two")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("speed", "1", "toy has no option 'speed': it has ticks, fast, mode"),
        ("fast", "maybe", "toy option fast takes on or off, not 'maybe'"),
        ("fast", "", "toy option fast takes on or off, not ''"),
        ("ticks", "soon", "toy option ticks takes a whole number, not 'soon'"),
        ("ticks", "1.5", "toy option ticks takes a whole number, not '1.5'"),
        ("mode", "three", "toy option mode takes one or two, not 'three'"),
        ("ticks", "0", "toy: option ticks must be at least 1, not 0"),
    ],
)
def test_bad_option(name: str, text: str, line: str) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(line)}$"):
        TOY.parse_options({name: text})


def test_protocol_without_options() -> None:
    with pytest.raises(OptionError, match=r"^bare has no option 'x': it has none$"):
        Protocol("bare", "Bare", make, NoOptions).parse_options({"x": "1"})


def test_option_of_a_kind_that_text_cannot_give_is_the_programmers_error() -> None:
    with pytest.raises(TypeError, match=r"^option names of odd has a type that text cannot give"):
        Protocol("odd", "Odd", make, OddOptions).parse_options({"names": "a"})


def test_option_errors_are_for_users() -> None:
    assert issubclass(OptionError, BraidcastError)


def test_what_a_protocol_is_by_default() -> None:
    TOY.check_topology(Topology.parse("2"))
    assert TOY.paced(Options(7), 10) == Options(7)
    assert TOY.variants == ({},)
    assert TOY.tolerates_faults
    assert TOY.suspicion is None
