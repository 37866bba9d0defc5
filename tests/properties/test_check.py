"""The oracle itself: it must pass what is correct and name what is not, in memory and from disk alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.properties import tamper_inside
from tests.properties.histories import broken, correct_history, made
from tests.properties.tamper import TAMPERINGS

from braidcast.core.errors import OptionError
from braidcast.history.event import PERSIST, RECOVERED, RESTART, DiskLost, Event, History, Resumed
from braidcast.history.store import read_history, write_history
from braidcast.properties.check import PROPERTIES, check, judge_history, properties_table
from braidcast.protocols.parts.dedup import DedupState
from braidcast.protocols.whitebox.messages import Checkpoint

assert tamper_inside.__doc__, "imported for what it adds to TAMPERINGS"
SEEDS = range(60)
DOCS = Path(__file__).resolve().parents[2] / "docs" / "properties.md"


def a_history(seed: int) -> History:
    return correct_history(seed, messages=1 + seed % 9, faults=seed % 3 > 0)


def test_correct_histories_of_random_groups_violate_nothing() -> None:
    for seed in range(150):
        assert check(a_history(seed)) == []


@pytest.mark.parametrize("name", TAMPERINGS)
def test_every_tampering_is_named(name: str) -> None:
    expected, tampering = TAMPERINGS[name]
    found = 0
    for seed in SEEDS:
        tampered = tampering(Random(seed), a_history(seed))
        if tampered is None:
            continue
        found += 1
        named = {violation.property for violation in check(tampered)}
        assert expected in named, f"seed {seed}: {named or 'nothing'}"
    assert found >= 3, "hardly any history could be tampered with like this: the test shows nothing"


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_history_read_from_disk_is_judged_like_the_one_in_memory(name: str, tmp_path: Path) -> None:
    _, tampering = TAMPERINGS[name]
    for seed in SEEDS:
        tampered = tampering(Random(seed), a_history(seed))
        if tampered is not None:
            assert as_text(from_disk(tampered, tmp_path)) == as_text(tampered)
            return


def test_correct_histories_read_from_disk_violate_nothing(tmp_path: Path) -> None:
    for seed in range(8):
        assert check(from_disk(a_history(seed), tmp_path)) == []


def test_no_history_is_too_broken_to_be_judged() -> None:
    for seed in range(150):
        random = Random(seed)
        history = broken(random, a_history(seed), random.choice((1, 5, 50, 500)))
        assert all(str(violation) for violation in check(history))


def test_every_property_is_broken_by_some_tampering() -> None:
    assert {expected for expected, _ in TAMPERINGS.values()} == set(PROPERTIES)


def test_only_the_named_properties_are_judged() -> None:
    _, tampering = TAMPERINGS["swap_two_deliveries"]
    tampered = next(found for seed in SEEDS if (found := tampering(Random(seed), a_history(seed))))
    assert {violation.property for violation in check(tampered, only=["gts_increases"])} == {"gts_increases"}
    assert check(tampered, only=["termination"]) == []


def test_a_judgement_says_what_was_not_judged_and_why() -> None:
    history = correct_history(1)
    whole = judge_history(history)
    assert (whole.violations, {*whole.judged, *whole.skipped}) == ([], {*PROPERTIES})
    restless = History(replace(history.manifest, quiescent=False, promises=()), history.events)
    found = judge_history(restless)
    assert found.skipped["termination"] == "quiescent runs"
    assert found.skipped["genuineness"] == "protocols that promise genuineness, in histories that record what is sent"
    assert {"termination", "agreement", "genuineness", "fifo"} <= {*found.skipped}
    assert not {*found.skipped} & {*found.judged}


def test_an_unknown_property_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"no property 'gaps'.*no_gaps"):
        check(correct_history(1), only=["gaps"])


def test_a_violation_says_who_what_and_where_on_one_line() -> None:
    for _, tampering in TAMPERINGS.values():
        for seed in range(10):
            tampered = tampering(Random(seed), a_history(seed))
            for violation in check(tampered) if tampered else ():
                text = str(violation)
                assert "\n" not in text
                assert text.startswith(f"{violation.property}: run made-{seed}, ")
                assert "expected" in text
                assert "saw" in text


def test_the_documented_table_is_the_table_of_properties() -> None:
    assert properties_table() in DOCS.read_text(encoding="utf-8")


def from_disk(history: History, folder: Path) -> History:
    write_history(history, folder / "run", overwrite=True)
    return read_history(folder / "run")


def as_text(history: History) -> list[str]:
    return [str(violation) for violation in check(history)]


def test_disks_of_a_cluster_are_judged_only_if_nodes_say_at_a_restart_what_they_held() -> None:
    """A node that was killed between the sync and the record of it has the mark, and its history does not."""
    history = correct_history(1, faults=False)
    assert not any(event.event == RESTART for event in history.events)
    names = ("persist_precedes_send", "persist_precedes_delivery")
    restarted = [*history.events, Event(10**9, 10**9, 0, 1, RESTART, None, Resumed(0))]
    told = [*restarted, Event(10**9, 10**9, 0, 1, RECOVERED, None, made(Checkpoint, dedup=DedupState()))]
    lost = [*history.events, Event(10**9, 10**9, 0, 1, RESTART, None, DiskLost())]
    in_memory = [event for event in history.events if event.event != PERSIST]
    of_cluster = replace(history.manifest, driver="cluster")
    assert {*names} <= {*judge_history(History(of_cluster, history.events)).judged}
    assert {*names} <= {*judge_history(History(history.manifest, restarted)).judged}
    assert {*names} <= {*judge_history(History(of_cluster, told)).judged}
    assert {*names} <= {*judge_history(History(of_cluster, lost)).judged}
    for unknown in restarted, in_memory:
        assert {*names} <= judge_history(History(of_cluster, unknown)).skipped.keys()
