"""What a node measures, for Prometheus: a table of metrics, each made from the node's status when somebody asks.

Counters begin anew with the process, as Prometheus expects. `docs/operations.md` lists them; a test keeps its table and
this one equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from braidcast import __version__
from braidcast.core.ballots import number_of
from braidcast.core.timestamps import clock_of

Status = Mapping[str, Any]
Samples = Iterable[tuple[tuple[str, ...], float]]
"""The values of the labels, and the value."""


class Measure(NamedTuple):
    """A metric: what it is called, what it is, by which labels, and how it is read from a status."""

    name: str
    doc: str
    labels: tuple[str, ...]
    read: Callable[[Status], Samples]
    counts: bool = False


def _one(name: str, doc: str, read: Callable[[Status], float], *, counts: bool = False) -> Measure:
    return Measure(name, doc, (), lambda status: [((), read(status))], counts)


def _disk(name: str, doc: str, key: str, *, counts: bool = False) -> Measure:
    return Measure(name, doc, (), lambda s: [((), s["disk"][key])] if s["disk"] is not None else [], counts)


def _group(name: str, doc: str, read: Callable[[Status], float], *, counts: bool = False) -> Measure:
    return Measure(name, doc, ("group",), lambda s: [((r["group"],), read(r)) for r in s["replicas"]], counts)


def _peer(name: str, doc: str, key: str, *, counts: bool = False) -> Measure:
    return Measure(name, doc, ("peer",), lambda s: [((p["node"],), p[key]) for p in s["peers"]], counts)


def _behind(status: Status) -> Samples:
    return [((r["group"], f["node"]), f["behind"]) for r in status["replicas"] for f in r["followers"]]


def _refused(status: Status) -> Samples:
    yield from (((why, ""), count) for why, count in status["refused"].items())
    for replica in status["replicas"]:
        yield from (((why, replica["group"]), count) for why, count in replica["refused"].items())


MEASURES = (
    _one("healthy", "Whether the node takes part, as /healthz says.", lambda s: not s["unwell"]),
    _one("uptime_seconds", "Since the node started.", lambda s: s["uptime_s"]),
    _one("incarnation", "The how many-th start of the node this is.", lambda s: s["incarnation"]),
    _one("clients", "Connections of clients.", lambda s: s["clients"]),
    _one("reads_clients", "Whether it takes messages from clients; 0: they wait.", lambda s: s["reads_clients"]),
    Measure("disk_lacks", "Whether something waits for room on the disk, or for a file to open.", (),
            lambda s: [((), bool(s["disk"]["lack"]))] if s["disk"] is not None else []),
    _disk("disk_free_bytes", "What there is room for on the disk of its data.", "free_bytes"),
    _disk("log_bytes", "How long its log is.", "log_bytes"),
    _disk("commits", "Commits that are durable.", "commits", counts=True),
    _disk("commit_wait_seconds", "For how long the commit in progress has waited for the disk.", "commit_s"),
    _disk("checkpoint_waits", "Whether there was no room for the last checkpoint.", "checkpoint_waits"),
    _group("leads", "Whether the replica leads its group.", lambda r: r["leads"]),
    _group("has_leader", "Whether it leads, or hears a leader.", lambda r: r["leader"] is not None),
    _group("votes", "Whether it has a vote; 0: it lost its disk and is not restored.", lambda r: r["votes"]),
    _group("ballot", "Number of its ballot, in which its leader was elected.", lambda r: number_of(r["ballot"])),
    _group("pending_messages", "Leader: messages to bring to delivery.", lambda r: r["backlog"]),
    _group("pending_bytes", "The same, in bytes of payload.", lambda r: r["backlog_bytes"]),
    _group("held_back", "What the replica put out and waits for the disk.", lambda r: r["held_back"]),
    _group("delivered_index", "Units it has delivered since the cluster began; a batch is one.",
           lambda r: r["delivered"]),
    _group("delivered_messages", "Messages it has delivered.", lambda r: r["messages"], counts=True),
    _group("delivered_bytes", "The same, in bytes of payload.", lambda r: r["bytes"], counts=True),
    _group("delivered_clock", "Clock of the newest delivery.", lambda r: clock_of(r["gts"])),
    _group("durable_clock", "Clock up to which what was delivered is durable.", lambda r: clock_of(r["durable"])),
    _group("journal_bytes", "What is kept for subscribers.", lambda r: r["journal_bytes"]),
    _group("journal_damaged", "Whether a subscriber met damage in it.", lambda r: bool(r["journal_damage"])),
    Measure("follower_behind", "Leader: deliveries that are not durable at a follower, at least.",
            ("group", "follower"), _behind),
    _peer("peer_connected", "Whether there is a session with it.", "connected"),
    _peer("peer_sessions", "Sessions with it so far.", "sessions", counts=True),
    _peer("peer_waiting_bytes", "What it has not taken.", "waiting_bytes"),
    Measure("refused", "What was refused, by reason, and by group if a replica did.", ("reason", "group"), _refused,
            counts=True),
)  # fmt: skip
PREFIX = "braidcast_"


class StatusCollector(Collector):
    """All metrics of one status."""

    def __init__(self, status: Status) -> None:
        self.status = status

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' client asks for them."""
        who = GaugeMetricFamily(PREFIX + "info", "Which node this is.", labels=("cluster", "node", "version"))
        who.add_metric((self.status["cluster"], self.status["node"], __version__), 1)
        yield who
        for measure in MEASURES:
            kind = CounterMetricFamily if measure.counts else GaugeMetricFamily
            family = kind(PREFIX + measure.name, measure.doc, labels=measure.labels)
            for labels, value in measure.read(self.status):
                family.add_metric(labels, float(value))
            yield family


def render(status: Status) -> bytes:
    """The text of a scrape, with the process's own CPU, memory and files."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(status))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
