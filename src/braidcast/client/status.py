"""How the nodes of a cluster say they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from braidcast.client.link import Line, Link
from braidcast.client.places import client_name
from braidcast.core.topology import Pid
from braidcast.wire.service import Status, StatusRefused, StatusWanted
from braidcast.wire.subject import new_client_id

if TYPE_CHECKING:
    from braidcast.wire.certificates import Certificates

ANSWER_S = 2.0


@dataclass(frozen=True)
class NodeStatus:
    """The answer of one node, or None."""

    name: str
    address: str
    answer: dict[str, Any] | None
    trouble: str


async def statuses(
    addresses: Sequence[str], cluster: str = "", wait_s: float = ANSWER_S, certificates: Certificates | None = None
) -> list[NodeStatus]:
    """Ask every node; those that do not answer in time have no answer."""
    answers: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    link = Link(addresses, new_client_id(client_name(certificates)), cluster, certificates)
    everybody = asyncio.Event()

    def hear(line: Line, sender: Pid, status: Status) -> None:
        answers[line.node.name] = json.loads(status.text)
        look()

    def hear_no(line: Line, sender: Pid, no: StatusRefused) -> None:
        refused[line.node.name] = no.why
        look()

    def look() -> None:
        if len(answers) + len(refused) == len(link.lines):
            everybody.set()

    def ask(line: Line) -> None:
        link.say(line, StatusWanted())

    await link.open()
    try:
        link.listen(Status, hear)
        link.listen(StatusRefused, hear_no)
        link.on_connected.append(ask)
        for line in link.lines.values():
            ask(line)
        with suppress(TimeoutError):
            await asyncio.wait_for(everybody.wait(), wait_s)
        return [
            NodeStatus(name, line.node.address, answers.get(name), refused.get(name, line.trouble))
            for name, line in link.lines.items()
        ]
    finally:
        await link.close()


def groups_with_leader(answers: Iterable[NodeStatus]) -> dict[str, str]:
    """The groups of which some node says that it leads them, and which."""
    return {
        replica["group"]: status.name
        for status in answers if status.answer is not None
        for replica in status.answer["replicas"] if replica["role"] in ("leader", "member")
    }  # fmt: skip


def is_settled(answers: Iterable[NodeStatus]) -> bool:
    """Whether every node answers, and all replicas of each group have delivered the same and have no more to do."""
    reached: dict[str, set[int]] = {}
    for status in answers:
        if status.answer is None:
            return False
        for replica in status.answer["replicas"]:
            if replica["backlog"]:
                return False
            reached.setdefault(replica["group"], set()).add(replica["gts"])
    return all(len(marks) == 1 for marks in reached.values())
