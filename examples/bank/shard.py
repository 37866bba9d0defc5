"""The accounts of one group, as a state machine, and what the bank does with them.

A transfer between two shards cannot be decided by one message to both: the shard of the target does not see the balance
of the source. So it takes two. The shard of the source sets the amount aside (`hold`), or refuses. Then one message to
both shards (`settle`) moves it, at one place in the one order: nobody can see it gone and not arrived.

`debit` and `credit` are the same without that: two messages, each ordered in its own shard only.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from braidcast import Replicated, replicated

SHARDS = ("shard0", "shard1", "shard2")
EVERYWHERE = frozenset(SHARDS)


def shard_of(account: str) -> str:
    """The group that has an account."""
    return SHARDS[crc32(account.encode()) % len(SHARDS)]


def shards_of(*accounts: str) -> frozenset[str]:
    """The groups that have them."""
    return frozenset(map(shard_of, accounts))


@dataclass
class Hold:
    """Money that is set aside in an account."""

    account: str
    amount: int


@dataclass
class Total:
    """What a shard has at one place of the order."""

    money: int
    lowest: int
    """The lowest balance of an account."""


class Shard(Replicated):
    """The accounts of one group."""

    balance: dict[str, int]
    held: dict[str, Hold]
    """By ticket."""
    closed: bool

    def __init__(self) -> None:
        self.balance = {}
        self.held = {}
        self.closed = False

    @replicated(to=lambda self, accounts, each: EVERYWHERE)
    def found(self, accounts: list[str], each: int) -> None:
        """The bank begins: each account has so much. Once is enough."""
        for account in accounts:
            if shard_of(account) == self.group:
                self.balance.setdefault(account, each)

    @replicated(to=lambda self, ticket, account, amount: shard_of(account))
    def hold(self, ticket: str, account: str, amount: int) -> bool:
        """Set money aside for a transfer, if the account has it."""
        if self.closed or not 0 < amount <= self.balance.get(account, 0):
            return False
        self.balance[account] -= amount
        self.held[ticket] = Hold(account, amount)
        return True

    @replicated(to=lambda self, ticket, source, target, amount: shards_of(source, target))
    def settle(self, ticket: str, source: str, target: str, amount: int) -> bool:
        """What was set aside arrives: in both shards at the same place of the order."""
        if self.closed:
            return False
        if shard_of(source) == self.group:
            del self.held[ticket]
        if shard_of(target) == self.group:
            self.balance[target] += amount
        return True

    @replicated(to=lambda self, ticket, account, amount: shard_of(account))
    def debit(self, ticket: str, account: str, amount: int) -> bool:
        """Half a transfer."""
        if self.closed or not 0 < amount <= self.balance.get(account, 0):
            return False
        self.balance[account] -= amount
        return True

    @replicated(to=lambda self, ticket, account, amount: shard_of(account))
    def credit(self, ticket: str, account: str, amount: int) -> bool:
        """The other half."""
        if self.closed:
            return False
        self.balance[account] += amount
        return True

    @replicated(to=lambda self, number: EVERYWHERE)
    def audit(self, number: int) -> Total:
        """What there is: the answers of all shards are one cut through the bank."""
        return self.total()

    @replicated(to=lambda self: EVERYWHERE)
    def close(self) -> Total:
        """Nothing moves any more; what was set aside stays so."""
        self.closed = True
        return self.total()

    def total(self) -> Total:
        """All the money, that which is set aside included."""
        money = sum(self.balance.values()) + sum(hold.amount for hold in self.held.values())
        return Total(money, min(self.balance.values(), default=0))


async def transfer(shard: Shard, ticket: str, source: str, target: str, amount: int) -> bool:
    """Move money; whether the source had it."""
    if not await shard.hold(ticket, source, amount):
        return False
    await shard.settle(ticket, source, target, amount)
    return True


async def transfer_separately(shard: Shard, ticket: str, source: str, target: str, amount: int) -> bool:
    """The same by two messages that are ordered one shard at a time. This is what goes wrong."""
    if not await shard.debit(ticket, source, amount):
        return False
    await shard.credit(ticket, target, amount)
    return True
