"""The one place that names protocols. Drivers receive them from here."""

from __future__ import annotations

from dataclasses import replace

from braidcast.core.errors import BraidcastError
from braidcast.core.process import Ticks
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Topology
from braidcast.protocols import skeen, whitebox
from braidcast.protocols.whitebox.messages import (
    Beat,
    CaughtUp,
    Collected,
    Committed,
    Leading,
    Redelivered,
    Retried,
    SessionsExpired,
    SnapshotInstalled,
    StateRegained,
    SteppedDown,
    Suspect,
    Sweep,
    TookOver,
    VoteComplete,
)  # fmt: skip


class UnknownProtocol(BraidcastError):
    """A protocol that is not in the registry."""


def _paced_whitebox(options: whitebox.Options, delay: Ticks) -> whitebox.Options:
    """Heartbeats every 4 delays, suspicion after 20, retries after 12: short enough for many of them in a run."""
    return replace(
        options,
        heartbeat_ticks=4 * delay,
        suspect_ticks=20 * delay,
        retry_ticks=12 * delay,
        forget_ticks=400 * delay,
    )


def _never_on(topology: Topology) -> set[str]:
    """A member alone in its group has nobody to catch up with or vote for; alone in the world, nobody to wait for."""
    never: set[str] = set()
    if max(map(len, topology.groups)) == 1:
        never |= {"caught_up", "snapshot_installed", "stepped_down", "state_regained", "took_over", "vote_complete"}
    if len(topology.pids) == 1:
        never.add("retried")
    return never


SKEEN = Protocol(
    name="skeen",
    summary="Skeen's protocol: groups of one process that never fails (paper 001, Figure 1)",
    make=skeen.Skeen,
    options=skeen.Options,
    check_topology=lambda topology: topology.require_singletons("skeen"),
    tolerates_faults=False,
)

WHITEBOX = Protocol(
    name="whitebox",
    summary="White-box atomic multicast: replicated groups, 3 message delays (paper 001, Figure 4)",
    make=whitebox.WhiteBox,
    options=whitebox.Options,
    check_topology=lambda topology: topology.require_majorities("whitebox"),
    timers=(Beat, Suspect, Sweep),
    recorded=(
        CaughtUp, Collected, Committed, Leading, Redelivered, Retried, SessionsExpired, SnapshotInstalled,
        StateRegained, SteppedDown, TookOver, VoteComplete,
    ),
    suspicion=Suspect,
    rejoins=True,
    paced=_paced_whitebox,
    variants=(
        {},
        {"follower_delivery": "early"},
        {"chunk_entries": "2", "chunk_bytes": "16", "laggard_entries": "6", "sessions_max": "5"},
        {"follower_delivery": "early", "chunk_entries": "2", "laggard_entries": "4"},
        {"prevote": "off"},
    ),
    sometimes=(
        "leading", "retried", "caught_up", "snapshot_installed", "redelivered", "collected", "stepped_down",
        "sessions_expired", "state_regained", "took_over", "vote_complete",
    ),
    never_on=_never_on,
    forgets_after=lambda options: 3 * options.forget_ticks + 10 * options.heartbeat_ticks,
    keeps=("votes",),
)

PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (SKEEN, WHITEBOX)}


def protocol_named(name: str) -> Protocol:
    """The protocol of that name."""
    if name not in PROTOCOLS:
        raise UnknownProtocol(f"there is no protocol {name!r}: choose {' or '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
