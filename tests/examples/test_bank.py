"""The bank: its shards, its judge, and a short life of it with real processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from braidcast import Checkpoint, Delivery, MessageId
from examples.bank import driver
from examples.bank.__main__ import main
from examples.bank.driver import ACCOUNTS, EACH, run_bank
from examples.bank.node import names_of, summary
from examples.bank.observer import Observer, inversions
from examples.bank.shard import SHARDS, Shard, shard_of

ROOT = Path(__file__).parents[2]
MONEY = 10 * 100
NAMES = names_of(10)
ONE = NAMES[0]
OTHER = next(name for name in NAMES if shard_of(name) != shard_of(ONE))


class Story:
    """What the shards deliver, as one order or as each its own."""

    def __init__(self) -> None:
        self.observer = Observer()
        self.number = 0

    def tell(self, payload: bytes, *groups: str) -> None:
        """A message that is next in each of these groups."""
        self.number += 1
        for group in groups:
            self.observer.seen[group].take(
                Delivery(payload, self.number, 0, group, frozenset(groups), self.number,
                         MessageId(1, 1, self.number), Checkpoint(self.number))
            )  # fmt: skip

    def call(self, method: Any, *arguments: Any) -> None:
        """A call, wherever it says that it goes."""
        to = method.to(None, *arguments)
        self.tell(method.payload(Shard(), *arguments), *({to} if isinstance(to, str) else sorted(to)))

    def verdict(self, *, tamper: str = "") -> Any:
        states = [summary({group: each.shard for group, each in self.observer.seen.items()})]
        if tamper:
            states.append({**states[0], tamper: "another state"})
        return self.observer.judge(MONEY, states)


def begun() -> Story:
    story = Story()
    story.tell(b"", *SHARDS)  # a barrier is nobody's business
    story.call(Shard.found, NAMES, 100)
    story.call(Shard.audit, 0)
    return story


def test_transfer_between_shards_loses_nothing_at_any_cut() -> None:
    story = begun()
    story.call(Shard.hold, "t1", ONE, 60)
    story.call(Shard.audit, 1)
    story.call(Shard.settle, "t1", ONE, OTHER, 60)
    story.call(Shard.hold, "t2", ONE, 60)
    story.call(Shard.hold, "t3", ONE, -5)
    story.call(Shard.audit, 2)
    story.call(Shard.hold, "t4", OTHER, 160)
    story.call(Shard.close)
    story.call(Shard.settle, "t4", OTHER, ONE, 160)
    verdict = story.verdict()
    assert verdict.ok
    assert (verdict.transfers, verdict.between, verdict.refused, verdict.lowest) == (1, 1, 2, 0)
    assert verdict.sums == [MONEY] * 4
    assert story.observer.seen[shard_of(OTHER)].shard.balance[OTHER] == 0


def test_judge_sees_money_that_left_and_did_not_arrive() -> None:
    story = begun()
    story.call(Shard.debit, "t1", ONE, 60)
    story.call(Shard.audit, 1)
    story.call(Shard.credit, "t1", OTHER, 60)
    story.call(Shard.audit, 2)
    story.call(Shard.debit, "t2", ONE, 60)
    verdict = story.verdict()
    assert (verdict.ok, verdict.sums, verdict.refused) == (False, [MONEY, MONEY - 60, MONEY], 1)


def test_judge_sees_transfers_in_different_orders_and_replicas_that_differ() -> None:
    story = begun()
    story.call(Shard.debit, "t1", ONE, 10)
    story.call(Shard.debit, "t2", OTHER, 10)
    story.call(Shard.credit, "t1", OTHER, 10)
    story.call(Shard.credit, "t2", ONE, 10)
    assert (story.verdict().ok, story.verdict().inversions) == (False, 1)
    assert inversions(list("abcd"), list("xacybd")) == 1
    assert inversions(list("abc"), list("abc")) == 0
    whole = begun()
    whole.call(Shard.hold, "t1", ONE, 10)
    whole.call(Shard.settle, "t1", ONE, OTHER, 10)
    assert whole.verdict().ok
    assert not whole.verdict(tamper=SHARDS[1]).ok


def test_bank_whose_leaders_are_killed_keeps_every_coin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(driver, "KILL_S", 0.4)
    verdict = asyncio.run(run_bank(tmp_path, seconds=2, kill_leaders=True))
    assert verdict.ok, verdict
    assert verdict.kills
    assert verdict.between > 10
    assert set(verdict.sums) == {ACCOUNTS * EACH}


def test_counter_example_shows_what_goes_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main("--seconds 1 --separately".split()) == 0
    said = capsys.readouterr().out
    assert "the money at" in said
    assert "wrong at" in said
    assert "times in another order" in said
    assert "no bank" in said


def test_run_that_should_have_killed_and_did_not_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def quiet(folder: Path, **given: object) -> Any:
        story = begun()
        story.call(Shard.hold, "t1", ONE, 60)
        story.call(Shard.settle, "t1", ONE, OTHER, 60)
        return story.verdict()

    monkeypatch.setattr("examples.bank.__main__.run_bank", quiet)
    assert main(["--kill-leaders"]) == 1
    assert "no leader was killed" in capsys.readouterr().out
    assert main([]) == 0
    assert main(["--separately"]) == 1
    assert "try a longer run" in capsys.readouterr().out


def test_arguments_that_cannot_be_meant_are_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "something").touch()
    for arguments, why in (
        ("--seconds 0", "--seconds is a number above 0"), ("--seconds soon", "invalid float"),
        (f"--data {tmp_path}", "is not empty: name another folder"),
    ):  # fmt: skip
        with pytest.raises(SystemExit, match="2"):
            main(arguments.split())
        assert why in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_bank_stands_for_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.chdir(ROOT)
    verdict = asyncio.run(run_bank(tmp_path, seconds=60, kill_leaders=True, seed=seed))
    assert verdict.ok, verdict
    assert verdict.kills > 10
