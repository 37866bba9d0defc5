"""All mutants of white-box."""

from __future__ import annotations

from tests.mutations.collecting import COLLECTING
from tests.mutations.early import EARLY
from tests.mutations.mutant import Mutant
from tests.mutations.ordering import ORDERING
from tests.mutations.recovering import RECOVERING

MUTANTS: list[Mutant] = [*ORDERING, *RECOVERING, *COLLECTING, *EARLY]
