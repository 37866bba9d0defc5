"""TOML with lines: reads a text against a schema and says on which line each problem stands, which `tomllib` does not.

A section is a frozen dataclass; a field annotated with a `Whole`, a `Choice`, a `Flag`, a `Text` or a `Names` is a key,
with its documentation.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from braidcast.settings.key_lines import KeyPath, key_lines

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_HOST: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACE: Final = re.compile(r"(?P<what>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.S)
_REMEDIES: Final = (
    ("Invalid value", "put text in quotes, and write true and false in small letters"),
    ("Illegal character '\\n'", "close the string on its line"),
    ("Unterminated", "close the string"),
    ("Unclosed", "close the array"),
    ("Expected '='", "write KEY = VALUE"),
    ("Cannot overwrite", "remove or rename one of the two"),
    ("Cannot declare", "remove or rename one of the two"),
    ("Cannot mutate", "remove or rename one of the two"),
)
"""What to do about what `tomllib` says; of anything else, its notation tells."""


def toml_key(key: str) -> str:
    """A key, in quotes only if it needs them."""
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)


def toml_value(value: str | int | Sequence[str]) -> str:
    """A string, a boolean, a list of strings or a whole number, digits in groups of three."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}"
    if not isinstance(value, str):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON leaves it, TOML forbids it


def dotted(path: KeyPath) -> str:
    """A path as TOML writes it."""
    return ".".join(toml_key(str(part)) for part in path)


def shown(value: object) -> str:
    """A value of a file, for a message of one line."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    text = toml_value(value) if isinstance(value, str | int) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# ---------------------------------------------------------------------------------------------------------------
# What a key takes. `read` raises a ValueError that says what is wrong and what to do, or says nothing.


@dataclass(frozen=True, slots=True)
class Whole:
    """A key that takes a whole number."""

    doc: str
    least: int
    most: int

    @property
    def takes(self) -> str:
        """What it takes, for people."""
        return f"a whole number from {self.least:_} to {self.most:_}"

    def read(self, value: object) -> int:
        """The value."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """A key that takes one of some words."""

    doc: str
    of: Any
    """A `Literal`."""

    @property
    def takes(self) -> str:
        """What it takes, for people."""
        return " or ".join(toml_value(word) for word in get_args(self.of))

    def read(self, value: object) -> str:
        """The value."""
        if not isinstance(value, str) or value not in get_args(self.of):
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    """A key that takes true or false."""

    doc: str

    @property
    def takes(self) -> str:
        """What it takes, for people."""
        return "true or false"

    def read(self, value: object) -> bool:
        """The value."""
        if not isinstance(value, bool):
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """A key that takes a string."""

    doc: str
    takes: str
    parse: Callable[[str], Any]
    example: str
    absent: str = ""
    """What it means to leave the key out; empty if it is required."""

    def read(self, value: object) -> Any:
        """The value."""
        if not isinstance(value, str):
            raise ValueError
        return self.parse(value)


@dataclass(frozen=True, slots=True)
class Names:
    """A key that takes a list of names; whose they are is not known here."""

    doc: str
    takes: str
    example: tuple[str, ...]
    absent: str
    """What it means to leave the key out."""

    def read(self, value: object) -> tuple[str, ...]:
        """The value."""
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ValueError
        return tuple(value)


class Known(NamedTuple):
    """A key that a section knows."""

    setting: Whole | Choice | Flag | Text | Names
    default: str | int | None
    """None: left out, it has no value or one that depends on others."""

    @property
    def required(self) -> bool:
        """Whether the file must have it."""
        return isinstance(self.setting, Text) and not self.setting.absent

    @property
    def example(self) -> str:
        """A value that it takes, as TOML."""
        if isinstance(self.setting, Text | Names):
            return toml_value(self.setting.example)
        assert self.default is not None, "every number and every choice has a default"
        return toml_value(self.default)


def parse_name(text: str) -> str:
    """A name; a ValueError if it is none."""
    if not NAME.fullmatch(text):
        raise ValueError
    return text


def parse_path(text: str) -> Path:
    """A path; a ValueError says what is wrong, nothing if it cannot be one."""
    if not text or "\0" in text:
        raise ValueError
    if text.startswith("~"):
        raise ValueError(f"is {toml_value(text)}, and ~ is not expanded: write the whole path")
    return Path(text)


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address; the host of an IPv6 one without brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def parse_address(text: str) -> str:
    """`host:port` in canonical form; a ValueError says what is wrong, nothing if it is not of that form."""
    host, _, port = text.rpartition(":")
    if not host or not port or text.endswith("]"):
        raise ValueError
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise ValueError(f'is {toml_value(text)}: write an IPv6 host in brackets, such as "[::1]:7101"')
    host = host[1:-1] if bracketed else host
    ip = ip_of(host)
    named = _HOST.fullmatch(host) is not None and _can_be_looked_up(host) and not re.fullmatch(r"[0-9.]+", host)
    if (ip is None or ip.version != 6) if bracketed else (ip is None and not named):
        raise ValueError(
            f"has no valid host, {toml_value(host)}: write a name, an IPv4 address, or an IPv6 address in brackets"
        )
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise ValueError(f"has no valid port, {toml_value(port)}: use 1 to 65535")
    if ip is not None and ip.is_unspecified:
        raise ValueError(f"is {toml_value(text)}, where others cannot reach it: write the address that they use")
    plain = host.lower() if ip is None else str(ip)
    return f"[{plain}]:{int(port)}" if bracketed else f"{plain}:{int(port)}"


def _can_be_looked_up(host: str) -> bool:
    """Whether a resolver takes the name: no label is empty or longer than 63 letters, nor all of it than 253."""
    return len(host) <= 253 and all(0 < len(label) <= 63 for label in host.removesuffix(".").split("."))


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The number of a host, if it is not a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


@cache
def settings_of(section: type) -> Mapping[str, Known]:
    """The keys of a section by name, in the order of their declaration."""
    defaults = {f.name: None if f.default is MISSING else f.default for f in fields(section)}
    return {
        name: Known(mark, defaults[name])
        for name, hint in get_type_hints(section, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
    }


class Relation(NamedTuple):
    """A number that must be at least `times` another one, `plus` something."""

    larger: str
    smaller: str
    times: int = 1
    plus: int = 0

    def __str__(self) -> str:
        times = f"{self.times} * " if self.times > 1 else ""
        return f"{times}{self.smaller}" + (f" + {self.plus:_}" if self.plus else "")


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file; a ValueError says why there is none."""
    file = os.fspath(path)
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"{file}:{line}: this is not UTF-8: save the file in that encoding") from None
    except FileNotFoundError:
        raise ValueError(f"{file}: there is no such file: check its path") from None
    except IsADirectoryError:
        raise ValueError(f"{file}: this is a directory: name the TOML file in it") from None
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise ValueError(f"{file}: the file cannot be read ({what}): check its path and permissions") from None


class Reading:
    """A text that is being read, and the problems found so far."""

    def __init__(self, text: str, homes: Mapping[str, str]) -> None:
        self.text = text
        self.homes = homes
        """Per key, the section where it belongs: for those who put it into another."""
        self.document: dict[str, Any] = {}
        self.lines: dict[KeyPath, int] = {}
        self.found: list[tuple[int, str]] = []

    def parse(self) -> bool:
        """Read the text as TOML; whether it is."""
        try:
            self.document = tomllib.loads(self.text)
            self.lines = key_lines(self.text)
        except RecursionError:
            self.found.append((1, "values are nested too deep: none of them needs more than a list"))
        except ValueError as error:
            self.found.append(self._syntax(str(error)))
        return not self.found

    def _syntax(self, message: str) -> tuple[int, str]:
        place = _PLACE.fullmatch(message)
        if place is None:  # a number of thousands of digits
            return 1, "this cannot be read as TOML, a number has too many digits: correct it"
        line = int(place["line"] or self.text.rstrip().count("\n") + 1)
        column = f" at column {place['column']}" if place["column"] else ""
        remedy = next((what for said, what in _REMEDIES if said in message), "see https://toml.io for its notation")
        return line, f"this cannot be read as TOML, {place['what'][0].lower()}{place['what'][1:]}{column}: {remedy}"

    def problem(self, at: KeyPath, what: str) -> None:
        """Something is wrong with the value at a path, or with what is missing there; said once."""
        while at and at not in self.lines:
            at = at[:-1]
        found = self.lines.get(at, 1), what
        if found not in self.found:
            self.found.append(found)

    def problems(self, file: str) -> list[str]:
        """All so far, in the order of the lines."""
        return [f"{file}:{line}: {what}" for line, what in sorted(self.found, key=lambda found: found[0])]

    def table(self, inside: Mapping[str, Any], at: KeyPath) -> dict[str, Any] | None:
        """The table at a path, the last key of which is in `inside`; None if it is absent or no table."""
        value = inside.get(str(at[-1]))
        if value is None or isinstance(value, dict):
            return value
        self.problem(at, f"{dotted(at)} takes a table, not {shown(value)}: write [{dotted(at)}] and its keys below")
        return None

    def settings(
        self, section: type, table: Mapping[str, Any] | None, at: KeyPath, also: Collection[str] = ()
    ) -> dict[str, Any]:
        """The keys of a section that are there and right; problems for all others but those in `also`."""
        if table is None:
            return {}
        known, values = settings_of(section), dict[str, Any]()
        for name, value in table.items():
            if name in known:
                try:
                    values[name] = known[name].setting.read(value)
                except ValueError as error:
                    path, mark = (*at, name), known[name]
                    generic = f"takes {mark.setting.takes}, not {shown(value)}: write {name} = {mark.example}"
                    self.problem(path, f"{dotted(path)} {str(error) or generic}")
            elif name not in also:
                self.unknown((*at, name), [*known, *also])
        for name, mark in known.items():
            if mark.required and name not in table:
                self.problem(at, f"[{dotted(at)}] has no {name}: add {name} = {mark.example}")
        return values

    def name(self, at: KeyPath, what: str) -> None:
        """The last key of a path is a name that somebody chose."""
        if not NAME.fullmatch(str(at[-1])):
            rule = "use 1 to 63 letters, digits, - and _, a letter or digit first"
            self.problem(at, f"{shown(at[-1])} cannot be the name of {what}: {rule}")

    def related(self, section: type, values: Mapping[str, Any], at: KeyPath, relations: Collection[Relation]) -> None:
        """Problems for the numbers of a section, or their defaults, that do not fit each other."""
        known, written = settings_of(section), [path[-1] for path in self.lines if path[:-1] == at]
        for relation in relations:
            keys = relation.larger, relation.smaller
            if any(key in written and key not in values for key in keys):
                continue  # it has a problem of its own
            larger, smaller = (values.get(key, known[key].default) for key in keys)
            least = relation.times * smaller + relation.plus
            if larger < least:
                first = keys[0] if keys[0] in values else keys[1]
                self.problem(
                    (*at, first),
                    f"{dotted((*at, keys[0]))} is {larger:_}, but must be at least {least:_} ({relation}): "
                    f"raise it or lower {keys[1]}",
                )

    def unknown(self, at: KeyPath, known: Collection[str]) -> None:
        """A key that its section does not have, or a section that does not exist."""
        name, written = str(at[-1]), {name: toml_key(name) if at[1:] else f"[{name}]" for name in known}
        what = f"key {toml_key(name)} " + (f"in [{dotted(at[:-1])}]" if at[1:] else "outside a section")
        if not at[1:] and isinstance(self.document[name], dict):
            what = f"section [{toml_key(name)}]"
        if name in self.homes:
            hint = f"it belongs under [{self.homes[name]}]"
        elif near := difflib.get_close_matches(name, known, 1):
            hint = f"did you mean {written[near[0]]}?"
        else:
            hint = f"remove it, or use {', '.join(written.values())}"
        self.problem(at, f"there is no {what}: {hint}")
