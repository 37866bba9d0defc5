"""Exhaustive search of what a protocol can do in a small configuration.

The explorer runs the same protocol code as the simulator and the cluster, in every order of deliveries that is FIFO
per channel, with every use of a budget of timers, crashes and lost sessions. It is fast because steps are pure
functions of (local state, input) and are executed once each (`steps`), because fingerprints of successors are known
before these are built (`search`), and because checks run once for each combination of what they look at (`oracle`).

Where a space is too large to exhaust, `delays` covers all schedules with at most so many delays, and a report never
calls that exhaustive. No reduction is used that could hide an outcome: `outcomes` beside `states` is the cheap check
on any that may be added.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from braidcast.simulator.explorer.delays import DelayBounded
from braidcast.simulator.explorer.moves import Move, show, show_all
from braidcast.simulator.explorer.oracle import Agreement, DeliveryOrder, Invariant, Termination
from braidcast.simulator.explorer.report import Limits, Report, Violation, nothing_covered
from braidcast.simulator.explorer.scenario import scenario_of
from braidcast.simulator.explorer.search import Search
from braidcast.simulator.explorer.setup import Setup, Submission, standard_setup, submit
from braidcast.simulator.explorer.steps import OutOfTime, Steps

__all__ = [
    "Agreement", "DeliveryOrder", "Invariant", "Limits", "Move", "Report", "Setup", "Submission", "Termination",
    "Violation", "explore", "order_invariants", "scenario_of", "show", "show_all",
    "standard_setup", "submit",
]  # fmt: skip


def order_invariants(setup: Setup, termination: bool = False) -> list[Invariant]:
    """What every atomic multicast owes: the delivery order, and in final states termination if it is asked for."""
    submitted = [submission.message for submission in setup.submissions]
    invariants: list[Invariant] = [DeliveryOrder(setup.topology, submitted)]
    if termination:
        invariants.append(Termination(setup.topology, submitted))
    return invariants


def explore(
    setup: Setup,
    invariants: Sequence[Invariant] | None = None,
    delays: int | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Report:
    """Search all schedules of a setup, or with `delays` all that have at most so many delays."""
    began = time.perf_counter()
    deadline = None if limits.seconds is None else began + limits.seconds
    try:
        steps = Steps(setup, order_invariants(setup) if invariants is None else invariants, deadline)
        search = Search(steps, limits) if delays is None else DelayBounded(steps, limits, delays)
        return search.run()
    except OutOfTime:
        return nothing_covered(delays, time.perf_counter() - began)
