"""How a driver is handed a protocol, and how the text of an option becomes its value.

Only the registry and tests name protocols. A driver receives a `Protocol` and asks it for processes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from braidcast.core.client import Multicast, Redirect, Refused, Reply
from braidcast.core.errors import OptionError
from braidcast.core.process import Outbox, Process, Ticks
from braidcast.core.topology import Topology


@dataclass(frozen=True)
class Protocol:
    """What a driver needs to know of a protocol, and nothing more."""

    name: str
    summary: str
    make: Callable[[Outbox, Topology, Any], Process]
    options: type
    """A frozen dataclass; every field has a default and a line of documentation."""
    check_topology: Callable[[Topology], None] = lambda _: None
    timers: tuple[type, ...] = ()
    """What its processes only say to themselves, later: no peer may send it."""
    from_clients: tuple[type, ...] = (Multicast,)
    """What clients may send to its processes,"""
    to_clients: tuple[type, ...] = (Reply, Redirect, Refused)
    """and what they are answered with."""
    recorded: tuple[type, ...] = ()
    """What its histories hold besides inputs, records and core's deliveries: notes, and deliveries of its own."""
    suspicion: type | None = None
    """The timer that makes a process suspect its leader; the explorer fires it at any moment."""
    rejoins: bool = False
    """Whether a member that lost its disk can come back, if an operator says so."""
    tolerates_faults: bool = True
    """Whether a campaign may crash processes, lose sessions and cut links."""
    paced: Callable[[Any, Ticks], Any] = lambda options, _: options
    """The options with time-outs that suit a network whose usual delay is so many ticks."""
    variants: tuple[Mapping[str, str], ...] = ({},)
    """Settings of options that a campaign goes through."""
    promises: tuple[str, ...] = ("genuine",)
    """What its histories are judged by beyond what every atomic multicast owes: `genuine`, `fifo`."""
    sometimes: tuple[str, ...] = ()
    """Notes (snake_case) that a campaign with faults must have seen at least once, or it proves nothing."""
    never_on: Callable[[Topology], Collection[str]] = lambda _: ()
    """Which of these cannot occur on a topology, as a group of one has nobody to catch up with."""
    forgets_after: Callable[[Any], Ticks] | None = None
    """With these options, how long after its last message a process without faults has forgotten all of them but
    for tombstones; None if it may keep them."""
    keeps: tuple[str, ...] = ()
    """Slots of a process that may go on naming old messages, because they are replaced as a whole, not added to."""

    def parse_options(self, pairs: Mapping[str, str], base: Any = None) -> Any:
        """Options with the given ones set from text; all others as in `base`, by default the protocol's defaults."""
        values = self.parse_values(pairs)
        try:
            return dataclasses.replace(self.options() if base is None else base, **values)
        except ValueError as error:
            raise OptionError(f"{self.name}: {error}") from None

    def parse_values(self, pairs: Mapping[str, str]) -> dict[str, Any]:
        """The values of some options from text; whether they suit the others is not looked at."""
        kinds = get_type_hints(self.options)
        known = [f.name for f in dataclasses.fields(self.options)]
        values: dict[str, Any] = {}
        for name, text in pairs.items():
            if name not in known:
                raise OptionError(f"{self.name} has no option {name!r}: it has {', '.join(known) or 'none'}")
            values[name] = _value(self.name, name, kinds[name], text)
        return values


def _value(protocol: str, name: str, kind: Any, text: str) -> Any:
    if kind is bool:
        if text.lower() in ("true", "on", "yes", "1"):
            return True
        if text.lower() in ("false", "off", "no", "0"):
            return False
        raise OptionError(f"{protocol} option {name} takes on or off, not {text!r}")
    if kind is int:
        try:
            return int(text.replace("_", ""))
        except ValueError:
            raise OptionError(f"{protocol} option {name} takes a whole number, not {text!r}") from None
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise OptionError(f"{protocol} option {name} takes {' or '.join(get_args(kind))}, not {text!r}")
        return text
    raise TypeError(f"option {name} of {protocol} has a type that text cannot give: {kind}")
