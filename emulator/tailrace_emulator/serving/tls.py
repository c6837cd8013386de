"""TLS without sockets, and the certificate that the server shows.

Inside PRELOGIN no driver gets past TLS 1.3 (all of them hang until their login timeout), so that
context stops at 1.2. TDS 8 ("strict") is TLS from the first byte, where 1.3 is fine.
"""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

CERTIFICATE_FILE: Final = "certificate.pem"
KEY_FILE: Final = "private_key.pem"
STRICT_PROTOCOL: Final = "tds/8.0"
TLS_FIRST_BYTE: Final = 0x16
_READ_BYTES: Final = 256 * 1024
_VALID_DAYS: Final = 3650


def ensure_certificate(data_dir: Path, now: datetime.datetime) -> tuple[Path, Path]:
    """The paths of certificate and key in ``data_dir``, made at the first start.

    Args:
        data_dir: where the server keeps its state.
        now: the time from which a new certificate is valid.
    """
    certificate_path = data_dir / CERTIFICATE_FILE
    key_path = data_dir / KEY_FILE
    if certificate_path.exists() and key_path.exists():
        return certificate_path, key_path
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_path.touch(mode=0o600)
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate_path, key_path


class TlsContexts:
    """The two ways in which a connection becomes TLS."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.inside_prelogin = _context(certificate, key)
        self.inside_prelogin.maximum_version = ssl.TLSVersion.TLSv1_2
        self.strict = _context(certificate, key)
        self.strict.set_alpn_protocols([STRICT_PROTOCOL])


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(certificate, key)
    return context


class TlsChannel:
    """One TLS session over bytes. Not thread-safe: the caller holds a lock."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def handshake(self, data: bytes) -> tuple[bytes, bool]:
        """Take a flight; returns the flight to send and whether the handshake is done.

        Raises:
            ssl.SSLError: the peers cannot agree.
        """
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read(), False
        return self._outgoing.read(), True

    def decrypt(self, data: bytes) -> bytes:
        """What the peer's bytes say; the empty string when a record is not complete.

        Raises:
            EOFError: the peer ended the TLS session.
            ssl.SSLError: the bytes are no TLS.
        """
        self._incoming.write(data)
        parts = []
        try:
            while part := self._tls.read(_READ_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts)
        except ssl.SSLZeroReturnError:
            pass
        if parts:
            return b"".join(parts)
        raise EOFError("the peer closed the TLS session")

    def encrypt(self, data: bytes) -> bytes:
        """The records that say ``data``."""
        self._tls.write(data)
        return self._outgoing.read()
