"""Whether the groups of a configuration can be, and suit its protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from braidcast.core.errors import TopologyError
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.settings.key_lines import KeyPath
from braidcast.settings.toml_lines import Reading, toml_key

if TYPE_CHECKING:
    from braidcast.cluster.config import GroupConfig


def topology_of(read: Reading, groups: Sequence[GroupConfig], protocol: Protocol | None) -> Topology | None:
    """The topology, if it is possible and suits the protocol."""
    if not groups or not all(group.nodes for group in groups):
        return None
    try:
        topology = Topology(*(group.pids for group in groups))
        if protocol is not None:
            protocol.check_topology(topology)
        return topology
    except TopologyError as error:
        whole = str(error)
    # The error names the first wrong group by its number. Others are wrong, too, if they are so alone, as group 0.
    read.problem(*_translated(whole, groups))
    for group in groups:
        try:
            if protocol is not None:
                protocol.check_topology(Topology(group.pids))
        except TopologyError as error:
            at, what = _translated(str(error), [group])
            if len(at) > 1:
                read.problem(at, what)
    return None


def _translated(what: str, groups: Sequence[GroupConfig]) -> tuple[KeyPath, str]:
    """An error about a topology with the names of groups for their numbers, and where it belongs."""
    found = [int(number) for number in re.findall(r"\bgroup (\d+)\b", what)]
    names = {number: groups[number].name for number in found if number < len(groups)}
    what = re.sub(r"\bgroup (\d+)\b", lambda number: f"group {toml_key(names.get(int(number[1]), number[1]))}", what)
    return ("groups", *list(names.values())[:1]), what
