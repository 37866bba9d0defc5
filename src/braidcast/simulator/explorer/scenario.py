"""A counterexample as a scenario file, which the simulator replays.

The file is a manual scenario: nothing moves but by its lines. What a scenario cannot say (an input that is no
client's multicast) is left as a comment, and the file then shows the schedule without running it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from braidcast.core.client import Multicast
from braidcast.core.topology import Pid
from braidcast.simulator.explorer.moves import show
from braidcast.simulator.explorer.report import Violation
from braidcast.simulator.explorer.setup import FIRST_CLIENT, NOW, Setup


def scenario_of(setup: Setup, violation: Violation) -> str:
    """The text of a scenario file."""
    lines = [f"# {violation.property}: {violation.what}", f"protocol {setup.protocol.name}"]
    lines.append(f"topology {setup.topology.shape}")
    lines += [f"option {name}={text}" for name, text in _chosen_options(setup)]
    lines.append("manual")
    if setup.now != NOW:
        lines.append(f"now {setup.now}")
    lines.append("")
    lines += [f"clock {pid} {readings[0]}" for pid, readings in setup.walls.items()]
    lines += _submissions(setup)
    lines += [show(move, _name) for move in violation.moves]
    lines += ["", "expect no violations"]
    return "\n".join(lines) + "\n"


def _chosen_options(setup: Setup) -> list[tuple[str, str]]:
    """What differs from the defaults."""
    if setup.options is None:
        return []
    default = setup.protocol.options()
    chosen = []
    for option in dataclasses.fields(default):
        value = getattr(setup.options, option.name)
        if value != getattr(default, option.name):
            chosen.append((option.name, _option_text(value)))
    return chosen


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _submissions(setup: Setup) -> list[str]:
    receivers: dict[Multicast, list[Pid]] = {}
    lines = []
    for sender, to, message in setup.submissions:
        if isinstance(message, Multicast) and sender == message.id.client >= FIRST_CLIENT:
            receivers.setdefault(message, []).append(to)
        else:
            lines.append(f"# in flight at the start: {to} <- {sender} {message}")
    for multicast, pids in receivers.items():
        name = f"m{multicast.id.client - FIRST_CLIENT + 1}"
        payload = "" if multicast.payload == name.encode() else f" payload {multicast.payload.hex()}"
        groups, via = " ".join(map(str, multicast.dest)), " ".join(map(str, pids))
        lines.append(f"{_name(multicast.id.client)} multicasts {name} to {groups} via {via}{payload}")
    return lines


def _name(pid: Pid) -> str:
    """Clients are called by their number, processes by their pid."""
    return f"client{pid - FIRST_CLIENT + 1}" if pid >= FIRST_CLIENT else str(pid)
