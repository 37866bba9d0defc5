"""Messages: declared once, frozen, compared by value; with and without msgspec."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from braidcast.core import message as module

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["msgspec", "without msgspec"])
def declare(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as it is, and as it is where msgspec cannot be imported."""
    if request.param == "without msgspec":
        monkeypatch.setattr(module, "msgspec", None)
    return module


def kinds(declare: ModuleType) -> tuple[Any, Any]:
    @declare.message
    class Inner:
        """A message in a message."""

        number: int

    @declare.message
    class Outer:
        """Plain data, a default, another message."""

        id: int
        inner: Any
        names: tuple[str, ...] = ()

        def doubled(self) -> int:
            """Messages may have methods."""
            return self.id * 2

    return Inner, Outer


def test_messages_compare_and_hash_by_value(declare: ModuleType) -> None:
    inner, outer = kinds(declare)
    one, same, other = outer(1, inner(2)), outer(1, inner(2)), outer(1, inner(3))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert len({one, same, other}) == 2


def test_messages_of_different_kinds_differ(declare: ModuleType) -> None:
    inner, outer = kinds(declare)
    assert inner(1) != outer(1, None)


def test_defaults_keywords_methods_and_documentation(declare: ModuleType) -> None:
    _, outer = kinds(declare)
    assert outer(id=4, inner=None).names == ()
    assert outer(4, None, names=("a",)).names == ("a",)
    assert outer(4, None).doubled() == 8
    assert outer.__doc__ == "Plain data, a default, another message."
    with pytest.raises(TypeError):
        outer(1)


def test_message_shows_its_fields(declare: ModuleType) -> None:
    inner, outer = kinds(declare)
    assert "Outer(id=1, inner=" in repr(outer(1, inner(2)))
    assert "names=()" in repr(outer(1, inner(2)))


def test_message_takes_no_other_attribute(declare: ModuleType) -> None:
    inner, _ = kinds(declare)
    with pytest.raises((AttributeError, TypeError)):
        inner(1).other = 2


def test_message_never_changes() -> None:
    """Enforced with msgspec; the fallback trades it for speed."""
    inner, _ = kinds(module)
    with pytest.raises(AttributeError):
        inner(1).number = 2


def test_message_without_fields(declare: ModuleType) -> None:
    @declare.message
    class Beat:
        """A timer."""

    assert Beat() == Beat()
    assert hash(Beat()) == hash(Beat())
    assert declare.field_names(Beat) == ()


def test_field_names_are_in_order(declare: ModuleType) -> None:
    _, outer = kinds(declare)
    assert declare.field_names(outer) == ("id", "inner", "names")


def test_field_names_of_something_else_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^int is not a message$"):
        module.field_names(int)


def test_is_message(declare: ModuleType) -> None:
    inner, _ = kinds(declare)
    assert declare.is_message(inner(1))
    assert not declare.is_message((1,))
    assert not declare.is_message("text")


SNAKES = [("AcceptAck", "accept_ack"), ("Pull", "pull"), ("NewStateAck", "new_state_ack")]


@pytest.mark.parametrize(("name", "snake"), SNAKES)
def test_snake_name(name: str, snake: str) -> None:
    assert module.snake_name(type(name, (), {})) == snake


WITHOUT_MSGSPEC = """
import sys
sys.modules["msgspec"] = None
from braidcast.core import message
assert message.msgspec is None
from tests.protocols.whitebox.harness import Bench, unit
bench = Bench(3, 3)
for seq in range(1, 6):
    bench.submit(unit(seq, 0, 1))
    bench.deliver()
bench.crash(0)
bench.run()
bench.elect(1)
bench.submit(unit(6, 0, 1), 1, 3)
bench.run()
bench.restart(0, applied=bench[0].max_delivered_gts)
for _ in range(5):
    bench.beat(1)
    bench.beat(3)
print([bench.order(p) for p in range(6)], bench.answers, [list(bench[p].checkpoint()) for p in range(6)])
"""


def test_protocols_cannot_tell_whether_msgspec_is_there() -> None:
    """The same run with a leader change, a restart and collection, in two interpreters, says the same."""
    texts = []
    for code in (WITHOUT_MSGSPEC, WITHOUT_MSGSPEC.replace('sys.modules["msgspec"] = None', "").replace("is None", "")):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    assert texts[0] == texts[1]
    assert "[1, 2, 3, 4, 5, 6]" in texts[0]
