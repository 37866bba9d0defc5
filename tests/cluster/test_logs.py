"""Logs as JSON: one event a line, with who, when, how grave and the fields, whatever is in the text."""

from __future__ import annotations

import json
import logging
import sys

from braidcast.cluster.logs import JsonLines


def record(text: str, *arguments: object, **extra: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text, "args": arguments, "levelname": "WARNING", "created": 1.5, **extra})


def test_an_event_has_node_time_level_its_text_with_and_without_what_varies_and_its_fields() -> None:
    line = JsonLines("n1").format(record("peer %s:\nsession %d", "n2", 7, group="g0", took_ms=3))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500Z", "level": "warning", "node": "n1", "event": "peer %s:\nsession %d",
        "message": "peer n2:\nsession 7", "group": "g0", "took_ms": 3,
    }  # fmt: skip


def test_a_field_cannot_pass_for_the_node_and_may_be_anything() -> None:
    found = json.loads(JsonLines("n1").format(record("x", node="n9", path=object)))
    assert (found["node"], found["path"]) == ("n1", "<class 'object'>")


def test_an_exception_is_in_the_same_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = JsonLines("n1").format(record("x", exc_info=sys.exc_info()))
    assert "\n" not in line
    assert "ValueError: two\nlines" in json.loads(line)["exception"]
