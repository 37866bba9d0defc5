"""TLS on bytes: who is let in, what waits for the handshake, and what is said of those who are not taken."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.certificates import certificates, credentials, dialling, pump, sign

from braidcast.cluster.authority import certify
from braidcast.wire.frames import frame
from braidcast.wire.subject import Subject
from braidcast.wire.tls import TlsEnd, TlsFailed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certs")
    certify(made, ["n1", "n2"], ["alice"])
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another authority, for the same names."""
    made = tmp_path_factory.mktemp("others")
    certify(made, ["n1"], ["alice"])
    return made


def meet(one: TlsEnd, other: TlsEnd) -> tuple[bytes, bytes]:
    one.begin()
    return pump(one, other)


def test_both_sides_learn_who_the_other_is(folder: Path) -> None:
    one, other = certificates(folder, "client-alice").dial("n1"), certificates(folder, "node-n1").accept()
    meet(one, other)
    assert (one.subject, other.subject) == (Subject("node", "n1"), Subject("client", "alice"))


def test_what_is_said_early_comes_in_order_after_the_handshake_and_nothing_of_it_can_be_read(folder: Path) -> None:
    one, other = certificates(folder, "node-n1").dial("n2"), certificates(folder, "node-n2").accept()
    one.seal(b"first ")
    one.seal(b"second ")
    one.begin()
    assert b"first" not in (said := one.put_out())
    assert other.open(said) == b""
    other.seal(b"answer")
    heard, heard_there = pump(one, other)
    assert (heard, heard_there) == (b"answer", b"first second ")
    one.seal(b"third")
    assert pump(one, other) == (b"", b"third")


@pytest.mark.parametrize("size", [1, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 3 << 20])
def test_any_size_in_any_pieces(folder: Path, size: int) -> None:
    one, other = certificates(folder, "node-n1").dial(), certificates(folder, "node-n2").accept()
    meet(one, other)
    one.seal(bytes(size - 1) + b"x")
    sealed = one.put_out()
    cut = [sealed[at : at + 100_001] for at in range(0, len(sealed), 100_001)]
    assert b"".join(other.open(piece) for piece in cut) == bytes(size - 1) + b"x"
    assert other.put_out() == b""


def test_stream_cut_anywhere_says_the_same(folder: Path) -> None:
    one, other = certificates(folder, "node-n1").dial(), certificates(folder, "node-n2").accept()
    meet(one, other)
    for word in (b"a" * 40, b"b", b"c" * 99):
        one.seal(word)
    sealed = one.put_out()
    assert b"".join(other.open(sealed[at : at + 1]) for at in range(len(sealed))) == b"a" * 40 + b"b" + b"c" * 99


def test_nothing_may_follow_a_goodbye(folder: Path) -> None:
    one, other = certificates(folder, "node-n1").dial(), certificates(folder, "node-n2").accept()
    meet(one, other)
    one.seal(b"last words")
    with pytest.raises(ssl.SSLWantReadError):
        one._object.unwrap()
    assert other.open(one.put_out()) == b"last words"
    with pytest.raises(TlsFailed, match="after it has said goodbye"):
        other.open(b"anything")


def failure_of(one: TlsEnd, other: TlsEnd) -> TlsFailed:
    with pytest.raises(TlsFailed) as caught:
        meet(one, other)
    return caught.value


def test_who_answers_takes_nobody_without_a_certificate_of_the_authority_that_is_valid_and_names_someone(
    folder: Path, stranger: Path
) -> None:
    def counted(one: TlsEnd) -> str:
        return failure_of(one, certificates(folder, "node-n1").accept()).kind

    known = credentials(folder, "client-alice")
    forged = credentials(stranger, "client-alice")
    assert counted(dialling(known, shows=False)) == "no certificate"
    assert counted(dialling(type(known)(known.authority, forged.certificate, forged.key))) == (
        "certificate of another authority"
    )
    mallory = "braidcast:client:mallory"
    assert counted(dialling(sign(folder, "old", mallory, valid_days=(-9, -1)))) == "expired certificate"
    assert counted(dialling(sign(folder, "new", mallory, valid_days=(1, 9)))) == "certificate of the future"
    assert counted(dialling(sign(folder, "nameless"))) == "nameless certificate"
    assert counted(dialling(sign(folder, "two", "braidcast:node:n1", "braidcast:node:n2"))) == "nameless certificate"


def test_who_dials_takes_only_the_node_that_was_meant_and_tells_no_other_who_it_is(folder: Path) -> None:
    for other_side, wanted in (("node-n2", "n1"), ("node-n2", "n2x")):
        one, other = certificates(folder, "client-alice").dial(wanted), certificates(folder, other_side).accept()
        failure = failure_of(one, other)
        assert (failure.kind, str(failure)) == (
            "certificate of another", f"the other side has the certificate of node n2, not of node {wanted}",
        )  # fmt: skip
        assert one.put_out() == b""
        assert (one.subject, other.subject) == (None, None)


def test_client_does_not_pass_for_a_node_with_whatever_usages_its_certificate_has(folder: Path) -> None:
    usual = failure_of(certificates(folder, "client-alice").dial(), certificates(folder, "client-alice").accept())
    assert usual.kind == "certificate of another authority"  # it is for clients only, says OpenSSL
    sign(folder, "client-any", "braidcast:client:any")
    failure = failure_of(certificates(folder, "client-alice").dial(), certificates(folder, "client-any").accept())
    assert str(failure) == "the other side has the certificate of client any, not of a node"


def test_who_is_turned_away_by_tls_hears_why(folder: Path, stranger: Path) -> None:
    known, forged = credentials(folder, "client-alice"), credentials(stranger, "client-alice")

    def told(one: TlsEnd) -> str:
        other = certificates(folder, "node-n1").accept()
        failure_of(one, other)
        with pytest.raises(TlsFailed) as caught:
            one.open(other.put_out())
        return str(caught.value)

    assert told(dialling(known, shows=False)) == "the other side asks for a certificate"
    assert told(dialling(type(known)(known.authority, forged.certificate, forged.key))) == (
        "the other side does not know the authority that signed our certificate"
    )
    assert told(dialling(sign(folder, "late", "braidcast:client:x", valid_days=(-9, -1)))) == (
        "our certificate has expired"
    )


def test_who_speaks_no_tls_or_an_old_one_is_told_apart(folder: Path) -> None:
    accepting = certificates(folder, "node-n1").accept
    for said in (frame(0, b"hello"), b"GET / HTTP/1.1\r\n\r\n", b"\0"):
        with pytest.raises(TlsFailed, match="does not speak TLS") as caught:
            accepting().open(said)
        assert caught.value.kind == "no TLS"
    with pytest.raises(TlsFailed) as caught:
        accepting().open(b"\x16\x03\x01\0\x05garbage of the length")
    assert caught.value.kind == "broken TLS"
    known = credentials(folder, "client-alice")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.load_verify_locations(known.authority)
    assert failure_of(TlsEnd(old, dials=""), accepting()).kind == "old TLS"
    dialled = certificates(folder, "client-alice").dial()
    dialled.begin()
    with pytest.raises(TlsFailed, match="does not speak TLS"):
        dialled.open(frame(0, b"hello"))


def test_changed_byte_ends_it(folder: Path) -> None:
    one, other = certificates(folder, "node-n1").dial(), certificates(folder, "node-n2").accept()
    meet(one, other)
    one.seal(b"pay 1")
    sealed = bytearray(one.put_out())
    sealed[-1] ^= 1
    with pytest.raises(TlsFailed) as caught:
        other.open(bytes(sealed))
    assert caught.value.kind == "broken TLS"


def test_replayed_record_ends_it(folder: Path) -> None:
    one, other = certificates(folder, "node-n1").dial(), certificates(folder, "node-n2").accept()
    meet(one, other)
    one.seal(b"pay 1")
    sealed = one.put_out()
    assert other.open(sealed) == b"pay 1"
    with pytest.raises(TlsFailed):
        other.open(sealed)
