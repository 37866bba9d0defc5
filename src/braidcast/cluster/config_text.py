"""Writing the configuration of a cluster on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braidcast.cluster.config import Layout
from braidcast.settings.toml_lines import toml_key, toml_value

ADMIN = "admin"
"""The client that the users of a local cluster with TLS are, unless they say otherwise."""


def render_local(
    protocol: str,
    ports: Sequence[int],
    *,
    name: str = "local",
    groups: int | Sequence[str] = 3,
    replicas: int = 3,
    layout: Layout = "colocated",
    unix: bool = False,
    tls: bool = False,
    admin_ports: Sequence[int] = (),
    settings: Mapping[str, Mapping[str, str | int | Sequence[str]]] | None = None,
) -> str:
    """The file of a cluster on this machine, with a port for each node: as many as replicas, in a group or in all.

    `colocated`: nodes n1, n2, ... each host a replica of every group. `spread`: each replica has a node, g0-1 and so
    on. `tls`: with certificates in `certs/`, which `certify_cluster` makes, and a client `admin` with every right.
    With `admin_ports` each node has an admin port. `settings` says, per section (`cluster`, `cluster.options`,
    `limits`, `timing`), what is not as by default.
    """
    names = [f"g{number}" for number in range(groups)] if isinstance(groups, int) else groups
    each = range(1, replicas + 1)
    hosts = {g: [f"{g}-{i}" if layout == "spread" else f"n{i}" for i in each] for g in names}
    nodes = list(dict.fromkeys(node for members in hosts.values() for node in members))
    given = dict(settings or {})
    sections: dict[str, Mapping[str, str | int | Sequence[str]]] = {
        "cluster": {"name": name, "protocol": protocol, **given.pop("cluster", {})},
        "cluster.options": given.pop("cluster.options", {}),
        "groups": hosts,
    }
    for place, (node, port) in enumerate(zip(nodes, ports, strict=True)):
        more = {"unix": f"run/{node}.sock"} if unix else {}
        if admin_ports:
            more["admin"] = f"127.0.0.1:{admin_ports[place]}"
        sections[f"nodes.{node}"] = {"address": f"127.0.0.1:{port}", "data": f"data/{node}", **more}
    if tls:
        sections["tls"] = {"authority": "certs/authority.pem", "identity": ADMIN}
        sections[f"clients.{ADMIN}"] = {"send": ["*"], "read": ["*"], "status": True}
    of = "one" if layout == "spread" else "every"
    blocks = [
        f"# Nodes on this machine: {len(nodes)}; each hosts a replica of {of} group.\n"
        "# docs/configuration.md explains every key; `braidcast config check FILE` checks what you change."
    ]
    for header, table in {**sections, **given}.items():
        comment = "  # the order of groups and nodes numbers the processes: keep it" if header == "groups" else ""
        lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items()]
        if lines:
            blocks.append("\n".join([f"[{header}]{comment}", *lines]))
    return "\n\n".join(blocks) + "\n"
