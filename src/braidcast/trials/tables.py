"""The lines of a measured matrix as the Markdown that `docs/performance.md` shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from braidcast.trials.matrix import Cell

Figures = Mapping[str, Any]

NUMBER = re.compile(r"[0-9][0-9.,]*")
LOAD = ("D", "W", "B")
SWITCHES: Final[tuple[tuple[Literal["history", "tls"], str], ...]] = (
    ("history", "What a history costs"), ("tls", "What TLS costs"),
)  # fmt: skip


def render_matrix(lines: Iterable[Mapping[str, Any]]) -> str:
    """The machine, then a table of all loads, then one for each thing that can be switched on."""
    kept = list(lines)
    if not kept:
        return "Nothing was measured.\n"
    figures = {Cell(**line["cell"]): line["figures"] for line in kept}
    blocks = [render_machine(kept[0]["machine"]), _said_of(kept[0]["setting"], kept[0]["figures"])]
    plain = {cell: found for cell, found in figures.items() if cell.tls == cell.history == "off"}
    blocks += _section("All loads", _loads(plain))
    for name, title in SWITCHES:
        blocks += _section(title, _switched(figures, name))
    return "\n\n".join(blocks) + "\n"


def render_machine(machine: Mapping[str, Any]) -> str:
    """One line about the machine."""
    return (
        f"Measured on {machine['cores']} cores of {machine['processor']}, {machine['memory_gib']} GiB, "
        f"{machine['kernel']}, {machine['python']}, braidcast {machine['braidcast']}."
    )


def render_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table, columns that hold a number to the right."""
    kept = [list(map(_shown, row)) for row in rows]
    right = [any(NUMBER.fullmatch(row[column]) for row in kept) for column in range(len(headers))]
    lines = [f"| {' | '.join(headers)} |", f"|{''.join('---:|' if number else '---|' for number in right)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in kept])


def _section(title: str, table: str) -> list[str]:
    return [f"### {title}", table] if table else []


def _said_of(setting: Mapping[str, Any], figures: Figures) -> str:
    return (
        f"Three groups of three in {figures['processes']} processes and one client, all on this machine; messages of "
        f"{setting['payload_bytes']} bytes; {setting['seconds']:g} s a cell after {setting['warm_up_s']:g} s of "
        "warm-up. D: destination groups; W: units under way; B: messages in a unit. Latency is in ms, from the "
        "multicast of a unit until the leaders of all its groups have delivered it. CPU is that of all nodes, in s "
        "for 1,000 messages."
    )


def _loads(figures: Mapping[Cell, Figures]) -> str:
    """One row a load, memory and disk side by side."""
    kinds = [kind for kind in ("memory", "disk") if any(cell.durability == kind for cell in figures)]
    if not kinds:
        return ""
    headers = [f"{kind}: {name}" for kind in kinds for name in ("messages/s", "p50", "p99", "CPU")]
    rows: dict[tuple[int, int, int], dict[str, Figures]] = {}
    for cell, found in sorted(figures.items()):
        rows.setdefault(_load(cell), {})[cell.durability] = found
    return render_table(
        (*LOAD, *headers),
        [(*load, *(value for kind in kinds for value in _four(row.get(kind)))) for load, row in sorted(rows.items())],
    )


def _switched(figures: Mapping[Cell, Figures], name: Literal["tls", "history"]) -> str:
    """With and without one thing, where both were measured; the ratios are with it to without it."""
    rows = [
        (*_load(cell), cell.durability, *_compared(figures[cell.without(name)], found))
        for cell, found in sorted(figures.items())
        if getattr(cell, name) == "on" and cell.without(name) in figures
    ]
    headers = ("messages/s without", "with", "ratio", "p50 without", "with", "ratio", "CPU ratio")
    return render_table((*LOAD, "durability", *headers), rows) if rows else ""


def _load(cell: Cell) -> tuple[int, int, int]:
    return cell.destinations, cell.outstanding, cell.batch


def _four(found: Figures | None) -> tuple[object, ...]:
    keys = ("messages_per_s", "latency_ms_p50", "latency_ms_p99", "cpu_s_per_1000")
    return tuple("" if found is None else found[key] for key in keys)


def _compared(without: Figures, found: Figures) -> Iterator[object]:
    for key in ("messages_per_s", "latency_ms_p50"):
        yield from (without[key], found[key], _ratio(found[key], without[key]))
    yield _ratio(found["cpu_s_per_1000"], without["cpu_s_per_1000"])


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if other else ""


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
