"""A space-time picture in plain text: time runs down, every process is a column, deliveries are marked."""

from __future__ import annotations

from collections.abc import Sequence

from braidcast.core.topology import Topology
from braidcast.simulator.scenario_expect import Row

WIDTH = 12


def space_time(rows: Sequence[Row], topology: Topology, delta: int) -> list[str]:
    """One line per tick at which something was delivered, one column per process."""
    heads, roles = [], []
    role_of = {row.process: row.role for row in rows}
    for group, members in enumerate(topology.groups):
        for pid in members:
            heads.append(f"g{group} p{pid}".center(WIDTH))
            roles.append(role_of.get(pid, "").center(WIDTH))
    lines = [" " * 10 + "".join(heads), " " * 10 + "".join(roles)]
    last: int | None = None
    for at in sorted({row.at for row in rows}):
        if last is not None:
            gap = " " * 10 + "".join("|".center(WIDTH) for _ in topology.pids)
            lines += [gap] * min(3, max(1, (at - last) // delta))
        marks = []
        for pid in topology.pids:
            names = [row.message for row in rows if row.at == at and row.process == pid]
            marks.append(("* " + " ".join(names) if names else "|").center(WIDTH))
        lines.append(f"{at / delta:5.1f} δ   " + "".join(marks).rstrip())
        last = at
    return [line.rstrip() for line in lines]
