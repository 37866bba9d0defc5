"""A campaign on real processes, short; and that its judge can find something."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from braidcast.cli.main import run
from braidcast.cli.registry import protocol_named
from braidcast.cluster.config import load_config
from braidcast.settings import CLUSTER_FILE
from braidcast.trials.chaos import BLACKOUT, CLIENT_DEATH, KILL, PARTITION, PAUSE, RESTART, ChaosPlan, run_chaos
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
    assert 0 < found["acknowledged"] <= found["delivered"] <= found["sent"]
    assert (data / "history" / "manifest.json").exists()
    assert run(f"chaos --data {data}".split()) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [KILL, PAUSE, PARTITION, RESTART, BLACKOUT, CLIENT_DEATH])
def test_kind_of_fault_happens_and_nothing_is_lost(tmp_path: Path, kind: str) -> None:
    plan = replace(SHORT, minutes=0.03, weights=((kind, 1),), gap_s=(0.1, 0.3), lasts_s=(0.1, 0.5))
    result = asyncio.run(run_chaos(plan, tmp_path, lambda *_: None))
    assert result.found == []
    assert result.traffic.dead if kind == CLIENT_DEATH else result.counts[kind]


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
