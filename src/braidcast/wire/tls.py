"""TLS under a connection: both sides show a certificate of one authority, and are who it names. No I/O.

1. TLS 1.3 only, and a certificate from each side. Host names mean nothing: a certificate names a node or a client, and
   the one who dials a node takes no other (`subject`).
2. It is done here, on bytes, and not by the transport: so connections whose handshake never ends are counted and ended
   as all that have not said who they are; what the other side has not taken is known to the byte; and each new
   connection begins with the newest certificates.
3. What is written before the handshake is over waits for its end.
4. How a stream ends is not looked at, so nobody says goodbye: a frame that is cut off is none. Nothing may follow the
   goodbye of others.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from braidcast.core.errors import BraidcastError
from braidcast.wire.subject import Subject, subject_in

READ_BYTES = 1 << 14
"""What a record holds at most."""
HANDSHAKE_RECORD = 22
"""The first byte of everybody who speaks TLS."""
NO_TLS = "no TLS"
_EXPIRED, _NOT_YET = 10, 9
"""Codes of OpenSSL for why a certificate is not taken."""
_FAULTS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": ("no certificate", "the other side shows no certificate"),
    "UNSUPPORTED_PROTOCOL": ("old TLS", "the other side speaks an old version of TLS: 1.3 is needed"),
    "TLSV1_ALERT_PROTOCOL_VERSION": ("old TLS", "the other side speaks an old version of TLS: 1.3 is needed"),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": ("no certificate of ours", "the other side asks for a certificate"),
    "TLSV1_ALERT_UNKNOWN_CA": (
        "our certificate refused", "the other side does not know the authority that signed our certificate",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": ("our certificate refused", "our certificate has expired"),
    "WRONG_VERSION_NUMBER": (NO_TLS, "the other side does not speak TLS"),
}  # fmt: skip
"""By OpenSSL's name for it: what it is counted as, and what is said."""


class TlsFailed(BraidcastError):
    """The other side is not who it must be, or breaks the rules."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        """In few words: what it is counted as."""


class TlsEnd:
    """One end of one stream."""

    def __init__(self, context: ssl.SSLContext, *, dials: str | None) -> None:
        self.dials = dials
        """The node that must answer, any node if it is empty; None: this end answers, whoever it is."""
        self.subject: Subject | None = None
        """Who the other side is, once it has shown that."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=dials is None)
        self._early: list[bytes] = []
        """What waits for the end of the handshake."""
        self._has_heard = self._is_over = False

    def begin(self) -> None:
        """Say the first words, if they are this end's."""
        if self.dials is not None:
            self._shake_hands()

    def seal(self, data: bytes) -> None:
        """Put something out for the other side."""
        if self.subject is None:
            return self._early.append(data)
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]

    def put_out(self) -> bytes:
        """What has to be written to the stream now."""
        return self._outgoing.read()

    def open(self, data: bytes) -> bytes:
        """What the other side says by these bytes of the stream."""
        if not self._has_heard and self.dials is None and data[0] != HANDSHAKE_RECORD:
            raise TlsFailed(NO_TLS, "the other side does not speak TLS")
        if self._is_over:
            raise TlsFailed("bytes after the end of TLS", "the other side goes on after it has said goodbye")
        self._has_heard = True
        self._incoming.write(data)
        if self.subject is None:
            self._shake_hands()
        return b"".join(self._read()) if self.subject is not None else b""

    def _read(self) -> Iterator[bytes]:
        while self._incoming.pending:
            try:
                opened = self._object.read(READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLError as error:
                raise _failure(error) from None
            if not opened:
                self._is_over = True
                return
            yield opened

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise _failure(error) from None
        subject = self._shown()
        if (why := self._why_not(subject)) is not None:
            self._outgoing.read()  # it is not told who this is
            raise TlsFailed(*why)
        self.subject = subject
        early, self._early = self._early, []
        for data in early:
            self.seal(data)

    def _shown(self) -> Subject | None:
        names = (self._object.getpeercert() or {}).get("subjectAltName", ())
        return subject_in([str(name[1]) for name in names if name[0] == "URI"])

    def _why_not(self, subject: Subject | None) -> tuple[str, str] | None:
        if subject is None:
            return "nameless certificate", "the certificate of the other side names no node and no client"
        if self.dials is None or (subject.kind == "node" and self.dials in ("", subject.name)):
            return None
        wanted = f"node {self.dials}" if self.dials else "a node"
        return "certificate of another", f"the other side has the certificate of {subject}, not of {wanted}"


def _failure(error: ssl.SSLError) -> TlsFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        kind = {_EXPIRED: "expired certificate", _NOT_YET: "certificate of the future"}.get(
            error.verify_code, "certificate of another authority"
        )
        return TlsFailed(kind, f"the certificate of the other side is not taken: {error.verify_message}")
    kind, text = _FAULTS.get(error.reason or "", ("broken TLS", f"TLS failed: {error.reason or error}"))
    return TlsFailed(kind, text)
