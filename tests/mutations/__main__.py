"""`python -m tests.mutations`: which mutants of white-box die, by what, and how fast.

`--soak` looks for the survivors with many more runs; a number or a name runs one mutant only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.mutations.families import FAMILIES
from tests.mutations.mutant import Death, InCampaign, Mutant
from tests.mutations.mutants import MUTANTS, REDUNDANT, SURVIVORS

JOBS = 2
SOAK_RUNS = 400


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a mutant survives its killer."""
    soak = "--soak" in arguments
    wanted = [argument for argument in arguments if argument != "--soak"]
    known = [*SURVIVORS] if soak else MUTANTS
    mutants = [m for m in known if not wanted or m.number in wanted or m.name in wanted]
    if not mutants:
        say(f"there is no mutant {' or '.join(wanted)}: they are numbered {', '.join(m.number for m in known)}")
        return 2
    killed = 0
    say(f"{'number':22} {'mutant':40} {'killed by':42} {'runs':>6}  property")
    with ProcessPoolExecutor(JOBS, mp_context=get_context("fork")) as pool:
        for mutant, (by, death) in zip(mutants, pool.map(partial(_hunt, soak), range(len(known)) if not wanted
                                       else [known.index(m) for m in mutants]), strict=True):  # fmt: skip
            killed += death is not None
            how = (f"{death.runs:6}  {death.properties[0]}") if death is not None else f"{'':6}  SURVIVES"
            say(f"{mutant.number:22} {mutant.name:40} {by:42} {how}")
    if not soak and not wanted:
        tell("cannot be told from the protocol", REDUNDANT)
        tell("survives everything that was tried", SURVIVORS)
    say(f"{killed} of {len(mutants)} mutants killed")
    return 0 if killed == len(mutants) or soak else 1


def _hunt(soak: bool, index: int) -> tuple[str, Death | None]:
    if not soak:
        killer = MUTANTS[index].killer
        assert killer is not None, "whoever is among these has one"
        return str(killer), killer.hunt(MUTANTS[index].protocol, MUTANTS[index].violates)
    for family in FAMILIES:
        death = InCampaign(family, 1000, SOAK_RUNS).hunt(SURVIVORS[index].protocol)
        if death is not None:
            return f"campaign {family} from seed 1000", death
    return "", None


def tell(title: str, mutants: Iterable[Mutant]) -> None:
    """Those that do not die, and why."""
    for mutant in mutants:
        say(f"{mutant.number:22} {mutant.name:40} {title}: {mutant.survives}")


def say(line: str) -> None:
    """One line to the person who asked."""
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
