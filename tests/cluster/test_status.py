"""What a node says of itself: who leads, who is how far behind, what waits, and why it takes no part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.inprocess import Line, config_in, message, nodes_of, run, until

from braidcast.cluster.lacking import ROOM
from braidcast.cluster.metrics import MEASURES, PREFIX, render
from braidcast.cluster.status import free_bytes, why_unwell
from braidcast.core.client import Reply

CALM: dict[str, str | int] = {"suspect_ticks": 600_000_000, "heartbeat_ticks": 50_000}


def well(**changes: Any) -> dict[str, Any]:
    """A status with one replica, but for these."""
    replica = {"group": "g0", "votes": True, "leader": "n1"} | changes.pop("replica", {})
    return {"disk": {"lack": "", "commit_s": 0.0} | changes.pop("disk", {}), "replicas": [replica]}


def test_leader_and_followers_say_who_leads_and_how_far_they_are(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=CALM)) as nodes:
            line = await Line.to(nodes, "n1")
            for number in (1, 2):
                line.submit((0,), message(number))
            await line.hears(Reply, 2)
            await nodes.delivered_everywhere(0, 2)

            def followers() -> list[tuple[str, int]]:
                (replica,) = nodes.status("n1")["replicas"]
                return [(each["node"], each["behind"]) for each in replica["followers"]]

            await until(lambda: followers() == [("n2", 0), ("n3", 0)], "both followers to have all of it durably")
            (leader,), (follower,) = nodes.status("n1")["replicas"], nodes.status("n2")["replicas"]
            assert (leader["leads"], leader["leader"]) == (True, "n1")
            assert (follower["leads"], follower["leader"]) == (False, "n1")
            assert leader["gts"] == leader["durable"] == follower["gts"] > 0
            assert (leader["messages"], leader["bytes"], follower["followers"]) == (2, 2, [])
            assert (leader["backlog"], leader["backlog_bytes"], leader["held_back"]) == (0, 0, 0)
            assert [peer["waiting_bytes"] for peer in nodes.status("n1")["peers"]] == [0, 0]
            await nodes.stop("n3")
            line.submit((0,), message(3))
            await line.hears(Reply, 3)
            await until(lambda: dict(followers())["n3"] == 1, "n3 to be behind")
            assert nodes.status("n1")["unwell"] == []
            line.end()

    run(work())


def test_a_commit_that_hangs_is_seen(tmp_path: Path) -> None:
    async def work() -> None:
        async with nodes_of(config_in(tmp_path, options=CALM)) as nodes:
            assert nodes.status("n1")["disk"]["commit_s"] == 0
            nodes.disks["n1"].hold()
            line = await Line.to(nodes, "n1")
            line.submit((0,), message(1))
            await until(lambda: nodes.status("n1")["disk"]["commit_s"] > 0, "the commit to begin")
            nodes.disks["n1"].release()
            await line.hears(Reply)
            line.end()

    run(work())


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (well(), []),
        (well() | {"disk": None}, []),
        (well(disk={"commit_s": 1.9}), []),
        (well(disk={"commit_s": 3.0}), ["a commit has been waiting for the disk for 3 s"]),
        (well(disk={"lack": ROOM, "commit_s": 9}), ["the disk is full: nothing is acknowledged meanwhile"]),
        (well(replica={"leader": None}), ["group g0: neither leads nor hears a leader"]),
        (well(replica={"votes": False}), ["group g0: lost its disk and is not restored, so it has no vote"]),
    ],
)
def test_why_a_node_takes_no_part(status: dict[str, Any], why: list[str]) -> None:
    assert why_unwell(status) == why


def test_free_bytes_of_nowhere_are_none(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) > 0
    assert free_bytes(tmp_path / "nowhere") == 0


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_metrics_are_what_prometheus_reads_and_all_that_the_table_names(tmp_path: Path, durability: str) -> None:
    async def work() -> bytes:
        async with nodes_of(config_in(tmp_path, cluster={"durability": durability}, options=CALM)) as nodes:
            nodes["n1"].refuse('a "quoted"\nreason')
            return render(nodes.status("n1"))

    families = {family.name: family for family in text_string_to_metric_families(run(work()).decode())}
    assert {PREFIX + measure.name for measure in MEASURES} <= families.keys()
    refused = families["braidcast_refused"].samples
    assert [(s.labels["reason"], s.value) for s in refused if not s.labels["group"]] == [('a "quoted"\nreason', 1)]
    assert bool(families["braidcast_log_bytes"].samples) == (durability == "disk")
