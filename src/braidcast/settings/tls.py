"""Where certificates and keys are: `[tls]` of a configuration, which nodes and clients read alike.

Who has no paths of its own finds its files beside the certificate of the authority, as `braidcast certs` writes them:
`node-NAME.pem` and `node-NAME.key`, `client-NAME.pem` and `client-NAME.key`. Paths are relative to the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from braidcast.settings.key_lines import KeyPath
from braidcast.settings.toml_lines import Reading, Text, dotted, parse_name, parse_path

Kind = Literal["node", "client"]
"""Of those whom a certificate may name."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files by which someone shows who they are, and by which they know others: PEM."""

    authority: Path
    """The certificates of the authority that signs for all nodes and clients of the cluster."""
    certificate: Path
    """What this one shows, and the certificates between it and the authority, if there are any."""
    key: Path
    """Its private key, without a passphrase."""


def file_of(doc: str, example: str, absent: str = "") -> Text:
    """A key that takes the path of a file."""
    return Text(doc, "a path", parse_path, example, absent)


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """`[tls]`. Paths are absolute."""

    authority: Annotated[
        Path,
        file_of("The certificate, or several, of the authority that signs for the nodes and clients of this cluster, "
                "and of no other.", "certs/authority.pem"),
    ]  # fmt: skip
    certificate: Annotated[
        Path | None,
        file_of("What a node shows unless `[nodes.NAME]` says otherwise.", "/etc/braidcast/node.pem",
                "`node-NAME.pem` beside `authority`"),
    ] = None  # fmt: skip
    key: Annotated[
        Path | None,
        file_of("Its private key.", "/etc/braidcast/node.key", "`node-NAME.key` beside `authority`"),
    ] = None  # fmt: skip
    identity: Annotated[
        str | None,
        Text("Which client someone is who uses this file and does not say.", "the name of a client", parse_name,
             "alice", absent="clients have to say"),
    ] = None  # fmt: skip

    def credentials(
        self, kind: Kind, name: str, certificate: Path | None = None, key: Path | None = None
    ) -> Credentials:
        """The files of a node or a client, which may have paths of its own."""
        beside = self.authority.parent / f"{kind}-{name}"
        return Credentials(
            self.authority, certificate or beside.with_name(f"{beside.name}.pem"),
            key or beside.with_name(f"{beside.name}.key"),
        )  # fmt: skip


def read_tls(read: Reading, base: Path, *, of_any_version: bool = False) -> TlsConfig | None:
    """`[tls]` of a file in the directory `base`; None if it is absent, or something is wrong with it."""
    table = read.table(read.document, ("tls",))
    if table is None:
        return None
    found = read.settings(TlsConfig, table, ("tls",), also=table if of_any_version else ())
    values = own_files(read, found, ("tls",), base)
    return TlsConfig(**{**values, "authority": base / values["authority"]}) if "authority" in values else None


def own_files(read: Reading, values: Mapping[str, Any], at: KeyPath, base: Path) -> dict[str, Any]:
    """The values of a section, `certificate` and `key` in it as absolute paths; it has both or neither."""
    found = {name: base / value if name in ("certificate", "key") else value for name, value in values.items()}
    for one, other in (("certificate", "key"), ("key", "certificate")):
        if one in values and (*at, other) not in read.lines:
            read.problem((*at, one), f"[{dotted(at)}] has {one}, but no {other}: add it, the two belong together")
    return found
