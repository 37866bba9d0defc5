"""Where a cluster is: its configuration, the directory of `braidcast up`, or addresses.

Of a configuration a client reads the name of the cluster and the addresses of its nodes; the rest is the business of
those who run it, and may be of a later version.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from braidcast.client.errors import ClusterUnreachable
from braidcast.client.link import Link
from braidcast.client.sender import new_client_id
from braidcast.core.topology import Pid
from braidcast.settings import CLUSTER_FILE
from braidcast.settings.toml_lines import Reading, Text, parse_address, parse_name, read_text


@dataclass(frozen=True, slots=True)
class Place:
    """How to find a cluster."""

    addresses: tuple[str, ...]
    name: str = ""
    """Empty: any."""


Cluster = str | os.PathLike[str] | Iterable[str] | Place
"""A file, a directory, addresses in one text with commas between, or a list of addresses; or what they name."""


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """What a client reads of `[cluster]`."""

    name: Annotated[str, Text("What it is called.", "a name", parse_name, "shop")]


@dataclass(frozen=True, slots=True)
class NodeSection:
    """What a client reads of `[nodes.NAME]`."""

    address: Annotated[str, Text("Where it listens.", "host:port", parse_address, "127.0.0.1:7101")]


def place_of(cluster: Cluster) -> Place:
    """What `cluster` names; nothing is looked up on the network."""
    if isinstance(cluster, Place):
        return cluster
    if isinstance(cluster, str | os.PathLike):
        path = Path(cluster)
        if path.is_dir():
            path = path / CLUSTER_FILE
        if path.suffix == ".toml" or path.is_file() or not isinstance(cluster, str):
            return _place_in(path)
        cluster = cluster.split(",")
    addresses = tuple([_address(text.strip()) for text in cluster])
    if not addresses:
        raise ClusterUnreachable("a cluster has at least one address", is_final=True)
    return Place(addresses)


def _address(text: str) -> str:
    try:
        return parse_address(text)
    except ValueError as error:
        why = str(error) or f"is {text!r}, neither a file nor host:port"
        raise ClusterUnreachable(f"the address of a cluster {why}", is_final=True) from None


def _place_in(path: Path) -> Place:
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
    if read.found:
        raise ClusterUnreachable(read.problems(str(path))[0], is_final=True)
    return Place(tuple(addresses), own["name"])


async def link_to(cluster: Cluster, wait_s: float, client: Pid | None = None) -> Link:
    """A link that is open; tried again and again for so long while no node answers."""
    place = place_of(cluster)
    link = Link(place.addresses, client if client is not None else new_client_id(), place.name)
    await link.open_within(wait_s)
    return link
