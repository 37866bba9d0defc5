"""How a mutant is made: the shipped protocol with a few lines edited, as classes of their own.

An edit names a method and the text in it that is replaced; the text must occur there exactly once, so a mutant whose
line was rewritten in the protocol fails to build and says so, instead of mutating nothing. The edited method goes
into a subclass; where a part (an entry, a table, a heap) is edited, the methods of the protocol that make such parts
are copied with the edited part in place of theirs. The shipped classes are never touched.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from braidcast.core.process import Process
from braidcast.protocols.whitebox import WhiteBox


@dataclass(frozen=True)
class Edit:
    """In `method`, `old` becomes `new`."""

    method: Callable[..., Any]
    old: str
    new: str

    @property
    def owner(self) -> str:
        """The class in which the method stands."""
        return self.method.__qualname__.partition(".")[0]

    def show(self) -> str:
        """The edit as a person reads it."""
        removed = "".join(f"    - {line}\n" for line in self.old.splitlines())
        return f"{self.method.__qualname__}:\n{removed}" + "".join(f"    + {line}\n" for line in self.new.splitlines())


@cache
def mutated(edits: tuple[Edit, ...], parts: tuple[tuple[str, type], ...] = ()) -> type[WhiteBox]:
    """White-box with edits, and with parts (by the name of the class that they replace) put in place of its own."""
    replaced: dict[str, Any] = dict(parts)
    methods: dict[str, FunctionType] = {}
    for (owner, name), method in _edited(edits).items():
        cls = getattr(sys.modules[method.__module__], owner)
        if issubclass(cls, Process):
            methods[name] = method
        else:
            base = replaced.get(owner, cls)
            replaced[owner] = type(owner, (base,), {"__slots__": (), name: method})
    for cls in reversed(WhiteBox.__mro__):
        for name, method in vars(cls).items():
            if (
                isinstance(method, FunctionType)
                and name not in methods
                and replaced.keys() & {*method.__code__.co_names}
            ):
                methods[name] = method
    mutants = {name: _with_globals(method, replaced) for name, method in methods.items()}
    return type("Mutant", (WhiteBox,), {"__slots__": (), **mutants})


def _edited(edits: tuple[Edit, ...]) -> dict[tuple[str, str], FunctionType]:
    """By class and name, each method with all edits that concern it."""
    sources: dict[tuple[str, str], tuple[Edit, str]] = {}
    for edit in edits:
        key = edit.owner, edit.method.__name__
        _, source = sources.get(key) or (edit, textwrap.dedent(inspect.getsource(edit.method)))
        count = source.count(edit.old)
        if count != 1:
            raise LookupError(
                f"{edit.method.__qualname__} has {edit.old!r} {count} times and not once: the protocol has changed, "
                "so write the mutant anew"
            )
        sources[key] = edit, source.replace(edit.old, edit.new)
    return {key: _compiled(edit.method, source) for key, (edit, source) in sources.items()}


def _compiled(method: Callable[..., Any], source: str) -> FunctionType:
    assert isinstance(method, FunctionType), "a method is a function of its class"
    namespace: dict[str, Any] = {}
    code = compile(source, f"<mutant of {method.__qualname__}>", "exec", flags=annotations.compiler_flag)
    exec(code, dict(method.__globals__), namespace)
    found: FunctionType = namespace[method.__name__]
    found.__module__ = method.__module__
    return found


def _with_globals(method: FunctionType, replaced: dict[str, Any]) -> FunctionType:
    names = {**method.__globals__, **replaced}
    copy = FunctionType(method.__code__, names, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    copy.__annotations__ = dict(method.__annotations__)
    copy.__module__ = method.__module__
    return copy
