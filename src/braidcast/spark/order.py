"""Order without timestamps: all logs of a history merged in one task, in time and memory proportional to them.

*Merging*: a message is taken when it heads every log that holds it. What can never be taken is on a cycle or behind
one; if everything is taken, the order in which it was is an order of everything.

The same arrays answer whether the logs of a group are prefixes of one another. A log goes up to its first snapshot for
that, and whole into the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braidcast.core.client import MessageId
from braidcast.history.manifest import Manifest
from braidcast.properties.ordering import cycle_among
from braidcast.properties.violation import Violation
from braidcast.spark.judging import Known, violations_table

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """A log."""

    node: int
    group: int
    rank: tuple[int, int]
    """Where it comes among the logs: lost ones first, by when they were lost, then by place in the topology."""
    messages: Numbers
    """As numbers, in the order of delivery."""
    first_stretch: int
    """How many come before the first snapshot."""


def judge_order(known: Mapping[int, Known]) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    """What `applyInArrow` calls with the deliveries of each history."""

    def judge(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        history = key[0].as_py()
        return violations_table(history, order_violations(known[history], table))

    return judge


def order_violations(known: Known, table: pa.Table) -> Iterator[Violation]:
    """The violations of both properties of order."""
    ids, chains = read_chains(table, known.manifest)
    if "group_logs_are_prefixes" in known.judged:
        for group in range(len(known.manifest.topology)):
            of_group = [chain for chain in chains if chain.group == group]
            # Once each: a log that was lost and the one that goes on may differ from the longest at one place.
            yield from dict.fromkeys(_prefixes(known.manifest, of_group, ids))
    if "one_order" in known.judged and (stuck := merge([c.messages for c in chains], len(ids))) is not None:
        yield _cycle(known.manifest, chains, stuck, ids)


def read_chains(table: pa.Table, manifest: Manifest) -> tuple[Numbers, list[Chain]]:
    """The ids of all messages, and the logs in the order that the definitions have them in."""
    names = np.stack([np.asarray(table[name]) for name in ("client", "session", "seq")], axis=1)
    ids, numbers = np.unique(names, axis=0, return_inverse=True)
    place = {p: n for n, p in enumerate(p for members in manifest.topology for p in members)}
    node, log, position = (np.asarray(table[name]) for name in ("node", "log", "position"))
    order = np.lexsort((position, log, node))
    node, log, numbers = node[order], log[order], numbers.reshape(-1)[order]
    first = (np.asarray(table["stretch"]) == 0)[order]
    ended, group = table["ended"].take(pa.array(order)), np.asarray(table["group"])[order]
    ends = [*np.flatnonzero((np.diff(node) != 0) | (np.diff(log) != 0)) + 1, len(order)]
    chains, start = [], 0
    for end in ends:
        lost = ended[int(start)].as_py()
        rank = (1, place[int(node[start])]) if lost is None else (0, lost)
        chains.append(
            Chain(int(node[start]), int(group[start]), rank, numbers[start:end], int(first[start:end].sum()))
        )
        start = end
    return ids, sorted(chains, key=lambda chain: chain.rank)


def merge(chains: list[Numbers], count: int) -> Numbers | None:
    """The messages that can never be taken, or None if all can."""
    logs = [chain.tolist() for chain in chains]
    missing = np.bincount(np.concatenate(chains), minlength=count).tolist() if chains else [0] * count
    """In how many logs each message is not yet at the head."""
    place = [0] * len(logs)
    holders: dict[int, list[int]] = {}
    ready = []

    def head(number: int) -> None:
        if place[number] < len(logs[number]):
            message = logs[number][place[number]]
            missing[message] -= 1
            holders.setdefault(message, []).append(number)
            if not missing[message]:
                ready.append(message)

    for number in range(len(logs)):
        head(number)
    taken = 0
    while ready:
        taken += 1
        for number in holders.pop(ready.pop()):
            place[number] += 1
            head(number)
    return None if taken == count else np.flatnonzero(np.asarray(missing))


def _prefixes(manifest: Manifest, chains: list[Chain], ids: Numbers) -> Iterator[Violation]:
    if not chains:
        return
    longest = max(chains, key=lambda chain: chain.first_stretch)
    for chain in chains:
        mine = chain.messages[: chain.first_stretch]
        differing = np.flatnonzero(mine != longest.messages[: len(mine)])
        if len(differing):
            at = int(differing[0])
            yield Violation(
                "group_logs_are_prefixes", manifest.run, chain.group, chain.node, _id(ids, mine[at]),
                f"{_id(ids, longest.messages[at])} as delivery {at + 1}, as at node {longest.node}",
                f"{_id(ids, mine[at])}",
            )  # fmt: skip


def _cycle(manifest: Manifest, chains: list[Chain], stuck: Numbers, ids: Numbers) -> Violation:
    among = {int(number) for number in stuck}
    after: dict[MessageId, dict[MessageId, int]] = {}
    for chain in chains:
        numbers = chain.messages.tolist()
        for first, second in pairwise(numbers):
            if first in among:
                after.setdefault(_id(ids, first), {}).setdefault(_id(ids, second), chain.node)
    message, node, seen = cycle_among(after, {_id(ids, number) for number in among})
    group = next((g for g, members in enumerate(manifest.topology) if node in members), None)
    return Violation("one_order", manifest.run, group, node, message, "one order of all deliveries", seen)


def _id(ids: Numbers, number: int | np.int64) -> MessageId:
    return MessageId(*map(int, ids[number]))
