"""Where a cluster is, and who asks: its configuration, the directory of `braidcast up`, or addresses.

Of a configuration a client reads the name of the cluster, the addresses of its nodes, and where certificates are; the
rest is the business of those who run it, and may be of a later version.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from braidcast.client.errors import ClusterUnreachable
from braidcast.client.link import Link
from braidcast.core.topology import Pid
from braidcast.settings import CLUSTER_FILE
from braidcast.settings.tls import Credentials, TlsConfig, file_of, own_files, read_tls
from braidcast.settings.toml_lines import NAME, Reading, Text, parse_address, parse_name, read_text
from braidcast.wire.subject import Subject, new_client_id

if TYPE_CHECKING:
    from braidcast.wire.certificates import Certificates

Identity = str | Credentials | None
"""Who asks, with TLS: a client of the configuration, or one by its files; None: the one that the configuration says."""



@dataclass(frozen=True, slots=True)
class Place:
    """How to find a cluster, and as whom."""

    addresses: tuple[str, ...]
    name: str = ""
    """Empty: any."""
    certificates: Certificates | None = None
    """Loaded; None without TLS."""


Cluster = str | os.PathLike[str] | Iterable[str] | Place
"""A file, a directory, addresses in one text with commas between, or a list of addresses; or what they name."""


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """What a client reads of `[cluster]`."""

    name: Annotated[str, Text("What it is called.", "a name", parse_name, "shop")]


@dataclass(frozen=True, slots=True)
class ClientSection:
    """What a client reads of `[clients.NAME]`."""

    certificate: Annotated[Path | None, file_of("What it shows.", "alice.pem", "beside the authority")] = None
    key: Annotated[Path | None, file_of("Its private key.", "alice.key", "beside the authority")] = None


@dataclass(frozen=True, slots=True)
class NodeSection:
    """What a client reads of `[nodes.NAME]`."""

    address: Annotated[str, Text("Where it listens.", "host:port", parse_address, "127.0.0.1:7101")]


def place_of(cluster: Cluster, identity: Identity = None) -> Place:
    """What `cluster` names; nothing is looked up on the network."""
    if isinstance(cluster, Place):
        return cluster
    if isinstance(cluster, str | os.PathLike):
        path = Path(cluster)
        if path.is_dir():
            path = path / CLUSTER_FILE
        if path.suffix == ".toml" or path.is_file() or not isinstance(cluster, str):
            return _place_in(path, identity)
        cluster = cluster.split(",")
    addresses = tuple([_address(text.strip()) for text in cluster])
    if not addresses:
        raise ClusterUnreachable("a cluster has at least one address", is_final=True)
    if isinstance(identity, str):
        why = f"addresses do not say where the certificate of client {identity} is: give its Credentials, or a file"
        raise ClusterUnreachable(why, is_final=True)
    return Place(addresses, "", _loaded(identity) if identity is not None else None)


def _address(text: str) -> str:
    try:
        return parse_address(text)
    except ValueError as error:
        why = str(error) or f"is {text!r}, neither a file nor host:port"
        raise ClusterUnreachable(f"the address of a cluster {why}", is_final=True) from None


def _place_in(path: Path, identity: Identity) -> Place:
    try:
        text = read_text(path)
    except ValueError as error:
        raise ClusterUnreachable(f"{error}; `braidcast up` starts a cluster", is_final=True) from None
    read = Reading(text, {})
    if read.parse():
        for name in ("cluster", "nodes"):
            if not read.document.get(name):
                read.problem((name,), f"section [{name}] is missing or empty: is this the configuration of a cluster?")
    if not read.found:
        cluster = read.table(read.document, ("cluster",))
        nodes = read.table(read.document, ("nodes",)) or {}
        own = read.settings(ClusterSection, cluster, ("cluster",), also=cluster or ())
        addresses = []
        for name in nodes:
            table = read.table(nodes, ("nodes", name))
            addresses.append(read.settings(NodeSection, table, ("nodes", name), also=table or ()).get("address", ""))
        tls = read_tls(read, Path(os.path.abspath(path)).parent, of_any_version=True)
        clients = read.table(read.document, ("clients",)) or {}
    if read.found:
        raise ClusterUnreachable(read.problems(str(path))[0], is_final=True)
    certificates = None
    if isinstance(identity, Credentials):
        certificates = _loaded(identity)
    elif tls is not None:
        certificates = _certificates(read, path, tls, clients, identity or tls.identity)
    elif identity is not None:
        why = f"{path} has no [tls], so nobody can show to be client {identity}: leave the identity out"
        raise ClusterUnreachable(why, is_final=True)
    return Place(tuple(addresses), own["name"], certificates)


def _certificates(
    read: Reading, path: Path, tls: TlsConfig, clients: Mapping[str, Any], name: str | None
) -> Certificates:
    if name is None:
        known = [client for client in clients if NAME.fullmatch(client)]
        which = f": {' or '.join(known)}" if known else ""
        why = f"{path} asks for a certificate: say with `identity` which client this is{which}"
        raise ClusterUnreachable(why, is_final=True)
    at = ("clients", name)
    table = read.table(clients, at) if name in clients else None
    values = read.settings(ClientSection, table, at, also=table or ())
    own = own_files(read, values, at, Path(os.path.abspath(path)).parent)
    if read.found:
        raise ClusterUnreachable(read.problems(str(path))[0], is_final=True)
    return _loaded(tls.credentials("client", name, own.get("certificate"), own.get("key")), Subject("client", name))


def _loaded(credentials: Credentials, me: Subject | None = None) -> Certificates:
    from braidcast.wire.certificates import Certificates, CertificatesUnusable  # few need it, and it takes a while

    files = Credentials(Path(credentials.authority), Path(credentials.certificate), Path(credentials.key))
    made = Certificates(files, me)
    try:
        made.load()
    except CertificatesUnusable as error:
        raise ClusterUnreachable(str(error), is_final=True) from None
    return made


def client_name(certificates: Certificates | None) -> str:
    """Whom they name; empty without TLS."""
    return certificates.subject.name if certificates is not None and certificates.subject is not None else ""


async def link_to(cluster: Cluster | Place, wait_s: float, client: Pid | None = None) -> Link:
    """A link that is open; tried again and again for so long while no node answers."""
    place = cluster if isinstance(cluster, Place) else place_of(cluster)
    if client is None:
        client = new_client_id(client_name(place.certificates))
    link = Link(place.addresses, client, place.name, place.certificates)
    await link.open_within(wait_s)
    return link
