"""A campaign on real processes, short; and that its judge can find something."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from braidcast.cli.chaos import Report, parts_of
from braidcast.cli.main import run
from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import load_config
from braidcast.cluster.local import NodeProcess, processes_in, wait_until
from braidcast.settings import CLUSTER_FILE
from braidcast.trials.chaos import (
    BLACKOUT,
    CLIENT_DEATH,
    KILL,
    PARTITION,
    PAUSE,
    RESTART,
    ChaosPlan,
    never_seen,
    run_chaos,
)
from braidcast.trials.faulty_cluster import FaultyCluster
from braidcast.trials.verdict import judge

SHORT = ChaosPlan(protocol_named("whitebox"), minutes=0.1, groups=2, gap_s=(0.2, 0.6), lasts_s=(0.1, 1.0))


def test_chaos_prints_what_it_did_and_keeps_what_it_is_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "kept"
    assert run(f"chaos --minutes 0.05 --groups 2 --seed 3 --data {data} --json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert {
        "minutes", "sent", "acknowledged", "delivered", "kills", "pauses", "partitions", "restarts", "violations",
        "lost",
    } <= found.keys()  # fmt: skip
    assert (found["violations"], found["lost"], found["found"]) == (0, 0, [])
    assert found["judged"]["genuineness"] == "all"
    assert {"persist_precedes_send", "persist_precedes_delivery"} <= found["judged"].keys()
    assert found["skipped"].keys() >= {"fifo"}
    assert 0 < found["acknowledged"] <= found["delivered"] <= found["sent"]
    assert (data / "history" / "manifest.json").exists()
    assert run(f"chaos --data {data}".split()) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [KILL, PAUSE, PARTITION, RESTART, BLACKOUT, CLIENT_DEATH])
def test_kind_of_fault_happens_and_nothing_is_lost(tmp_path: Path, kind: str) -> None:
    plan = replace(
        SHORT, minutes=0.03, weights=((kind, 1),), gap_s=(0.1, 0.3), lasts_s=(0.1, 0.5), detail="everything"
    )
    result = asyncio.run(run_chaos(plan, tmp_path, lambda *_: None))
    assert result.found == []
    assert result.traffic.dead if kind == CLIENT_DEATH else result.counts[kind]
    assert {"persist_precedes_send", "persist_precedes_delivery"} <= {*result.verdict.judged}
    assert ("durable_is_recovered" in result.verdict.judged) == (kind in (KILL, RESTART, BLACKOUT))


def test_judge_finds_what_is_missing_on_a_disk_and_journals_that_differ(tmp_path: Path) -> None:
    calm = replace(SHORT, minutes=0.05, weights=((CLIENT_DEATH, 1),))
    result = asyncio.run(run_chaos(calm, tmp_path, lambda *_: None))
    assert result.found == []
    config = load_config(tmp_path / CLUSTER_FILE, protocol_named)
    folder = config.journal_folder("n2", "g1")
    shutil.rmtree(folder)
    folder.mkdir()
    again = judge(replace(config, history=None), result.traffic.acknowledged)
    to_g1 = [id for id, (dest, _) in result.traffic.acknowledged.items() if 1 in dest]
    assert len(again.lost) == len(to_g1) > 0
    assert "is not in the journal of group g1 at n2" in again.lost[0]
    assert [text.split(" differ")[0] for text in again.violations] == ["the journals of group g1 at n1 and n2"]


def test_node_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        faulty = await FaultyCluster.make(tmp_path, protocol_named("whitebox"), groups=1)
        try:
            faulty.cluster.start_all()
            await faulty.wait_ready()
            await asyncio.to_thread(faulty.cluster.kill, "n2")  # not by `faulty`, which would expect it
            return faulty.dead()
        finally:
            await faulty.close()

    (found,) = asyncio.run(scenario())
    assert found.startswith("node n2 ended by itself: ")


def test_campaign_that_did_no_harm_for_a_minute_proves_nothing() -> None:
    assert never_seen(59.0, {}, 3) == []
    assert never_seen(60.0, {}, 3) == [KILL, PAUSE, PARTITION]
    assert never_seen(60.0, {KILL: 1, PARTITION: 2}, 3) == [PAUSE]
    assert never_seen(60.0, {KILL: 1, PAUSE: 1}, 1) == []


def test_report_of_a_calm_minute_is_not_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calm = replace(SHORT, minutes=0.03, weights=((CLIENT_DEATH, 1),), detail="order")
    result = asyncio.run(run_chaos(calm, tmp_path, lambda *_: None))
    result.seconds = 60.0
    report = Report()
    report.add(result)
    assert not report.ok
    report.show()
    said = capsys.readouterr().out
    assert f"NEVER SEEN  {PARTITION}" in said
    assert "skipped: genuineness judges protocols that promise genuineness, in histories that record" in said
    assert "held" not in said


def test_a_long_campaign_records_everything_in_its_first_part() -> None:
    assert [(part.detail, name) for part, name in parts_of(SHORT)] == [("everything", "")]
    parts = parts_of(replace(SHORT, minutes=30))
    assert [(part.detail, name) for part, name in parts] == [("everything", "everything"), ("order", "order")]
    assert sum(part.minutes for part, _ in parts) == 30


def running_in(folder: Path) -> list[NodeProcess]:
    return [node for node in processes_in(folder) if node.pid is not None]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_chaos_in_a_relative_folder_that_is_told_to_stop_leaves_no_node(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "braidcast", *"chaos --minutes 5 --groups 1 --data kept".split()]
    folder = tmp_path / "kept" / "everything"
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as chaos:
        journal = folder / "data" / "n1"
        wait_until(lambda: journal.exists() and len(running_in(folder)) == 3, "the nodes", 30)
        nodes = running_in(folder)
        chaos.send_signal(number)
        _, error = chaos.communicate(timeout=60)
    assert (chaos.returncode, error.strip()) == (130, b"braidcast: interrupted")
    assert [node.pid for node in nodes] == [None] * 3
