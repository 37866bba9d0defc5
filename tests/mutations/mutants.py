"""All mutants of white-box: those that must die, and those that cannot or do not."""

from __future__ import annotations

from tests.mutations.answering import ANSWERING
from tests.mutations.catching_up import CATCHING_UP
from tests.mutations.collecting import COLLECTING
from tests.mutations.cutting import CUTTING
from tests.mutations.delivering import DELIVERING
from tests.mutations.early import EARLY
from tests.mutations.electing import ELECTING
from tests.mutations.lying import LYING
from tests.mutations.mutant import Mutant
from tests.mutations.ordering import ORDERING
from tests.mutations.recovering import RECOVERING
from tests.mutations.rejoining import REJOINING

_ALL: list[Mutant] = [
    *ORDERING, *DELIVERING, *RECOVERING, *ELECTING, *COLLECTING, *CATCHING_UP, *EARLY, *REJOINING, *LYING,
    *CUTTING, *ANSWERING,
]  # fmt: skip

MUTANTS = [mutant for mutant in _ALL if mutant.killer is not None]
"""Each must die."""
REDUNDANT = [mutant for mutant in _ALL if mutant.killer is None and mutant.redundant]
"""Guards that another guard makes up for, or that are there for strangers and for speed: no run can tell."""
SURVIVORS = [mutant for mutant in _ALL if mutant.killer is None and not mutant.redundant]
"""Nobody has found a schedule that kills these, and nobody has shown that there is none."""
