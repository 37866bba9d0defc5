"""Everything that decides a simulated run: equal plans give equal runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from braidcast.core.process import Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.clocks import ClockPlan
from braidcast.simulator.disk import DiskPlan
from braidcast.simulator.faults import Fault, FaultRates
from braidcast.simulator.load import ClientPlan, Load, Submission
from braidcast.simulator.network import NetworkPlan


@dataclass(frozen=True)
class Limits:
    """When a run ends."""

    settle: Ticks = 2_000
    """A run is quiescent when nobody waits for anything and nothing was delivered for this long."""
    grace: Ticks = 60_000_000
    """How long after the last fault and the last submission it may take until then."""
    events_max: int = 20_000_000
    rest: Ticks = 0
    """With a rest, once a run is quiescent a client multicasts once more to each set of destinations that occurred,
    and when that is done the run goes on for so long; then processes may hold nothing any more."""


@dataclass(frozen=True)
class SimulationPlan:
    """One run."""

    protocol: Protocol
    topology: Topology
    options: Any = None
    """The protocol's options; None for the default ones."""
    seed: int = 0
    network: NetworkPlan = field(default_factory=NetworkPlan)
    disk: DiskPlan = field(default_factory=DiskPlan)
    application: ApplicationPlan = field(default_factory=ApplicationPlan)
    clocks: ClockPlan = field(default_factory=ClockPlan)
    cpu: Ticks = 0
    """What each input costs a process."""
    clients: ClientPlan = field(default_factory=ClientPlan)
    load: Load | tuple[Submission, ...] = ()
    faults: FaultRates | tuple[Fault, ...] = ()
    limits: Limits = field(default_factory=Limits)
    record: bool = True
    """Whether to keep a history; without one, the counts of notes are missing too, and a run is faster."""
    traffic: bool = True
    """Whether a history holds sends, receives and records, too. Without them a run is three times as fast, and the
    properties that look at them say nothing."""
    delta: Ticks | None = None
    """Ticks per hop, where that is fixed."""
    scenario: str = ""
    run: str = ""
    """Names the run in its history; by default after protocol and seed."""
