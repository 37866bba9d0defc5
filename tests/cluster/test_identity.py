"""Who a node is: its directory is its own, its starts are counted, and the disks of its peers are remembered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from braidcast.cluster.identity import NAME, Identity, IdentityError, open_identity


def opened(folder: Path, **other: str | bool) -> Identity:
    given = {"cluster": "shop", "fingerprint": "f", "node": "n1", **other}
    return open_identity(folder / "n1", **given)  # type: ignore[arg-type]  # strings and flags by name


def test_starts_are_counted_durably_and_the_disk_keeps_its_name(tmp_path: Path) -> None:
    lives = [opened(tmp_path) for _ in range(3)]
    assert [life.incarnation for life in lives] == [1, 2, 3]
    assert len({life.disk for life in lives}) == 1
    assert not any(life.rejoins for life in lives)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"node": "n2"}, "holds the data of node n1 of cluster shop, not of node n2"),
        ({"cluster": "bank"}, "give each node a directory of its own"),
        ({"fingerprint": "g"}, "they cannot change in a running cluster"),
        ({"rejoin": True}, "so nothing is lost: start without --rejoin"),
    ],
)
def test_directory_of_another_is_refused_in_a_line(tmp_path: Path, other: dict[str, str | bool], why: str) -> None:
    opened(tmp_path)
    with pytest.raises(IdentityError, match=why) as refused:
        opened(tmp_path, **other)
    assert "\n" not in str(refused.value)
    assert opened(tmp_path).incarnation == 2, "a start that was refused is none"


def test_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "log").touch()
    with pytest.raises(IdentityError, match="give node n1 an empty directory"):
        opened(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"format": 2}', '{"format": 9}', "\xff"])
def test_damaged_file_is_an_error_and_not_a_first_life(tmp_path: Path, text: str) -> None:
    opened(tmp_path)
    path = tmp_path / "n1" / NAME
    path.write_text(text, encoding="latin-1")
    with pytest.raises(IdentityError, match=r"identity\.json (is damaged|has format 9)"):
        opened(tmp_path)


def test_file_with_parts_of_a_wrong_kind_is_an_error(tmp_path: Path) -> None:
    opened(tmp_path)
    path = tmp_path / "n1" / NAME
    whole = json.loads(path.read_text(encoding="utf-8"))
    for key in whole:
        values: tuple[object, ...] = ([], None, {"n2": 5})
        for value in values:
            path.write_text(json.dumps({**whole, key: value}), encoding="utf-8")
            if key not in ("cluster", "fingerprint", "node", "disk", "rejoins"):
                with pytest.raises(IdentityError):
                    opened(tmp_path)


@pytest.mark.parametrize("incarnation", [-1, 0, 10**23, True, 1.5, "1"])
def test_incarnation_that_was_never_counted_is_damage_with_advice_that_helps(
    tmp_path: Path, incarnation: object
) -> None:
    path = opened(tmp_path).path
    whole = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**whole, "incarnation": incarnation}), encoding="utf-8")
    with pytest.raises(IdentityError, match=r"is damaged .* move the data directory away and start the node"):
        opened(tmp_path)


def test_crash_while_it_is_written_leaves_the_one_before(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.path.with_suffix(".tmp").write_text("{", encoding="utf-8")
    assert opened(tmp_path).incarnation == 2


def test_replaced_disk_has_a_new_name_and_a_later_life(tmp_path: Path) -> None:
    first = opened(tmp_path)
    (tmp_path / "n1").rename(tmp_path / "lost")
    second = opened(tmp_path, rejoin=True)
    assert second.rejoins
    assert second.disk != first.disk
    assert second.incarnation > first.incarnation + 1_000_000, "above all that it may have had"
    assert opened(tmp_path).rejoins, "until what was lost is restored"


def test_node_in_memory_loses_its_disk_with_every_stop(tmp_path: Path) -> None:
    first = opened(tmp_path, in_memory=True)
    second = opened(tmp_path, in_memory=True, rejoin=True)
    assert second.disk != first.disk
    assert second.incarnation > first.incarnation


def test_disk_of_a_peer_is_remembered_and_a_former_one_never_taken_again(tmp_path: Path) -> None:
    identity = opened(tmp_path)
    assert identity.why_not("n2", "a", False) is None
    assert "--rejoin" in str(opened(tmp_path).why_not("n2", "b", False))
    assert opened(tmp_path).why_not("n2", "b", True) is None
    again = opened(tmp_path)
    assert again.why_not("n2", "b", False) is None
    assert "this is the old one" in str(again.why_not("n2", "a", True))


def test_disk_that_could_not_be_written_down_is_not_taken_for_known(tmp_path: Path) -> None:
    identity = opened(tmp_path)
    path, identity.path = identity.path, tmp_path / "gone" / NAME
    with pytest.raises(OSError, match="gone"):
        identity.why_not("n2", "a", False)
    identity.path = path
    assert identity.peers == {}
    assert identity.why_not("n2", "a", False) is None
    assert opened(tmp_path).peers["n2"].disk == "a"
