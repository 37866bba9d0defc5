"""The Spark session: made once per command, quiet, on loopback, with everything of its own in one folder.

A session that lasts seconds is set up for a fast start: no compiler of queries, no second look at plans, no second
compiler in Java, the simplest collector.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import braidcast
from braidcast.core.errors import BraidcastError
from braidcast.spark.java import find_java
from braidcast.spark.machine import cores, driver_memory_gib
from braidcast.spark.masters import LOCAL, BadMaster, check_master, is_here, is_local

SETTINGS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}  # fmt: skip
SHORT_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SHORT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For tests and commands that take seconds: half the CPU of a start, and slower once it is warm."""
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


_SAID = re.compile(r"(?:HistoryError|WrongSchema): (.+)")
_DAMAGED = re.compile(r"FAILED_READ_FILE.* while reading file file:/*(/\S+\.parquet)")
_ERROR = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception): .+|^\[[A-Z_.]+\] .+")
LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They print what PySpark raises anyway, stacks and all."""


class SparkFailed(BraidcastError):
    """Spark did not start, or a job of it failed."""


@contextmanager
def spark_session(
    name: str,
    master: str | None = None,
    *,
    memory_gib: int | None = None,
    short: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session and, when it is over, nothing left of it; or the one that is there already, which is left alone.

    `short` for what takes seconds.
    """
    active = SparkSession.getActiveSession()
    if active is not None and master in (None, active.sparkContext.master):
        with _one_line_errors():
            yield active
        return
    if active is not None:
        raise BadMaster(f"this process has Spark on {active.sparkContext.master}: stop that session, or use its master")
    master = master or LOCAL
    check_master(master)
    folder = Path(tempfile.mkdtemp(prefix="braidcast-spark-"))
    try:
        session = _start(name, master, folder, memory_gib, short, settings or {})
        try:
            with _one_line_errors():  # while there is a JVM to ask what was wrong
                yield session
        finally:
            _stop(session)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(
    name: str,
    master: str,
    folder: Path,
    memory_gib: int | None,
    short: bool,
    settings: Mapping[str, str],
) -> SparkSession:
    log, properties = folder / "spark.log", folder / "log4j2.properties"
    properties.write_text(LOGGING.format(file=log), encoding="utf-8")
    java = find_java()
    builder = SparkSession.builder.appName(name).master(master)
    java_options = [f"-Dlog4j2.configurationFile={properties.as_uri()}", f"-Dderby.system.home={folder}"]
    chosen = SETTINGS | {
        "spark.sql.shuffle.partitions": str(max(2, 2 * cores())),
        "spark.driver.memory": f"{memory_gib or driver_memory_gib()}g",
        "spark.driver.extraJavaOptions": " ".join([*java_options, *([SHORT_JAVA] if short else [])]),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }  # fmt: skip
    if "SPARK_LOCAL_DIRS" not in os.environ:
        chosen["spark.local.dir"] = str(folder)
    if is_here(master):
        chosen |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    for key, value in (chosen | (SHORT if short else {}) | dict(settings)).items():
        builder = builder.config(key, value)
    try:
        with _stderr_into(log), _environment(JAVA_HOME=str(java.home), PYSPARK_PYTHON=sys.executable):
            session = builder.getOrCreate()
    except Exception as error:  # py4j has many ways to say it
        raise SparkFailed(f"Spark did not start on {master} with Java {java.version}: {_reason(log, error)}") from None
    if not is_local(master):
        session.sparkContext.addPyFile(str(_package(folder)))
    return session


def _stop(session: SparkSession) -> None:
    """Stop the session and its JVM, so that the next session may have other settings."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    with suppress(Exception):  # a JVM that has died already
        session.stop()
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        gateway.shutdown()
    if process is not None:
        process.stdin.close()  # what a JVM of PySpark waits for
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What a job raises says what was wrong, without the stacks of two languages."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise SparkFailed(_line_of(str(error))) from None


def _line_of(text: str) -> str:
    if said := _SAID.search(text):
        return said[1].strip()
    if damaged := _DAMAGED.search(text):
        return f"{unquote(damaged[1])} is damaged: restore it or record the run again"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return f"a job on Spark failed: {(errors[:1] or lines[:1] or ['it did not say why'])[0]}"


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """What is started meanwhile finds these; `PYSPARK_PYTHON` only if the user has not chosen one."""
    before = dict(os.environ)
    os.environ |= values if "PYSPARK_PYTHON" not in before else values | {"PYSPARK_PYTHON": before["PYSPARK_PYTHON"]}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """What is started meanwhile says its warnings to `log`, and keeps doing so."""
    sys.stderr.flush()
    before = os.dup(2)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)


def _reason(log: Path, error: Exception) -> str:
    """The line of the log that tells most, or else what Python was told."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    told = [line for line in lines if "rror" in line or "xception" in line]
    return (told or [*str(error).splitlines(), type(error).__name__])[0].strip()


def _package(folder: Path) -> Path:
    """This package as a file that executors import from."""
    path, root = folder / "braidcast.zip", Path(braidcast.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(root.rglob("*.py")):
            archive.write(source, source.relative_to(root.parent))
    return path
