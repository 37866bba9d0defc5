"""Every target, without guidance: its seeds, and as many mutations of them as a few seconds hold.

Repeat a failure with `python -m tests.fuzz --target NAME --replay FILE`; the failing test says where the file is.
"""

from __future__ import annotations

import gc
import logging
import sys
from pathlib import Path
from random import Random

import pytest
from tests.fuzz.mutate import mutate_script
from tests.fuzz.script import Do, Step, pack, unpack
from tests.fuzz.targets import TARGETS, Target

RUNS = {
    "decoder": 300, "handshake": 3000, "records": 1000, "snapshot": 1000, "backup": 200, "call": 3000, "hosted": 1000,
    "tls": 300, "client": 150, "node": 250,
}  # fmt: skip
SEED = 1
BLOCKS_A_RUN_MAX = 2.0
"""How many blocks of memory a run may leave behind on average: caches fill, and that is all."""


@pytest.fixture(params=list(TARGETS))
def target(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Target:
    caplog.set_level(logging.CRITICAL)  # what is captured is kept, and would count as growth
    return TARGETS[request.param]()


def inputs(target: Target, count: int) -> list[bytes]:
    """Mutations of the seeds, the same ones every time."""
    random, seeds = Random(SEED), target.seeds()
    found = []
    for number in range(count):
        data = seeds[number % len(seeds)]
        for _ in range(random.choice((1, 2, 4))):
            data = target.mutate(data, random, seeds, None)
        found.append(data)
    return found


def run(target: Target, data: bytes, folder: Path) -> int:
    try:
        return target.run(data)
    except BaseException:
        path = folder / "input"
        path.write_bytes(data)
        sys.stderr.write(f"python -m tests.fuzz --target {target.name} --replay {path}\n")
        raise


def test_seeds_and_mutations_raise_nothing_but_what_is_declared_and_something_is_refused(
    target: Target, tmp_path: Path
) -> None:
    for seed in target.seeds():
        run(target, seed, tmp_path)
    assert sum(run(target, data, tmp_path) for data in inputs(target, RUNS[target.name])) > 0


def test_memory_does_not_grow_with_what_is_refused(target: Target, tmp_path: Path) -> None:
    some = inputs(target, RUNS[target.name] // 5)
    for data in some:  # caches fill
        run(target, data, tmp_path)
    gc.collect()
    before = sys.getallocatedblocks()
    for data in some:
        run(target, data, tmp_path)
    gc.collect()
    assert sys.getallocatedblocks() - before < BLOCKS_A_RUN_MAX * len(some)


def test_any_bytes_are_a_script_and_a_script_comes_back_from_its_bytes() -> None:
    steps = [Step(Do.FRAME, 1, b"abc"), Step(Do.LOSE, 7, b"")]
    assert unpack(pack(3, steps)) == (3, steps)
    for number in range(200):
        unpack(Random(number).randbytes(number))


def test_mutations_of_one_seed_and_one_random_state_are_the_same() -> None:
    script = pack(0, [Step(Do.FRAME, 0, b"\x93\x01\x02\x03")] * 3)
    once, again = (mutate_script(script, Random(7), [script]) for _ in range(2))
    assert once == again
