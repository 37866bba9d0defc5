"""Every mutant of white-box dies by its killer, and the same killer finds nothing wrong with the shipped protocol."""

from __future__ import annotations

import pytest
from tests.mutations.families import FAMILIES
from tests.mutations.mutant import InCampaign, Killer, Mutant
from tests.mutations.mutants import MUTANTS, REDUNDANT, SURVIVORS

from braidcast.cli.registry import WHITEBOX

NUMBERS = {mutant.number.partition("-")[0] for mutant in MUTANTS}


CLEAN: dict[str, bool] = {}


def shipped_is_clean(killer: Killer) -> bool:
    """Each killer is turned on the shipped protocol once."""
    name = str(killer)
    if name not in CLEAN:
        CLEAN[name] = killer.hunt(WHITEBOX) is None
    return CLEAN[name]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutant_dies(mutant: Mutant) -> None:
    killer = mutant.killer
    assert killer is not None, "a mutant without a killer is a survivor"
    death = killer.hunt(mutant.protocol, mutant.violates)
    assert death is not None, f"{mutant.broken} survives {killer}"
    if isinstance(killer, InCampaign):  # where it died, and nowhere else, the shipped protocol must be looked at
        killer = InCampaign(killer.family, killer.seed + death.runs - 1, 1)
    assert shipped_is_clean(killer), f"{killer} kills the shipped protocol as well, and proves nothing"


def test_all_numbers_of_section_6_are_there() -> None:
    assert {str(number) for number in range(1, 26)} <= NUMBERS


def test_names_and_numbers_are_unique() -> None:
    everybody = [*MUTANTS, *REDUNDANT, *SURVIVORS]
    assert len({mutant.number for mutant in everybody}) == len({mutant.name for mutant in everybody}) == len(everybody)


@pytest.mark.parametrize("mutant", [*REDUNDANT, *SURVIVORS], ids=str)
def test_what_survives_says_why(mutant: Mutant) -> None:
    """And it can be built, so that it does not go stale."""
    assert mutant.killer is None
    assert mutant.survives
    assert mutant.protocol.make is not WHITEBOX.make


@pytest.mark.soak
@pytest.mark.parametrize("mutant", SURVIVORS, ids=str)
def test_survivor_still_survives(mutant: Mutant) -> None:
    """Whoever dies here has found its killer: write it down."""
    deaths = (InCampaign(family, 1000, 400).hunt(mutant.protocol) for family in FAMILIES)
    assert not [death for death in deaths if death is not None]
