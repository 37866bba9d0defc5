"""Families of plans: each draws small runs with many faults of the kinds that certain mutants need.

One hop is 10 ticks on average and time-outs are paced to that, so a run lasts a few thousand ticks and a few
milliseconds. The numbers are chosen so that mutants die fast; the campaigns of `braidcast fuzz` are for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.simulator.application import ApplicationPlan
from braidcast.simulator.delays import Constant, Delay, Exponential, Uniform
from braidcast.simulator.disk import DiskPlan
from braidcast.simulator.faults import FaultRates
from braidcast.simulator.fuzz_plans import draw_plan, seed_of
from braidcast.simulator.load import ClientPlan, Load
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.plan import Limits, SimulationPlan

HOP = 10
Family = Callable[[Protocol, int], SimulationPlan]


def _plan(
    protocol: Protocol,
    seed: int,
    shapes: tuple[str, ...],
    *,
    load: Load,
    faults: FaultRates,
    options: dict[str, str] | None = None,
    delays: tuple[Delay, ...] = (Uniform(1, 20), Uniform(1, 60), Exponential(9, 1)),
    lose: dict[str, float] | None = None,
    stale: float = 0.0,
    disk: DiskPlan = DiskPlan(),  # noqa: B008 - frozen
    application: ApplicationPlan = ApplicationPlan(),  # noqa: B008 - frozen
    clients: ClientPlan = ClientPlan(timeout=300),  # noqa: B008 - frozen
) -> SimulationPlan:
    random = Random(f"{seed} family")
    return SimulationPlan(
        protocol=protocol,
        topology=Topology.parse(random.choice(shapes)),
        options=protocol.paced(protocol.parse_options(options or {}), HOP),
        seed=seed,
        network=NetworkPlan(
            delay=random.choice(delays), reconnect=Uniform(1, 60), stale=stale, lose=lose or {}
        ),
        disk=disk,
        application=application,
        clients=clients,
        load=load,
        faults=faults,
        limits=Limits(settle=800, grace=150_000, events_max=400_000),
    )


def _pick(seed: int, *choices: str) -> dict[str, str]:
    """One of several settings, written `name=value name=value`."""
    text = Random(f"{seed} options").choice(choices)
    return dict(pair.split("=") for pair in text.split())


def calm(protocol: Protocol, seed: int) -> SimulationPlan:
    """Nothing fails; messages race, and clients send some of them twice."""
    return _plan(
        protocol, seed, ("2x3", "3+1", "3x1"),
        load=Load(clients=4, messages=14, gap=Uniform(0, 30), duplicates=0.4),
        faults=FaultRates(),
        options=_pick(seed, "", "follower_delivery=early"),
    )  # fmt: skip


def elections(protocol: Protocol, seed: int) -> SimulationPlan:
    """Leaders come and go because they are not heard for a while; nobody crashes."""
    return _plan(
        protocol, seed, ("2x3", "3", "3+1"),
        load=Load(clients=3, messages=12, gap=Uniform(0, 150), duplicates=0.2),
        faults=FaultRates(
            0, 2500, breaks=6, partitions=4, one_ways=4, pauses=6,
            partition_time=Uniform(20, 500), pause_time=Uniform(20, 500),
        ),
        options=_pick(seed, "", "prevote=off", "follower_delivery=early", "follower_delivery=early prevote=off"),
        stale=Random(f"{seed} stale").choice((0.0, 0.5)),
    )  # fmt: skip


def crashes(protocol: Protocol, seed: int) -> SimulationPlan:
    """Leaders and others crash, one after another, and come back soon."""
    return _plan(
        protocol, seed, ("2x3", "3", "3+1"),
        load=Load(clients=3, messages=14, gap=Uniform(0, 150), duplicates=0.2, deaths=0.1),
        faults=FaultRates(
            0, 3000, crashes=4, leader_crashes=6, breaks=3, total_crashes=0.5, downtime=Uniform(10, 500)
        ),
        options=_pick(seed, "", "prevote=off", "follower_delivery=early", "chunk_entries=2"),
        disk=DiskPlan(fsync=Random(f"{seed} disk").choice((0, 0, 8))),
    )  # fmt: skip


def storms(protocol: Protocol, seed: int) -> SimulationPlan:
    """Everything at once, on small groups with few messages."""
    return _plan(
        protocol, seed, ("2x3", "3", "3+1", "2x3+1"),
        load=Load(clients=3, messages=10, gap=Uniform(0, 200), duplicates=0.3, deaths=0.1, batches=0.2),
        faults=FaultRates(
            0, 3000, crashes=3, leader_crashes=4, breaks=5, partitions=3, one_ways=3, pauses=4, total_crashes=0.3,
            downtime=Uniform(10, 400), partition_time=Uniform(10, 400), pause_time=Uniform(10, 400),
        ),
        options=_pick(
            seed, "", "prevote=off", "follower_delivery=early", "follower_delivery=early prevote=off",
            "chunk_entries=1 laggard_entries=3", "chunk_entries=2 follower_delivery=early laggard_entries=4",
        ),
        stale=Random(f"{seed} stale").choice((0.0, 0.5)),
        disk=DiskPlan(
            fsync=Random(f"{seed} disk").choice((0, 0, 8)),
            checkpoint_every=Random(f"{seed} checkpoint").choice((0, 0, 5)),
        ),
        application=ApplicationPlan(lag=Random(f"{seed} lag").choice((0, 0, 50))),
    )  # fmt: skip


def early_storms(protocol: Protocol, seed: int) -> SimulationPlan:
    """Followers deliver early, while leaders change and sessions break."""
    return _plan(
        protocol, seed, ("2x3", "2x3", "3+1", "3"),
        load=Load(clients=4, messages=16, gap=Uniform(0, 120), duplicates=0.2),
        faults=FaultRates(
            0, 2500, crashes=2, leader_crashes=3, breaks=8, partitions=3, one_ways=4, pauses=3,
            downtime=Uniform(10, 400), partition_time=Uniform(10, 400), pause_time=Uniform(10, 400),
        ),
        options=_pick(seed, "follower_delivery=early", "follower_delivery=early laggard_entries=3"),
        stale=Random(f"{seed} stale").choice((0.0, 0.5)),
    )  # fmt: skip


def disk_losses(protocol: Protocol, seed: int) -> SimulationPlan:
    """Disks are lost while leaders change, and followers that were away need snapshots."""
    return _plan(
        protocol, seed, ("3", "3", "3+1", "5"),
        load=Load(clients=3, messages=16, gap=Uniform(0, 150), duplicates=0.2),
        faults=FaultRates(
            0, 3000, disk_losses=5, crashes=2, leader_crashes=4, partitions=3, one_ways=2, pauses=3, breaks=4,
            downtime=Uniform(10, 300), partition_time=Uniform(10, 500), pause_time=Uniform(10, 400),
        ),
        options=_pick(
            seed, "", "prevote=off", "prevote=off laggard_entries=1 chunk_entries=2", "laggard_entries=2",
            "follower_delivery=early prevote=off",
        ),
        stale=Random(f"{seed} stale").choice((0.0, 0.5)),
        disk=DiskPlan(
            fsync=Random(f"{seed} disk").choice((0, 0, 8)),
            checkpoint_every=Random(f"{seed} checkpoint").choice((0, 5)),
        ),
    )  # fmt: skip


def losses(protocol: Protocol, seed: int) -> SimulationPlan:
    """The network loses single messages, which breaks no promise that the protocol relies on."""
    random = Random(f"{seed} lose")
    kinds = ("Deliver", "Accept", "AcceptAck", "NewState", "NewStateAck", "NewLeader", "NewLeaderAck", "Resend",
             "CatchUp", "Heartbeat", "HeartbeatAck", "Multicast", "PreVoteAck", "Stable", "SnapshotChunk",
             "Bodies")  # fmt: skip
    return _plan(
        protocol, seed, ("2x3", "3", "3+1"),
        load=Load(clients=3, messages=12, gap=Uniform(0, 120), duplicates=0.2),
        faults=FaultRates(0, 2000, leader_crashes=2, one_ways=2, pauses=2,
                          downtime=Uniform(10, 400), partition_time=Uniform(10, 400), pause_time=Uniform(10, 400)),
        options=_pick(seed, "", "follower_delivery=early", "prevote=off", "chunk_entries=1 laggard_entries=3"),
        lose={kind: random.choice((0.0, 0.1, 0.3)) for kind in kinds},
    )  # fmt: skip


def laggards(protocol: Protocol, seed: int) -> SimulationPlan:
    """Somebody is away for long while the others collect, and needs a snapshot; clients send duplicates late."""
    return _plan(
        protocol, seed, ("2x3", "3", "3+1"),
        load=Load(clients=3, messages=30, gap=Uniform(0, 200), duplicates=0.3, batches=0.3, new_sessions=0.05),
        faults=FaultRates(
            0, 4000, crashes=4, leader_crashes=2, partitions=2, downtime=Uniform(300, 1500),
            partition_time=Uniform(300, 1500),
        ),
        options=_pick(
            seed, "laggard_entries=2", "laggard_entries=3 chunk_entries=2 chunk_bytes=16",
            "laggard_entries=2 follower_delivery=early",
        ),
        disk=DiskPlan(checkpoint_every=Random(f"{seed} checkpoint").choice((0, 6))),
        application=ApplicationPlan(
            lag=Random(f"{seed} lag").choice((0, 0, 60)), snapshot=Random(f"{seed} snapshot").choice((0, 0, 80))
        ),
        clients=ClientPlan(timeout=150, rebatch=0.7),
    )  # fmt: skip


def collecting(protocol: Protocol, seed: int) -> SimulationPlan:
    """All is collected soon; clients send again what was delivered long ago."""
    return _plan(
        protocol, seed, ("2x3", "3+1", "3x3"),
        load=Load(clients=4, messages=24, gap=Uniform(0, 250), duplicates=0.6),
        faults=FaultRates(
            0, 3500, crashes=2, leader_crashes=4, one_ways=3, pauses=3, downtime=Uniform(10, 600),
            partition_time=Uniform(10, 500), pause_time=Uniform(10, 500),
        ),
        options=_pick(seed, "", "laggard_entries=2", "follower_delivery=early laggard_entries=2"),
        application=ApplicationPlan(lag=Random(f"{seed} lag").choice((0, 0, 50))),
        clients=ClientPlan(timeout=100),
    )  # fmt: skip


def lagging_applications(protocol: Protocol, seed: int) -> SimulationPlan:
    """Effects become durable long after their delivery, and processes crash in between."""
    return _plan(
        protocol, seed, ("2x3", "3", "3+1"),
        load=Load(clients=2, messages=12, gap=Uniform(0, 100)),
        faults=FaultRates(0, 2500, crashes=3, leader_crashes=3, total_crashes=1, downtime=Uniform(10, 300)),
        options=_pick(seed, "", "laggard_entries=2", "follower_delivery=early"),
        application=ApplicationPlan(lag=300, every=Random(f"{seed} every").choice((0, 3))),
        disk=DiskPlan(checkpoint_every=Random(f"{seed} checkpoint").choice((0, 5))),
    )  # fmt: skip


def relays(protocol: Protocol, seed: int) -> SimulationPlan:
    """Whoever got a snapshot leads soon after; transfers come in many pieces, on slow disks and broken sessions."""
    def choose(what: str, *choices: int) -> int:
        return Random(f"{seed} {what}").choice(choices)

    return _plan(
        protocol, seed, ("3", "3+1", "2x3"),
        load=Load(clients=3, messages=30, gap=Uniform(0, 200), duplicates=0.3, batches=0.5),
        faults=FaultRates(
            0, 4000, crashes=3, leader_crashes=4, breaks=6, partitions=3, one_ways=3, pauses=2,
            downtime=Uniform(100, 900), partition_time=Uniform(100, 900), pause_time=Uniform(100, 600),
        ),
        options=_pick(
            seed, "laggard_entries=1 chunk_entries=1 chunk_bytes=300", "laggard_entries=1 chunk_entries=2",
            "laggard_entries=1 chunk_entries=1 follower_delivery=early", "laggard_entries=2 prevote=off",
        ),
        stale=choose("stale", 0, 5) / 10,
        disk=DiskPlan(fsync=choose("disk", 0, 8, 40), checkpoint_every=choose("checkpoint", 0, 0, 4)),
        application=ApplicationPlan(lag=choose("lag", 0, 60), snapshot=choose("snapshot", 0, 80)),
        clients=ClientPlan(timeout=400, rebatch=0.3),
    )  # fmt: skip


def torn_transfers(protocol: Protocol, seed: int) -> SimulationPlan:
    """States and snapshots travel in many small pieces, of which some are lost."""
    random = Random(f"{seed} lose")
    return _plan(
        protocol, seed, ("3", "3+1", "5"),
        load=Load(clients=3, messages=20, gap=Uniform(0, 150), duplicates=0.3),
        faults=FaultRates(
            0, 3500, crashes=3, leader_crashes=4, partitions=3, one_ways=2,
            downtime=Uniform(100, 900), partition_time=Uniform(100, 900),
        ),
        options=_pick(
            seed, "laggard_entries=1 chunk_entries=1 chunk_bytes=300", "chunk_entries=1",
            "laggard_entries=1 chunk_entries=1 chunk_bytes=300 prevote=off", "chunk_entries=1 follower_delivery=early",
        ),
        lose={kind: random.choice((0.0, 0.04, 0.1)) for kind in ("SnapshotChunk", "NewState", "NewStateAck", "Resend")},
        application=ApplicationPlan(snapshot=Random(f"{seed} snapshot").choice((0, 80))),
    )  # fmt: skip


def torn_votes(protocol: Protocol, seed: int) -> SimulationPlan:
    """One candidate after another; votes and bodies travel in many small pieces, of which some are lost."""
    random = Random(f"{seed} lose")
    return _plan(
        protocol, seed, ("3", "3+1", "5"),
        load=Load(clients=3, messages=16, gap=Uniform(0, 100), duplicates=0.2),
        faults=FaultRates(
            0, 3000, crashes=3, leader_crashes=3, breaks=4, partitions=4, one_ways=6, pauses=5,
            downtime=Uniform(10, 400), partition_time=Uniform(10, 500), pause_time=Uniform(10, 500),
        ),
        options=_pick(
            seed, "chunk_entries=2 prevote=off", "chunk_entries=1", "chunk_entries=1 prevote=off",
            "chunk_entries=1 follower_delivery=early prevote=off",
        ),
        lose={kind: random.choice((0.0, 0.04, 0.1)) for kind in ("NewLeaderAck", "Accept", "Deliver", "Bodies")},
        stale=random.choice((0.0, 0.5)),
    )  # fmt: skip


def uniform_fuzz(protocol: Protocol, seed: int) -> SimulationPlan:
    """The runs of `braidcast fuzz`."""
    return draw_plan(protocol, seed_of(31, seed))


def steady(protocol: Protocol, seed: int) -> SimulationPlan:
    """Nothing fails but single pauses, all delays are equal; many messages."""
    return _plan(
        protocol, seed, ("2x3", "3x3"),
        load=Load(clients=5, messages=40, gap=Uniform(0, 60)),
        faults=FaultRates(0, 1500, pauses=3, pause_time=Uniform(10, 150)),
        options=_pick(seed, "", "follower_delivery=early"),
        delays=(Constant(10), Uniform(1, 40)),
    )  # fmt: skip


def resting(protocol: Protocol, seed: int) -> SimulationPlan:
    """Leaders crash with messages under way, clients die between two sends; then all is quiet until it is forgotten."""
    plan = _plan(
        protocol, seed, ("2x3", "3+1", "5+3"),
        load=Load(clients=4, messages=14, gap=Uniform(0, 100), duplicates=0.3, deaths=0.3),
        faults=FaultRates(
            0, 2000, leader_crashes=5, crashes=2, breaks=4, partitions=2, downtime=Uniform(10, 400),
            partition_time=Uniform(20, 400),
        ),
        options=_pick(seed, "", "follower_delivery=early"),
    )  # fmt: skip
    assert protocol.forgets_after is not None, "it forgets"
    return replace(plan, limits=replace(plan.limits, rest=protocol.forgets_after(plan.options)))


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        calm, steady, elections, crashes, storms, early_storms, losses, laggards, collecting, relays, torn_transfers,
        torn_votes, lagging_applications, disk_losses, uniform_fuzz, resting,
    )
}  # fmt: skip
