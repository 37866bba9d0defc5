"""The smallest driver delivers everything, and its figures count what they say."""

from __future__ import annotations

import pytest

from braidcast.cli.registry import SKEEN, WHITEBOX
from braidcast.core.client import MessageId, Multicast
from braidcast.core.topology import Topology
from braidcast.protocols.whitebox import WhiteBox
from braidcast.simulator.pump import CLIENT, Pump, measure


@pytest.mark.parametrize("destinations", [1, 2, 3])
def test_white_box_delivers_all_in_memory_with_three_groups_of_three(destinations: int) -> None:
    figures = measure(WHITEBOX, Topology.of_sizes(3, 3, 3), {}, tuple(range(destinations)), 300)
    assert figures["messages_per_s"] > 0
    expected = {1: 7, 2: 26, 3: 57}[destinations]
    assert figures["events_per_message"] == pytest.approx(expected, rel=0.02), "messages of the paper, no more"


def test_skeen_delivers_all_in_memory_with_two_groups_of_one() -> None:
    assert measure(SKEEN, Topology.of_sizes(1, 1), {}, (0, 1), 100)["events_per_message"] == pytest.approx(4)


def test_collection_keeps_memory_bounded_in_a_long_run() -> None:
    topology = Topology.of_sizes(3, 3)
    pump = Pump(WHITEBOX, topology, {})
    most = 0
    for seq in range(1, 2001):
        dest = ((0,), (1,), (0, 1))[seq % 3]
        m = Multicast(MessageId(CLIENT, 1, seq), dest, b"", complete_below=max(1, seq - 10))
        for group in dest:
            pump.inject(topology.groups[group][0], m)
        pump.run()
        if seq % 50 == 0:
            for process in pump.processes.values():
                process.out.now += 1
            pump.fire("Beat")
            held = [process.entries for process in pump.processes.values() if isinstance(process, WhiteBox)]
            most = max(most, *(len(entries) for entries in held))
    assert most < 200
