"""The development authority: what it writes, for whom, and that it replaces nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.certificates import certificates, pump

from braidcast.cluster.authority import AuthorityError, certify
from braidcast.wire.subject import Subject


def test_keys_are_for_their_owner_only_and_every_certificate_names_one(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    written = certify(folder, ["n1"], ["alice", "bob"])
    assert sorted(file.name for file in written) == sorted(
        f"{stem}.{kind}" for stem in ("authority", "node-n1", "client-alice", "client-bob") for kind in ("pem", "key")
    )
    assert {file.stat().st_mode & 0o777 for file in written if file.suffix == ".key"} == {0o600}
    assert certificates(folder, "node-n1").subject == Subject("node", "n1")
    assert certificates(folder, "client-bob").subject == Subject("client", "bob")


def test_clients_can_be_added_later(tmp_path: Path) -> None:
    certify(tmp_path, ["n1"])
    added = certify(tmp_path, clients=["carol"])
    assert sorted(file.name for file in added) == ["client-carol.key", "client-carol.pem"]
    one, other = certificates(tmp_path, "client-carol").dial("n1"), certificates(tmp_path, "node-n1").accept()
    one.begin()
    pump(one, other)
    assert other.subject == Subject("client", "carol")


def refused(*arguments: object, **named: object) -> str:
    with pytest.raises(AuthorityError) as caught:
        certify(*arguments, **named)  # type: ignore[arg-type]  # as whoever calls it
    return str(caught.value)


def test_nothing_is_replaced_and_nothing_is_written_when_something_is_in_the_way(tmp_path: Path) -> None:
    certify(tmp_path, ["n1"])
    kept = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert "node-n1.pem exists, and is not replaced" in refused(tmp_path, ["n2", "n1"])
    (tmp_path / "node-n2.key").write_text("mine")
    assert "node-n2.key exists" in refused(tmp_path, ["n2"])
    (tmp_path / "node-n2.key").unlink()
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "../a", "*", "a" * 64])
def test_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    assert "cannot be the name of a client" in refused(tmp_path / "new", clients=[name])
    assert not (tmp_path / "new").exists()


def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    assert "one name is given twice" in refused(tmp_path, ["n1", "n1"])


def test_half_an_authority_or_two_halves_of_different_ones_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    certify(one, ["n1"])
    certify(other, ["n1"])
    (one / "authority.key").write_bytes((other / "authority.key").read_bytes())
    assert "authority.key is not the key of" in refused(one, ["n2"])
    (one / "authority.key").write_text("no key")
    assert "no authority can be read" in refused(one, ["n2"])
    (one / "authority.key").unlink()
    assert "only authority.pem of the two files of an authority" in refused(one, ["n2"])


def test_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(tmp_path / "file" / "certs", ["n1"])
