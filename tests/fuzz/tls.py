"""The target `tls`: bytes at one end of TLS, before and after a handshake, as one who answers and one who dials.

The first byte says which, and in what pieces the rest comes. What the other side of a handshake said cannot be
recorded, since every handshake has keys of its own: what is left of it are the first words.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.certificates import certificates, pump
from tests.fuzz.mutate import mutate_bytes

from braidcast.cluster.authority import certify
from braidcast.wire.certificates import Certificates
from braidcast.wire.frames import frame
from braidcast.wire.tls import TlsEnd, TlsFailed

if TYPE_CHECKING:
    from tests.fuzz.mutate import Raw


def _made() -> tuple[Certificates, Certificates]:
    with TemporaryDirectory() as folder:
        certify(Path(folder), ["n1"], ["alice"])
        return certificates(Path(folder), "node-n1"), certificates(Path(folder), "client-alice")


def tls_run() -> Callable[[bytes], int]:
    """Whatever comes is heard, waited for, or refused as it should be."""
    node, client = _made()

    def end_of(kind: int) -> TlsEnd:
        answers, dials = node.accept(), client.dial("n1")
        if kind != 0:
            dials.begin()
        if kind == 2:
            pump(dials, answers)
        return dials if kind == 1 else answers

    def run(data: bytes) -> int:
        kind, stride = (data[0] % 3, 1 + data[0] // 3) if data else (0, 1)
        end = end_of(kind)
        for at in range(1, len(data), stride):
            try:
                end.open(data[at : at + stride])
            except TlsFailed:
                return 1
            finally:
                end.put_out()
        return 0

    return run


def tls_seeds() -> list[bytes]:
    """First words, records, alerts, and what is no TLS."""
    _, client = _made()
    dials = client.dial("n1")
    dials.begin()
    first = dials.put_out()
    sealed, alert = b"\x17\x03\x03\0\x20" + bytes(32), b"\x15\x03\x03\0\2\2\x28"
    said = [first, first[:50], frame(0, b"hello"), sealed, alert, b"\x16"]
    return [bytes([kind + 3 * 80]) + words for words in said for kind in range(3)]


def mutate_tls(data: bytes, random: Random, others: list[bytes], raw: Raw | None) -> bytes:
    """The first byte stays more often than not."""
    return data[:1] + (raw or mutate_bytes)(data[1:], random) if random.randrange(4) else mutate_bytes(data, random)
