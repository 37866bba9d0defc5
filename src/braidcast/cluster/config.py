"""The configuration of a cluster: one TOML file, the same on every machine, checked before anything starts.

The dataclasses below are the schema: a field annotated with a `Whole`, a `Choice` or a `Text` is a key of the file,
with its documentation; `docs/configuration.md` is made from them. Rules:
1. Every problem of a file is found in one go where that is possible, and says its line, what is wrong, what to do.
2. The order of `[groups]` and of the names in each numbers groups and processes, from 0 and without gaps.
3. Paths are relative to the file. Nothing is looked up: no name is resolved, no directory need exist.
4. What all nodes must agree on is in the fingerprint; addresses, paths, limits and times may differ.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from braidcast.cluster.config_security import (
    ClientConfig,
    WithoutTls,
    check_exposed,
    check_has_tls,
    clients_of,
    is_loopback,
)
from braidcast.cluster.config_topology import topology_of
from braidcast.core.errors import BraidcastError, OptionError
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Group, Pid, Pids, Topology
from braidcast.settings.key_lines import KeyPath
from braidcast.settings.tls import Credentials, TlsConfig, file_of, own_files, read_tls
from braidcast.settings.toml_lines import (
    Choice,
    Reading,
    Relation,
    Text,
    Whole,
    dotted,
    host_and_port,
    parse_address,
    parse_name,
    parse_path,
    read_text,
    settings_of,
    shown,
    toml_key,
    toml_value,
)

Durability = Literal["disk", "memory"]
HistoryDetail = Literal["order", "everything"]
WhenUnavailable = Literal["wait", "refuse"]
LogFormat = Literal["text", "json"]
AdminReach = Literal["loopback", "network"]
Layout = Literal["colocated", "spread"]

UNIX_PATH_BYTES_MAX: Final = 107
"""What the address of a unix socket holds on Linux, without its closing zero."""
FRAME_MARGIN_BYTES: Final = 32 * 1024
"""What a message needs beyond its payload: destinations, ballots and timestamps of all the groups there can be."""


class ConfigError(BraidcastError):
    """A file that is not the configuration of a cluster; its text is the first of its problems."""

    def __init__(self, file: str, problems: Sequence[str]) -> None:
        more = f" (and {len(problems) - 1} more: braidcast config check {file} shows all)" if problems[1:] else ""
        super().__init__(problems[0] + more)
        self.problems: tuple[str, ...] = tuple(problems)
        """One line each, in the order of the file."""


class UnknownName(BraidcastError):
    """A group or a node that the cluster does not have."""


# ---------------------------------------------------------------------------------------------------------------
# The file.

_MS_MAX: Final = 3_600_000
_FRAME_MIN: Final = FRAME_MARGIN_BYTES + 1
_FRAME_MAX: Final = 1 << 30
_BYTES_MAX: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a node takes in and keeps."""

    frame_bytes_max: Annotated[int, Whole("The largest frame sent or accepted.", _FRAME_MIN, _FRAME_MAX)] = 16 << 20
    peer_buffer_bytes_max: Annotated[
        int, Whole("What may wait to be written to one peer; at least a frame.", _FRAME_MIN, _BYTES_MAX)
    ] = 64 << 20
    client_buffer_bytes_max: Annotated[
        int, Whole("What may wait to be written to one client; at least a frame.", _FRAME_MIN, _BYTES_MAX)
    ] = 16 << 20
    payload_bytes_max: Annotated[int, Whole("The largest payload of a message.", 1, _FRAME_MAX)] = 1 << 20
    pending_messages_max: Annotated[
        int, Whole("With this many undelivered messages at a replica, its node stops reading from clients.", 1, 10**9)
    ] = 100_000
    pending_bytes_max: Annotated[
        int, Whole("The same for their payloads, in bytes; and for what waits for a disk.", 1, _BYTES_MAX)
    ] = 256 << 20
    connections_max: Annotated[
        int, Whole("How many connections of clients a node accepts at a time; those of peers do not count.", 1, 10**6)
    ] = 1_000
    journal_bytes_max: Annotated[
        int, Whole("What each replica keeps of delivered messages on disk, for subscribers.", 4096, _BYTES_MAX)
    ] = 1 << 30
    segment_bytes: Annotated[int, Whole("The log goes on in a new file after so much.", 4096, 1 << 34)] = 64 << 20
    checkpoint_bytes_min: Annotated[
        int, Whole("How much the log must have grown before another checkpoint is taken.", 1, _BYTES_MAX)
    ] = 16 << 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of connections; those of the protocol are its own options."""

    reconnect_ms_min: Annotated[int, Whole("The first wait before a lost peer is dialled again.", 1, _MS_MAX)] = 20
    reconnect_ms_max: Annotated[int, Whole("The waits double up to this.", 1, _MS_MAX)] = 1_000
    ping_ms: Annotated[int, Whole("How often something is sent on an idle connection.", 1, _MS_MAX)] = 500
    silence_ms_max: Annotated[int, Whole("A connection silent for this long is closed.", 1, _MS_MAX)] = 2_000
    connect_ms_max: Annotated[int, Whole("How long dialling may take.", 1, _MS_MAX)] = 1_000
    handshake_ms_max: Annotated[int, Whole("How long a new connection may be nameless.", 1, _MS_MAX)] = 2_000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A group: the nodes that host its replicas, and the process that each hosts."""

    name: str
    nodes: tuple[str, ...]
    pids: Pids


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A node: one process of the operating system."""

    name: str
    address: Annotated[
        str,
        Text("Where it listens, and how others reach it; an IPv6 host in brackets.", "host:port", parse_address,
             "127.0.0.1:7101"),
    ]  # fmt: skip
    data: Annotated[
        Path,
        Text("The directory of its logs and snapshots.", "a path", parse_path, "data/n1",
             absent="`data/` and the name of the node"),
    ]  # fmt: skip
    unix: Annotated[
        Path | None,
        Text(f"A unix socket where it listens, too, for peers on its machine; at most {UNIX_PATH_BYTES_MAX} bytes.",
             "a path", parse_path, "run/n1.sock", absent="there is none"),
    ] = None  # fmt: skip
    peer_address: Annotated[
        str | None,
        Text("Where other nodes reach it, if not at its address: a port that is forwarded to it, say.", "host:port",
             parse_address, "10.0.0.1:7101", absent="its address"),
    ] = None  # fmt: skip
    certificate: Annotated[Path | None, file_of("What it shows.", "n1.pem", "that of `[tls]`")] = None
    key: Annotated[Path | None, file_of("Its private key.", "n1.key", "that of `[tls]`")] = None
    admin: Annotated[
        str | None,
        Text("Where it answers `/metrics`, `/healthz` and `/status` over HTTP, and lets its operator say who leads.",
             "host:port", parse_address, "127.0.0.1:7201", absent="nowhere"),
    ] = None  # fmt: skip
    admin_reach: Annotated[
        AdminReach,
        Choice('"loopback": `admin` must be an address of this machine alone. "network": any, and whoever reaches it '
               "can read all that is there and say who leads, without TLS.", AdminReach),
    ] = "loopback"  # fmt: skip

    @property
    def host(self) -> str:
        """The host of its address, an IPv6 one without brackets."""
        return host_and_port(self.address)[0]

    @property
    def port(self) -> int:
        """The port of its address."""
        return host_and_port(self.address)[1]

    @property
    def machine(self) -> str:
        """Equal for nodes that are on one machine as far as their addresses tell."""
        return "localhost" if is_loopback(self.address) else self.host


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A file, read and found to be sound. Paths are absolute."""

    name: Annotated[
        str,
        Text("What the cluster is called. Nodes and clients of another one are refused.",
             "1 to 63 letters, digits, - or _", parse_name, "shop"),
    ]  # fmt: skip
    protocol: Annotated[Protocol, Text("What orders the messages.", "the name of a protocol", str, "NAME")]
    options: Any
    """The protocol's options, parsed."""
    option_pairs: Mapping[str, str]
    """The options that the file sets, as text."""
    groups: tuple[GroupConfig, ...]
    nodes: Mapping[str, NodeConfig]
    topology: Topology = field(compare=False, repr=False)
    path: Path
    durability: Annotated[
        Durability,
        Choice('"disk": what is acknowledged survives the loss of power at all nodes. "memory": it survives as long as '
               "a majority of each group keeps running; a node that restarts has forgotten.", Durability),
    ] = "disk"  # fmt: skip
    history: Annotated[
        Path | None,
        Text("A directory where nodes record what happened, for checking.", "a path", parse_path, "history",
             absent="nothing is recorded"),
    ] = None  # fmt: skip
    history_detail: Annotated[
        HistoryDetail,
        Choice('"order": what the order is judged by. "everything": sends, receives and records, too.', HistoryDetail),
    ] = "order"
    when_unavailable: Annotated[
        WhenUnavailable,
        Choice('A message for a group without a reachable quorum waits ("wait") or is refused with an error '
               '("refuse").', WhenUnavailable),
    ] = "wait"  # fmt: skip
    without_tls: Annotated[
        WithoutTls,
        Choice('Without `[tls]`, nodes listen on this machine only ("loopback"); or elsewhere, too, and whoever '
               "reaches them may do everything.", WithoutTls),
    ] = "loopback"  # fmt: skip
    log: Annotated[
        LogFormat,
        Choice('How nodes say what happens: "text", or "json", one object a line; `braidcast node --log-format` comes '
               "before it.", LogFormat),
    ] = "text"  # fmt: skip
    tls: TlsConfig | None = None
    clients: Mapping[str, ClientConfig] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)

    def node(self, name: str) -> NodeConfig:
        """The node of that name."""
        if name not in self.nodes:
            raise UnknownName(f"cluster {self.name} has no node {name!r}: choose {' or '.join(self.nodes)}")
        return self.nodes[name]

    def pids_of(self, node: str) -> Pids:
        """The processes that a node hosts, in the order of their groups."""
        self.node(node)
        return tuple(pid for g in self.groups for pid, host in zip(g.pids, g.nodes, strict=True) if host == node)

    def node_of(self, pid: Pid) -> str:
        """The node that hosts a process of the topology."""
        group = self.groups[self.topology.group_of[pid]]
        return group.nodes[pid - group.pids[0]]

    def credentials_of_node(self, name: str) -> Credentials | None:
        """What a node shows; None without TLS."""
        node, tls = self.node(name), self.tls
        if tls is None:
            return None
        return tls.credentials("node", name, node.certificate or tls.certificate, node.key or tls.key)

    def journal_folder(self, node: str, group: str) -> Path:
        """Where a node keeps what its replica of a group delivered."""
        return self.node(node).data / "journal" / group

    def group_number(self, name: str) -> Group:
        """The number of the group of that name."""
        for number, group in enumerate(self.groups):
            if group.name == name:
                return number
        names = " or ".join(group.name for group in self.groups)
        raise UnknownName(f"cluster {self.name} has no group {name!r}: choose {names}")

    def group_name(self, number: Group) -> str:
        """The name of a group of the topology."""
        return self.groups[number].name

    @property
    def fingerprint(self) -> str:
        """Equal at two nodes if they agree on all that they must; see rule 4.

        An option counts if it is not the protocol's default: a release that adds an option changes no fingerprint.
        """
        usual, names = self.protocol.options(), [f.name for f in fields(self.protocol.options)]
        values = {name: getattr(self.options, name) for name in sorted(names)}
        agreed = {
            "name": self.name,
            "protocol": self.protocol.name,
            "groups": [[group.name, list(group.nodes)] for group in self.groups],
            "options": {name: value for name, value in values.items() if value != getattr(usual, name)},
        }
        return hashlib.sha256(json.dumps(agreed).encode()).hexdigest()[:16]


# ---------------------------------------------------------------------------------------------------------------
# Reading it.

SECTIONS: Final[Mapping[str, type]] = {
    "cluster": ClusterConfig,
    "nodes.NAME": NodeConfig,
    "tls": TlsConfig,
    "clients.NAME": ClientConfig,
    "limits": Limits,
    "timing": Timing,
}
"""The sections whose keys are fixed; `[cluster.options]` and `[groups]` are not among them."""
RELATIONS: Final[Mapping[str, tuple[Relation, ...]]] = {
    "limits": (
        Relation("frame_bytes_max", "payload_bytes_max", plus=FRAME_MARGIN_BYTES),
        Relation("peer_buffer_bytes_max", "frame_bytes_max"),
        Relation("client_buffer_bytes_max", "frame_bytes_max"),
    ),
    "timing": (
        Relation("reconnect_ms_max", "reconnect_ms_min"),
        Relation("silence_ms_max", "ping_ms", times=2, plus=1),
    ),
}


def load_config(path: str | os.PathLike[str], protocol_named: Callable[[str], Protocol]) -> ClusterConfig:
    """Read a file; `protocol_named` gives the protocol of a name or raises a `BraidcastError`."""
    try:
        text = read_text(path)
    except ValueError as error:
        raise ConfigError(os.fspath(path), [str(error)]) from None
    return parse_config(text, path, protocol_named)


def parse_config(text: str, path: str | os.PathLike[str], protocol_named: Callable[[str], Protocol]) -> ClusterConfig:
    """Read the text of a file that stands, or would stand, at `path`; nothing is read from there."""
    file, place = os.fspath(path), Path(os.path.abspath(path))
    homes = {key: section for section, kind in SECTIONS.items() for key in settings_of(kind)}
    read = Reading(text, {**homes, "options": "cluster.options"})
    if not read.parse():
        raise ConfigError(file, read.problems(file))
    tables = _sections(read)
    values = read.settings(ClusterConfig, tables["cluster"], ("cluster",), also=("options",))
    protocol = _protocol(read, values, protocol_named)
    pairs, options = _options(read, tables["cluster"], protocol)
    nodes = _nodes(read, tables["nodes"], place.parent)
    groups = _groups(read, tables["groups"], tables["nodes"])
    topology = topology_of(read, groups, protocol)
    limits = read.settings(Limits, tables["limits"], ("limits",))
    read.related(Limits, limits, ("limits",), RELATIONS["limits"])
    timing = read.settings(Timing, tables["timing"], ("timing",))
    read.related(Timing, timing, ("timing",), RELATIONS["timing"])
    tls = read_tls(read, place.parent)
    clients = clients_of(read, tables["clients"], tables["groups"] or {}, place.parent)
    check_exposed(read, values.get("without_tls", "loopback"), {node.name: node.address for node in nodes.values()})
    if read.found:
        raise ConfigError(file, read.problems(file))
    if "history" in values:
        values["history"] = place.parent / values["history"]
    assert protocol is not None, "its absence is a problem"
    assert topology is not None, "its absence is a problem"
    return ClusterConfig(
        **{**values, "protocol": protocol},
        options=options,
        option_pairs=pairs,
        groups=tuple(groups),
        nodes=nodes,
        topology=topology,
        path=place,
        limits=Limits(**limits),
        timing=Timing(**timing),
        tls=tls,
        clients=clients,
    )


def _sections(read: Reading) -> dict[str, dict[str, Any] | None]:
    """The tables at the top of the file; None for what is absent or no table."""
    needed = {"cluster": "with name and protocol", "groups": 'with NAME = ["n1", ...]', "nodes": "as [nodes.NAME]"}
    names = (*needed, "limits", "timing", "tls", "clients")
    for name in read.document:
        if name not in names:
            read.unknown((name,), names)
    for name, how in needed.items():
        if read.document.get(name, {}) == {} and (name != "cluster" or name not in read.document):
            read.problem((name,), f"section [{name}] is missing or empty: write it, {how}")
    return {name: read.table(read.document, (name,)) for name in names}


def _protocol(read: Reading, cluster: Mapping[str, Any], protocol_named: Callable[[str], Protocol]) -> Protocol | None:
    try:
        return protocol_named(cluster["protocol"]) if "protocol" in cluster else None
    except BraidcastError as error:
        read.problem(("cluster", "protocol"), str(error))
        return None


def _options(read: Reading, cluster: Mapping[str, Any] | None, protocol: Protocol | None) -> tuple[dict[str, str], Any]:
    """The protocol's options, as text and parsed."""
    at: KeyPath = ("cluster", "options")
    pairs: dict[str, str] = {}
    before = len(read.found)
    for name, value in (read.table(cluster or {}, at) or {}).items():
        if not isinstance(value, str | int):
            what = f"takes a string, a whole number, true or false, not {shown(value)}: correct or remove it"
            read.problem((*at, name), f"{dotted((*at, name))} {what}")
            continue
        pairs[name] = toml_value(value) if isinstance(value, bool) else str(value)
        try:
            if protocol is not None:
                protocol.parse_values({name: pairs[name]})
        except OptionError as error:
            read.problem((*at, name), str(error))
    if protocol is None or len(read.found) > before:
        return pairs, None
    try:
        return pairs, protocol.parse_options(pairs)
    except OptionError as error:
        named = [name for name in re.findall(r"\w+", str(error)) if name in pairs]
        read.problem((*at, *named[:1]), str(error))
        return pairs, None


def _nodes(read: Reading, table: Mapping[str, Any] | None, base: Path) -> dict[str, NodeConfig]:
    """The nodes that have an address."""
    nodes: dict[str, NodeConfig] = {}
    for name in table or {}:
        at = ("nodes", name)
        read.name(at, "a node")
        values = own_files(read, read.settings(NodeConfig, read.table(table or {}, at), at), at, base)
        unix = base / values["unix"] if "unix" in values else None
        if unix is not None and (size := len(os.fsencode(unix))) > UNIX_PATH_BYTES_MAX:
            what = f"has {size} bytes as {shown(str(unix))}, at most {UNIX_PATH_BYTES_MAX} are possible"
            read.problem((*at, "unix"), f"{dotted((*at, 'unix'))} {what}: choose a shorter path, such as one in /run")
        if "address" in values:
            data = base / values.get("data", Path("data", name))
            nodes[name] = node = NodeConfig(**{**values, "name": name, "data": data, "unix": unix})
            if node.admin is not None and node.admin_reach == "loopback" and not is_loopback(node.admin):
                what = f"is {node.admin}, which others may reach: give a loopback address, such as 127.0.0.1:7201"
                read.problem((*at, "admin"), f'{dotted((*at, "admin"))} {what}, or add admin_reach = "network"')
    check_has_tls(read, table)
    owner: dict[object, str] = {}
    for node in nodes.values():
        for key, value, place in (
            ("address", node.address, node.address),
            ("admin", node.admin, node.admin),
            ("data", node.data, (node.machine, "data", os.path.normpath(node.data))),
            ("unix", node.unix, (node.machine, "unix", os.path.normpath(node.unix or ""))),
        ):
            if value is not None and (other := owner.setdefault(place, node.name)) != node.name:
                what = f"nodes {toml_key(other)} and {toml_key(node.name)} have one {key}, {value}"
                read.problem(("nodes", node.name, key), f"{what}: give each its own")
    return nodes


def _groups(read: Reading, table: Mapping[str, Any] | None, nodes: Mapping[str, Any] | None) -> list[GroupConfig]:
    """The groups as they are written, numbered."""
    groups: list[GroupConfig] = []
    first = 0
    for name, members in (table or {}).items():
        at, group = ("groups", name), f"group {toml_key(name)}"
        read.name(at, "a group")
        if not isinstance(members, list) or not all(isinstance(node, str) for node in members):
            read.problem(at, f'{dotted(at)} takes a list of names of nodes: write {toml_key(name)} = ["n1", ...]')
            members = []
        elif not members:
            read.problem(at, f"{group} has no nodes: list those that host its replicas, or remove it")
        for i, node in enumerate(members):
            if node in members[:i]:
                read.problem((*at, i), f"{group} has node {toml_key(node)} twice: each replica needs a node of its own")
            elif nodes and node not in nodes:
                near = difflib.get_close_matches(node, nodes, 1)
                hint = f"did you mean {toml_key(near[0])}?" if near else f"add [nodes.{toml_key(node)}]"
                read.problem((*at, i), f"{group} has node {toml_key(node)}, which is not under [nodes]: {hint}")
        groups.append(GroupConfig(name, tuple(members), tuple(range(first, first + len(members)))))
        first += len(members)
    hosts = {node for group in groups for node in group.nodes}
    for node in nodes or {}:
        if groups and all(group.nodes for group in groups) and node not in hosts:
            read.problem(("nodes", node), f"node {toml_key(node)} hosts no group: add it to one, or remove it")
    return groups
