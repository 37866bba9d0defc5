"""What commands that run on Spark share. Spark itself is imported when they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from braidcast.core.errors import BraidcastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])
PACKAGES = ("pyspark", "pandas", "numpy", "pyarrow")
_SAID = re.compile(r"(?:^|\s)(?:braidcast\.[\w.]*\.)?(HistoryError|WrongSchema): (.+)")
_ERROR = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception): .+")


class NoSpark(BraidcastError):
    """Spark is not installed."""


class JobFailed(BraidcastError):
    """A job failed, with what it said last."""


def master_argument(command: F) -> F:
    """`--master`."""
    return click.option(
        "--master", metavar="URL", help="A Spark cluster, such as spark://HOST:PORT. Without it, this machine."
    )(command)


@contextmanager
def session(name: str, master: str | None) -> Iterator[Callable[[bool], AbstractContextManager[SparkSession]]]:
    """How to start Spark, for seconds or for longer, once all that can be misused was looked at.

    What it raises is one line.
    """
    try:
        from pyspark.errors import PySparkException

        from braidcast.spark.masters import LOCAL, check_master
        from braidcast.spark.session import spark_session
    except ImportError as error:
        missing = error.name if error.name in PACKAGES else error
        raise NoSpark(f"this needs {missing}: pip install 'braidcast[spark]'") from None
    check_master(master or LOCAL)
    try:
        yield lambda short: spark_session(f"braidcast {name}", master, short=short)
    except PySparkException as error:
        raise JobFailed(_line_of(str(error))) from None


def _line_of(text: str) -> str:
    """What a failed job has to say, from all the stacks around it."""
    if said := _SAID.search(text):
        return said[2].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return f"a job on Spark failed: {(errors[-1:] or lines[:1] or ['it did not say why'])[0]}"
