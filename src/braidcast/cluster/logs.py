"""What a node says: on standard error, one event a line, as text for people or as JSON for what collects logs.

An event in JSON has `time` (UTC, milliseconds), `level`, `node`, `event` (the text without what varies), `message` (the
whole text), and the fields that the event was given (`logging`'s `extra`).
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from braidcast.cluster.config import LogFormat

TEXT = "%(asctime)s %(levelname)s %(message)s"
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has, so that what is left are fields."""


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        event: dict[str, object] = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(), "node": self.node,
            "event": str(record.msg), "message": record.getMessage(),
        }  # fmt: skip
        event |= {name: value for name, value in vars(record).items() if name not in _OWN and name not in event}
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


def log_to_stderr(node: str, form: LogFormat) -> None:
    """From now on everything that is logged goes there."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(node) if form == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
