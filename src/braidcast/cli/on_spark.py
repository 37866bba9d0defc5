"""What commands that run on Spark share. Spark itself is imported when they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from braidcast.core.errors import BraidcastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])
PACKAGES = ("pyspark", "pandas", "numpy", "pyarrow")


class NoSpark(BraidcastError):
    """Spark is not installed."""


def master_argument(command: F) -> F:
    """`--master`."""
    return click.option(
        "--master", metavar="URL", help="A Spark cluster, such as spark://HOST:PORT. Without it, this machine."
    )(command)


@contextmanager
def session(name: str, master: str | None) -> Iterator[Callable[[bool], AbstractContextManager[SparkSession]]]:
    """How to start Spark, for seconds or for longer, once all that can be misused was looked at."""
    try:
        from braidcast.spark.masters import LOCAL, check_master
        from braidcast.spark.session import spark_session
    except ImportError as error:
        missing = error.name if error.name in PACKAGES else error
        raise NoSpark(f"this needs {missing}: pip install 'braidcast[spark]'") from None
    check_master(master or LOCAL)
    yield lambda short: spark_session(f"braidcast {name}", master, short=short)
