"""Small setups of which every schedule is explored."""

from __future__ import annotations

from tests.mutations.mutant import InExploration

from braidcast.cli.registry import WHITEBOX
from braidcast.core.topology import Topology
from braidcast.protocols.whitebox import Options
from braidcast.simulator.explorer import Setup, submit

_PAIR = Topology.parse("2x1")
_TRIO = Topology.parse("3")

TWO_MESSAGES = InExploration(
    "of two messages to two groups of one",
    Setup(WHITEBOX, _PAIR, submissions=submit(_PAIR, 2, "leaders")),
)
ONE_ELECTION = InExploration(
    "of one message and one election in a group of three",
    Setup(WHITEBOX, _TRIO, Options(prevote=False), submissions=submit(_TRIO, 1), elections=1, patient=True),
)
