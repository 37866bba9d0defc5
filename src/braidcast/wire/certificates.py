"""The certificates of one node or client: read, checked, and read again when their files change.

New ones are taken only if they are sound. Otherwise the old ones stay in use, and `trouble` says why. What a node has
must be taken by those who have the same authority, since nobody else's certificate is like it.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from braidcast.core.errors import BraidcastError
from braidcast.settings.tls import Credentials
from braidcast.wire.subject import Subject, subject_in
from braidcast.wire.tls import TlsEnd, TlsFailed

EXPIRES_SOON = timedelta(days=14)


class CertificatesUnusable(BraidcastError):
    """Files that are no certificates, do not fit each other, or are not those of the one who uses them."""


class Certificates:
    """What one node or client begins its connections with, as its files say at the moment."""

    def __init__(self, credentials: Credentials, me: Subject | None = None) -> None:
        self.credentials, self.me = credentials, me
        """Whom the certificate must name; None: whomever it names."""
        self.subject: Subject | None = None
        """Whom it names."""
        self.until: datetime | None = None
        """When the certificate expires."""
        self.trouble = ""
        """Why the files of now are not in use."""
        self._accepting: ssl.SSLContext | None = None
        self._dialling: ssl.SSLContext | None = None
        self._seen: object = None

    def load(self) -> None:
        """Read the files; `CertificatesUnusable` says why they are not taken, and changes nothing."""
        self._seen = _stamps(self.credentials)
        certificate = _certificate_in(self.credentials.certificate)
        subject = self._subject_of(certificate)
        accepting = _context(self.credentials, ssl.PROTOCOL_TLS_SERVER)
        dialling = _context(self.credentials, ssl.PROTOCOL_TLS_CLIENT)
        if subject.kind == "node":
            _check_taken(accepting, dialling, self.credentials)
        self.subject, self.until, self.trouble = subject, certificate.not_valid_after_utc, ""
        self._accepting, self._dialling = accepting, dialling

    def look(self) -> str:
        """Read the files again if they have changed; what is to be said of that, if anything."""
        if _stamps(self.credentials) == self._seen:
            return ""
        try:
            self.load()
        except CertificatesUnusable as error:
            self.trouble = str(error)
            return f"the new certificates are not taken, the old ones stay in use: {error}"
        return f"new certificates are in use, until {self.until:%Y-%m-%d}"

    @property
    def complaint(self) -> str:
        """What somebody has to do something about: `trouble`, or a certificate that expires soon."""
        if self.trouble or self.until is None or self.until - datetime.now(UTC) > EXPIRES_SOON:
            return self.trouble
        return f"the certificate expires at {self.until:%Y-%m-%d %H:%M} UTC: put a new one in its place"

    def accept(self) -> TlsEnd:
        """For a connection that somebody has made to this side."""
        assert self._accepting is not None, "loaded"
        return TlsEnd(self._accepting, dials=None)

    def dial(self, node: str = "") -> TlsEnd:
        """For a connection to a node; to any, if none is named."""
        assert self._dialling is not None, "loaded"
        return TlsEnd(self._dialling, dials=node)

    def _subject_of(self, certificate: x509.Certificate) -> Subject:
        file = self.credentials.certificate
        subject = subject_in(_uris_of(certificate))
        wanted = str(self.me) if self.me is not None else "a node or a client"
        if subject is None or self.me not in (None, subject):
            names = subject if subject is not None else "none"
            uri = self.me.uri if self.me is not None else "braidcast:client:NAME"
            raise CertificatesUnusable(
                f"{file}: the certificate must name {wanted}, and names {names}: have one made with the URI {uri} "
                f"among its alternative names, as `braidcast certs` does"
            )
        now = datetime.now(UTC)
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise CertificatesUnusable(
                f"{file}: the certificate is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to "
                f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M}: have a new one "
                f"made, or set the clock"
            )
        return subject


def _stamps(credentials: Credentials) -> object:
    """What changes with the files."""
    found = []
    for file in (credentials.authority, credentials.certificate, credentials.key):
        try:
            stat = os.stat(file)
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        except OSError:
            found.append((0, 0, 0))
    return found


def _certificate_in(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except OSError as error:
        raise _unreadable(file, error) from None
    except ValueError:
        raise CertificatesUnusable(f"{file} holds no certificate: it takes PEM, -----BEGIN CERTIFICATE-----") from None


def _uris_of(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)


def _unreadable(file: Path, error: OSError) -> CertificatesUnusable:
    what = error.strerror or type(error).__name__
    return CertificatesUnusable(f"{file} cannot be read ({what}): correct the path, or let `braidcast certs` make it")


def _context(credentials: Credentials, side: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # whom a certificate names is looked at when the handshake is over
    context.verify_mode = ssl.CERT_REQUIRED
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # nobody resumes a session
    try:
        context.load_verify_locations(credentials.authority)
    except ssl.SSLError:
        raise CertificatesUnusable(f"{credentials.authority} holds no certificate of an authority: give PEM") from None
    except OSError as error:
        raise _unreadable(credentials.authority, error) from None
    try:
        context.load_cert_chain(credentials.certificate, credentials.key, _no_passphrase)
    except ssl.SSLError as error:
        why = f"{credentials.key} is not the private key of {credentials.certificate}"
        raise CertificatesUnusable(f"{why} ({error.reason or 'no PEM'}): give the two that belong together") from None
    except OSError as error:
        raise _unreadable(credentials.key, error) from None
    return context


def _no_passphrase() -> str:
    """Nobody is there to be asked."""
    raise CertificatesUnusable("a private key has a passphrase: nobody can be asked for it, give a key without one")


def _check_taken(accepting: ssl.SSLContext, dialling: ssl.SSLContext, credentials: Credentials) -> None:
    """A node that is not taken by one with the same files would be taken by nobody."""
    one, other = TlsEnd(dialling, dials=""), TlsEnd(accepting, dials=None)
    try:
        one.begin()
        while said := one.put_out():
            other.open(said)
            if said := other.put_out():
                one.open(said)
    except TlsFailed as error:
        raise CertificatesUnusable(
            f"{credentials.certificate} is not taken by those who know {credentials.authority} ({error}): give the "
            f"certificate of its authority, or have it signed by that one"
        ) from None
