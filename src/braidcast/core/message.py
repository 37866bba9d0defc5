"""The one declaration of everything that goes into or comes out of a process.

Messages, timers, records, deliveries and notes are all declared with `@message`. A message never changes, compares
by value and has no identity: two equal messages are the same message. Its fields are plain data or other messages.

With msgspec installed a message is a frozen `Struct`: 60 ns to create against 215 ns for a slotted dataclass, and its
own codec. Without it (PyPy, a bare simulator) it is a slotted dataclass. Protocols cannot tell the difference.
`docs/decisions/0002-messages.md` has the measurement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, dataclass_transform

try:
    import msgspec
except ImportError:  # PyPy, or a bare simulator: slower messages, no codec
    msgspec = None  # type: ignore[assignment]

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def message(cls: type[T]) -> type[T]:
    """Declare a message, timer, record, delivery or note."""
    if msgspec is None:
        return dataclass(slots=True, unsafe_hash=True)(cls)
    namespace = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    struct: Any = type(msgspec.Struct)
    made: type[T] = struct(
        cls.__name__, (msgspec.Struct,), namespace, frozen=True, array_like=True, gc=False, tag=True
    )
    return made


def between(low: int, high: int) -> Any:
    """The bounds of a number in a message, for `Annotated`: a codec refuses what lies outside, so that no sum of what
    comes in can leave what goes out. Without msgspec there is no codec, and nothing is bounded."""
    return None if msgspec is None else msgspec.Meta(ge=low, le=high)


Count = Annotated[int, between(0, 1 << 62)]
"""How many, or the how many-th; a number with room to count on."""


def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a message class in order, whichever way it was declared."""
    names = getattr(kind, "__struct_fields__", None)
    if names is None:
        names = getattr(kind, "__dataclass_fields__", None)
    if names is None:
        raise TypeError(f"{kind.__name__} is not a message")
    return tuple(names)


def is_message(value: object) -> bool:
    """Whether `value` was declared with `@message`."""
    kind = type(value)
    return hasattr(kind, "__struct_fields__") or hasattr(kind, "__dataclass_fields__")


def snake_name(kind: type) -> str:
    """`AcceptAck` -> `accept_ack`: how handlers, histories and scenario files name a kind of message."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
