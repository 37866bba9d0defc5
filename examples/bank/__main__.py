"""`python -m examples.bank`: a bank, for a while, and a verdict."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from braidcast import BraidcastError
from examples.bank.driver import ACCOUNTS, EACH, run_bank
from examples.bank.observer import Verdict
from examples.bank.shard import SHARDS


def report(verdict: Verdict, seconds: float, *, together: bool) -> list[str]:
    """What came of it, for people."""
    how = "one message to both shards" if together else "a message to each shard, ordered in that shard only"
    wrong, orders = verdict.wrong_sums, verdict.inversions
    money = f"always {verdict.money:,}"
    if wrong:
        money = f"wrong at {len(wrong)}, between {min(wrong):,} and {max(wrong):,}; {verdict.sums[0]:,} in the end"
    lines = [
        f"a bank of {len(SHARDS)} shards on 3 nodes, {ACCOUNTS} accounts of {EACH}; a transfer is {how}",
        f"  {seconds:g} s: {verdict.transfers:,} transfers, {verdict.between:,} of them between shards; "
        f"{verdict.refused:,} refused; {verdict.kills} leaders killed",
        f"  the money at {len(verdict.sums)} moments: {money}",
        f"  the lowest balance: {verdict.lowest}",
        f"  what two shards both did: {f'{orders:,} times in another order' if orders else 'in the same order'}",
        "  the states in the end: " + ("the same at every node" if verdict.same_states else "DIFFERENT"),
    ]  # fmt: skip
    if together:
        lines.append("a bank: nothing was lost, nothing was made" if verdict.ok else "NOT a bank")
    else:
        lines.append("no bank: this is what an order for each shard alone is worth" if not verdict.ok else
                     "nothing went wrong this time: try a longer run")  # fmt: skip
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 if it went as it must."""
    parser = argparse.ArgumentParser(prog="python -m examples.bank", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the tellers work (10)")
    parser.add_argument("--kill-leaders", action="store_true", help="kill -9 leaders meanwhile, and start them again")
    parser.add_argument("--separately", action="store_true",
                        help="the counter-example: a transfer is two messages, each for one shard")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of what the tellers do, and of who is killed (1)")
    parser.add_argument("--data", type=Path, help="an empty folder for the nodes' data (a temporary one)")
    given = parser.parse_args(arguments)
    if not 0 < given.seconds <= 3600:
        parser.error("--seconds is a number above 0, and at most 3600")
    if given.data is not None and given.data.exists() and (not given.data.is_dir() or any(given.data.iterdir())):
        parser.error(f"--data {given.data} is not empty: name another folder")
    try:
        with tempfile.TemporaryDirectory(prefix="bank-") as temporary:
            verdict = asyncio.run(run_bank(
                given.data or Path(temporary), seconds=given.seconds, kill_leaders=given.kill_leaders,
                together=not given.separately, seed=given.seed,
            ))  # fmt: skip
    except (BraidcastError, OSError, RuntimeError) as error:
        print(f"the bank could not be run: {error}", file=sys.stderr)
        return 2
    print(*report(verdict, given.seconds, together=not given.separately), sep="\n")
    if given.kill_leaders and not verdict.kills:
        print("but no leader was killed: give it more seconds")
        return 1
    return 0 if verdict.ok != given.separately else 1


if __name__ == "__main__":
    sys.exit(main())
