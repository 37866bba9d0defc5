"""Mutations that know the structure: of scripts, and of the MessagePack in their bodies.

Bytes changed at random hardly ever make another message, so a body is taken apart, one place in it is changed, and it
is put together again: an absurd number, another one from the same script, a message from another seed, a list that is
empty or far too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec
from tests.fuzz.script import Do, Step, pack, unpack

BODY_BYTES_MAX = 1 << 15
ABSURD = (
    -(1 << 63), -(1 << 31), -2, -1, 0, 1, 2, 3, 255, 1 << 16, (1 << 31) - 1, 1 << 32, 1 << 53, 1 << 62, (1 << 63) - 1,
    (1 << 64) - 1,
)  # fmt: skip
ODD: tuple[Any, ...] = (None, True, "", "Multicast", b"", b"\xff" * 40, [], [[]], {}, 1.5)

Raw = Callable[[bytes, Random], bytes]
"""Changes bytes of which nothing is known."""


def mutate_script(data: bytes, random: Random, others: Sequence[bytes], raw: Raw | None = None) -> bytes:
    """Another script."""
    choice, steps = unpack(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        kind = random.randrange(10)
        at = random.randrange(len(steps)) if steps else 0
        if kind < 6 and steps:
            steps[at] = steps[at]._replace(body=mutate_body(steps[at].body, random, steps, raw))
        elif kind == 6 and others:
            theirs = unpack(random.choice(others))[1]
            begin = random.randrange(len(theirs)) if theirs else 0
            steps[at:at] = theirs[begin : begin + random.randrange(1, 6)]
        elif kind == 7 and steps:
            del steps[at : at + random.randrange(1, 4)]
        elif kind == 8 and steps:
            steps.insert(random.randrange(len(steps) + 1), steps[at])
        elif steps:
            step = steps[at]
            do = Do(random.randrange(len(Do)))
            steps[at] = step._replace(do=do) if random.randrange(2) else step._replace(on=random.randrange(8))
        if not random.randrange(20):
            choice = random.randrange(8)
    return pack(choice, [step._replace(body=step.body[:BODY_BYTES_MAX]) for step in steps])


def mutate_body(body: bytes, random: Random, steps: Sequence[Step] = (), raw: Raw | None = None) -> bytes:
    """Another body: usually a message that differs in one place."""
    try:
        tree = msgspec.msgpack.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return (raw or mutate_bytes)(body, random)
    if not random.randrange(8):
        return (raw or mutate_bytes)(body, random)
    places = list(_places(tree))
    if not places:
        return (raw or mutate_bytes)(body, random)
    holder, key = random.choice(places)
    _change(holder, key, random, steps)
    try:
        return msgspec.msgpack.encode(tree)[:BODY_BYTES_MAX]
    except (OverflowError, RecursionError, msgspec.MsgspecError):
        return body


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Everything that can be changed: (what holds it, where)."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys = range(len(node)) if isinstance(node, list) else list(node) if isinstance(node, dict) else ()
        for key in keys:
            found.append((node, key))
            waiting.append(node[key])
    return found


def _change(holder: Any, key: Any, random: Random, steps: Sequence[Step]) -> None:
    value = holder[key]
    kind = random.randrange(6)
    if kind == 0:
        holder[key] = random.choice(ODD)
    elif kind == 1 and steps:
        holder[key] = _from_elsewhere(value, random, steps)
    elif isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int):
        near = value + random.choice((-1, 1, 1 << 10, 1 << 16, 1 << 26))
        holder[key] = near if kind < 4 and -(1 << 63) <= near < 1 << 64 else random.choice(ABSURD)
    elif isinstance(value, list):
        if kind == 2 and value:
            del value[random.randrange(len(value))]
        elif kind == 3 and value:
            value.insert(random.randrange(len(value)), random.choice(value))
        elif kind == 4 and value:
            holder[key] = value * random.choice((2, 50))
        else:
            random.shuffle(value)
    elif isinstance(value, bytes):
        holder[key] = mutate_body(value, random) if value else b"\0"
    else:
        holder[key] = random.choice(ODD)


def _from_elsewhere(value: Any, random: Random, steps: Sequence[Step]) -> Any:
    """Something of the same type from another body of the script."""
    try:
        other = msgspec.msgpack.decode(random.choice(steps).body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return value
    alike = [holder[key] for holder, key in _places(other) if type(holder[key]) is type(value)]
    return random.choice(alike) if alike else value


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Bytes changed at random."""
    if not data:
        return random.randbytes(random.randrange(1, 20))
    changed = bytearray(data)
    at = random.randrange(len(changed))
    match random.randrange(4):
        case 0:
            changed[at] ^= 1 << random.randrange(8)
        case 1:
            del changed[at : at + random.randrange(1, 9)]
        case 2:
            changed[at:at] = random.randbytes(random.randrange(1, 9))
        case _:
            changed[at] = random.choice((0, 0x7F, 0x80, 0xC1, 0xDF, 0xFF))
    return bytes(changed)
