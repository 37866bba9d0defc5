"""The state of a process, captured generically: what its class names in `__slots__`, less what never changes.

A captured state has two forms. The *key* is canonical: equal states have equal keys, whatever the history of their
dicts, sets and heaps. The *frozen* form is a pickle from which a process can be given its state back; one object
that is reachable twice (an entry in a dict and in a heap) is one object again afterwards.

- Left out: topologies, frozen dataclasses (options), functions and methods bound to the process. They are compared
  by identity after every step, so a process that changes one is an error and not an unsound search.
- Messages never change, so they are held once and referred to by number.
- Parts (adopted processes) are captured with their owner and restored in place; all must exist at creation.
- A string in a slot (a status) is the same object as the constant that was assigned; deeper ones are only equal.
- An object with `canonical()` is compared by what that returns (a heap: its sorted content), any other object field
  by field.
- Dicts are compared without the order of their keys. A process whose outputs follow that order needs
  `dict_order=True`, which can also be used to see that it makes no difference.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from io import BytesIO
from sys import intern
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from braidcast.core.errors import BraidcastError
from braidcast.core.message import is_message
from braidcast.core.process import Outbox, Process
from braidcast.core.topology import Topology

ATOMS = (int, str, bytes, float, bool, type(None))
_ABSENT = "no such attribute"
"""Stands for a slot that was never assigned; a string, so that it survives pickling by value."""


class CannotCapture(BraidcastError):
    """A process holds something that cannot be captured."""


@dataclass(frozen=True)
class Layout:
    """Where the state of one process object is found."""

    parts: tuple[Process, ...]
    """The process itself, then its parts, in the order in which they are reached."""
    names: tuple[tuple[str, ...], ...]
    """Per part, the attributes that are state."""
    constants: tuple[tuple[Process, str, Any], ...]
    """The attributes that are left out, and what they must keep holding."""


def layout_of(process: Process) -> Layout:
    """Find the parts, the state and the constants of a newly made process."""
    parts: list[Process] = [process]
    names: list[tuple[str, ...]] = []
    constants: list[tuple[Process, str, Any]] = []
    for part in parts:  # grows while it is walked
        state = []
        for name in _attributes(part):
            value = getattr(part, name, None)
            if _is_constant(part, name, value):
                constants.append((part, name, value))
            else:
                state.append(name)
            parts.extend(found for found in _processes_in(value) if found not in parts)
        names.append(tuple(state))
    return Layout(tuple(parts), tuple(names), tuple(constants))


def _attributes(part: Process) -> list[str]:
    names: list[str] = []
    for kind in type(part).__mro__:
        if kind is Process:
            break
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [*names, *sorted(getattr(part, "__dict__", ()))]


def _is_constant(part: Process, name: str, value: Any) -> bool:
    if isinstance(value, MethodType | BuiltinFunctionType):
        owner = value.__self__
        if owner is None or isinstance(owner, Process | Outbox | Topology | type(marshal)):
            return True
        raise CannotCapture(
            f"{type(part).__name__}.{name} is bound to a {type(owner).__name__}, which is state: "
            f"look the method up when it is called"
        )
    if isinstance(value, Process | Topology | FunctionType) or hasattr(value, "cache_info"):
        return True
    return _is_frozen_dataclass(type(value))


def _is_frozen_dataclass(kind: type) -> bool:
    params = getattr(kind, "__dataclass_params__", None)
    return params is not None and params.frozen


def _processes_in(value: Any) -> Iterable[Process]:
    if isinstance(value, Process):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _processes_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _processes_in(inner)


class Freezer:
    """Captures processes that were all made in the same way; states of one may be given to another."""

    def __init__(self, dict_order: bool = False) -> None:
        self.dict_order = dict_order
        self.messages: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._constants: list[Any] = []
        self._constant_numbers: dict[int, int] = {}
        self._rules: dict[type, Callable[[Any], Any]] = {}
        self._pickle_rules: dict[type, Callable[[Any], Any]] = {}
        self._met: dict[int, int] = {}
        self._parts: dict[int, int] = {}

    def number_of(self, message: Any) -> int:
        """The number that stands for a message; equal messages have one number."""
        number = self._numbers.get(message)
        if number is None:
            number = self._numbers[message] = len(self.messages)
            self.messages.append(message)
        return number

    def key(self, layout: Layout) -> bytes:
        """A digest of the state of the process that `layout` is of."""
        for part, name, held in layout.constants:
            if getattr(part, name, None) is not held:
                raise CannotCapture(f"{type(part).__name__}.{name} changed, but a {type(held).__name__} is constant")
        self._parts = {id(part): number for number, part in enumerate(layout.parts)}
        self._met = {}
        # Version 2 of marshal writes equal values to equal bytes; later ones also show who shares an object.
        return blake2b(marshal.dumps(self.canonical(_states(layout)), 2), digest_size=16).digest()

    def freeze(self, layout: Layout) -> bytes:
        """The frozen form of the state of the process that `layout` is of."""
        self._parts = {id(part): number for number, part in enumerate(layout.parts)}
        into = BytesIO()
        _Pickler(into, self).dump(_states(layout))
        return into.getvalue()

    def thaw(self, layout: Layout, frozen: bytes) -> None:
        """Give the process that `layout` is of the state that was frozen."""
        states = _Unpickler(BytesIO(frozen), self, layout).load()
        for part, names, values in zip(layout.parts, layout.names, states, strict=True):
            for name, value in zip(names, values, strict=True):
                if type(value) is not str:
                    setattr(part, name, value)
                elif value != _ABSENT:
                    setattr(part, name, intern(value))
                elif hasattr(part, name):
                    delattr(part, name)

    # -- the canonical form: nested tuples of atoms ---------------------------------------------------------------
    def canonical(self, value: Any) -> Any:
        """`value` as nested tuples of atoms, equal for equal states."""
        kind = type(value)
        rule = self._rules.get(kind)
        if rule is None:
            rule = self._rules[kind] = self._rule_for(value)
        return rule(value)

    def _rule_for(self, value: Any) -> Callable[[Any], Any]:
        kind = type(value)
        if kind in ATOMS:
            return _itself
        if isinstance(value, Enum):
            return lambda x: ("enum", x.name)
        if is_message(value) and not _is_frozen_dataclass(kind):
            return lambda x: ("message", self.number_of(x))
        if isinstance(value, dict):
            return self._canonical_dict
        if isinstance(value, set | frozenset):
            return lambda x: tuple(_in_order([self.canonical(inner) for inner in x]))
        if isinstance(value, list | tuple) or kind.__name__ == "deque":
            canonical = self.canonical
            return lambda x: tuple([canonical(inner) for inner in x])
        if isinstance(value, int | str | bytes | bytearray):
            return lambda x: (kind.__name__, int(x) if isinstance(x, int) else x)
        if isinstance(value, Process):
            return lambda x: ("part", self._part_number(x))
        if isinstance(value, Topology | FunctionType) or _is_frozen_dataclass(kind):
            return lambda x: ("constant", self._constant_number(x))
        if isinstance(value, MethodType | BuiltinFunctionType):
            raise CannotCapture(f"a container in the state holds the method {value.__qualname__}: keep it in a slot")
        return self._rule_for_object(kind)

    def _rule_for_object(self, kind: type) -> Callable[[Any], Any]:
        own = getattr(kind, "canonical", None)
        names = [name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())]

        def rule(x: Any) -> Any:
            met = self._met.get(id(x))
            if met is not None:
                return ("again", met)
            self._met[id(x)] = len(self._met)
            if own is not None:
                return (kind.__name__, self.canonical(own(x)))
            fields = [self.canonical(getattr(x, name, None)) for name in names]
            if held := getattr(x, "__dict__", None):
                fields.append(self._canonical_dict(held))
            return (kind.__name__, *fields)

        return rule

    def _canonical_dict(self, value: dict[Any, Any]) -> Any:
        canonical = self.canonical
        if self.dict_order:
            return tuple([(canonical(k), canonical(v)) for k, v in value.items()])
        return tuple([(canonical(k), canonical(value[k])) for k in _in_order(list(value))])

    # -- the frozen form: a pickle that refers to messages, parts and constants by number ------------------------
    def reduce(self, value: Any) -> Any:
        """How the pickler writes an object that is no plain data; `NotImplemented` for its usual way."""
        kind = type(value)
        rule = self._pickle_rules.get(kind)
        if rule is None:
            rule = self._pickle_rules[kind] = self._pickle_rule_for(value)
        return rule(value)

    def _pickle_rule_for(self, value: Any) -> Callable[[Any], Any]:
        if is_message(value) and not _is_frozen_dataclass(type(value)):
            return lambda x: (_held, ("message", self.number_of(x)))
        if isinstance(value, Process):
            return lambda x: (_held, ("part", self._part_number(x)))
        if isinstance(value, Topology | FunctionType) or _is_frozen_dataclass(type(value)):
            return lambda x: NotImplemented if x is _held else (_held, ("constant", self._constant_number(x)))
        return _as_usual

    def _part_number(self, part: Process) -> int:
        number = self._parts.get(id(part))
        if number is None:
            raise CannotCapture(f"a {type(part).__name__} appeared after creation: make parts in __init__")
        return number

    def _constant_number(self, value: Any) -> int:
        number = self._constant_numbers.get(id(value))
        if number is None:
            number = self._constant_numbers[id(value)] = len(self._constants)
            self._constants.append(value)
        return number

    def held(self, what: str, number: int, layout: Layout) -> Any:
        """What a pickle refers to."""
        if what == "message":
            return self.messages[number]
        return layout.parts[number] if what == "part" else self._constants[number]


def _held(what: str, number: int) -> Any:
    """Stands in pickles for `Freezer.held`."""
    raise TypeError("only a Freezer reads what a Freezer has written")


class _Pickler(pickle.Pickler):
    def __init__(self, into: BytesIO, freezer: Freezer) -> None:
        super().__init__(into, 5)
        self.reducer_override = freezer.reduce  # type: ignore[method-assign]


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: BytesIO, freezer: Freezer, layout: Layout) -> None:
        super().__init__(source)
        self.freezer, self.layout = freezer, layout

    def find_class(self, module: str, name: str) -> Any:
        if name == "_held" and module == __name__:
            return lambda what, number: self.freezer.held(what, number, self.layout)
        return super().find_class(module, name)


def _states(layout: Layout) -> list[list[Any]]:
    return [
        [getattr(part, name, _ABSENT) for name in names]
        for part, names in zip(layout.parts, layout.names, strict=True)
    ]


def _as_usual(_: Any) -> Any:
    return NotImplemented


def _itself(value: Any) -> Any:
    return value


def _in_order(values: list[Any]) -> list[Any]:
    try:
        values.sort()
    except TypeError:
        values.sort(key=repr)
    return values
