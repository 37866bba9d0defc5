"""What a fuzzer says to a node: a script of steps on a few connections. Any bytes are a script.

The first byte chooses the node, in which of its lives, and how followers deliver. A step is what is done, on which
connection, and with what: four bytes and a body. `FRAME` is a good frame around any body, so that a mutated body gets
through to where bodies are looked at; the others are what goes wrong below that.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

_STEP = struct.Struct("<BBH")
STEPS_MAX = 600


class Do(IntEnum):
    """What a step does."""

    FRAME = 0
    RAW = 1
    """Bytes that are no frame, or are one if the fuzzer makes one."""
    AGAIN = 2
    """The last frame once more."""
    SKIP = 3
    """A frame, with the number after the next one."""
    CUT = 4
    """Half a frame."""
    LONG = 5
    """The head of a frame that is too large."""
    FLIP = 6
    """A frame with one bit wrong; the first byte of the body says which."""
    WAIT = 7
    """Time passes: the first two bytes of the body, in tenths of a millisecond."""
    LOSE = 8
    """The connection breaks."""


class Step(NamedTuple):
    """One step."""

    do: Do
    on: int
    body: bytes


def pack(choice: int, steps: Sequence[Step]) -> bytes:
    """A script as bytes."""
    return bytes([choice]) + b"".join([_STEP.pack(s.do, s.on, len(s.body)) + s.body for s in steps])


def unpack(data: bytes) -> tuple[int, list[Step]]:
    """The script that these bytes are."""
    steps: list[Step] = []
    at = 1
    while at + _STEP.size <= len(data) and len(steps) < STEPS_MAX:
        do, on, size = _STEP.unpack_from(data, at)
        at += _STEP.size
        steps.append(Step(Do(do % len(Do)), on, data[at : at + size]))
        at += size
    return data[0] if data else 0, steps
