"""What a run was: the head of every history, kept as `manifest.json` beside the events."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from braidcast.core.errors import BraidcastError, TopologyError
from braidcast.core.topology import Pid, Topology

SCHEMA_VERSION = 1
"""Of the events' columns and of the manifest. Raise it when a reader of the old one would misread the new one."""

GENUINE = "genuine"
FIFO = "fifo"
FILES = "files"
"""Of `manifest.json` only: the rows of each event file; the store writes it and checks it."""
PROMISES = (GENUINE, FIFO)
"""What some protocols promise and others do not; the properties judge only what was promised."""


class HistoryError(BraidcastError):
    """A history that cannot be read or must not be written."""


@dataclass(frozen=True)
class Manifest:
    """What a run was, and how it ended."""

    protocol: str
    topology: tuple[tuple[Pid, ...], ...]
    """The members of each group; every other process id is a client."""
    run: str
    """Names the run in every event and violation."""
    driver: str = "simulator"
    """`simulator`, `explorer` or `cluster`."""
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """The protocol's options by name."""
    software_version: str = ""
    delta: int | None = None
    """Ticks per hop, where that is fixed."""
    scenario: str = ""
    promises: tuple[str, ...] = (GENUINE,)
    """Which of `PROMISES` the protocol makes."""
    quiescent: bool = False
    """The run ended after everything in flight was done and all faults were healed: termination may be judged."""
    crashed: tuple[Pid, ...] = ()
    """Processes and clients that were down at the end."""
    schema_version: int = SCHEMA_VERSION

    @property
    def correct(self) -> tuple[Pid, ...]:
        """The processes that were up at the end."""
        return tuple(p for members in self.topology for p in members if p not in self.crashed)

    def to_json(self) -> str:
        """The text of `manifest.json`."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"


def manifest_from_json(text: str, where: str = "manifest.json") -> Manifest:
    """Read what `Manifest.to_json` wrote; `where` names the file in errors."""
    found = json_object(text, where)
    _check_version(found.get("schema_version"), where)
    return _manifest(found, where)


def json_object(text: str, where: str) -> dict[str, Any]:
    """The JSON object that `text` must be."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"{where} is not JSON ({error}): restore it or record the run again") from None
    if not isinstance(found, dict):
        raise HistoryError(f"{where} holds a JSON {type(found).__name__} and no manifest: is this a history?")
    return found


def _manifest(found: dict[str, Any], where: str) -> Manifest:
    found.pop(FILES, None)
    for name, (kinds, needed) in _FIELDS.items():
        if name not in found:
            if needed:
                raise HistoryError(f"{where} has no field {name!r}: it is damaged, record the run again")
        elif not isinstance(found[name], kinds) or (isinstance(found[name], bool) and bool not in kinds):
            raise HistoryError(f"{where}: field {name!r} must be {_show(kinds)}, not {found[name]!r}")
    if unknown := sorted(found.keys() - _FIELDS.keys()):
        raise HistoryError(f"{where} has unknown fields {', '.join(unknown)}: is this a history of braidcast?")
    found["topology"] = _topology(found["topology"], where)
    for name, kind in (("promises", str), ("crashed", int)):
        values = found[name]
        if not all(type(value) is kind for value in values):
            raise HistoryError(f"{where}: field {name!r} must be a list of {kind.__name__}, not {values!r}")
        found[name] = tuple(values)
    if unknown := sorted(set(found["promises"]) - set(PROMISES)):
        raise HistoryError(f"{where} promises {', '.join(unknown)}, which nobody can judge: known are "
                           f"{', '.join(PROMISES)}")  # fmt: skip
    return Manifest(**found)


def _check_version(version: object, where: str) -> None:
    if type(version) is not int or version < 1:
        raise HistoryError(f"{where} has no usable schema_version ({version!r}): is this a history of braidcast?")
    if version > SCHEMA_VERSION:
        raise HistoryError(
            f"{where} has schema version {version}, this braidcast reads up to {SCHEMA_VERSION}: upgrade braidcast"
        )


def _topology(groups: list[Any], where: str) -> tuple[tuple[Pid, ...], ...]:
    if not all(isinstance(group, list) and all(type(pid) is int for pid in group) for group in groups):
        raise HistoryError(f"{where}: field 'topology' must be a list of lists of process ids, not {groups!r}")
    try:
        return Topology(*groups).groups
    except TopologyError as error:
        raise HistoryError(f"{where}: {error}") from None


_NONE = type(None)
_FIELDS: dict[str, tuple[tuple[type, ...], bool]] = {
    "protocol": ((str,), True),
    "topology": ((list,), True),
    "run": ((str,), True),
    "driver": ((str,), True),
    "seed": ((int, _NONE), False),
    "options": ((dict,), False),
    "software_version": ((str,), False),
    "delta": ((int, _NONE), False),
    "scenario": ((str,), False),
    "promises": ((list,), True),
    "quiescent": ((bool,), True),
    "crashed": ((list,), True),
    "schema_version": ((int,), True),
}
"""What each field may be in JSON, and whether it must be there."""


def _show(kinds: tuple[type, ...]) -> str:
    return " or ".join("null" if kind is _NONE else kind.__name__ for kind in kinds)
