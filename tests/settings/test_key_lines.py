"""Where keys stand in a TOML text, and that what is written is read back."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidcast.settings.key_lines import KeyPath, key_lines
from braidcast.settings.toml_lines import toml_key, toml_value

NASTY = """\
a = 1  # b = 2
"a.b" = 2 # [c]
'c'.d."e f" . "\\"\\u0041#" = 3
text = "a = 1 # \\" ]"
literal = '\\'
long = \"\"\"
x = 1
\\\"\"\" [y] \"\"\"\"\"
also = '''
[z]''''
"" = 11
array = [ 12, # ]
  "]", [13, [  # [
    14]], '''
]''',
  { x = 16, "}" = 16, z.z = [16, { y = 16 }] }, 16
]
inline = { x = "}", y = {}, z = { a.b = 18 } }
when = 1979-05-27 07:32:00 # at = 19
float = 1.5e3
[ t . "u.v" ]
w = 22
[[arr]]
w = 24
[arr.sub]
w = 26
[[arr.list]]
w = 28
[[arr]]
w = 30
[[arr.list]]
[[arr.list]]
w = 33
[t]
w = 35
bare-key_9.9 = 36"""


def paths(value: object, at: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Every path of a document with its value."""
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*at, key), inner
        yield from paths(inner, (*at, key))


def assert_lines_are_right(text: str) -> None:
    """All paths are found, and every number stands on the line that it says."""
    found, values = key_lines(text), dict(paths(tomllib.loads(text)))
    assert found.keys() == values.keys()
    assert {at: line for at, line in found.items() if type(values[at]) is int} == {
        at: value for at, value in values.items() if type(value) is int
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_a_nasty_text(end: str) -> None:
    assert_lines_are_right(NASTY.replace("\n", end))
    found = key_lines(NASTY)
    assert [found[at] for at in (("t",), ("t", "u.v"), ("arr",), ("arr", 1))] == [34, 21, 23, 29]
    assert [found[at] for at in (("c",), ("array", 1), ("array", 3), ("long",), ("when",))] == [3, 13, 14, 6, 19]


STRINGS = (
    '""', "''", '"# \\" ["', "'[a]\\'", '"""\n[x]\n\\""" \n"""""', "'''\n\n]'''''", "true", "-1.5", "07:32:00",
)  # fmt: skip
SPACES = st.sampled_from(["", " ", "  # ]} \" '''\n", "\n", "\n\n# [no] = 1\n"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A valid text in which every whole number says its line. Keys are numbered, so that none is there twice."""
    text, made = "", 0

    def key() -> str:
        nonlocal made
        made += 1
        style = draw(st.sampled_from(["k{}", '"k.{}"', "'# k{}'", '"\\" = {}"', "k{} ", "k{} . k", '"" . "]" .k{}']))
        return style.replace('""', f'"{made}"').format(made)

    def value(depth: int, lines: bool) -> None:
        """Adds a value; in an inline table, nothing that has several lines."""
        nonlocal text
        kind = draw(st.sampled_from(["number", "string", "array", "table"] if depth else ["number", "string"]))
        if kind == "number":
            text += str(text.count("\n") + 1)
        elif kind == "string":
            text += draw(st.sampled_from([string for string in STRINGS if lines or "\n" not in string]))
        else:
            text += "[" if kind == "array" else "{"
            for i in range(draw(st.integers(0, 3))):
                text += ", " if i else " "
                if kind == "array" and lines:
                    text += draw(SPACES)
                if kind == "table":
                    text += f"{key()} = "
                value(depth - 1, lines and kind == "array")
            text += (draw(SPACES) if kind == "array" and lines else " ") + ("]" if kind == "array" else "}")

    for _ in range(draw(st.integers(0, 8))):
        text += draw(st.sampled_from(["", "\n", "# x = [\n", "\t"]))
        kind = draw(st.sampled_from(["pair", "pair", "table", "array"]))
        if kind == "pair":
            text += f"{key()} ="
            value(3, lines=True)
            text += draw(st.sampled_from(["\n", " # ]\n"]))
        else:
            text += f"[ {key()}]\n" if kind == "table" else f"[[{key()}]]\n[[arrays]]\n[arrays.{key()}]\n"
    return text


@given(documents())
def test_lines_of_any_text(text: str) -> None:
    assert_lines_are_right(text)


CHARACTERS = "ab[]{}=.,#1 \\\n\"'"


@given(st.integers(0, len(NASTY) - 1), st.integers(0, 2), st.text(st.sampled_from(CHARACTERS), max_size=3))
def test_keys_of_whatever_is_accepted_are_found(at: int, fewer: int, more: str) -> None:
    text = NASTY[:at] + more + NASTY[at + fewer :]
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert key_lines(text).keys() == dict(paths(document)).keys()


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_keys_and_values_that_are_written_are_read_back(key: str, value: str) -> None:
    assert tomllib.loads(f"{toml_key(key)} = {toml_value(value)}") == {key: value}
