"""Takes messages out of the network's hands: holds them back, drops them, or moves each by a word of the scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from braidcast.core.application import Connected
from braidcast.core.topology import Pid
from braidcast.simulator.network import Network
from braidcast.simulator.node import Node


class Rule(NamedTuple):
    """Which messages; None is any."""

    kind: str | None
    sender: Pid | None
    to: Pid | None

    def covers(self, sender: Pid, to: Pid, message: Any) -> bool:
        """Whether a message is one of these."""
        return (
            (self.kind is None or type(message).__name__ == self.kind)
            and (self.sender is None or self.sender == sender)
            and (self.to is None or self.to == to)
        )


class Flight(NamedTuple):
    """A message that waits for somebody to let it go."""

    sender: Pid
    to: Pid
    message: Any


class Stage:
    """Asked about every message that is sent."""

    def __init__(self, network: Network, *, manual: bool) -> None:
        self.network = network
        self.manual = manual
        self.holds: list[Rule] = []
        self.drops: list[Rule] = []
        self.flights: list[Flight] = []
        """What is held back, oldest first; in a manual scenario everything that is in flight."""

    def intercept(self, sender: Pid, to: Pid, message: Any) -> bool:
        """Take a message over, or leave it to the network."""
        if any(rule.covers(sender, to, message) for rule in self.drops):
            self.network.lost += 1
            return True
        if self.manual or any(rule.covers(sender, to, message) for rule in self.holds):
            self.flights.append(Flight(sender, to, message))
            return True
        return False

    def release(self, rule: Rule) -> None:
        """Let held messages go: they are sent now."""
        self.holds = [held for held in self.holds if held != rule]
        for flight in self._take(lambda f: rule.covers(*f)):
            link = self.network.link(flight.sender, flight.to)
            link.last = max(self.network.world.now + link.source.draw(), link.last)
            self.network.world.schedule(link.last, link, flight.message)

    def step(self, to: Pid, sender: Pid, kind: str) -> bool:
        """The oldest message of that kind on that channel reaches its receiver; False if there is none."""
        rule = Rule(None if kind == "*" else kind, sender, to)
        found = next((flight for flight in self.flights if rule.covers(*flight)), None)
        if found is None:
            node = self.network.endpoints[to]
            if kind != Connected.__name__ or not isinstance(node, Node):
                return False
            node.hear_of_session(sender)
            return True
        self.flights.remove(found)
        self.network.endpoints[to].receive(sender, found.message)
        return True

    def lose(self, covers: Callable[[Flight], bool]) -> None:
        """What is in flight and covered is lost."""
        for _ in self._take(covers):
            self.network.lost += 1

    def _take(self, covers: Callable[[Flight], bool]) -> Iterator[Flight]:
        taken = [flight for flight in self.flights if covers(flight)]
        self.flights = [flight for flight in self.flights if not covers(flight)]
        return iter(taken)

    def channels(self) -> str:
        """What could be stepped, for errors."""
        kinds = dict.fromkeys(f"{f.to} <- {f.sender} {type(f.message).__name__}" for f in self.flights)
        return ", ".join(kinds) or "nothing"
