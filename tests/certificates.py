"""Certificates as nobody should have them, and two ends of TLS without a network."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from braidcast.settings.tls import Credentials
from braidcast.wire.certificates import Certificates
from braidcast.wire.tls import TlsEnd

PEM = serialization.Encoding.PEM


def credentials(folder: Path, stem: str) -> Credentials:
    """What `certify` wrote into a folder, as `node-n1` say."""
    return Credentials(folder / "authority.pem", folder / f"{stem}.pem", folder / f"{stem}.key")


def certificates(folder: Path, stem: str) -> Certificates:
    """The same, loaded."""
    made = Certificates(credentials(folder, stem))
    made.load()
    return made


def sign(
    folder: Path, stem: str, *uris: str, valid_days: tuple[int, int] = (-1, 1), passphrase: bytes | None = None
) -> Credentials:
    """A certificate of the authority in a folder, with any names in it and any time."""
    signer = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), None)
    authority = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris] or [x509.DNSName("n1")])
    certificate = (
        x509.CertificateBuilder(authority.subject, x509.Name([]), key.public_key(), x509.random_serial_number())
        .not_valid_before(now + timedelta(days=valid_days[0]))
        .not_valid_after(now + timedelta(days=valid_days[1]))
        .add_extension(names, critical=False)
        .sign(signer, hashes.SHA256())
    )
    made = credentials(folder, stem)
    hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    made.certificate.write_bytes(certificate.public_bytes(PEM))
    made.key.write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, hidden))
    return made


def dialling(found: Credentials, node: str = "", *, shows: bool = True) -> TlsEnd:
    """One who dials with any certificate, also with none and with one that is no good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(found.authority)
    if shows:
        context.load_cert_chain(found.certificate, found.key)
    return TlsEnd(context, dials=node)


def pump(one: TlsEnd, other: TlsEnd) -> tuple[bytes, bytes]:
    """Let them talk until nobody has more to say; what the first and the second heard."""
    heard: dict[TlsEnd, bytes] = {one: b"", other: b""}
    while True:
        said = [(to, data) for by, to in ((one, other), (other, one)) if (data := by.put_out())]
        if not said:
            return heard[one], heard[other]
        for to, data in said:
            heard[to] += to.open(data)
