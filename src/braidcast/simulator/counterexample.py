"""A schedule that the explorer found, as a scenario file that anybody can run, read and change."""

from __future__ import annotations

from collections.abc import Mapping

from braidcast.core.client import Multicast
from braidcast.simulator.explorer.moves import Resubmit, show
from braidcast.simulator.explorer.report import Violation
from braidcast.simulator.explorer.setup import FIRST_CLIENT, Setup


def as_scenario(setup: Setup, violation: Violation, options: Mapping[str, str]) -> str:
    """The text of a manual scenario that repeats the violation's schedule."""
    lines = [
        f"# Found by the explorer: {violation.property}.",
        f"# {violation.what}",
        f"protocol {setup.protocol.name}",
        f"topology {setup.topology.shape}",
        *(f"option {name}={value}" for name, value in options.items()),
        "manual",
        "",
    ]
    copies: dict[Multicast, list[int]] = {}
    for submission in setup.submissions:
        copies.setdefault(submission.message, []).append(submission.to)
    for message, receivers in copies.items():
        number = message.id.client - FIRST_CLIENT + 1
        dest = " ".join(map(str, message.dest))
        via = " ".join(map(str, receivers))
        lines.append(f"client{number} multicasts m{number} to {dest} via {via}")
    lines.append("")
    for move in violation.moves:
        if isinstance(move, Resubmit):
            lines.append(f"resubmit client{move.client - FIRST_CLIENT + 1}")
        else:
            lines.append(show(move))
    lines += ["", "expect no violations", ""]
    return "\n".join(lines)
