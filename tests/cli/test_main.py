"""What a user meets first: help, exit status, and errors on one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from braidcast.cli.main import cli, run

Captured = pytest.CaptureFixture[str]


def one_line_error(capsys: Captured, *arguments: str) -> str:
    """The error of a misused command: exit status 2, one line, no traceback, nothing on standard output."""
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("braidcast: ")
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_help_of_every_command_says_what_it_is_for_with_an_example(command: str, capsys: Captured) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert f"braidcast {command}" in text


def test_without_a_command_help_is_shown_and_the_status_is_misuse(capsys: Captured) -> None:
    assert run([]) == 2
    assert "braidcast demo" in capsys.readouterr().out


def test_version(capsys: Captured) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("braidcast, version ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["sim", "--protocol", "nope", "--scenario", "solo"], "there is no protocol 'nope': choose skeen or whitebox"),
        (["sim", "--protocol", "whitebox"], "say what to run: --scenario NAME (convoy, solo)"),
        (["sim"], "say which --protocol"),
        (["sim", "--protocol", "whitebox", "--scenario", "nope"], "there is no scenario 'nope': choose convoy or solo"),
        (["sim", "--scenario", "no/such/file.scenario"], "there is no scenario file no/such/file.scenario"),
        (["sim", "--protocol", "whitebox", "--scenario", "solo", "--option", "x=1"], "whitebox has no option 'x'"),
        (["sim", "--protocol", "whitebox", "--scenario", "solo", "--option", "x"], "'x' is not NAME=VALUE"),
        (
            ["sim", "--protocol", "whitebox", "--scenario", "solo", "--option", "follower_delivery=late"],
            "follower_delivery takes leader or early, not 'late'",
        ),
        (["sim", "--protocol", "whitebox", "--scenario", "solo", "--option", "retry_ticks=x"], "takes a whole number"),
        (["sim", "--protocol", "whitebox", "--scenario", "solo", "--option", "retry_ticks=0"], "must be at least 1"),
        (["sim", "--protocol", "whitebox", "--scenario", "solo", "--topology", "1"], "a scenario has its own topology"),
        (["sim", "--protocol", "whitebox", "--seed", "1", "--topology", "2by3"], "topology '2by3' is not readable"),
        (["fuzz", "--protocol", "whitebox", "--topology", "3+2"], "group 1 has 2 members, but whitebox needs 2f + 1"),
        (["fuzz", "--protocol", "skeen", "--topology", "3"], "skeen works with groups of one"),
        (["fuzz", "--protocol", "whitebox", "--runs", "0"], "0 is not in the range"),
        (["fuzz", "--protocol", "whitebox", "--shrink", "x"], "go with --replay SEED"),
        (["explore", "--protocol", "whitebox", "--replicas", "2"], "group 0 has 2 members"),
        (["explore", "--protocol", "whitebox", "--replicas", "0"], "give every group at least one"),
        (["explore", "--protocol", "skeen", "--replicas", "1", "--elections", "1"], "skeen has no elections"),
        (["explore", "--protocol", "whitebox", "--messages", "10001"], "10001 is not in the range"),
        (["explore", "--protocol", "whitebox", "--topology", "3", "--groups", "1"], "leave --groups out"),
        (["bench", "nope"], "No such command 'nope'"),
    ],
)
def test_misuse_is_one_line_that_says_what_to_do(arguments: list[str], says: str, capsys: Captured) -> None:
    assert says in one_line_error(capsys, *arguments)


def test_solo_in_the_promised_form(capsys: Captured) -> None:
    assert run(["sim", "--protocol", "whitebox", "--scenario", "solo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["protocol"], found["scenario"], found["delta"], found["violations"]) == ("whitebox", "solo", 10, [])
    assert {(row["role"], row["delays"]) for row in found["deliveries"]} == {("leader", 3.0), ("follower", 4.0)}
    assert set(found["deliveries"][0]) == {"message", "process", "group", "role", "at", "delays"}


def test_solo_with_early_delivery_takes_three_delays_everywhere(capsys: Captured) -> None:
    assert run("sim --protocol whitebox --scenario solo --option follower_delivery=early --json".split()) == 0
    assert {row["delays"] for row in json.loads(capsys.readouterr().out)["deliveries"]} == {3.0}


def test_skeen_alone_takes_two_delays(capsys: Captured) -> None:
    assert run("sim --protocol skeen --scenario solo --json".split()) == 0
    assert {row["delays"] for row in json.loads(capsys.readouterr().out)["deliveries"]} == {2.0}


@pytest.mark.parametrize(("mode", "follower"), [("leader", 59), ("early", 49)])
def test_convoy_reaches_the_worst_case_of_section_1_9(mode: str, follower: int, capsys: Captured) -> None:
    assert run(f"sim --protocol whitebox --scenario convoy --option follower_delivery={mode} --json".split()) == 0
    rows = json.loads(capsys.readouterr().out)["deliveries"]
    at = {row["process"]: row["at"] for row in rows if row["message"] == "m"}
    assert (at[0], at[1], at[2]) == (49, follower, follower)


def test_convoy_of_skeen_is_just_under_four_delays(capsys: Captured) -> None:
    assert run("sim --protocol skeen --scenario convoy --json".split()) == 0
    rows = json.loads(capsys.readouterr().out)["deliveries"]
    assert max(row["delays"] for row in rows if row["message"] == "m") == 3.9


def test_sim_of_a_file_writes_its_history_once(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "my.scenario"
    file.write_text("protocol whitebox\ntopology 3\nat 0 client1 multicasts m to 0\nexpect delivered m at 0 1 2\n")
    command = ["sim", "--scenario", str(file), "--history", str(tmp_path / "run")]
    assert run(command) == 0
    assert (tmp_path / "run" / "manifest.json").is_file()
    assert list((tmp_path / "run" / "events").glob("*.parquet"))
    capsys.readouterr()
    assert "already holds a history" in one_line_error(capsys, *command)
    assert run([*command, "--overwrite"]) == 0


def test_an_expectation_that_is_not_met_leaves_with_one(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "wrong.scenario"
    file.write_text("protocol whitebox\ntopology 3\nat 0 client1 multicasts m to 0\nexpect time m at 0 is 1\n")
    assert run(["sim", "--scenario", str(file)]) == 1
    assert "NOT AS EXPECTED" in capsys.readouterr().out


def test_a_scenario_file_with_a_mistake_is_named_with_its_line(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "bad.scenario"
    file.write_text("protocol whitebox\n\nat 0 client1 mumbles\n")
    assert f"{file}:3" in one_line_error(capsys, "sim", "--scenario", str(file))


def test_random_run_from_a_seed(capsys: Captured) -> None:
    assert run("sim --protocol whitebox --seed 7 --topology 3 --json".split()) == 0
    first = json.loads(capsys.readouterr().out)
    assert run("sim --protocol whitebox --seed 7 --topology 3 --json".split()) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert first["violations"] == []


def test_fuzz_in_the_promised_form(capsys: Captured) -> None:
    assert run("fuzz --protocol whitebox --runs 20 --seed 1 --jobs 1 --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    promised = {"runs", "events", "violations", "leader_changes", "restarts", "catchups", "redeliveries", "collected"}
    assert promised <= set(found)
    assert (found["runs"], found["violations"]) == (20, 0)


def test_fuzz_replays_one_run(capsys: Captured) -> None:
    assert run("fuzz --protocol whitebox --replay 42".split()) == 0
    assert "every property holds" in capsys.readouterr().out


def test_explore_in_the_promised_form(capsys: Captured) -> None:
    assert run("explore --protocol whitebox --groups 1 --replicas 3 --messages 2 --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"states", "outcomes", "depth", "exhausted", "delay_bound", "violations"} <= set(found)
    assert (found["states"], found["outcomes"], found["exhausted"]) == (351, 2, True)


def test_explore_with_a_delay_bound_never_says_exhausted(capsys: Captured) -> None:
    assert run("explore --protocol whitebox --messages 1 --elections 1 --delays 1".split()) == 0
    assert "all schedules with at most 1 delays" in capsys.readouterr().out


def test_bench_core_reports_every_figure(capsys: Captured) -> None:
    assert run("bench core --messages 100 --rounds 1 --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["whitebox_3_destinations"]["messages_per_s"] > 0
    assert found["simulator_with_every_property"]["events_per_s"] > 0
