"""The same load in many settings, cell by cell, into a file that goes on where it stopped.

1. A cell is a cluster of its own, in a directory of its own: nothing warm is carried from one into the next.
2. The file has a line for each cell, appended when the cell is done. A cell that is there is not measured again.
3. All lines of a file are of one machine, one build and one setting; another one needs another file.
4. `settings_for` is the only place that knows how a cell is configured, but for its certificates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

from braidcast.cluster.config import Durability, Layout
from braidcast.core.errors import BraidcastError
from braidcast.core.protocol import Protocol
from braidcast.trials.bench import ClusterLoad, measure_cluster
from braidcast.trials.machine import this_machine
from braidcast.trials.throwaway import Settings, throwaway_cluster

Switch = Literal["off", "on"]

DESTINATIONS: Final = (1, 2, 3)
OUTSTANDING: Final = (1, 64, 1024)
BATCHES: Final = (1, 16, 128)
OVERHEAD_S: Final = 2.0
"""About what starting and stopping nine nodes takes; for the estimate only."""


class MatrixFileError(BraidcastError):
    """A file that cannot be gone on with, or that holds no cells."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What is measured: so many messages under way, and how the cluster is set up."""

    durability: Durability
    tls: Switch
    history: Switch
    destinations: int
    outstanding: int
    batch: int

    def __str__(self) -> str:
        said = f"D={self.destinations} W={self.outstanding} B={self.batch} {self.durability}"
        return said + "".join(f" {name}" for name in ("tls", "history") if getattr(self, name) == "on")

    def without(self, name: Literal["tls", "history"]) -> Cell:
        """The cell that differs in one thing only, which is off there."""
        return replace(self, tls="off") if name == "tls" else replace(self, history="off")


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same in all cells of a file."""

    layout: Layout = "spread"
    payload_bytes: int = 20
    seconds: float = 5.0
    warm_up_s: float = 1.0


def settings_for(cell: Cell, folder: Path) -> Settings:
    """What the configuration of a cell says besides the defaults; files that it needs are made in `folder`."""
    settings: Settings = {"cluster": {"durability": cell.durability}}
    if cell.history == "on":
        settings["cluster"]["history"] = "history"
    return settings


def every_cell() -> list[Cell]:
    """The full cross product."""
    durabilities: tuple[Durability, ...] = ("memory", "disk")
    switches: tuple[Switch, ...] = ("off", "on")
    return [Cell(*values) for values in product(durabilities, switches, switches, DESTINATIONS, OUTSTANDING, BATCHES)]


def usual_cells() -> list[Cell]:
    """Every load in memory and on disk; and on disk, as a cluster is by default, with TLS and with a history."""
    plain, one = ("off", "off"), (("off", "on"), ("on", "off"))
    return [
        cell
        for cell in every_cell()
        if (cell.tls, cell.history) == plain or (cell.durability == "disk" and (cell.tls, cell.history) in one)
    ]


def filtered(cells: Iterable[Cell], only: Mapping[str, Sequence[Any]]) -> list[Cell]:
    """Those whose values are among the given ones; an empty list of values allows all."""
    return [cell for cell in cells if all(not values or getattr(cell, key) in values for key, values in only.items())]


class MatrixFile:
    """The cells that have been measured."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it holds."""
        if not self.path.exists():
            return
        for number, text in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                Cell(**line["cell"]), Setting(**line["setting"])
                line["figures"]["messages_per_s"], line["machine"]["processor"]
            except (ValueError, TypeError, KeyError):
                raise MatrixFileError(
                    f"{self.path}:{number}: this is no cell of `braidcast bench matrix --out`: remove the line"
                ) from None
            yield line

    def done(self, setting: Setting, machine: Mapping[str, Any]) -> set[Cell]:
        """The cells that are there, all of this setting and this machine."""
        found = set()
        for line in self.lines():
            for what, mine in (("setting", asdict(setting)), ("machine", dict(machine))):
                for key, value in line[what].items():
                    if value != mine.get(key):
                        raise MatrixFileError(
                            f"{self.path} was measured with {key} {value}, this is {mine.get(key)}: name another file"
                        )
            found.add(Cell(**line["cell"]))
        return found

    def append(self, line: Mapping[str, Any]) -> None:
        """One more."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(slots=True)
class Plan:
    """What is to be measured, and what is there."""

    cells: list[Cell]
    there: list[Cell]

    def estimate_s(self, setting: Setting) -> float:
        """About how long it takes."""
        return len(self.cells) * (setting.seconds + setting.warm_up_s + OVERHEAD_S)


def plan_of(cells: Iterable[Cell], file: MatrixFile | None, setting: Setting) -> Plan:
    """What of these cells is not in the file."""
    done = file.done(setting, this_machine()) if file is not None else set()
    plan = Plan([], [])
    for cell in cells:
        (plan.there if cell in done else plan.cells).append(cell)
    return plan


def measure_matrix(
    protocol: Protocol, plan: Plan, setting: Setting, file: MatrixFile | None, progress: Callable[[int, Cell], None]
) -> Iterator[dict[str, Any]]:
    """The cells of the plan, one line after the other; each is in the file before the next begins.

    A cell that fails has a line that says why in place of figures, and none in the file: the next run tries it again.
    """
    machine = this_machine()
    for number, cell in enumerate(plan.cells):
        progress(number, cell)
        load = ClusterLoad(
            cell.destinations, cell.outstanding, cell.batch, setting.payload_bytes, setting.seconds, setting.warm_up_s
        )
        try:
            with throwaway_cluster(protocol, setting.layout, partial(settings_for, cell), tls=cell.tls == "on") as made:
                figures = measure_cluster(made, load)
        except (BraidcastError, TimeoutError) as error:
            yield {"cell": asdict(cell), "failed": str(error) or "it did not answer in time"}
            continue
        line = {"cell": asdict(cell), "setting": asdict(setting), "machine": machine, "figures": figures}
        if file is not None:
            file.append(line)
        yield line
