"""Scenarios: the latencies of the paper, schedules by time and by hand, expectations."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulator.test_run import plan

from braidcast.cli.registry import PROTOCOLS, SKEEN, WHITEBOX
from braidcast.core.protocol import Protocol
from braidcast.simulator import scenario_plan
from braidcast.simulator.run import simulate
from braidcast.simulator.scenario_text import ScenarioError, parse_scenario
from braidcast.simulator.scenario_write import write_scenario
from braidcast.simulator.scenarios import Outcome, built_in_scenarios, load_scenario, run_scenario
from braidcast.simulator.shrink import spelled_out

BUILT_IN = [(protocol, name) for protocol in PROTOCOLS for name in built_in_scenarios(protocol)]


def run(text: str, protocol: Protocol = WHITEBOX, **options: str) -> Outcome:
    return run_scenario(parse_scenario(text), protocol, options)


def at(outcome: Outcome, message: str) -> dict[int, int]:
    return {row.process: row.at for row in outcome.rows if row.message == message}


@pytest.mark.parametrize(("protocol", "name"), BUILT_IN)
def test_a_scenario_that_is_shipped_meets_its_expectations(protocol: str, name: str) -> None:
    outcome = run_scenario(load_scenario(name, protocol), PROTOCOLS[protocol])
    assert outcome.unmet == []


def test_solo_and_convoy_are_shipped_for_both_protocols() -> None:
    assert {("whitebox", "solo"), ("whitebox", "convoy"), ("skeen", "solo"), ("skeen", "convoy")} <= set(BUILT_IN)


def test_solo_takes_3_delays_at_leaders_and_4_at_followers_or_3_with_early_delivery() -> None:
    late = run_scenario(load_scenario("solo", "whitebox"), WHITEBOX)
    assert at(late, "m") == {0: 30, 3: 30, 1: 40, 2: 40, 4: 40, 5: 40}
    assert {(row.role, row.delays) for row in late.rows} == {("leader", 3.0), ("follower", 4.0)}
    early = run_scenario(load_scenario("solo", "whitebox"), WHITEBOX, {"follower_delivery": "early"})
    assert set(at(early, "m").values()) == {30}
    assert early.ok


def test_convoy_takes_one_tick_less_than_5_delays_or_with_skeen_one_tick_less_than_4() -> None:
    scenario = load_scenario("convoy", "whitebox")
    assert [at(run_scenario(scenario, WHITEBOX), "m")[p] for p in (0, 1)] == [49, 59]
    assert [at(run_scenario(scenario, WHITEBOX, {"follower_delivery": "early"}), "m")[p] for p in (0, 1)] == [49, 49]
    assert at(run_scenario(load_scenario("convoy", "skeen"), SKEEN), "m")[0] == 39


def test_the_json_of_a_scenario_has_the_promised_fields() -> None:
    found = run_scenario(load_scenario("solo", "skeen"), SKEEN).to_json()
    assert found["protocol"] == "skeen"
    assert found["scenario"] == "solo"
    assert found["delta"] == 10
    assert found["violations"] == []
    assert found["deliveries"][0] == {
        "message": "m", "process": 1, "group": 1, "role": "member", "at": 20, "delays": 2.0,
    }  # fmt: skip


def test_an_expectation_that_is_not_met_names_its_line_and_what_was_seen() -> None:
    outcome = run(
        "topology 2x1\n"
        "at 0 client1 multicasts m to 0 1\n"
        "at 0 client2 multicasts w to 0\n"
        "expect delays m at 0 1 is 7.0\n"
        "expect not delivered m at 0\n"
        "expect order w m at 0\n"
        "expect note multicast at 1\n"
        "expect violation agreement\n"
        "expect role leader at 1\n",
        SKEEN,
    )
    assert outcome.unmet == [
        "scenario:4: expect delays m at 0 1 is 7.0: at 0 it was 2.0; at 1 it was 2.0",
        "scenario:5: expect not delivered m at 0: delivered at 0",
        "scenario:6: expect order w m at 0: at 0 it was m w",
        "scenario:7: expect note multicast at 1: none at 1",
        "scenario:8: expect violation agreement: violated were none",
        "scenario:9: expect role leader at 1: 1 is member",
    ]


def test_a_note_that_never_came_is_not_as_expected_and_one_that_cannot_come_is_an_error() -> None:
    text = "topology 3\nat 0 client1 multicasts m to 0\n"
    assert run(text + "expect note snapshot_installed").unmet == [
        "scenario:3: expect note snapshot_installed: noted were committed"
    ]
    for line in ("expect note leadingg", "expect no note leadingg", "expect note leadingg at 1"):
        with pytest.raises(ScenarioError, match="scenario:3: there is no note leadingg: there are caught_up, "):
            run(text + line)


def test_a_message_that_is_refused_is_told_and_is_not_as_expected_unless_somebody_expects_it() -> None:
    text = "topology 3\nat 0 client1 multicasts m to 0 batch 9999999999\nat 0 client2 multicasts w to 0\n"
    outcome = run(text)
    assert outcome.to_json()["refused"] == {"m": "impossible batch"}
    assert outcome.unmet == ["m was refused (impossible batch), and no line says `expect refused m`"]
    assert run(text + "expect refused m").ok
    assert run(text + "expect refused m w").unmet == ["scenario:4: expect refused m w: w was not refused"]
    with pytest.raises(ScenarioError, match="scenario:4: nobody multicasts q"):
        run(text + "expect refused q")


def test_a_run_that_is_cut_short_is_not_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_plan, "EVENTS_MAX", 1000)
    outcome = run("topology 3\npaced 10\nat 500000 client1 multicasts m to 0\nexpect quiescent")
    assert [violation.property for violation in outcome.violations] == ["termination"]
    assert outcome.unmet


def test_held_messages_move_when_they_are_released_and_not_before() -> None:
    outcome = run(
        "topology 2x1\nhold Propose from 1 to 0\nat 0 client1 multicasts m to 0 1\nat 100 release Propose from 1 to 0",
        SKEEN,
    )
    assert at(outcome, "m") == {1: 20, 0: 110}


def test_dropped_messages_never_arrive_until_the_drop_is_released() -> None:
    outcome = run(
        "topology 3\ndrop Deliver from 0 to 1\nat 0 client1 multicasts m to 0\n"
        "at 60 release Deliver from 0 to 1\nexpect note caught_up at 1\nexpect delivered m at 1\nexpect quiescent"
    )
    assert outcome.unmet == []
    assert at(outcome, "m")[2] == 40
    assert at(outcome, "m")[1] > 100


def test_a_crashed_leader_is_replaced_and_follows_when_it_comes_back() -> None:
    outcome = run(
        "topology 3\npaced 10\nat 0 client1 multicasts m1 to 0\nat 35 crash 0\nat 100 client1 multicasts m2 to 0\n"
        "at 3000 restart 0\nexpect order m1 m2 at 0 1 2\nexpect role follower at 0\nexpect note leading\n"
        "expect no violations\nexpect quiescent"
    )
    assert outcome.unmet == []


def test_a_process_can_be_made_to_suspect_its_leader() -> None:
    outcome = run(
        "topology 3\noption prevote=off\nat 10 suspect 2\nend at 100\nexpect note leading at 2\nexpect role leader at 2"
    )
    assert outcome.unmet == []


def test_a_partition_lasts_until_it_is_healed_and_a_pause_until_it_is_ended() -> None:
    outcome = run(
        "topology 3\npaced 10\nat 0 partition 2\nat 0 pause 1\nat 50 resume 1\nat 5 client1 multicasts m to 0\n"
        "at 500 heal\nexpect quiescent\nexpect delivered m at 0 1 2"
    )
    assert outcome.unmet == []
    assert at(outcome, "m")[2] > 500


MANUAL = """
protocol skeen
topology 2x1
manual
client1 multicasts a to 0 1
client2 multicasts b to 0 1
step 0 <- client1 Multicast
step 0 <- client2 Multicast
step 1 <- client2 Multicast
step 1 <- 0 Propose      # a's
step 1 <- 0 Propose      # b's: 1 knows both proposals for b, and none of its own for a
expect not delivered a at 0 1
"""


def test_in_a_manual_scenario_nothing_moves_by_itself() -> None:
    outcome = run(MANUAL + "expect delivered b at 1\nexpect not delivered b at 0", SKEEN)
    assert outcome.unmet == []
    assert not outcome.result.quiescent


def test_a_manual_scenario_can_play_an_election_a_crash_and_a_lost_message() -> None:
    outcome = run(
        """
        topology 3
        option prevote=off
        manual
        client1 multicasts m to 0 via all
        step 0 <- client1 Multicast
        step 1 <- 0 Accept
        crash 0
        fire 1 Suspect
        step 2 <- 1 NewLeader
        restart 0
        drop * from any to 0
        step 1 <- 2 NewLeaderAck
        expect note leading at 0
        expect no violations
        """
    )
    assert [line for line in outcome.unmet if "violations" in line] == []


def test_a_manual_scenario_breaks_sessions_and_tells_about_new_ones_when_it_says_so() -> None:
    outcome = run(
        "topology 3\nmanual\nclient1 multicasts m to 0 via all\nstep 0 <- client1 Multicast\nbreak 0 1\n"
        "step 1 <- 0 Connected\nresubmit client1\nstep 1 <- client1 Multicast\nadvance 5\nclock 1 77\n"
        "step 2 <- 0 Accept"
    )
    assert outcome.result.counters["lost"] == 1


def test_in_a_manual_scenario_time_can_pass_and_no_timer_runs_out_until_it_is_fired() -> None:
    quiet = "topology 3\noption prevote=off\nmanual\nrestart 1\nadvance 9000000\nexpect no note leading\n"
    outcome = run(quiet)
    assert outcome.unmet == []
    assert outcome.result.ticks == 1_009_000_000
    fired = run(quiet + "fire 1 Suspect\nstep 2 <- 1 NewLeader\nstep 1 <- 2 NewLeaderAck")
    assert fired.unmet == []


def test_a_plan_and_the_scenario_it_is_written_as_have_the_same_run() -> None:
    for seed in range(3):
        spelled = spelled_out(plan(seed))
        text = write_scenario(spelled, "Same.", ["expect no violations", "expect quiescent"])
        outcome = run_scenario(parse_scenario(text), WHITEBOX)
        assert outcome.result.digest == simulate(spelled).digest == simulate(plan(seed)).digest
        assert outcome.unmet == []


def test_a_file_is_run_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.scenario"
    path.write_text("topology 2x1\nat 0 client1 multicasts m to 0\nexpect time m at 0 is 10\n", encoding="utf-8")
    assert run_scenario(load_scenario(str(path)), SKEEN).ok
