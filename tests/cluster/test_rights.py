"""Every right, cell by cell: what is asked for, whether it is granted, whether there is the group, TLS or none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import certificates
from tests.cluster.inprocess import Line, Nodes, config_in, nodes_of, run, until
from tests.cluster.test_tls import certs

from braidcast.cluster.authority import certify
from braidcast.core.client import MessageId, Multicast, Refused, Reply
from braidcast.core.topology import Group
from braidcast.wire.handshake import ClientHello, TurnedAway, Welcome
from braidcast.wire.service import (
    Deliveries,
    Status,
    StatusRefused,
    StatusWanted,
    Subscribe,
    SubscriptionEnded,
)
from braidcast.wire.subject import new_client_id

KNOWN, UNKNOWN = 0, 7
NOTHING = {"status": False}
NO_SUCH_GROUP, NO_REPLICA = "impossible destinations", "node n1 has no replica of that group"
GRANTS: dict[str, dict[str, dict[str, Any]]] = {
    "send": {"granted": {"send": ["g0"]}, "all": {"send": ["*"]}, "not": {"read": ["*"], "status": True}},
    "read": {"granted": {"read": ["g0"]}, "all": {"read": ["*"]}, "not": {"send": ["*"], "status": True}},
    "status": {"granted": {"status": True}, "not": {"send": ["*"], "read": ["*"]}},
}


class Asking:
    """A client called alice, or one without a name."""

    def __init__(self, line: Line, id: int) -> None:
        self.line, self.id = line, id

    async def send(self, *groups: Group) -> str:
        """Multicast; what came of it."""
        self.line.say([(self.id, (0,), Multicast(MessageId(self.id, 1, 1), groups, b"x"))])
        return await self.hears(Reply, Refused)

    async def read(self, group: Group) -> str:
        """Subscribe; what came of it."""
        self.line.say([(self.id, (), Subscribe(group, 0))])
        return await self.hears(Deliveries, SubscriptionEnded)

    async def status(self) -> str:
        """Ask for the status; what came of it."""
        self.line.say([(self.id, (), StatusWanted())])
        return await self.hears(Status, StatusRefused)

    async def hears(self, yes: type, no: type) -> str:
        await until(lambda: self.line.heard(yes) or self.line.heard(no), "an answer")
        return "ok" if self.line.heard(yes) else str(self.line.heard(no)[0].why)


@asynccontextmanager
async def asking(folder: Path, rights: dict[str, Any] | None) -> AsyncIterator[tuple[Nodes, Asking]]:
    """A node whose g0 has delivered a message, and alice with those rights; None: without TLS."""
    clients = None if rights is None else {"alice": rights}
    config = config_in(folder, groups=2, replicas=1, tls=rights is not None, clients=clients)
    async with nodes_of(config) as nodes:
        async def client(name: str) -> Asking:
            if rights is None:
                return Asking(await Line.to(nodes, "n1", ClientHello("", id := new_client_id())), id)
            return await of_name(nodes, name)

        first, alice = await client("admin"), await client("alice")
        assert await first.send(KNOWN) == "ok"
        yield nodes, alice
        first.line.end()
        alice.line.end()


async def of_name(nodes: Nodes, name: str) -> Asking:
    """A client with a certificate."""
    id, tls = new_client_id(name), certificates(certs(nodes.config), f"client-{name}").dial("n1")
    return Asking(await Line.to(nodes, "n1", ClientHello("", id), tls), id)


CELLS = [
    *product(("send", "read"), ("granted", "all", "not", "no TLS"), (KNOWN, UNKNOWN)),
    *product(("status",), ("granted", "not", "no TLS"), (KNOWN,)),
]


def expected_of(what: str, grant: str, group: Group) -> str:
    """The matrix."""
    name = "g0" if group == KNOWN else "number 7"
    verb = {"send": f"send to group {name}", "read": f"read group {name}", "status": "ask for the status"}[what]
    if grant == "not" or (grant == "granted" and group == UNKNOWN):
        return f"not permitted: client alice may not {verb}"
    if group == UNKNOWN:
        return NO_SUCH_GROUP if what == "send" else NO_REPLICA
    return "ok"


@pytest.mark.parametrize(("what", "grant", "group"), CELLS)
def test_cell_of_the_matrix(tmp_path: Path, what: str, grant: str, group: Group) -> None:
    async def work() -> None:
        rights = None if grant == "no TLS" else GRANTS[what][grant]
        async with asking(tmp_path, rights) as (nodes, alice):
            assert isinstance(alice.line.answer, Welcome)
            found = await (alice.status() if what == "status" else getattr(alice, what)(group))
            expected = expected_of(what, grant, group)
            assert found == expected
            refused = 1 if expected.startswith("not permitted") else 0
            assert nodes["n1"].refused.get("client: not permitted", 0) == refused
            assert not alice.line.ended

    run(work())


def test_message_to_two_groups_needs_the_right_to_both(tmp_path: Path) -> None:
    async def work() -> None:
        async with asking(tmp_path, {"send": ["g0"]}) as (nodes, alice):
            assert await alice.send(0, 1) == "not permitted: client alice may not send to group g1"
            assert nodes["n1"].by_group[1].journal.next == 1
            assert nodes["n1"].by_group[0].journal.next == 2  # what was there before

    run(work())


def test_status_is_asked_for_once_a_frame_and_says_what_was_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with asking(tmp_path, {"status": True}) as (_, alice):
            await alice.send(KNOWN)
            assert await alice.status() == "ok"
            (status,) = alice.line.heard(Status)
            assert json.loads(status.text)["refused"] == {"client: not permitted": 1}

    run(work())


@pytest.mark.parametrize(
    ("everybody", "own", "expected"),
    [
        ({"send": ["g0"]}, None, "ok"),
        ({"send": ["g0"]}, {"read": ["g0"]}, "not permitted: client alice may not send to group g0"),
        ({"read": ["g0"]}, {"send": ["g0"]}, "ok"),
        ({"read": ["g0"]}, None, "not permitted: client alice may not send to group g0"),
        ({"send": ["g0"]}, NOTHING, "turned away"),
        (NOTHING, None, "turned away"),
        (None, NOTHING, "turned away"),
        (None, None, "turned away"),
    ],
)
def test_own_section_counts_instead_of_everybody_s_and_who_has_no_right_is_turned_away(
    tmp_path: Path, everybody: dict[str, Any] | None, own: dict[str, Any] | None, expected: str
) -> None:
    async def work() -> None:
        sections = {name: rights for name, rights in (("*", everybody), ("alice", own)) if rights is not None}
        config = config_in(tmp_path, replicas=1, tls=True, clients=sections)
        if own is None:
            certify(certs(config), clients=["alice"])
        async with nodes_of(config) as nodes:
            alice = await of_name(nodes, "alice")
            if expected == "turned away":
                why = "client alice has no rights in cluster local: add them under [clients.alice]"
                assert alice.line.answer == TurnedAway(why, True)
            else:
                assert await alice.send(KNOWN) == expected
            alice.line.end()

    run(work())


# -- rights that change ------------------------------------------------------------------------------------------------


def rewrite(nodes: Nodes, old: str, new: str) -> None:
    file = nodes.config.path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    nodes["n1"].door.reload()


def test_rights_that_were_taken_away_end_the_connection_and_others_go_on(tmp_path: Path) -> None:
    async def work() -> None:
        rights = {"alice": {"send": ["g0"], "read": ["g0"]}, "bob": {"send": ["g0"]}}
        async with nodes_of(config_in(tmp_path, replicas=1, tls=True, clients=rights)) as nodes:
            alice, bob = await of_name(nodes, "alice"), await of_name(nodes, "bob")
            rewrite(nodes, 'send = ["g0"]\nread = ["g0"]', 'read = ["g0"]')
            await until(lambda: alice.line.ended, "the end")
            assert not bob.line.ended
            assert await bob.send(KNOWN) == "ok"
            again = await of_name(nodes, "alice")
            assert await again.send(KNOWN) == "not permitted: client alice may not send to group g0"
            rewrite(nodes, 'read = ["g0"]', "")
            await until(lambda: again.line.ended, "the end")
            assert isinstance((await of_name(nodes, "alice")).line.answer, TurnedAway)
            bob.line.end()

    run(work())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('send = ["g0"]', 'send = ["g9"]', "group g9, which is not under [groups]"),
        ('[groups]  #', '[groups]\ng1 = ["n1"]  #', "needs a restart"),
        ("[tls]", "[xyz]", "there is no section [xyz]"),
    ],
)
def test_configuration_that_is_wrong_or_has_changed_in_more_changes_no_rights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, old: str, new: str, says: str
) -> None:
    async def work() -> None:
        rights = {"alice": {"send": ["g0"]}}
        async with nodes_of(config_in(tmp_path, replicas=1, tls=True, clients=rights)) as nodes:
            alice = await of_name(nodes, "alice")
            rewrite(nodes, old, new)
            assert "the rights stay as they are: " in caplog.text
            assert says in caplog.text
            assert await alice.send(KNOWN) == "ok"
            alice.line.end()

    run(work())


def test_nothing_changes_for_those_without_a_certificate(tmp_path: Path) -> None:
    async def work() -> None:
        async with asking(tmp_path, None) as (nodes, alice):
            nodes["n1"].door.reload()
            assert await alice.send(KNOWN) == "ok"

    run(work())
