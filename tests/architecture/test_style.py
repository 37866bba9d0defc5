"""Style kept by tests that ratchet: the tables of exceptions get shorter, or longer with a reason.

Code is read as a syntax tree where that tells a call from a mention of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "braidcast"
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"
PROTOCOLS = SOURCE / "protocols"

LINES_MAX = 500

LONG_FILES: dict[str, str] = {
    "src/braidcast/protocols/whitebox/messages.py": "the whole vocabulary of the protocol, as its README lists it",
}

FAULTS = (
    "crash",
    "restart",
    "partition",
    "lost session",
    "leader change",
    "garbage collection",
    "reconfiguration",
)


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def calls_of(path: Path, function: str) -> Iterator[str]:
    """Where the file calls `function`, by itself or as an attribute of anything."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if (isinstance(called, ast.Name) and called.id == function) or (
            isinstance(called, ast.Attribute) and called.attr == function
        ):
            yield f"{name_of(path)}:{node.lineno}"


def is_public(path: Path) -> bool:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return all(part == "__init__" or not part.startswith("_") for part in parts)


def protocol_packages() -> list[Path]:
    return sorted(
        folder.parent for folder in PROTOCOLS.glob("*/__init__.py") if folder.parent.name != "parts"
    )


def table_under(heading: str, text: str) -> list[str]:
    """The rows of the tables in the section with that heading, in lower case; none if there is no section."""
    section = re.search(
        rf"^#+ *{heading}\b[^\n]*\n(?P<body>.*?)(?=^#+ |\Z)",
        text,
        re.MULTILINE | re.DOTALL | re.IGNORECASE,
    )
    if section is None:
        return []
    return [line.strip().lower() for line in section["body"].splitlines() if line.lstrip().startswith("|")]


def test_there_is_something_to_look_at() -> None:
    assert python_files(SOURCE)
    assert python_files(TESTS)


def test_files_beyond_500_lines_have_a_reason() -> None:
    files = python_files(SOURCE) + python_files(TESTS) + python_files(EXAMPLES)
    long = {name_of(path): line_count(path) for path in files if line_count(path) > LINES_MAX}
    unexplained = {name: lines for name, lines in long.items() if name not in LONG_FILES}
    assert not unexplained, f"beyond {LINES_MAX} lines: split them, or give a reason in LONG_FILES"


def test_reasons_for_long_files_are_still_needed() -> None:
    stale = [
        name
        for name in LONG_FILES
        if not (ROOT / name).is_file() or line_count(ROOT / name) <= LINES_MAX
    ]
    assert not stale, "no longer beyond the limit: take them out of LONG_FILES"
    assert all(reason.strip() for reason in LONG_FILES.values())


def test_nothing_prints_outside_the_command_line() -> None:
    # A method called print (of a console, say) is somebody's own; only the builtin is meant.
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files(SOURCE)
        if path.relative_to(SOURCE).parts[0] != "cli"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not found, "only cli prints"


def test_tests_never_sleep() -> None:
    found = [place for path in python_files(TESTS) for place in calls_of(path, "sleep")]
    assert not found, "wait for the condition, or use virtual time"


def test_nothing_is_left_to_do_in_a_comment() -> None:
    found = [
        f"{name_of(path)}:{number}"
        for path in python_files(SOURCE) + python_files(EXAMPLES)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"\b(TODO|FIXME)\b", line)
    ]
    assert not found, "do it, or write down in the README that it is not handled"


def test_public_modules_have_a_docstring() -> None:
    found = [
        name_of(path)
        for path in python_files(SOURCE) + python_files(EXAMPLES)
        if (path.is_relative_to(EXAMPLES) or is_public(path)) and not (ast.get_docstring(tree_of(path)) or "").strip()
    ]
    assert not found, "a file opens with what it is for and its rules"


@pytest.mark.parametrize("package", protocol_packages(), ids=lambda package: package.name)
def test_protocol_readme_has_a_table_of_fault_coverage(package: Path) -> None:
    readme = package / "README.md"
    assert readme.is_file(), f"{name_of(package)} has no README.md"
    rows = table_under("Fault coverage", readme.read_text(encoding="utf-8"))
    assert rows, f"{name_of(readme)} has no table under a heading 'Fault coverage'"
    missing = [fault for fault in FAULTS if not any(fault in row.split("|")[1] for row in rows)]
    assert not missing, f"{name_of(readme)} says nothing of them: handled, not applicable, or not handled?"
