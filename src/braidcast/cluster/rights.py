"""Who may do what at the door of a node: decided by the name in a client's certificate.

1. A client has the rights of its own section, or those of `[clients."*"]`. Who has neither is turned away.
2. A client has its own ids, and no others: see `wire.subject`. So nobody can send, or be told, in another's name.
3. A node is no client, and a client is no node. What one node passes on for a client was checked at its own door: peers
   are trusted.
4. Without TLS nobody has a name, and everybody may do everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from braidcast.cluster.config import ClusterConfig
from braidcast.cluster.config_security import ALL_GROUPS, EVERYBODY
from braidcast.core.topology import Dest, Group
from braidcast.wire.handshake import ClientHello
from braidcast.wire.service import NOT_PERMITTED
from braidcast.wire.subject import Subject, is_id_of


@dataclass(frozen=True, slots=True)
class Rights:
    """What one client may do."""

    client: str = ""
    """Its name; empty without TLS."""
    send: frozenset[Group] | None = None
    """None: to all groups, whichever there are."""
    read: frozenset[Group] | None = None
    status: bool = True

    def why_not_send(self, dest: Dest, names: Iterable[str]) -> str | None:
        """Why it may not multicast to these groups, if it may not."""
        if self.send is None or self.send.issuperset(dest):
            return None
        return f"{NOT_PERMITTED}: client {self.client} may not send to {_listed(set(dest) - self.send, names)}"

    def why_not_read(self, group: Group, names: Iterable[str]) -> str | None:
        """Why it may not read that group, if it may not."""
        if self.read is None or group in self.read:
            return None
        return f"{NOT_PERMITTED}: client {self.client} may not read {_listed([group], names)}"

    def why_not_ask(self) -> str | None:
        """Why it may not ask how the node is, if it may not."""
        return None if self.status else f"{NOT_PERMITTED}: client {self.client} may not ask for the status"


EVERYTHING = Rights()


def _listed(numbers: Collection[Group], names: Iterable[str]) -> str:
    known = dict(enumerate(names))
    of = "group" if len(numbers) == 1 else "groups"
    return f"{of} {', '.join([known.get(number, f'number {number}') for number in sorted(numbers)])}"


class TurnedAwayClient(Exception):
    """A client that is not let in."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        """What it is counted as."""


class Guard:
    """The rights of all clients of a configuration."""

    def __init__(self, config: ClusterConfig) -> None:
        numbers = {group.name: number for number, group in enumerate(config.groups)}

        def of(groups: tuple[str, ...] | None) -> frozenset[Group] | None:
            if ALL_GROUPS in (groups or ()):
                return None
            return frozenset([numbers[name] for name in groups or ()])

        self.config = config
        self.rights = {
            name: (of(client.send), of(client.read), client.status) for name, client in config.clients.items()
        }

    def admit(self, hello: ClientHello, subject: Subject | None) -> Rights:
        """What the client may do that says hello; raises `TurnedAwayClient` if it may not even do that."""
        if subject is None:
            return EVERYTHING
        if subject.kind != "client":
            why = f"{subject} is no client: use the certificate of one"
            raise TurnedAwayClient("client with the certificate of a node", why)
        found = self.of(subject.name)
        if found is None:
            why = f"{subject} has no rights in cluster {self.config.name}: add them under [clients.{subject.name}]"
            raise TurnedAwayClient("client without rights", why)
        if not is_id_of(hello.client, subject.name):
            why = f"{hello.client} is not an id of {subject}: each client has ids, and states, of its own"
            raise TurnedAwayClient("client with the id of another", why)
        return found

    def of(self, name: str) -> Rights | None:
        """The rights of the client of that name, if it has any."""
        found = self.rights.get(name) or self.rights.get(EVERYBODY)
        return None if found is None or found == (frozenset(), frozenset(), False) else Rights(name, *found)
