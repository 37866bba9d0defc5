"""`Replicated` and `@replicated`: state machines whose methods are multicast when they are called.

    class Stock(Replicated):
        count: dict[str, int]

        def __init__(self) -> None:
            self.count = {}

        @replicated(to=lambda self, item, by: group_of(item))
        def add(self, item: str, by: int) -> int:
            self.count[item] = self.count.get(item, 0) + by
            return self.count[item]

    await stock.add("chair", 3)

1. `to` says which groups a call concerns. A name: the call gives what the method returned there. A set of names: it
   gives a dictionary of what it returned in each of them that has a state machine at this node.
2. One object for each group of a node; a call on any of them goes wherever `to` says. Inside a method, `self` is the
   state of `self.group`, and `self.delivery` is the message: its timestamp, its place, its sender.
3. State is what the class annotates, of types that msgspec knows. Setting anything else is an error, or it would be
   gone after a restart.
4. Arguments travel as MessagePack, checked against the annotations by the caller and again by every replica. A call
   that a replica cannot understand is one that raises.
5. A method must not call another one that is replicated: what both do belongs into a plain method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from types import EllipsisType
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    get_origin,
    get_type_hints,
    overload,
)  # fmt: skip

import msgspec

from braidcast.client.subscriber import Delivery
from braidcast.core.errors import BraidcastError
from braidcast.embedded.errors import NotHosted
from braidcast.wire.codec import UNREADABLE

S = TypeVar("S", bound="Replicated")
P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
"""What awaiting a call gives: R, or R by group."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_call = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


class Submits(Protocol):
    """What a call needs of a `Replica`."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that have a state machine here."""

    async def submit(self, payload: bytes, to: Any, *, timeout: float | EllipsisType | None = ...) -> Any:
        """As that of a `Replica`."""


class Method(Generic[S, P, R, A]):
    """A method that is multicast when it is called; `function` is what is done then."""

    def __init__(self, function: Callable[Concatenate[S, P], R], to: Callable[..., str | AbstractSet[str]]) -> None:
        self.function, self.to = function, to
        self.name, self.full_name = function.__name__, function.__qualname__
        self.signature = inspect.signature(function)
        parameters = list(self.signature.parameters.values())
        if any(p.annotation is p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters[1:]):
            raise TypeError(f"{function.__qualname__} must name and annotate each of its arguments: they are checked")
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is asynchronous: a replicated method must not wait")
        self.__doc__ = function.__doc__

    @cached_property
    def arguments(self) -> msgspec.msgpack.Decoder[tuple[Any, ...]]:
        """Reads arguments of the annotated types."""
        hints = get_type_hints(self.function)
        kinds = [hints.get(name, Any) for name in list(self.signature.parameters)[1:]]
        return msgspec.msgpack.Decoder(tuple[tuple(kinds)] if kinds else tuple[()])  # type: ignore[misc]  # made at run time

    def payload(self, instance: S, *args: P.args, **kwargs: P.kwargs) -> bytes:
        """A call as a message."""
        bound = self.signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        arguments = _encode(bound.args[1:])
        try:
            self.arguments.decode(arguments)
        except UNREADABLE as error:
            raise TypeError(f"{self.full_name} cannot be called so: {error}") from None
        return _encode((self.name, msgspec.Raw(arguments)))

    @overload
    def __get__(self, instance: None, owner: type[S]) -> Method[S, P, R, A]: ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Callable[P, Coroutine[Any, Any, A]]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> Any:
        return self if instance is None else partial(self._call, instance)

    def _call(self, instance: S, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Any]:
        """What can be wrong with a call is an error of the call, not of awaiting it."""
        replica = instance.submits_to(self.full_name)
        to = self.to(instance, *args, **kwargs)
        if isinstance(to, str) and to not in replica.groups:
            raise NotHosted(
                f"{self.full_name} is for group {to}, which has no state machine at this node to tell the result; "
                f"{', '.join(replica.groups)} have"
            )
        return _results(replica, self.payload(instance, *args, **kwargs), to)


async def _results(replica: Submits, payload: bytes, to: str | AbstractSet[str]) -> Any:
    results = (await replica.submit(payload, to)).results
    return results[to] if isinstance(to, str) else results


@overload
def replicated(
    *, to: Callable[..., str]
) -> Callable[[Callable[Concatenate[S, P], R]], Method[S, P, R, R]]: ...
@overload
def replicated(
    *, to: Callable[..., AbstractSet[str]]
) -> Callable[[Callable[Concatenate[S, P], R]], Method[S, P, R, dict[str, R]]]: ...
def replicated(*, to: Callable[..., str | AbstractSet[str]]) -> Any:
    """A method of a `Replicated` class that is multicast to the group, or the set of groups, that `to` gives for the
    same arguments."""
    return lambda function: Method(function, to)


class Replicated:
    """A state machine whose state is what its class annotates."""

    group: str
    """Of which this is the state."""
    delivery: Delivery
    """The message that is applied, inside a method."""
    _submits: Submits | None = None
    _applying: bool = False
    _methods: ClassVar[dict[str, Method[Any, Any, Any, Any]]] = {}
    _kinds: ClassVar[dict[str, Any] | None] = None

    def __init_subclass__(cls) -> None:
        found = [(name, value) for kind in reversed(cls.__mro__) for name, value in vars(kind).items()]
        cls._methods = {name: value for name, value in found if isinstance(value, Method)}
        cls._kinds = None

    @classmethod
    def state_kinds(cls) -> dict[str, Any]:
        """The fields of the state, with their types."""
        if cls._kinds is None:
            own = get_type_hints(Replicated)
            hints = get_type_hints(cls)
            cls._kinds = {
                name: kind for name, kind in hints.items() if name not in own and get_origin(kind) is not ClassVar
            }
        return cls._kinds

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.state_kinds():
            kind = type(self).__name__
            raise AttributeError(f"{kind}.{name} would be lost in a restart: annotate it in the class, as state")
        object.__setattr__(self, name, value)

    def belong_to(self, replica: Submits, group: str) -> None:
        """This is the state of that group, and calls go through this replica."""
        self.state_kinds()  # what cannot be read is an error here, and not in the middle of a message
        for method in self._methods.values():
            _ = method.arguments
        object.__setattr__(self, "_submits", replica)
        object.__setattr__(self, "group", group)

    def submits_to(self, name: str) -> Submits:
        """Where a call goes."""
        if self._applying:
            raise BraidcastError(
                f"{name} was called while a message is applied: put what both do into a plain method, and call that"
            )
        if self._submits is None:
            raise BraidcastError(f"{name} was called outside of a replica: give the object to `Replica`, and open it")
        return self._submits

    # -- a state machine ---------------------------------------------------------------------------------------------

    def apply(self, delivery: Delivery) -> Any:
        """What a call does."""
        try:
            name, arguments = _call.decode(delivery.payload)
            method = self._methods[name]
            values = method.arguments.decode(arguments)
        except (*UNREADABLE, KeyError) as error:
            raise BraidcastError(f"a message that calls no method of {type(self).__name__}: {error}") from None
        object.__setattr__(self, "group", delivery.group)
        object.__setattr__(self, "delivery", delivery)
        object.__setattr__(self, "_applying", True)
        try:
            return method.function(self, *values)
        finally:
            object.__setattr__(self, "_applying", False)

    def snapshot(self) -> bytes:
        """The annotated state, the same bytes for the same state."""
        return _encode({name: getattr(self, name) for name in self.state_kinds() if hasattr(self, name)})

    def restore(self, state: bytes) -> None:
        """The state as it was; a field that the class has got since keeps the value that it has."""
        kinds = self.state_kinds()
        for name, raw in _fields.decode(state).items():
            if name not in kinds:
                raise TypeError(f"{type(self).__name__} has no {name}, which is in its state")
            setattr(self, name, msgspec.msgpack.decode(raw, type=kinds[name]))
