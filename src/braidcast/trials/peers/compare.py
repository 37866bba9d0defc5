"""All systems that are installed, one after the other, again and again, under each load; and the tables of that.

A ratio is of figures of one round, which follow one another within seconds; what is shown is its median over the
rounds, and its range. The other figures are medians, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from braidcast.core.errors import BraidcastError
from braidcast.trials.bench import ClusterLoad, measure_load
from braidcast.trials.machine import this_machine
from braidcast.trials.peers.peer import Peer
from braidcast.trials.tables import render_machine, render_table
from braidcast.trials.throwaway import throwaway_folder
from braidcast.wire.loops import run

SHOWN: Final = (
    ("messages_per_s", "messages/s"),
    ("latency_ms_p50", "p50 ms"),
    ("latency_ms_p99", "p99 ms"),
    ("cpu_s_per_1000", "CPU servers"),
    ("cpu_s_per_1000_client", "CPU client"),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared, and how often."""

    peers: Sequence[Peer]
    """The first one is what the others are put in relation to."""
    loads: Sequence[tuple[int, int]]
    """Units under way, messages in a unit."""
    rounds: int
    seconds: float
    payload_bytes: int = 20
    warm_up_s: float = 1.0

    @property
    def installed(self) -> list[Peer]:
        """Those that can be started here."""
        return [peer for peer in self.peers if not peer.missing()]

    @property
    def steps(self) -> int:
        """How many measurements there are."""
        return len(self.installed) * len(self.loads) * self.rounds


def measure_peer(peer: Peer, load: ClusterLoad) -> dict[str, Any]:
    """Start a system, load it, end it."""
    with throwaway_folder() as folder:
        try:
            peer.start(folder)
            return run(_measure(peer, load))
        finally:
            peer.stop()


async def _measure(peer: Peer, load: ClusterLoad) -> dict[str, Any]:
    client = await peer.connect(load)
    try:
        return await measure_load(client.submit, load, list(peer.pids()))
    finally:
        await client.close()


def compare(comparison: Comparison, progress: Callable[[int, str], None]) -> dict[str, Any]:
    """Measure everything; a system that fails under a load is said to, and the others go on."""
    peers = comparison.installed
    rounds: dict[tuple[str, tuple[int, int]], list[dict[str, Any]]] = {}
    done = 0
    for load in comparison.loads:
        for _ in range(comparison.rounds):
            for peer in peers:
                progress(done, f": {peer.name} W={load[0]} B={load[1]}")
                rounds.setdefault((peer.name, load), []).append(_figures(peer, load, comparison))
                done += 1
    return {
        "machine": this_machine(),
        "rounds": comparison.rounds,
        "seconds": comparison.seconds,
        "payload_bytes": comparison.payload_bytes,
        "peers": [
            {
                "name": peer.name, "version": peer.version(), "acknowledged": peer.acknowledged,
                "survives": peer.durability, "unit": peer.unit, "remark": peer.remark,
            }
            for peer in peers
        ],
        "missing": {peer.name: why for peer in comparison.peers if (why := peer.missing())},
        "loads": [
            {
                "outstanding": load[0],
                "batch": load[1],
                "rounds": {peer.name: rounds[peer.name, load] for peer in peers},
            }
            for load in comparison.loads
        ],
    }  # fmt: skip


def _figures(peer: Peer, load: tuple[int, int], comparison: Comparison) -> dict[str, Any]:
    asked = ClusterLoad(1, *load, comparison.payload_bytes, comparison.seconds, comparison.warm_up_s)
    try:
        found = measure_peer(peer, asked)
    except (BraidcastError, TimeoutError) as error:
        return {"failed": str(error) or "it did not answer in time"}
    return found if found["messages_per_s"] else {"failed": "nothing was acknowledged while it was measured"}


def render_comparison(found: Mapping[str, Any]) -> str:
    """Markdown: the machine, what the systems promise, and a table for each load."""
    blocks = [
        render_machine(found["machine"]),
        f"Three processes and one client, all on this machine; messages of {found['payload_bytes']} bytes; "
        f"{found['seconds']:g} s a measurement; the medians of {found['rounds']}, all systems in turn. Latency "
        "is until the acknowledgement; CPU is in s for 1,000 messages. All clients are written in Python, "
        "and are part of every figure.",
        render_table(
            ("system", "version", "acknowledged means", "an acknowledged message survives", "several in a unit are"),
            [(p["name"], p["version"], p["acknowledged"], p["survives"], p["unit"]) for p in found["peers"]],
        ),
        *[f"{peer['name']}: {peer['remark']}." for peer in found["peers"] if peer["remark"]],
        *[f"{name}: {why}." for name, why in found["missing"].items()],
    ]
    first = found["peers"][0]["name"] if found["peers"] else ""
    for load in found["loads"]:
        headers = ("system", *[shown for _, shown in SHOWN], f"rate to {first}", f"p50 to {first}")
        blocks += [
            f"### {load['outstanding']:,} under way, {load['batch']} in a unit",
            render_table(headers, _rows(load["rounds"], first)),
        ]
    return "\n\n".join(blocks) + "\n"


def _rows(rounds: Mapping[str, Sequence[Mapping[str, Any]]], first: str) -> Iterator[Sequence[object]]:
    for name, measured in rounds.items():
        sound = [found for found in measured if "failed" not in found]
        if not sound:
            yield name, f"failed: {measured[0]['failed']}", *[""] * (len(SHOWN) + 1)
            continue
        medians = [median(found[key] for found in sound) for key, _ in SHOWN]
        pairs = [(of, to) for of, to in zip(measured, rounds[first], strict=True) if "failed" not in {**of, **to}]
        ratios = [_ratio([of[key] / to[key] for of, to in pairs if to[key]]) for key, _ in SHOWN[:2]]
        yield name, round(medians[0]), *medians[1:], *ratios


def _ratio(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    return f"{median(ratios):.2f}" + (f" ({min(ratios):.2f} to {max(ratios):.2f})" if ratios[1:] else "")
