"""Reading scenario files: every form, and errors that name the line and say what to write."""

from __future__ import annotations

import pytest

from braidcast.cli.registry import SKEEN, WHITEBOX
from braidcast.core.errors import BraidcastError
from braidcast.simulator.delays import Constant, Uniform
from braidcast.simulator.faults import Fault
from braidcast.simulator.scenario_plan import plan_of
from braidcast.simulator.scenario_text import ScenarioError, parse_scenario
from braidcast.simulator.scenarios import load_scenario, run_scenario

WHOLE = """
# Shows everything that can be set.
# Second line.
protocol whitebox
option follower_delivery=early   # said in so many words
paced 50
topology 2x3
seed 7
delta 20
delay default 5..20
delay client1 -> 0 0
delay 0 -> 3 exponential 10 2
reconnect 33
stale .5
lose Deliver 0.15
fsync 4
checkpoint every 9
no torn writes
application lag 30 every 4
application snapshot takes 12
cpu 1
clock 2 offset -100 drift -30
client timeout 250
client window 2
client rebatch 0.25
clients send to all
settle 600
grace 9000
at -10 client2 multicasts m1 to 1 via 3 4 batch 5 again after 6 payload 00ff and dies
at 5   client1 multicasts m2 to 0 1 via all payload - in a new session
at 20  crash 3 for 100
at 21  crash leader of 1 for 50
at 22  break 0 1
at 23  silence 4 5 for 7
at 24  clock 1 by -40
at 25  hand over group 1
expect no violations
"""


def test_every_setting_reaches_the_plan() -> None:
    scenario = parse_scenario(WHOLE, "whole")
    plan = plan_of(scenario, WHITEBOX)
    assert scenario.comment == "Shows everything that can be set.\nSecond line."
    assert plan.options.follower_delivery == "early"
    assert plan.options.heartbeat_ticks == WHITEBOX.paced(WHITEBOX.options(), 50).heartbeat_ticks
    assert (plan.topology.shape, plan.seed, plan.delta, plan.cpu) == ("3+3", 7, 20, 1)
    assert plan.network.delay == Uniform(5, 20)
    assert plan.network.links[1000, 0] == Constant(0)
    assert (str(plan.network.links[0, 3]), plan.network.stale, plan.network.lose) == (
        "exponential 10 2", 0.5, {"Deliver": 0.15},
    )  # fmt: skip
    assert plan.network.reconnect == Constant(33)
    assert (plan.disk.fsync, plan.disk.checkpoint_every, plan.disk.torn) == (4, 9, False)
    assert (plan.application.lag, plan.application.every, plan.application.snapshot) == (30, 4, 12)
    assert (plan.clocks.offset, plan.clocks.drift_ppm) == ({2: -100}, {2: -30})
    clients = plan.clients
    assert (clients.timeout, clients.window, clients.rebatch, clients.to_all) == (250, 2, 0.25, True)
    assert (plan.limits.settle, plan.limits.grace) == (600, 9000)


def test_times_may_be_negative_and_every_form_of_multicast_and_fault_reaches_the_plan() -> None:
    plan = plan_of(parse_scenario(WHOLE, "whole"), WHITEBOX)
    assert isinstance(plan.load, tuple)
    first, second = plan.load
    assert (first.at, first.client, first.dest, first.via) == (0, 1001, (1,), (3, 4))
    assert (first.batch_count, first.again_after, first.payload, first.dies) == (5, 6, b"\x00\xff", True)
    assert (second.at, second.via, second.payload, second.new_session) == (15, (0, 1, 2, 3, 4, 5), b"", True)
    assert plan.faults == (
        Fault(30, "crash", (3,), ticks=100, forced=True),
        Fault(31, "crash_leader", group=1, ticks=50, forced=True),
        Fault(32, "break", (0, 1), forced=True),
        Fault(33, "one_way", (4, 5), ticks=7, forced=True),
        Fault(34, "clock", (1,), ticks=-40, forced=True),
        Fault(35, "hand_over", group=1, forced=True),
    )


def test_what_the_caller_sets_comes_before_the_file() -> None:
    plan = plan_of(parse_scenario(WHOLE), WHITEBOX, {"follower_delivery": "leader"}, seed=8)
    assert (plan.options.follower_delivery, plan.seed) == ("leader", 8)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\n\nat 3 crash x", r"file:3: cannot read 'crash x': write `crash PIDS \[for N\]"),
        ("frobnicate", r"file:1: cannot read 'frobnicate': a line begins with CLIENT, crash"),
        ("topology", r"file:1: cannot read 'topology': write `topology VALUE`"),
        ("at 1 client1 multicast m to 0", r"file:1: .* write `CLIENT multicasts NAME to GROUPS"),
        ("crash 3", r"file:1: when\? write `at 0 crash 3`"),
        ("step 0 <- 1 Accept", r"file:1: .* begin the file with `manual`"),
        ("manual\nat 3 crash 1", r"file:2: a manual scenario has no times"),
        ("manual\nhold Accept from 0 to 1", r"file:2: .* does nothing in a manual scenario"),
        ("expect miracles", r"file:1: cannot read 'expect miracles': write `expect delivered NAME at PIDS`"),
        ("at 0 expect no violations", r"file:1: cannot read 'expect no violations'"),
        ("stale 5", "file:1: 5 is no rate: give a number from 0 to 1"),
        ("lose Deliver 7", "file:1: 7 is no rate"),
        ("client rebatch 1.01", "file:1: 1.01 is no rate"),
        ("delta 0", "file:1: `delta 0`: give a number of ticks from 1 on"),
        ("client timeout 0", "file:1: `client timeout 0`: give a number of ticks from 1 on"),
        ("at 1000000000000 crash 0 for 3", "file:1: `at 1000000000000` is beyond all time"),
        ("at 1000000001 crash 0 for 3", "file:1: .* choose times within 1,000,000,000 ticks"),
        ("at 0 crash 0 for 1000000000000", "file:1: .* choose times within"),
        ("grace 1000000000000", "file:1: .* choose times within"),
        ("at 0 crash 99999999999999999999", "file:1: .* a number is beyond 9223372036854775807"),
        ("at 0 client0 multicasts m to 0", "file:1: cannot read"),
        ("at 0 client1 multicasts m to 0\nat 1 client2 multicasts m to 0", "file:2: file:1 multicasts m as well"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_answered_with_what_to_write(text: str, error: str) -> None:
    with pytest.raises(ScenarioError, match=error) as caught:
        parse_scenario(text, "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("protocol skeen", "scenario is for protocol skeen, not for whitebox"),
        ("topology 2x4", "group 0 has 4 members"),
        ("topology two", "topology 'two' is not readable"),
        ("option colour=red", "whitebox has no option 'colour'"),
        ("delay default soon", "'soon' is not a delay"),
        ("delay default -5", "'-5' is not a delay"),
        ("at 0 client1 multicasts m to 2", "scenario:1: groups 2 do not fit"),
        ("at 0 client1 multicasts m to 1 0", "scenario:1: groups 1 0 do not fit"),
        ("at 0 crash 9 for 3", "scenario:1: there is no process 9"),
        ("at 0 crash group 2 for 3", "scenario:1: there is no group 2"),
        ("at 0 crash group 2", "scenario:1: there is no group 2"),
        ("at 0 restart 8", "scenario:1: there is no process 8"),
        ("at 0 crash 1 2 for 5", "scenario:1: one process a line"),
        ("delay any -> 0 5", "scenario:1: name both ends"),
        ("at 0 fire 1 Sneeze", "scenario:1: process 1 has no timer Sneeze pending: pending is Suspect"),
        ("at 0 release Accept from 0 to 1", "scenario:1: nothing is held by these words"),
        ("hold Acept from 0 to 1", "scenario:1: there is no kind of message Acept: there are Accept, "),
        ("expect delivered m at 0", "scenario:1: nobody multicasts m"),
        ("if colour=red expect quiescent", "scenario:1: whitebox has no option 'colour'"),
        ("manual\nstep 0 <- 1 Accept", "scenario:2: no Accept from 1 to 0 is in flight: in flight is nothing"),
    ],
)
def test_a_line_that_does_not_fit_is_an_error_on_one_line(text: str, error: str) -> None:
    with pytest.raises(BraidcastError, match=error) as caught:
        run_scenario(parse_scenario(text), WHITEBOX)
    assert "\n" not in str(caught.value)


def test_suspecting_needs_a_protocol_that_suspects() -> None:
    with pytest.raises(ScenarioError, match="skeen suspects nobody"):
        run_scenario(parse_scenario("topology 2x1\nat 0 suspect 0"), SKEEN)


def test_an_unknown_name_or_file_is_an_error_that_lists_what_there_is() -> None:
    with pytest.raises(ScenarioError, match="there is no scenario 'duet': choose convoy or solo"):
        load_scenario("duet", "whitebox")
    with pytest.raises(ScenarioError, match=r"there is no scenario file nowhere\.scenario"):
        load_scenario("nowhere.scenario")
