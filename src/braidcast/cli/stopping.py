"""Being told to stop in the middle of work on a real cluster: the nodes that were started are stopped first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stops_when_told() -> Iterator[None]:
    """SIGTERM is the same as Ctrl-C here, and both work where a shell started this in the background."""

    def tell(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, tell),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
