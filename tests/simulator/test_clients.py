"""Clients: retries, redirects, windows, deaths, sessions, batches."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulator.toys import NoOptions, simulation

from braidcast.core.ballots import ballot
from braidcast.core.client import MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.process import Outbox, Process
from braidcast.core.protocol import Protocol
from braidcast.core.topology import Pid, Topology
from braidcast.simulator.delays import Constant
from braidcast.simulator.load import ClientPlan, Load, Submission, clients_of, draw_load
from braidcast.simulator.network import NetworkPlan
from braidcast.simulator.run import Simulation

CLIENT = 1000
FAST = NetworkPlan(delay=Constant(1))


class Desk(Process):
    """Answers by what the payload asks for; keeps what it got."""

    __slots__ = ("got", "group")

    def __init__(self, out: Outbox, topology: Topology, options: NoOptions) -> None:
        super().__init__(out)
        self.group = topology.group_of[out.me]
        self.got: list[tuple[int, Multicast]] = []

    def on_multicast(self, sender: Pid, m: Multicast) -> None:
        self.got.append((self.out.now, m))
        if m.payload == b"second member" and self.me % 3 != 1:
            self.send((sender,), Redirect(m.id, self.group, ballot(1, self.group * 3 + 1)))
        elif m.payload == b"third time" and len(self.got) < 3:
            pass
        elif m.payload == b"refuse":
            self.send((sender,), Refused(m.id, self.group, "expired"))
        elif m.payload != b"silence":
            self.send((sender,), Reply(m.id, self.group, 1))


DESK = Protocol("desk", "answers", Desk, NoOptions)


def desks(*submissions: Submission, clients: ClientPlan = ClientPlan(timeout=40), shape: str = "2x3") -> Simulation:  # noqa: B008 - frozen
    run = simulation(DESK, shape, network=FAST, load=submissions, clients=clients)
    run.world.run(1000)
    return run


def got(run: Simulation, pid: Pid) -> list[Any]:
    process = run.nodes[pid].process
    assert isinstance(process, Desk), "a run of desks"
    return process.got


def times(run: Simulation, pid: Pid) -> list[int]:
    return [at for at, _ in got(run, pid)]


def test_a_client_sends_to_the_leaders_and_is_complete_with_a_reply_of_every_group() -> None:
    run = desks(Submission(0, CLIENT, (0, 1)))
    assert [pid for pid in run.nodes if got(run, pid)] == [0, 3]
    assert run.clients[CLIENT].latencies == {MessageId(CLIENT, 1, 1): 2}
    assert run.clients[CLIENT].idle


def test_after_a_timeout_it_sends_the_very_same_message_to_every_member_of_the_silent_groups() -> None:
    run = desks(Submission(0, CLIENT, (0, 1), b"silence"))
    assert times(run, 0)[:3] == [1, 41, 121]
    assert times(run, 4)[:2] == [41, 121]
    assert len({id(m) for pid in run.nodes for _, m in got(run, pid)}) == 1
    assert run.waiting() == ["client 1000 waits for group 0 and 1 to reply to 1000.1.1, first sent at 0, 6 times"]


def test_it_follows_redirects_and_remembers_them() -> None:
    run = desks(Submission(0, CLIENT, (0, 1), b"second member"), Submission(100, CLIENT, (0, 1)))
    assert times(run, 1) == [3, 101]
    assert times(run, 4) == [3, 101]
    assert run.clients[CLIENT].idle


def test_a_client_that_dies_between_two_sends_has_reached_one_leader_and_never_tries_again() -> None:
    run = desks(Submission(0, CLIENT, (0, 1), dies=True), Submission(10, CLIENT, (0,)))
    assert (times(run, 0), times(run, 3)) == ([1], [])
    assert not run.clients[CLIENT].up
    assert run.clients[CLIENT].idle


def test_a_restarted_client_begins_a_new_session_and_waits_for_nothing_of_the_old_one() -> None:
    run = desks(Submission(0, CLIENT, (0,), b"silence"), Submission(10, CLIENT, (0,), new_session=True))
    client = run.clients[CLIENT]
    assert client.forgotten == [MessageId(CLIENT, 1, 1)]
    assert client.latencies == {MessageId(CLIENT, 2, 1): 2}


def test_a_duplicate_submission_is_the_same_message_again() -> None:
    run = desks(Submission(0, CLIENT, (0,), again_after=7))
    assert times(run, 0) == [1, 8]
    assert got(run, 0)[0][1] is got(run, 0)[1][1]


def test_complete_below_is_the_lowest_seq_still_under_way() -> None:
    run = desks(
        Submission(0, CLIENT, (0,)), Submission(10, CLIENT, (0,), b"silence"), Submission(20, CLIENT, (1,)),
        Submission(30, CLIENT, (1,)),
    )  # fmt: skip
    assert [m.complete_below for m in run.clients[CLIENT].submitted] == [1, 2, 2, 2]


def test_a_refused_client_begins_a_new_session() -> None:
    run = desks(Submission(0, CLIENT, (0,), b"refuse"), Submission(10, CLIENT, (0,)))
    assert run.clients[CLIENT].refused == {MessageId(CLIENT, 1, 1): "expired"}
    assert run.clients[CLIENT].latencies == {MessageId(CLIENT, 2, 1): 2}


def test_a_window_keeps_later_submissions_back() -> None:
    run = desks(*(Submission(0, CLIENT, (0,)) for _ in range(4)), clients=ClientPlan(timeout=40, window=1))
    assert times(run, 0) == [1, 3, 5, 7]


def test_batches_are_numbered_in_a_space_of_their_own_and_may_be_formed_again_after_a_timeout() -> None:
    run = desks(
        Submission(0, CLIENT, (0,), b"third time", batch_count=3), Submission(1, CLIENT, (0,), batch_count=2),
        clients=ClientPlan(timeout=40, rebatch=1.0), shape="3",
    )  # fmt: skip
    formed = [(m.id.seq, m.batch_first, m.batch_count) for m in run.clients[CLIENT].submitted]
    assert formed == [(1, 0, 3), (2, 3, 2), (3, 0, 3)]


def test_clients_can_send_to_everybody_at_once() -> None:
    run = desks(Submission(0, CLIENT, (1,)), clients=ClientPlan(to_all=True))
    assert [pid for pid in run.nodes if got(run, pid)] == [3, 4, 5]


def test_drawn_load_is_in_order_of_time_and_follows_its_rates() -> None:
    topology = Topology.parse("3x1")
    load = Load(clients=3, messages=300, spread=(0, 1), batches=0.5, duplicates=0.5, new_sessions=0.5)
    drawn = draw_load(load, topology, Random(1))
    assert drawn == draw_load(load, topology, Random(1))
    assert [s.at for s in drawn] == sorted(s.at for s in drawn)
    assert {len(s.dest) for s in drawn} == {2}
    assert all(100 < sum(map(bool, kind)) < 200 for kind in zip(
        *((s.batch_count, s.again_after, s.new_session) for s in drawn), strict=True))  # fmt: skip


def test_a_client_that_dies_submits_nothing_later_and_one_client_always_lives() -> None:
    drawn = draw_load(Load(clients=3, messages=60, deaths=1.0), Topology.parse("1"), Random(1))
    assert sum(s.dies for s in drawn) == 2
    assert len(drawn) > 20


def test_clients_are_numbered_beyond_the_processes() -> None:
    assert clients_of(Topology((0, 1), (2000,)), 2) == (2001, 2002)
