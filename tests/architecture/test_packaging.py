"""What set-up installs is pinned by version and hash, names no place it comes from, and has a reason."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

PIN = re.compile(
    r"""^(?P<name>[a-z0-9][a-z0-9-]*)==[0-9][0-9a-z.!+]*(?P<marker> ; [\w '".<>=!()]+)? \\$""", re.IGNORECASE
)
HASH = re.compile(r"^ {4}--hash=sha256:[0-9a-f]{64}(?: \\)?$")


def lock_lines() -> list[str]:
    return (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()


def pyproject_lines() -> list[str]:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads("\n".join(pyproject_lines()))


def locked_names() -> set[str]:
    return {pin["name"] for line in lock_lines() if (pin := PIN.match(line))}


def requirements(section: str) -> list[str]:
    """The requirements of `dependencies`, of an extra or of a dependency group."""
    if section == "dependencies":
        return list(pyproject()["project"]["dependencies"])
    if section in (extras := pyproject()["project"]["optional-dependencies"]):
        return list(extras[section])
    return list(pyproject()["dependency-groups"][section])


def project_name(requirement: str) -> str:
    """The normalised name of the project that a requirement asks for."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def has_reason(requirement: str) -> bool:
    """Whether a comment stands on the requirement's line, or alone on the line above."""
    lines = pyproject_lines()
    quoted = f'"{requirement}"'
    places = [number for number, line in enumerate(lines) if line.strip().startswith(quoted)]
    return bool(places) and all(
        re.search(r"#\s*\w", lines[number].split(quoted, 1)[1]) is not None
        or lines[number - 1].lstrip().startswith("#")
        for number in places
    )


def test_lock_holds_only_versions_and_hashes() -> None:
    assert locked_names()
    strange = [line for line in lock_lines() if not PIN.match(line) and not HASH.match(line)]
    assert not strange


def test_lock_names_no_address_and_no_path() -> None:
    text = "\n".join(lock_lines())
    assert "://" not in text
    assert not re.search(r"(^|[\s=@])(/|~|\.\.?/|[A-Za-z]:\\)\w", text, re.MULTILINE)
    assert "--find-links" not in text
    assert "index" not in text


def test_every_pin_has_hashes() -> None:
    lines = lock_lines()
    bare = [
        line
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if PIN.match(line) and not HASH.match(following)
    ]
    assert not bare


@pytest.mark.parametrize("section", ["dependencies", "spark", "build", "sources", "dev", "fuzz", "peers"])
def test_everything_asked_for_is_locked(section: str) -> None:
    assert {project_name(requirement) for requirement in requirements(section)} <= locked_names()


def test_build_backend_is_locked_as_the_build_group() -> None:
    assert pyproject()["build-system"]["requires"] == requirements("build")


@pytest.mark.parametrize("section", ["dependencies", "spark", "build", "sources", "dev", "fuzz", "peers"])
def test_every_dependency_says_why_it_is_there(section: str) -> None:
    silent = [requirement for requirement in requirements(section) if not has_reason(requirement)]
    assert not silent, "add a comment on its line, or on the line above"
