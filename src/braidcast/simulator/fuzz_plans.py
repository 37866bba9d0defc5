"""Draws the plan of a fuzzed run from its seed: topology, options, network, disk, applications, load and faults.

All times are multiples of one delay, to which the protocol's time-outs are paced. So heartbeats are lost, elections
collide and crashes outlast suspicion in every run, however fast its network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from random import Random

from braidcast.core.errors import TopologyError
from braidcast.core.process import Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.clocks import ClockPlan
from braidcast.simulator.delays import Constant, Delay, Exponential, LogNormal, Uniform
from braidcast.simulator.disk import DiskPlan
from braidcast.simulator.faults import FaultRates
from braidcast.simulator.load import ClientPlan, Load
from braidcast.simulator.network import NetworkPlan, Regions
from braidcast.simulator.pacing import paced_options
from braidcast.simulator.plan import Limits, SimulationPlan

SEED_BYTES = 6
TOPOLOGY_TRIES = 20
RESTS = 0.1
"""How many of the runs go on until everything should be forgotten; it makes them twice as long."""
UNITS: tuple[Ticks, ...] = (8, 20, 100)
"""One delay of a run's network, in ticks."""


def seed_of(base: int, index: int) -> int:
    """The seed of one run of a campaign: it names the run on its own."""
    return int.from_bytes(hashlib.sha256(f"{base} {index}".encode()).digest()[:SEED_BYTES], "big")


def draw_plan(
    protocol: Protocol, seed: int, options: Mapping[str, str] | None = None, topology: Topology | None = None
) -> SimulationPlan:
    """The plan of the run with that seed; given options and topology come before drawn ones and before the pace."""
    random = Random(f"{seed} plan")
    drawn = _topology(random, protocol)
    variant = random.choice(list(protocol.variants)) if protocol.variants else {}
    unit = random.choice(UNITS)
    faults = protocol.tolerates_faults
    topology = topology or drawn
    paced = paced_options(protocol, {**variant, **(options or {})}, unit)
    rests = protocol.forgets_after is not None and Random(f"{seed} rest").random() < RESTS
    rest = protocol.forgets_after(paced) if protocol.forgets_after is not None and rests else 0
    return SimulationPlan(
        protocol=protocol,
        topology=topology,
        options=paced,
        seed=seed,
        network=_network(random, topology, unit, faults=faults),
        disk=DiskPlan(
            fsync=random.choice((0, 0, max(1, unit // 4), 2 * unit)),
            checkpoint_every=random.choice((0, 0, 7, 40)),
        ),
        application=ApplicationPlan(
            lag=random.choice((0, 0, unit, 10 * unit, 60 * unit)),
            every=random.choice((0, 3)),
            snapshot=random.choice((0, 3 * unit)),
        ),
        clocks=ClockPlan(
            {pid: random.randint(-50 * unit, 50 * unit) for pid in topology.pids if random.random() < 0.2},
            {pid: random.randint(-500, 500) for pid in topology.pids if random.random() < 0.2},
        ),
        cpu=random.choice((0, 0, 0, max(1, unit // 20))),
        clients=ClientPlan(timeout=random.choice((15, 40)) * unit, rebatch=random.choice((0.0, 0.5))),
        load=_load(random, unit, faults=faults),
        faults=_faults(random, unit, protocol) if faults else (),
        limits=Limits(settle=80 * unit, grace=20_000 * unit, rest=rest),
    )


def check_options(protocol: Protocol, options: Mapping[str, str]) -> None:
    """Fail unless the options suit every run that a campaign may draw: better before it than in its middle."""
    for variant in protocol.variants or ({},):
        for unit in UNITS:
            paced_options(protocol, {**variant, **options}, unit)


def _topology(random: Random, protocol: Protocol) -> Topology:
    for _ in range(TOPOLOGY_TRIES):
        groups = random.choice((1, 2, 2, 2, 3))
        sizes = random.choices((1, 3, 5, 7), (2, 10, 2, 0.5), k=groups)
        try:
            topology = Topology.of_sizes(*sizes)
            protocol.check_topology(topology)
        except TopologyError:
            continue
        return topology
    topology = Topology.of_sizes(*(1 for _ in range(random.randint(1, 5))))
    protocol.check_topology(topology)
    return topology


def _network(random: Random, topology: Topology, unit: Ticks, *, faults: bool) -> NetworkPlan:
    delays: tuple[Delay, ...] = (
        Uniform(1, 2 * unit),
        Uniform(max(1, unit // 2), unit + unit // 2),
        Exponential(max(1, unit - 1), 1),
        LogNormal(unit, 80),
        Constant(unit),
    )
    regions = None
    if random.random() < 0.2:
        places = {pid: random.randrange(3) for pid in topology.pids}
        far = Uniform(unit, 2 * unit)
        near = Uniform(1, max(1, unit // 4))
        regions = Regions(places, tuple(tuple(near if a == b else far for b in range(3)) for a in range(3)))
    return NetworkPlan(
        delay=random.choice(delays),
        regions=regions,
        reconnect=Uniform(1, 6 * unit),
        stale=random.choice((0.0, 0.0, 0.3)) if faults else 0.0,
    )


def _load(random: Random, unit: Ticks, *, faults: bool) -> Load:
    return Load(
        clients=random.randint(1, 4),
        messages=random.randint(3, 40),
        gap=Uniform(0, random.choice((2, 20, 60)) * unit),
        payload_bytes=random.choice((0, 8)),
        batches=random.choice((0.0, 0.4)),
        duplicates=random.choice((0.0, 0.3)),
        deaths=random.choice((0.0, 0.1)) if faults else 0.0,
        new_sessions=random.choice((0.0, 0.1)) if faults else 0.0,
    )


def _faults(random: Random, unit: Ticks, protocol: Protocol) -> FaultRates:
    if random.random() < 0.08:
        return FaultRates()

    def rate(usual: float, likely: float) -> float:
        return usual * random.random() * 2 if random.random() < likely else 0.0

    return FaultRates(
        begin=random.choice((0, 20 * unit)),
        end=random.choice((200, 500, 900)) * unit,
        crashes=rate(2, 0.6),
        leader_crashes=rate(2, 0.6),
        group_crashes=rate(0.7, 0.2),
        total_crashes=rate(0.7, 0.15),
        breaks=rate(4, 0.5),
        partitions=rate(1.5, 0.4),
        one_ways=rate(1.5, 0.4),
        pauses=rate(2, 0.4),
        clock_steps=rate(2, 0.3),
        downtime=Uniform(unit, random.choice((20, 80, 250)) * unit),
        partition_time=Uniform(unit, random.choice((20, 120)) * unit),
        pause_time=Uniform(unit, random.choice((10, 80)) * unit),
        clock_step=Uniform(-100 * unit, 100 * unit),
        disk_losses=rate(2, 0.4) if protocol.rejoins else 0.0,
        hand_overs=rate(2, 0.4),
    )
