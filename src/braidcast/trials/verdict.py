"""Judging a trial: what the disks of the nodes hold in the end, and what the history says of the way there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.journal import Journal
from braidcast.core.client import MessageId
from braidcast.core.timestamps import Timestamp, show_timestamp
from braidcast.core.topology import Dest, Pid
from braidcast.history.raw import event_kinds, seal_raw, with_end
from braidcast.history.store import read_history
from braidcast.properties.check import judge_history

Summary = tuple[int, Timestamp, MessageId, int]
"""Of an entry of a journal: its index, timestamp, message, and a checksum of its payload."""


@dataclass(slots=True)
class Verdict:
    """What came of a trial."""

    delivered: int = 0
    """Messages that all of their groups have."""
    lost: list[str] = field(default_factory=list)
    """What was acknowledged and is not on every disk that should have it."""
    violations: list[str] = field(default_factory=list)
    judged: tuple[str, ...] = ()
    """The properties that were judged;"""
    skipped: dict[str, str] = field(default_factory=dict)
    """and the others, each with the histories that it can judge."""


def judge(
    config: ClusterConfig,
    acknowledged: Mapping[MessageId, tuple[Dest, Timestamp]],
    *,
    dead_clients: Sequence[Pid] = (),
    quiescent: bool = True,
) -> Verdict:
    """Judge a cluster that has been stopped, and whose nodes ran with `durability = "disk"`.

    `quiescent`: everything had been healed and was done, so termination may be judged.
    """
    verdict = Verdict()
    _judge_journals(config, acknowledged, verdict)
    if config.history is None:
        return verdict
    seal_raw(
        config.history, lambda _: event_kinds(config.protocol),
        lambda manifest: with_end(manifest, quiescent=quiescent, crashed=dead_clients),
    )  # fmt: skip
    judgement = judge_history(read_history(config.history))
    verdict.violations += [str(violation) for violation in judgement.violations]
    verdict.judged, verdict.skipped = judgement.judged, judgement.skipped
    return verdict


def _judge_journals(
    config: ClusterConfig, acknowledged: Mapping[MessageId, tuple[Dest, Timestamp]], verdict: Verdict
) -> None:
    where: dict[MessageId, tuple[Dest, set[int]]] = {}
    """The groups that have each message."""
    for number, group in enumerate(config.groups):
        expected: list[Summary] | None = None
        for node in group.nodes:
            journal = Journal(config.journal_folder(node, group.name), config.limits.journal_bytes_max)
            found: list[Summary] = []
            for entry in journal.entries_after(journal.after):
                found.append((entry.index, entry.gts, entry.id, crc32(entry.payload)))
                where.setdefault(entry.id, (entry.dest, set()))[1].add(number)
            ids = {id for _, _, id, _ in found}
            verdict.lost += [
                f"{id}, acknowledged at {show_timestamp(gts)}, is not in the journal of group {group.name} at {node}"
                for id, (dest, gts) in acknowledged.items() if number in dest and id not in ids
                and (not gts or gts > journal.after)
            ]  # fmt: skip
            if expected is None:
                expected = found
            elif found != expected:
                pairs = enumerate(zip(found, expected, strict=False))
                at = next((i for i, (one, other) in pairs if one != other), min(len(found), len(expected)))
                verdict.violations.append(
                    f"the journals of group {group.name} at {group.nodes[0]} and {node} differ from entry {at} on "
                    f"({len(expected)} and {len(found)} entries)"
                )
            journal.close()
    verdict.delivered = sum(1 for dest, groups in where.values() if groups.issuperset(dest))
