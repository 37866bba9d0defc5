"""Somebody who reads what every shard delivered, and makes of it what the shards made of it: the judge of the bank.

It is no node: it follows the shards as any subscriber may, and applies what it reads to shards of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path

import msgspec

from braidcast import Delivery, Subscriber
from examples.bank.node import summary
from examples.bank.shard import SHARDS, Shard, Total

MOVES = ("settle", "debit", "credit")
CLOSED = -1
"""The number of the audit that closing is."""


@dataclass
class Seen:
    """What one shard did."""

    shard: Shard = field(default_factory=Shard)
    moves: list[str] = field(default_factory=list)
    """The tickets of what moved money in or out, in the order of the shard."""
    audits: dict[int, Total] = field(default_factory=dict)
    holds: int = 0
    refused: int = 0

    def take(self, delivery: Delivery) -> None:
        """What it did next."""
        if not delivery.payload:
            return
        name, arguments = msgspec.msgpack.decode(delivery.payload)
        result = self.shard.apply(delivery)
        if name in MOVES and result:
            self.moves.append(arguments[0])
        if name in ("hold", "debit"):
            self.holds += 1
            self.refused += not result
        if name == "audit":
            self.audits[arguments[0]] = result
        elif name == "close":
            self.audits[CLOSED] = result


@dataclass
class Verdict:
    """What came of a bank."""

    money: int
    """That there must be."""
    transfers: int
    between: int
    """Of them, between two shards."""
    refused: int
    sums: list[int]
    """At each cut; the first is that of the end."""
    lowest: int
    """The lowest balance at any cut."""
    inversions: int
    """How often two shards have two transfers one after the other in different orders."""
    same_states: bool
    """Whether all replicas ended with the state of the observer."""
    kills: int = 0

    @property
    def wrong_sums(self) -> list[int]:
        """The cuts at which money was missing, or too much."""
        return [found for found in self.sums if found != self.money]

    @property
    def ok(self) -> bool:
        """Whether this is a bank."""
        kept = self.sums and not self.wrong_sums and self.lowest >= 0
        return bool(kept and not self.inversions and self.same_states and self.transfers)


class Observer:
    """Reads all shards."""

    def __init__(self) -> None:
        self.seen = {group: Seen() for group in SHARDS}

    async def read(self, cluster: Path) -> None:
        """Everything, from the beginning until the bank is closed."""
        await asyncio.gather(*[self._follow(cluster, group, seen) for group, seen in self.seen.items()])

    async def _follow(self, cluster: Path, group: str, seen: Seen) -> None:
        async with Subscriber.connect(cluster, group=group, connect_timeout=30) as deliveries:
            async for delivery in deliveries:
                seen.take(delivery)
                if seen.shard.closed:
                    return

    def judge(self, money: int, states: list[dict[str, str]]) -> Verdict:
        """What came of it; `states` are those that the nodes ended with."""
        seen = list(self.seen.values())
        numbers = set.intersection(*[set(each.audits) for each in seen])
        cuts = [[each.audits[number] for each in seen] for number in sorted(numbers)]
        tickets = [set(each.moves) for each in seen]
        mine = summary({group: each.shard for group, each in self.seen.items()})
        return Verdict(
            money=money,
            transfers=len(set().union(*tickets)),
            between=len(set().union(*[one & other for one, other in combinations(tickets, 2)])),
            refused=sum(each.refused for each in seen),
            sums=[sum(total.money for total in cut) for cut in cuts],
            lowest=min((total.lowest for cut in cuts for total in cut), default=0),
            inversions=sum(inversions(one.moves, other.moves) for one, other in combinations(seen, 2)),
            same_states=bool(states) and all(state == mine for state in states),
        )


def inversions(one: list[str], other: list[str]) -> int:
    """How many neighbours among what both have in common stand the other way round in the other."""
    place = {ticket: at for at, ticket in enumerate(other)}
    common = [ticket for ticket in one if ticket in place]
    return sum(place[before] > place[after] for before, after in pairwise(common))
