"""Topologies: what they look up, how they are written, and which are impossible, each said in one line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidcast.core.ballots import PIDS_MAX
from braidcast.core.errors import BraidcastError, TopologyError
from braidcast.core.timestamps import GROUPS_MAX
from braidcast.core.topology import Topology


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("1x3", ((0, 1, 2),)),
        ("2x3", ((0, 1, 2), (3, 4, 5))),
        ("3+1", ((0, 1, 2), (3,))),
        ("2x1+3", ((0,), (1,), (2, 3, 4))),
        ("5", ((0, 1, 2, 3, 4),)),
        (" 3 + 1 ", ((0, 1, 2), (3,))),
    ],
)
def test_parse(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert Topology.parse(text).groups == groups


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_shape_reads_back(sizes: list[int]) -> None:
    topology = Topology.of_sizes(*sizes)
    assert topology.shape == "+".join(map(str, sizes))
    assert Topology.parse(topology.shape).groups == topology.groups


@pytest.mark.parametrize("text", ["", "x", "3x", "x3", "2x3x4", "a+b", "3+", "-3", "2.5", "3*2", "2x-3", "²", "٣x٣x"])
def test_unreadable_topology(text: str) -> None:
    line = f"topology {text!r} is not readable: write 2x3, or 3+1, or 2x3+5"
    with pytest.raises(TopologyError, match=f"^{re.escape(line)}$"):
        Topology.parse(text)


@pytest.mark.parametrize(
    ("groups", "line"),
    [
        (((0, 1), (1, 2)), "process 1 is in group 0 and in group 1: groups must be disjoint"),
        (((0, 0, 1),), "process 0 is in group 0 and in group 0: groups must be disjoint"),
        (((0,), ()), "group 1 has no members: give every group at least one process"),
        ((), "a topology needs at least one group: try 2x3 for two groups of three"),
        (((-1,),), f"process id -1 is out of range: use 0 to {PIDS_MAX - 1}"),
        (((PIDS_MAX,),), f"process id {PIDS_MAX} is out of range: use 0 to {PIDS_MAX - 1}"),
        (((p,) for p in range(GROUPS_MAX + 1)), f"{GROUPS_MAX + 1} groups are too many: at most {GROUPS_MAX}"),
    ],
)
def test_impossible_topology(groups: tuple[tuple[int, ...], ...], line: str) -> None:
    with pytest.raises(TopologyError, match=f"^{re.escape(line)}$"):
        Topology(*groups)


@pytest.mark.parametrize("text", ["0", "3+0", "2x0"])
def test_group_of_none(text: str) -> None:
    with pytest.raises(
        TopologyError, match=r"^a group of 0 members is impossible: give every group at least one$"
    ):
        Topology.parse(text)


def test_no_group_at_all() -> None:
    with pytest.raises(TopologyError, match=r"^a topology needs at least one group"):
        Topology.parse("0x3")


def test_topology_errors_are_for_users() -> None:
    assert issubclass(TopologyError, BraidcastError)


def test_majorities_need_odd_groups() -> None:
    Topology.parse("1+3+5").require_majorities("whitebox")
    with pytest.raises(
        TopologyError, match=r"^group 1 has 4 members, but paxos needs 2f \+ 1: use 1, 3, 5 or 7$"
    ):
        Topology.parse("3+4").require_majorities("paxos")


def test_singletons() -> None:
    Topology.parse("4x1").require_singletons("skeen")
    with pytest.raises(
        TopologyError, match=r"^group 1 has 3 members, but skeen works with groups of one: use 3x1$"
    ):
        Topology.parse("1+3").require_singletons("skeen")


def test_look_ups() -> None:
    topology = Topology((4, 7, 9), (1,), (2, 3, 5, 6, 8))
    assert topology.group_of[9] == 0
    assert topology.pids == (4, 7, 9, 1, 2, 3, 5, 6, 8)
    assert topology.quorum == (2, 1, 3)
    assert topology.members((0, 1)) == (4, 7, 9, 1)
    assert topology.members_outside((0, 1, 2), 0) == (1, 2, 3, 5, 6, 8)
    assert topology.members_outside((0,), 0) == ()
    assert topology.quorum_size((0, 2)) == 5
    assert topology.quorums((0, 1)) == ((1 << 4 | 1 << 7 | 1 << 9, 2), (1 << 1, 1))


def test_look_ups_are_made_once() -> None:
    topology = Topology.parse("2x3")
    assert topology.members((0, 1)) is topology.members((0, 1))
    assert topology.members_outside((0, 1), 0) is topology.members_outside((0, 1), 0)
    assert topology.quorums((0, 1)) is topology.quorums((0, 1))


@pytest.mark.parametrize("dest", [(0,), (1,), (0, 1)])
def test_destinations_are_ascending_groups_of_this_topology(dest: tuple[int, ...]) -> None:
    assert Topology.parse("2x3").has_groups(dest)


@pytest.mark.parametrize("dest", [(), (1, 0), (0, 0), (0, 2), (-1,)])
def test_anything_else_is_no_destination(dest: tuple[int, ...]) -> None:
    assert not Topology.parse("2x3").has_groups(dest)


@pytest.mark.parametrize("dest", [(1, 0), (0, 0), (-1,)])
def test_looking_up_a_quorum_does_not_make_destinations_possible(dest: tuple[int, ...]) -> None:
    topology = Topology.parse("2x3")
    topology.quorum_size(dest)
    assert not topology.has_groups(dest)
