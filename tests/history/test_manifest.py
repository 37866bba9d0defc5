"""The head of a history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from braidcast.history.manifest import FIFO, GENUINE, HistoryError, Manifest, manifest_from_json

FULL = Manifest(
    protocol="whitebox", topology=((0, 1, 2), (5,)), run="run-7", driver="cluster", seed=7,
    options={"retry_ticks": 5, "follower_delivery": "early"}, software_version="1.2", delta=10,
    scenario="convoy", promises=(GENUINE, FIFO), quiescent=True, crashed=(1, 100),
)  # fmt: skip


def test_a_manifest_comes_back_from_its_text() -> None:
    assert manifest_from_json(FULL.to_json()) == FULL
    small = Manifest("skeen", ((0,),), "r")
    assert manifest_from_json(small.to_json()) == small


def test_who_was_up_at_the_end_is_correct() -> None:
    assert FULL.correct == (0, 2, 5)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("protocol", 3, "'protocol' must be str, not 3"),
        ("seed", "x", "'seed' must be int or null"),
        ("seed", True, "'seed' must be int or null"),
        ("quiescent", 1, "'quiescent' must be bool"),
        ("options", [], "'options' must be dict"),
        ("crashed", ["x"], "'crashed' must be a list of int"),
        ("promises", ["speed"], "promises speed, which nobody can judge: known are genuine, fifo"),
        ("topology", [[0, "x"]], "list of lists of process ids"),
        ("topology", [[]], "group 0 has no members"),
        ("schema_version", 0, "no usable schema_version"),
        ("schema_version", "1", "no usable schema_version"),
        ("colour", "red", "unknown fields colour"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: Any, expected: str) -> None:
    text = json.dumps(json.loads(FULL.to_json()) | {field: value})
    with pytest.raises(HistoryError, match=expected):
        manifest_from_json(text)


@pytest.mark.parametrize("field", ["protocol", "topology", "run", "driver", "quiescent", "promises", "crashed"])
def test_a_missing_field_is_named(field: str) -> None:
    found = json.loads(FULL.to_json())
    del found[field]
    with pytest.raises(HistoryError, match=f"no field '{field}'"):
        manifest_from_json(json.dumps(found))
