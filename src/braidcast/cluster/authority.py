"""An authority for development, and the certificates that it signs: what `braidcast certs` writes.

Its private key lies in the same directory, without a passphrase: whoever reads it can become any node or client. Keys
are for their owner only. Nothing that exists is replaced.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from braidcast.cluster.config import ClusterConfig
from braidcast.core.errors import BraidcastError
from braidcast.settings.toml_lines import NAME
from braidcast.wire.subject import Subject

AUTHORITY = "authority"
DAYS = 365
AUTHORITY_DAYS = 3650
CLOCKS_DIFFER = timedelta(hours=1)
"""A certificate is valid from before it was made, for machines whose clocks are behind."""
_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


class AuthorityError(BraidcastError):
    """Certificates that cannot be made."""


def certify(folder: Path, nodes: Sequence[str] = (), clients: Sequence[str] = (), days: int = DAYS) -> list[Path]:
    """Make certificates in a directory, and an authority if it has none; the files that were written."""
    subjects = [*[Subject("node", name) for name in nodes], *[Subject("client", name) for name in clients]]
    _check(folder, subjects)
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        authority, signer = _authority_in(folder, written)
        for subject in subjects:
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = _leaf(subject, key, authority, signer, days)
            _write(folder / f"{subject.kind}-{subject.name}", key, certificate, written)
    except OSError as error:
        raise AuthorityError(f"{error.filename} cannot be written: {error.strerror or error}") from None
    return written


def certify_cluster(config: ClusterConfig) -> None:
    """Make the authority that a configuration names, and certificates for its nodes and the client of its users."""
    assert config.tls is not None, "a cluster with TLS"
    assert config.tls.identity is not None, "its users have a name"
    certify(config.tls.authority.parent, list(config.nodes), [config.tls.identity])


def _check(folder: Path, subjects: Collection[Subject]) -> None:
    """Fail before anything is written."""
    for subject in subjects:
        if not NAME.fullmatch(subject.name):
            raise AuthorityError(
                f"{subject.name!r} cannot be the name of a {subject.kind}: use 1 to 63 letters, digits, - and _, a "
                f"letter or digit first"
            )
    if len(set(subjects)) < len(subjects):
        raise AuthorityError("one name is given twice: each needs one certificate")
    for subject in subjects:
        for file in _files(folder / f"{subject.kind}-{subject.name}"):
            if file.exists():
                raise AuthorityError(f"{file} exists, and is not replaced: move it away if {subject} needs a new one")
    some = [file for file in _files(folder / AUTHORITY) if file.exists()]
    if len(some) == 1:
        raise AuthorityError(f"{folder} has only {some[0].name} of the two files of an authority: bring the other back")


def _files(stem: Path) -> tuple[Path, Path]:
    return stem.with_name(f"{stem.name}.pem"), stem.with_name(f"{stem.name}.key")


def _authority_in(folder: Path, written: list[Path]) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_file, key_file = _files(folder / AUTHORITY)
    if not key_file.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _authority(key)
        _write(folder / AUTHORITY, key, certificate, written)
        return certificate, key
    try:
        found = serialization.load_pem_private_key(key_file.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    except (ValueError, TypeError) as error:
        raise AuthorityError(f"no authority can be read in {folder} ({error}): name another directory") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.public_key() != certificate.public_key():
        raise AuthorityError(f"{key_file} is not the key of {certificate_file}: name another directory")
    return certificate, found


def _builder(name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*of: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in of for usage in _USAGES})


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _named("braidcast development authority")
    return (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    subject: Subject, key: ec.EllipticCurvePrivateKey, authority: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey, days: int,
) -> x509.Certificate:  # fmt: skip
    # Who dials shows a certificate, too, so nodes are both; a client can never pass for a node.
    both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    uri = x509.UniformResourceIdentifier(subject.uri)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        _builder(_named(str(subject)[:64]), authority.subject, key, days)
        .add_extension(issuer, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both if subject.kind == "node" else both[:1]), critical=False)
        .add_extension(x509.SubjectAlternativeName([uri]), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _write(stem: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, written: list[Path]) -> None:
    """The key first: a certificate without one would stay in the way of the next attempt."""
    certificate_file, key_file = _files(stem)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for file, data, mode in ((key_file, private, 0o600), (certificate_file, certificate.public_bytes(pem), 0o644)):
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            opened.write(data)
        written.append(file)
