"""The reference of the configuration as Markdown, made from the schema; `docs/configuration.md` is what this prints.

A section that is new in the schema is here by itself: its table from its keys, what is said above it from the docstring
of its dataclass. Only what no schema can say is written below.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from braidcast.cluster.config import RELATIONS, SECTIONS
from braidcast.core.protocol import Protocol
from braidcast.settings.toml_lines import settings_of, toml_value

HEAD: Final = """\
# Configuration

A cluster is described by one TOML file, the same on every machine. `braidcast config check FILE` says everything that
is wrong with it, each problem with its line; `braidcast config show-defaults` prints every key with its default, and
with `--protocol NAME` the options of that protocol. This page is what `braidcast config reference` prints.

```toml
[cluster]
name = "shop"
protocol = "whitebox"

[groups]
accounts = ["n1", "n2", "n3"]
stock = ["n1", "n2", "n3"]

[nodes.n1]
address = "10.0.0.1:7101"
data = "/var/lib/braidcast"

[nodes.n2]
address = "10.0.0.2:7101"
data = "/var/lib/braidcast"

[nodes.n3]
address = "[2001:db8::3]:7101"
data = "/var/lib/braidcast"

[tls]
authority = "/etc/braidcast/authority.pem"

[clients.shop]
send = ["accounts", "stock"]

[clients.reports]
read = ["*"]
```

Paths are relative to the file; `~` is not expanded. Names of clusters, groups, nodes and clients have 1 to 63 letters,
digits, `-` and `_`, a letter or digit first. A key that a section does not know is an error, not a default.

**What all nodes must agree on** is the name of the cluster, the protocol, its options, and the groups with their nodes
in order. It has a fingerprint, which `braidcast config check` prints; nodes with different fingerprints refuse each
other. Addresses, paths, limits, times and the rights of clients are not part of it: they may be changed node by node.
An option that has its default value counts as not set."""

SAID: Final[Mapping[str, str]] = {
    "cluster": "",
    "nodes.NAME": """\
One section for each node; a node that hosts no group is an error. No two nodes have one address. Nodes on one machine,
as far as their addresses tell, have data directories and sockets of their own.""",
    "tls": """\
With this section every connection, of nodes and of clients, is TLS 1.3 with a certificate on both sides
([security](security.md)). Left out, there is no TLS, and nodes listen on this machine only unless `without_tls` says
otherwise. Who has no paths of its own finds its files beside `authority`, as `braidcast certs` writes them. Files are
read again when they change. `certificate` comes with `key`, here and in the sections of nodes and clients.""",
    "clients.NAME": """\
What the client may do whose certificate names it NAME. `[clients."*"]` is for all that have no section of their own;
without it, these are turned away. A node reads rights when it starts, and again at `kill -HUP`.""",
    "timing": "In milliseconds. What a protocol waits for (when a leader is suspected, say) is among its own options.",
}
"""Above the table of a section, in place of the docstring of its dataclass."""

WHY_RELATED: Final[Mapping[str, str]] = {
    "limits": "A frame must have room for the largest message, and a buffer for the largest frame:",
    "timing": "A connection must not be taken for dead between two signs of life, and waits must not shrink:",
}

OPTIONS: Final = """\
The protocol's own options: strings, whole numbers, `true` and `false`. They count in the fingerprint. Ticks are
microseconds on a real node."""

GROUPS: Final = """\
Each key is the name of a group; its value lists the nodes that host its replicas, one replica a node. The order of the
groups and of the nodes in them numbers groups and processes, from 0: the example has processes 0, 1, 2 in `accounts`
and 3, 4, 5 in `stock`; node `n1` hosts 0 and 3. It must not change while a cluster lives. How large a group may be,
the protocol says; most need an odd number."""


def render_reference(protocols: Iterable[Protocol]) -> str:
    """The whole page."""
    blocks = [HEAD]
    for section in SECTIONS:
        blocks += [f"## [{section}]", *_section(section)]
        if section == "cluster":
            blocks += ["## [cluster.options]", OPTIONS]
            for protocol in protocols:
                blocks += [f"### Of {protocol.name}", _options(protocol)]
            blocks += ["## [groups]", GROUPS]
    return "\n\n".join(blocks) + "\n"


def _section(section: str) -> Iterator[str]:
    kind = SECTIONS[section]
    if said := SAID.get(section, inspect.getdoc(kind)):
        yield said
    lines = ["| key | takes | default | |", "|---|---|---|---|"]
    for name, known in settings_of(kind).items():
        default = f"`{known.example}`"
        if known.default is None:
            default = "required" if known.required else getattr(known.setting, "absent", "")
        lines.append(f"| `{name}` | {known.setting.takes} | {default} | {known.setting.doc} |")
    yield "\n".join(lines)
    if relations := RELATIONS.get(section):
        yield WHY_RELATED.get(section, "These numbers must suit each other:")
        yield "\n".join(f"- `{relation.larger}` is at least `{relation}`" for relation in relations)


def _options(protocol: Protocol) -> str:
    usual, kinds, said = protocol.options(), get_type_hints(protocol.options), docs_of(protocol.options)
    names = [field.name for field in fields(protocol.options)]
    if not names:
        return "None."
    lines = ["| option | takes | default | |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {_takes(kinds[name])} | `{toml_value(getattr(usual, name))}` | {said.get(name, '')} |"
        for name in names
    ]
    return "\n".join(lines)


def _takes(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(toml_value(word) for word in get_args(kind))
    return "true or false" if kind is bool else "a whole number" if kind is int else "a string"


def docs_of(kind: type) -> dict[str, str]:
    """What the lines below the fields of a class say of them; Python itself forgets it."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef), "it is the source of a class"
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[field.target.id] = " ".join(below.value.value.split())
    return found
