"""`python -m tests.fuzz [--seconds N] [--target NAME]`: fuzz guided by coverage, each target in a process of its own.

With `--live`, mutated frames are said to real nodes instead (`tests/fuzz/live.py`), which needs no fuzzer.

Prints executions, coverage, how much was refused, and how memory grew. What is found stays in a file, which
`python -m tests.fuzz --target NAME --replay FILE` runs again. Needs atheris, which has wheels for few platforms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import json
import logging
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

NAMES = ("decoder", "handshake", "records", "snapshot", "client", "node")
WARM = 2_000
"""Executions after which memory is looked at first."""
NOTE_EVERY = 500
RUN_S_MAX = 20
INPUT_BYTES_MAX = 1 << 17
NO_FUZZER = 3
"""The exit code where atheris is not to be had."""


def main(arguments: list[str]) -> int:
    """One line per target; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long, per target")
    parser.add_argument("--target", choices=NAMES, action="append", help="all of them by default")
    parser.add_argument("--replay", type=Path, help="run one input and nothing else")
    parser.add_argument("--live", action="store_true", help="a local cluster of real processes")
    parser.add_argument("--seed", type=int, default=1, help="what is said to a live cluster")
    parser.add_argument("--keep", type=Path, help="where findings and notes go")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    targets = given.target or NAMES
    if given.replay is not None:
        return replay(targets[0], given.replay)
    if given.live:
        return fuzz_live(given.seed, given.seconds)
    if importlib.util.find_spec("atheris") is None:
        say("there is no atheris for this platform: tests/fuzz/test_targets.py mutates without guidance")
        return NO_FUZZER
    if given.inside is not None:
        return fuzz(targets[0], given.inside, given.seconds)
    keep = given.keep or Path(tempfile.mkdtemp(prefix="braidcast-fuzz-"))
    say(f"{'target':10} {'executions':>10} {'per s':>7} {'coverage':>9} {'refused':>10} {'MB':>5} {'blocks grown':>12}")
    return max([hunt(name, keep / name, given.seconds) for name in targets])


def fuzz_live(seed: int, seconds: int) -> int:
    """Real nodes; whatever is wrong ends it with an error that says so."""
    from tests.fuzz.live import RUNS_EACH, attack

    with tempfile.TemporaryDirectory(prefix="braidcast-fuzz-") as folder:
        asyncio.run(attack(Path(folder), seed, RUNS_EACH, seconds, say))
    return 0


def hunt(name: str, folder: Path, seconds: int) -> int:
    """One target in a process of its own; 1 if it found something."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "tests.fuzz", "--target", name, "--inside", str(folder), "--seconds", str(seconds),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    (folder / "output").write_text(done.stdout + done.stderr, encoding="utf-8")
    notes = json.loads((folder / "notes").read_text(encoding="utf-8")) if (folder / "notes").exists() else {}
    count = last(r"stat::number_of_executed_units: (\d+)", done.stderr)
    memory, edges = last(r"stat::peak_rss_mb: +(\d+)", done.stderr), last(r"cov: (\d+)", done.stderr)
    refused, grown = notes.get("refused", "?"), notes.get("blocks_grown", "?")
    say(f"{name:10} {count:>10} {int(count) // max(1, seconds):>7} {edges:>9} {refused:>10} {memory:>5} {grown:>12}")
    if done.returncode == 0:
        return 0
    found = sorted(path for path in folder.iterdir() if path.name.startswith(("crash-", "timeout-", "oom-")))
    for path in found:
        say(f"  found: python -m tests.fuzz --target {name} --replay {path}")
    say(f"  see {folder / 'output'}")
    return 1


def last(pattern: str, text: str) -> str:
    """What the pattern found last."""
    found: list[str] = re.findall(pattern, text)
    return found[-1] if found else "0"


def replay(name: str, path: Path) -> int:
    """One input, without a fuzzer; raises what it raises."""
    from tests.fuzz.targets import TARGETS

    say(f"refused: {TARGETS[name]().run(path.read_bytes())}")
    return 0


def fuzz(name: str, folder: Path, seconds: int) -> int:
    """In the process of its own: atheris calls the target until time is up or something is found."""
    import atheris

    with atheris.instrument_imports(include=["braidcast"]):
        from tests.fuzz.targets import TARGETS
    logging.disable()  # a node says of everybody why it turned him away
    target = TARGETS[name]()
    seeds = target.seeds()
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number:03}").write_bytes(seed)
    notes = Notes(folder / "notes")

    def test(data: bytes) -> None:
        notes.add(target.run(data))

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        raw = lambda body, _: atheris.Mutate(body, max(1, min(size_max, len(body) + 64)))  # noqa: E731 - three words
        return target.mutate(data, Random(seed), seeds, raw)[:size_max]

    options: list[Any] = [
        sys.argv[0], f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", f"-timeout={RUN_S_MAX}",
        "-print_final_stats=1", "-rss_limit_mb=2048", f"-artifact_prefix={folder}/", str(corpus),
    ]  # fmt: skip
    atheris.Setup(options, test, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


class Notes:
    """What is known of a run besides what the fuzzer itself prints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = self.refused = self.blocks = 0

    def add(self, refused: int) -> None:
        """One execution."""
        self.runs += 1
        self.refused += refused
        if self.runs == WARM:
            gc.collect()
            self.blocks = sys.getallocatedblocks()
        if self.runs % NOTE_EVERY == 0:
            self.write()

    def write(self) -> None:
        """For whoever waits for the end."""
        if self.runs % (NOTE_EVERY * 20) == 0:
            gc.collect()
        grown = sys.getallocatedblocks() - self.blocks if self.runs > WARM else 0
        text = json.dumps({"runs": self.runs, "refused": self.refused, "blocks_grown": grown})
        self.path.write_text(text, encoding="utf-8")


def say(line: str) -> None:
    """One line to the person who asked."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
