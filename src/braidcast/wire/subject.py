"""Whom a certificate names, and the ids that are a client's own.

A certificate names one node or one client, as a URI among its alternative names: `braidcast:node:n1` or
`braidcast:client:alice`. Nothing else in it is looked at for that.

The id of a client with a certificate begins with a hash of its name. So every node can tell by itself whether an id is
that client's, without asking the others: it belongs to one name for ever, on all nodes, over restarts of all of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple, get_args

from braidcast.core.topology import Pid
from braidcast.settings.tls import Kind
from braidcast.settings.toml_lines import NAME

SCHEME = "braidcast"
CLIENT_ID_BIT = 1 << 62
"""In the id of every client, and of no process."""
CHANCE_BITS = 22
"""Of the id of a client with a certificate; the 40 above are the hash of its name."""


class Subject(NamedTuple):
    """A node or a client."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def uri(self) -> str:
        """As a certificate says it."""
        return f"{SCHEME}:{self.kind}:{self.name}"


def subject_in(uris: Iterable[str]) -> Subject | None:
    """Whom these name: exactly one node or client, or None."""
    found = [uri.split(":") for uri in uris if uri.startswith(f"{SCHEME}:")]
    if len(found) != 1 or len(found[0]) != 3:
        return None
    _, kind, name = found[0]
    return Subject(kind, name) if kind in get_args(Kind) and NAME.fullmatch(name) else None  # type: ignore[arg-type]  # the line tests that


def new_client_id(name: str = "") -> Pid:
    """An id that no other client has: of the client that a certificate names, or of one without a certificate."""
    if not name:
        return secrets.randbits(62) | CLIENT_ID_BIT
    return _first_id_of(name) | secrets.randbits(CHANCE_BITS)


def is_id_of(id: Pid, name: str) -> bool:
    """Whether the client of that name may have that id."""
    return id >> CHANCE_BITS == _first_id_of(name) >> CHANCE_BITS


def _first_id_of(name: str) -> Pid:
    hashed = sha256(f"{SCHEME}:client:{name}".encode()).digest()
    return CLIENT_ID_BIT | int.from_bytes(hashed[:5], "big") << CHANCE_BITS
