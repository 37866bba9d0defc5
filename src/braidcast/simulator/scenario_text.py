"""Scenario files: a schedule, and what must come of it, as text that a person reads.

A line is a setting, something that happens, or an expectation; `#` begins a comment. `at T` says when something
happens; in a `manual` scenario nothing moves unless a line says so, and lines happen one after another. Times may be
negative: what is multicast before 0 prepares the scene and is not reported. The tables below hold
every form; `docs/scenarios.md` explains them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from braidcast.core.errors import BraidcastError
from braidcast.core.process import Ticks
from braidcast.simulator.delays import TICKS_MAX


class ScenarioError(BraidcastError):
    """A scenario file that cannot be read or does not fit the protocol."""


class Form(NamedTuple):
    """One form of line: its kind, how it is written, and the pattern that reads it."""

    kind: str
    usage: str
    pattern: re.Pattern[str]


class Line(NamedTuple):
    """One line, read."""

    where: str
    """File and line number, for errors."""
    at: Ticks | None
    """When; None for settings, expectations and lines of a manual scenario."""
    kind: str
    words: dict[str, str]
    text: str

    def pids(self, name: str = "pids") -> tuple[int, ...]:
        """A list of numbers."""
        return tuple(int(word) for word in self.words[name].split())

    def number(self, name: str, otherwise: int = 0) -> int:
        """A number, if it was given."""
        return int(self.words[name]) if self.words.get(name) else otherwise

    def error(self, what: str) -> ScenarioError:
        """An error about this line."""
        return ScenarioError(f"{self.where}: {what}")


_NAMED = {
    "{pid}": r"(?P<pid>\d+)",
    "{other}": r"(?P<other>\d+)",
    "{pids}": r"(?P<pids>\d+(?: \d+)*)",
    "{groups}": r"(?P<groups>\d+(?: \d+)*)",
    "{group}": r"(?P<group>\d+)",
    "{client}": r"(?P<client>client[1-9]\d*)",
    "{name}": r"(?P<name>[\w.'-]+)",
    "{names}": r"(?P<names>[\w.'-]+(?: [\w.'-]+)+)",
    "{kind}": r"(?P<kind>[A-Za-z]\w*|\*)",
    "{word}": r"(?P<word>[\w-]+)",
    "{from}": r"(?P<sender>\d+|client\d+|any)",
    "{to}": r"(?P<to>\d+|client\d+|any)",
    "{value}": r"(?P<value>\S+)",
    "{delay}": r"(?P<delay>\S+(?: \d+)*)",
    "{rate}": r"(?P<rate>\d*\.?\d+)",
    "{n}": r"(?P<n>\d+)",
    "{m}": r"(?P<m>\d+)",
    "{signed}": r"(?P<m>-?\d+)",
    "{offset}": r"(?P<n>-?\d+)",
    "{decimal}": r"(?P<decimal>\d+(?:\.\d+)?)",
    "{for}": r"(?: for (?P<ticks>\d+))?",
}


def _form(kind: str, usage: str) -> Form:
    """Read a usage as a pattern: `{pid}` and the like are values, `[...]` may be left out."""
    pattern = re.escape(usage).replace(r"\ ", " ").replace(r"\{", "{").replace(r"\}", "}")
    pattern = re.sub(r" \\\[(.*?)\\\]", r"(?: \1)?", pattern).replace(r"\-", "-").replace(r"\=", "=")
    for name, value in _NAMED.items():
        pattern = pattern.replace(name, value)
    pattern = pattern.replace("{via}", r"(?P<via>all|\d+(?: \d+)*)").replace("{hex}", r"(?P<hex>-|(?:[0-9a-f]{2})+)")
    return Form(kind, usage, re.compile(pattern))


SETTINGS = [
    _form("protocol", "protocol {word}"),
    _form("option", "option {word}={value}"),
    _form("paced", "paced {n}"),
    _form("topology", "topology {value}"),
    _form("seed", "seed {n}"),
    _form("delta", "delta {n}"),
    _form("delay", "delay default {delay}"),
    _form("link", "delay {from} -> {to} {delay}"),
    _form("reconnect", "reconnect {delay}"),
    _form("stale", "stale {rate}"),
    _form("lose", "lose {kind} {rate}"),
    _form("fsync", "fsync {n}"),
    _form("checkpoint", "checkpoint every {n}"),
    _form("untorn", "no torn writes"),
    _form("lag", "application lag {n} [every {m}]"),
    _form("snapshot", "application snapshot takes {n}"),
    _form("cpu", "cpu {n}"),
    _form("clock", "clock {pid} offset {offset} [drift {signed}]"),
    _form("timeout", "client timeout {n}"),
    _form("window", "client window {n}"),
    _form("rebatch", "client rebatch {rate}"),
    _form("to_all", "clients send to all"),
    _form("settle", "settle {n}"),
    _form("grace", "grace {n}"),
    _form("rest", "rest {n}"),
    _form("end", "end at {n}"),
    _form("manual", "manual"),
    _form("now", "now {n}"),
]
HAPPENINGS = [
    _form(
        "multicast",
        "{client} multicasts {name} to {groups} [via {via}] [batch {n}] [again after {m}] [payload {hex}]"
        " [and dies] [in a new session]",
    ),
    _form("crash", "crash {pids}{for} [if it leaves a majority]"),
    _form("crash_leader", "crash leader of {group}{for} [if it leaves a majority]"),
    _form("crash_group", "crash group {group}{for}"),
    _form("crash_all", "crash all{for}"),
    _form("lose_disk", "lose disk of {pid}{for}"),
    _form("restart", "restart {pids}"),
    _form("break", "break {pid} {other}"),
    _form("partition", "partition {pids}{for}"),
    _form("one_way", "silence {pids}{for}"),
    _form("heal", "heal"),
    _form("pause", "pause {pid}{for}"),
    _form("resume", "resume {pid}"),
    _form("clock_step", "clock {pid} by {offset}"),
    _form("clock_set", "clock {pid} {offset}"),
    _form("suspect", "suspect {pid}"),
    _form("fire", "fire {pid} {kind}"),
    _form("hand_over", "hand over {pid} [to {other}]"),
    _form("hand_over_group", "hand over group {group}"),
    _form("hold", "hold {kind} from {from} to {to}"),
    _form("release", "release {kind} from {from} to {to}"),
    _form("drop", "drop {kind} from {from} to {to}"),
    _form("step", "step {to} <- {from} {kind}"),
    _form("resubmit", "resubmit {client}"),
    _form("advance", "advance {n}"),
]
EXPECTATIONS = [
    _form("delivered", "expect delivered {name} at {pids}"),
    _form("undelivered", "expect not delivered {name} at {pids}"),
    _form("time", "expect time {name} at {pids} is {offset}"),
    _form("delays", "expect delays {name} at {pids} is {decimal}"),
    _form("order", "expect order {names} at {pids}"),
    _form("role", "expect role {word} at {pids}"),
    _form("note_at", "expect note {word} at {pids}"),
    _form("note", "expect note {word}"),
    _form("no_note", "expect no note {word}"),
    _form("refused", "expect refused {names}"),
    _form("refused", "expect refused {name}"),
    _form("no_violations", "expect no violations"),
    _form("violation", "expect violation {word}"),
    _form("quiescent", "expect quiescent"),
]
MANUAL_ONLY = ("step", "resubmit", "advance", "clock_set")
TIMED_ONLY = ("hold", "release", "partition", "one_way", "heal", "pause", "resume", "clock_step")
_INT64_MAX = (1 << 63) - 1
_NO_TIMES = ("clock", "clock_step", "clock_set", "now", "seed", "multicast")
"""Lines whose `n` is no time of the run: a wall clock may count from 1970, and the protocol judges sizes of batches."""
_NUMBERS = ("pid", "other", "pids", "groups", "group", "client", "sender", "to", "via", "n", "m", "ticks")
_AT_LEAST_ONE = ("delta", "paced", "timeout")
_CONDITION = re.compile(r"if (?P<option>\w+)=(?P<value>\S+) (?P<rest>.*)")
_AT = re.compile(r"at (?P<at>-?\d+) +(?P<rest>.*)")


@dataclass(frozen=True)
class Scenario:
    """A file, read."""

    name: str
    settings: tuple[Line, ...]
    happenings: tuple[Line, ...]
    expectations: tuple[tuple[Line, tuple[str, str] | None], ...]
    """Each with the option and value on which it depends, if it does."""
    comment: str
    """The comment that the file begins with."""

    def setting(self, kind: str) -> Line | None:
        """The last setting of a kind."""
        return next((line for line in reversed(self.settings) if line.kind == kind), None)

    def settings_of(self, kind: str) -> Iterable[Line]:
        """All settings of a kind."""
        return (line for line in self.settings if line.kind == kind)

    @property
    def protocol(self) -> str | None:
        """The protocol it names."""
        line = self.setting("protocol")
        return line.words["word"] if line is not None else None

    @property
    def manual(self) -> bool:
        """Whether nothing moves by itself."""
        return self.setting("manual") is not None


def parse_scenario(text: str, name: str = "scenario") -> Scenario:
    """Read a scenario; `name` names the file in errors."""
    settings: list[Line] = []
    happenings: list[Line] = []
    expectations: list[tuple[Line, tuple[str, str] | None]] = []
    comment: list[str] = []
    for number, full in enumerate(text.splitlines(), start=1):
        plain = " ".join(full.partition("#")[0].split())
        if not plain:
            if full.strip() and not (settings or happenings or expectations):
                comment.append(full.strip().lstrip("# "))
            continue
        where = f"{name}:{number}"
        if (condition := _CONDITION.fullmatch(plain)) is not None:
            line = _read(condition["rest"], where, EXPECTATIONS)
            expectations.append((line, (condition["option"], condition["value"])))
        elif plain.startswith("expect "):
            expectations.append((_read(plain, where, EXPECTATIONS), None))
        elif (timed := _AT.fullmatch(plain)) is not None:
            line = _read(timed["rest"], where, HAPPENINGS)
            if len(timed["at"]) > len(str(-TICKS_MAX)):
                raise line.error(f"`at {timed['at']}` is beyond all time: choose times within {TICKS_MAX:,} ticks")
            happenings.append(line._replace(at=int(timed["at"])))
        elif (line := _match(plain, where, SETTINGS)) is not None:  # type: ignore[assignment]  # or None
            settings.append(line)
        else:
            happenings.append(_read(plain, where, [*HAPPENINGS, *SETTINGS]))
    scenario = Scenario(name, tuple(settings), tuple(happenings), tuple(expectations), "\n".join(comment))
    _check_times(scenario)
    for line in (*settings, *happenings, *(line for line, _ in expectations)):
        _check_numbers(line)
    _check_names(happenings)
    return scenario


def _match(text: str, where: str, forms: Iterable[Form]) -> Line | None:
    for form in forms:
        if (found := form.pattern.fullmatch(text)) is not None:
            return Line(where, None, form.kind, {k: v for k, v in found.groupdict().items() if v}, text)
    return None


def _read(text: str, where: str, forms: list[Form]) -> Line:
    line = _match(text, where, forms)
    if line is not None:
        return line
    first = text.split()[0]
    near = [form.usage for form in forms if form.usage.split()[0] == first]
    near = near or [form.usage for form in forms if first.startswith("client") and "{client}" in form.usage]
    hint = " or ".join(f"`{_plain(usage)}`" for usage in near[:4])
    known = ", ".join(dict.fromkeys(_plain(form.usage.split()[0]) for form in forms))
    raise ScenarioError(
        f"{where}: cannot read {text!r}: " + (f"write {hint}" if hint else f"a line begins with {known}")
    )


def _plain(usage: str) -> str:
    for braced, plain in (("{for}", " [for {n}]"), ("{from}", "{pid}"), ("{to}", "{pid}"), ("{delay}", "10 or 5..20")):
        usage = usage.replace(braced, plain)
    return re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), usage)


def _check_times(scenario: Scenario) -> None:
    for line in scenario.happenings:
        if scenario.manual:
            if line.at is not None:
                raise line.error("a manual scenario has no times: leave out `at`, lines happen one after another")
            if line.kind in TIMED_ONLY:
                raise line.error(
                    f"`{line.text}` does nothing in a manual scenario: what is not stepped stays where it is"
                )
        elif line.kind in MANUAL_ONLY:
            raise line.error(f"`{line.text}` is for manual scenarios: begin the file with `manual`")
        elif line.at is None and line.kind not in ("hold", "drop"):
            raise line.error(f"when? write `at 0 {line.text}`")


def _check_numbers(line: Line) -> None:
    if not 0 <= float(line.words.get("rate", 0)) <= 1:
        raise line.error(f"{line.words['rate']} is no rate: give a number from 0 to 1")
    if line.kind in _AT_LEAST_ONE and line.number("n") < 1:
        raise line.error(f"`{line.text}`: give a number of ticks from 1 on")
    numbers = [int(found) for name in _NUMBERS for found in re.findall(r"\d{1,20}", line.words.get(name, ""))]
    if max(numbers, default=0) > _INT64_MAX:
        raise line.error(f"`{line.text}`: a number is beyond {_INT64_MAX}, the highest there is")
    times = [line.at or 0, line.number("ticks"), line.number("m")]
    times += [] if line.kind in _NO_TIMES else [line.number("n")]
    if max(map(abs, times)) > TICKS_MAX:
        raise line.error(f"`{line.text}`: that takes too long, choose times within {TICKS_MAX:,} ticks")


def _check_names(happenings: Iterable[Line]) -> None:
    named: dict[str, Line] = {}
    for line in happenings:
        if line.kind == "multicast" and (first := named.setdefault(line.words["name"], line)) is not line:
            raise line.error(f"{first.where} multicasts {line.words['name']} as well: give each message its own name")
