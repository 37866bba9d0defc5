"""On which line of a TOML text each key stands.

`key_lines` is for texts that `tomllib` has accepted: it finds keys and does not judge them. A path is the way to a
value from the top: the keys of tables, and indexes from 0 into arrays. What stands for a path is the line on which its
key begins (an element of an array: the element). A table has the line of its header; without one, the line of the first
key inside it.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from typing import Final

KeyPath = tuple[str | int, ...]

_SPACE: Final = re.compile(r"[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_VALUE: Final = re.compile(
    # Three quotes close a string of several lines, and up to two more before them belong to it.
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^,\]}#\n]+''',
    re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of every path in a valid TOML text."""
    return _Scanner(text).document()


class _Scanner:
    """Walks once over the text; `at` is how far it has come."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ends = [found.start() for found in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}
        self.last: dict[KeyPath, int] = {}
        """Per array of tables, the index of its latest one: where headers below it belong."""

    def document(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self.blank() != "":
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
        return self.lines

    def header(self) -> KeyPath:
        line, brackets = self.line(), 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        *outer, key = self.keys()
        self.at += brackets
        path: KeyPath = ()
        for name in outer:
            path = (*path, name)
            self.lines.setdefault(path, line)
            if path in self.last:
                path = (*path, self.last[path])
        path = (*path, key)
        if brackets == 2:
            self.lines.setdefault(path, line)
            self.last[path] = self.last.get(path, -1) + 1
            path = (*path, self.last[path])
        self.lines[path] = line
        return path

    def pair(self, table: KeyPath) -> None:
        line, path = self.line(), table
        for key in self.keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.at += 1  # the equals sign
        self.value(path)

    def keys(self) -> list[str]:
        found: list[str] = []
        while True:
            self.skip(_SPACE)
            raw = self.skip(_KEY)
            found.append(tomllib.loads(f"key = {raw}")["key"] if raw[0] in "\"'" else raw)
            self.skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return found
            self.at += 1

    def value(self, path: KeyPath) -> None:
        self.skip(_SPACE)
        opening = self.text[self.at]
        if opening not in "[{":
            self.skip(_VALUE)
            return
        self.at += 1
        index = 0
        while self.blank() not in "]}":
            if opening == "{":
                self.pair(path)
            else:
                element = (*path, index)
                self.lines[element] = self.line()
                self.value(element)
                index += 1
            if self.blank() == ",":
                self.at += 1
        self.at += 1

    def blank(self) -> str:
        """Pass over space, ends of lines and comments; the character that follows, empty at the end."""
        self.skip(_BLANK)
        return self.text[self.at : self.at + 1]

    def skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        assert found is not None, "the text is valid TOML"
        self.at = found.end()
        return found[0]

    def line(self) -> int:
        return bisect_left(self.ends, self.at) + 1
