"""The certificates of a node or a client: what is wrong with files is a sentence, and they are read again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.certificates import certificates, credentials, pump, sign

from braidcast.cluster.authority import certify
from braidcast.settings.tls import Credentials
from braidcast.wire.certificates import Certificates, CertificatesUnusable
from braidcast.wire.subject import Subject


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certify(tmp_path, ["n1", "n2"], ["alice"])
    return tmp_path


def why_not(found: Credentials, me: Subject | None = None) -> str:
    with pytest.raises(CertificatesUnusable) as caught:
        Certificates(found, me).load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sound_files_say_whom_they_name_and_until_when(folder: Path) -> None:
    found = certificates(folder, "node-n1")
    assert found.subject == Subject("node", "n1")
    assert found.until is not None


@pytest.mark.parametrize("which", ["authority", "certificate", "key"])
def test_file_that_is_not_there_or_is_something_else_is_named(folder: Path, which: str) -> None:
    found = credentials(folder, "node-n1")
    file: Path = getattr(found, which)
    file.write_text("not PEM")
    assert str(file) in why_not(found)
    file.unlink()
    assert why_not(found) == (
        f"{file} cannot be read (No such file or directory): correct the path, or let `braidcast certs` make it"
    )


def test_certificate_of_somebody_else_is_refused_by_its_name(folder: Path) -> None:
    assert why_not(credentials(folder, "node-n1"), Subject("node", "n2")) == (
        f"{folder}/node-n1.pem: the certificate must name node n2, and names node n1: have one made with the URI "
        f"braidcast:node:n2 among its alternative names, as `braidcast certs` does"
    )
    assert "and names client alice" in why_not(credentials(folder, "client-alice"), Subject("node", "alice"))
    assert "must name a node or a client, and names none" in why_not(sign(folder, "nobody"))


def test_key_of_another_certificate_and_one_with_a_passphrase_are_refused(folder: Path) -> None:
    one, other = credentials(folder, "node-n1"), credentials(folder, "node-n2")
    assert "is not the private key of" in why_not(Credentials(one.authority, one.certificate, other.key))
    hidden = sign(folder, "hidden", "braidcast:node:n1", passphrase=b"secret")
    assert "has a passphrase" in why_not(hidden)


@pytest.mark.parametrize("valid_days", [(-9, -1), (1, 9)])
def test_certificate_that_is_not_valid_now_is_refused(folder: Path, valid_days: tuple[int, int]) -> None:
    why = why_not(sign(folder, "node-n1", "braidcast:node:n1", valid_days=valid_days))
    assert "the certificate is valid from" in why
    assert "have a new one made, or set the clock" in why


def test_node_whose_certificate_its_own_authority_did_not_sign_is_told(folder: Path, tmp_path: Path) -> None:
    certify(tmp_path / "others", ["n1"])
    mine, other = credentials(folder, "node-n1"), credentials(tmp_path / "others", "node-n1")
    why = why_not(Credentials(other.authority, mine.certificate, mine.key))
    assert "is not taken by those who know" in why


# -- read again --------------------------------------------------------------------------------------------------------


def replace(folder: Path, stem: str, by: str, *kinds: str) -> None:
    """As an administrator does it: the new file is there at once."""
    for kind in kinds:
        shutil.copy(folder / f"{by}.{kind}", folder / "coming")
        os.replace(folder / "coming", folder / f"{stem}.{kind}")


def test_new_files_are_taken_when_they_are_sound_and_the_old_ones_stay_in_use_otherwise(folder: Path) -> None:
    found, peer = certificates(folder, "node-n1"), certificates(folder, "node-n2")
    assert found.look() == ""
    sign(folder, "next", "braidcast:node:n1", valid_days=(-1, 5))

    replace(folder, "node-n1", "next", "pem")
    assert "the old ones stay in use" in found.look()
    assert "is not the private key of" in found.trouble
    assert found.look() == ""  # said once
    one, other = peer.dial("n1"), found.accept()
    one.begin()
    pump(one, other)
    assert one.subject == Subject("node", "n1")

    before = found.until
    replace(folder, "node-n1", "next", "key")
    assert found.look().startswith("new certificates are in use, until ")
    assert found.trouble == ""
    assert found.until != before
    one, other = peer.dial("n1"), found.accept()
    one.begin()
    pump(one, other)
    assert one.subject == Subject("node", "n1")


@pytest.mark.parametrize(("days", "soon"), [(13, True), (15, False)])
def test_certificate_that_expires_soon_is_complained_of(folder: Path, days: int, soon: bool) -> None:
    sign(folder, "node-n1", "braidcast:node:n1", valid_days=(-1, days))
    found = certificates(folder, "node-n1")
    assert found.complaint.startswith("the certificate expires at ") == soon
    (folder / "node-n1.key").unlink()
    found.look()
    assert found.complaint == found.trouble != ""


def test_files_that_vanish_are_trouble_until_they_are_back(folder: Path) -> None:
    found = certificates(folder, "client-alice")
    key = folder / "client-alice.key"
    text = key.read_bytes()
    key.unlink()
    assert "cannot be read" in found.look()
    key.write_bytes(text)
    assert found.look() != ""
    assert found.trouble == ""


def test_authority_that_signs_next_can_be_added_before_anything_is_signed_by_it(folder: Path, tmp_path: Path) -> None:
    certify(tmp_path / "next", clients=["alice"])
    node, client = certificates(folder, "node-n1"), certificates(tmp_path / "next", "client-alice")
    with open(folder / "authority.pem", "ab") as bundle:
        bundle.write((tmp_path / "next" / "authority.pem").read_bytes())
    assert node.look() != ""
    (tmp_path / "next" / "authority.pem").write_bytes((folder / "authority.pem").read_bytes())
    client.look()
    one, other = client.dial("n1"), node.accept()
    one.begin()
    pump(one, other)
    assert other.subject == Subject("client", "alice")
