"""How a cluster is shown: tables from what nodes say, rates from two looks, blocks where there is no terminal."""

from __future__ import annotations

from typing import Any

import pytest

from braidcast.cli.watching import again, is_well, node_rows, rates, replica_rows, size
from braidcast.client.status import NodeStatus

Captured = pytest.CaptureFixture[str]


def answer(name: str = "n1", **changes: Any) -> dict[str, Any]:
    """What a node says, but for these."""
    replica = {
        "group": "g0", "role": "leader", "ballot": 2 << 16, "backlog": 3, "delivered": 1000, "gts": 5 << 10,
        "messages": 100, "bytes": 5000, "followers": [{"node": "n2", "behind": 7}], "refused": {"late": 1},
    } | changes.pop("replica", {})  # fmt: skip
    return {
        "node": name, "incarnation": 1, "uptime_s": 10.0, "clients": 2, "refused": {"garbage": 4}, "unwell": [],
        "disk": {"log_bytes": 2048, "free_bytes": 5 << 30, "commits": 50}, "replicas": [replica],
        "peers": [{"node": "n2", "connected": True, "trouble": "", "waiting_bytes": 2 << 20}],
    } | changes  # fmt: skip


def status(name: str, found: dict[str, Any] | None, trouble: str = "") -> NodeStatus:
    return NodeStatus(name, "127.0.0.1:1", found, trouble)


def test_a_follower_is_behind_as_its_leader_says_and_a_silent_node_has_its_trouble() -> None:
    follower = answer("n2", replica={"role": "follower", "backlog": 0, "followers": []})
    rows = replica_rows([status("n1", answer()), status("n2", follower), status("n3", None, "nothing listens there")])
    assert rows == [
        ("n1", "127.0.0.1:1", "g0", "leader", "2", "3", "1,000", "5.0", "-", ""),
        ("n2", "127.0.0.1:1", "g0", "follower", "2", "0", "1,000", "5.0", "7", ""),
        ("n3", "127.0.0.1:1", "-", "-", "-", "-", "-", "-", "-", "nothing listens there"),
    ]


def test_trouble_is_shown_where_it_belongs() -> None:
    sick = answer(unwell=["the disk is full", "group g0: hears no leader", "group g1: hears no leader"])
    sick["peers"] = [{"node": "n2", "connected": False, "trouble": "no answer", "waiting_bytes": 0}]
    (row,) = replica_rows([status("n1", sick)])
    assert row[-1] == "the disk is full; group g0: hears no leader; no session with n2 (no answer)"


def test_nodes_have_their_disk_and_what_waits_and_those_in_memory_have_no_disk() -> None:
    assert node_rows([status("n1", answer()), status("n2", answer(disk=None, peers=[])), status("n3", None)]) == [
        ("n1", "10 s", "2.0 KiB", "5.0 GiB", "50", "2", "5", "n2 2.0 MiB"),
        ("n2", "10 s", "-", "-", "-", "2", "5", "-"),
    ]


def test_rates_are_between_two_looks() -> None:
    later = answer(uptime_s=12.0, replica={"messages": 300, "bytes": 5100}, disk={"log_bytes": 9, "commits": 150})
    replicas, nodes = rates({"n1": answer()}, {"n1": later})
    assert (replicas[0]["messages_per_s"], replicas[0]["bytes_per_s"], replicas[0]["backlog"]) == (100, 50, 3)
    assert nodes == [{"node": "n1", "commits_per_s": 50, "log_bytes": 9, "not_taken_bytes": 2 << 20}]


@pytest.mark.parametrize("before", [{}, {"n1": answer(incarnation=0)}, {"n1": answer(uptime_s=12.0)}])
def test_a_node_that_was_not_there_or_was_restarted_has_no_rate(before: dict[str, Any]) -> None:
    replicas, nodes = rates(before, {"n1": answer(uptime_s=12.0)})
    assert (replicas[0]["messages_per_s"], nodes[0]["commits_per_s"]) == (None, None)


def test_without_a_terminal_each_look_is_a_block_with_its_time(capsys: Captured) -> None:
    looks = iter([1, 0])
    assert again(lambda: next(looks), 0.01, 2, plain=False) == 0
    first, blank, second = capsys.readouterr().out.splitlines()
    assert blank == ""
    assert len(first) == len(second) == len("2026-01-01 00:00:00")


def test_an_interruption_ends_it_with_what_the_last_look_came_to(capsys: Captured) -> None:
    looks = iter([1])

    def look() -> int:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    assert again(look, 0.01, None, plain=True) == 1
    assert capsys.readouterr().out == ""


def test_a_cluster_is_well_when_all_of_it_is() -> None:
    cut_off = answer(peers=[{"node": "n2", "connected": False, "trouble": "", "waiting_bytes": 0}])
    assert is_well([status("n1", answer()), status("n2", answer("n2"))], 1)
    assert not is_well([status("n1", answer()), status("n2", None)], 1)
    assert not is_well([status("n1", answer()), status("n2", answer(unwell=["the disk is full"]))], 1)
    assert not is_well([status("n1", cut_off)], 1)
    assert not is_well([status("n1", answer())], 2)


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 50, "1024.0 TiB")])
def test_size_for_people(count: int, text: str) -> None:
    assert size(count) == text
