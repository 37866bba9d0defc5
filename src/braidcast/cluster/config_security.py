"""What a configuration says of security: `[tls]`, `[clients.NAME]`, and who listens where without TLS.

A right that nobody can check would be worse than none: `[clients]` and certificates of nodes ask for `[tls]`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from braidcast.settings.key_lines import KeyPath
from braidcast.settings.tls import file_of, own_files
from braidcast.settings.toml_lines import Flag, Names, Reading, dotted, host_and_port, ip_of, toml_key

WithoutTls = Literal["loopback", "anyone may send and read"]
EVERYBODY: Final = "*"
"""The section of those clients that have none of their own."""
ALL_GROUPS: Final = "*"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A client, or all that have no section of their own: what it may do."""

    name: str
    send: Annotated[
        tuple[str, ...] | None,
        Names('The groups that it may multicast to; "*" is all.', "a list of names of groups", ("accounts", "stock"),
              absent="none"),
    ] = None  # fmt: skip
    read: Annotated[
        tuple[str, ...] | None,
        Names('The groups whose deliveries it may read; "*" is all.', "a list of names of groups", (ALL_GROUPS,),
              absent="none"),
    ] = None  # fmt: skip
    status: Annotated[bool, Flag("Whether it may ask nodes how they are, which tells of all groups and nodes.")] = False
    certificate: Annotated[
        Path | None,
        file_of("What it shows, on the machine where it runs.", "alice.pem", "`client-NAME.pem` beside `authority`"),
    ] = None
    key: Annotated[
        Path | None, file_of("Its private key.", "alice.key", "`client-NAME.key` beside `authority`")
    ] = None  # fmt: skip


def clients_of(
    read: Reading, table: Mapping[str, Any] | None, groups: Collection[str], base: Path
) -> dict[str, ClientConfig]:
    """The clients of a file."""
    clients: dict[str, ClientConfig] = {}
    for name in table or {}:
        at = ("clients", name)
        if name != EVERYBODY:
            read.name(at, "a client")
        values = own_files(read, read.settings(ClientConfig, read.table(table or {}, at), at), at, base)
        for right in ("send", "read"):
            _check_groups(read, name, (*at, right), values.get(right) or (), groups)
        for key in ("certificate", "key"):
            if name == EVERYBODY and key in values:
                what = f"[{dotted(at)}] is for clients of any name: {key} belongs under [clients.NAME]"
                read.problem((*at, key), what)
        clients[name] = ClientConfig(name, **values)
    if clients and "tls" not in read.document:
        what = "[clients] says what clients may do, and without TLS nobody knows who they are: add [tls]"
        read.problem(("clients", next(iter(clients))), what)
    return clients


def _check_groups(read: Reading, client: str, at: KeyPath, named: Iterable[str], groups: Collection[str]) -> None:
    for i, group in enumerate(named):
        if group != ALL_GROUPS and group not in groups:
            near = difflib.get_close_matches(group, groups, 1)
            hint = f"did you mean {toml_key(near[0])}?" if near else 'name one of them, or "*" for all'
            what = f"client {toml_key(client)} may {at[-1]} group {toml_key(group)}, which is not under [groups]"
            read.problem((*at, i), f"{what}: {hint}")


def check_exposed(read: Reading, without_tls: WithoutTls, addresses: Mapping[str, str]) -> None:
    """Who can be reached from elsewhere needs TLS, or the word of whoever writes the file."""
    if "tls" in read.document or without_tls != "loopback":
        return
    for node, address in addresses.items():
        if not is_loopback(address):
            read.problem(
                ("nodes", node, "address"),
                f"node {toml_key(node)} listens at {address}, where everybody who reaches it could send and read: add "
                f'[tls], or write without_tls = "anyone may send and read" under [cluster]',
            )


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches it, as far as the text tells."""
    host = host_and_port(address)[0]
    ip = ip_of(host)
    return host == "localhost" if ip is None else ip.is_loopback


def check_has_tls(read: Reading, tables: Mapping[str, Any] | None) -> None:
    """Who has a certificate is in a cluster with TLS."""
    for node, table in (tables or {}).items():
        if isinstance(table, dict) and "certificate" in table and "tls" not in read.document:
            at = ("nodes", node, "certificate")
            read.problem(at, f"{dotted(at)} is for TLS: add [tls] with the certificate of its authority")

