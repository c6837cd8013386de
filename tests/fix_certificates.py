"""A chain of certificates as companies have them: root, intermediate, servers, a client."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY_PASSWORD = "Marked-of-the-key-7"
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with its chain, and its key.

    Attributes:
        chain: PEM: the certificate, then the intermediate one.
        key: PEM, PKCS 8, no password.
        both: key and chain in one file, as Kafka takes them.
    """

    chain: Path
    key: Path
    both: Path


@dataclass(frozen=True)
class Chain:
    """What the tests come with.

    Attributes:
        root: the authority's certificate, which clients trust.
        stranger: another authority's, which issued nothing.
        server: for 127.0.0.1 and localhost.
        elsewhere: for another host.
        expired: for 127.0.0.1, until yesterday.
        client: of a client.
        client_key: its key again, with KEY_PASSWORD.
    """

    root: Path
    stranger: Path
    server: Issued
    elsewhere: Issued
    expired: Issued
    client: Issued
    client_key: Path


class Authority:
    """Issues certificates; its own comes from itself or from the one above."""

    def __init__(self, name: str, above: Authority | None = None) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        builder = _builder(self.name, (above or self).name, self.key.public_key(), _DAY)
        self.certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None if above is None else 0), critical=True
        ).sign((above or self).key, hashes.SHA256())

    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, folder: Path, name: str, *hosts: str, until: datetime.timedelta) -> Issued:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self.name, key.public_key(), until)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        found = Issued(*(folder / f"{name}.{kind}.pem" for kind in ("chain", "key", "both")))
        chain = certificate.public_bytes(serialization.Encoding.PEM) + self.pem()
        found.chain.write_bytes(chain)
        found.key.write_bytes(_key_pem(key))
        found.both.write_bytes(_key_pem(key) + chain)
        return found


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPublicKey,
    until: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + until)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: rsa.RSAPrivateKey, password: str | None = None) -> bytes:
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        protection = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
    )


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Root, intermediate, and what the latter issued."""
    folder = tmp_path_factory.mktemp("certificates")
    root, stranger = Authority("Tests Root"), Authority("Strangers Root")
    between = Authority("Tests Intermediate", root)
    for name, authority in (("root", root), ("stranger", stranger)):
        (folder / f"{name}.pem").write_bytes(authority.pem())
    local = ("127.0.0.1", "localhost")
    client = between.issue(folder, "client", until=_DAY)
    loaded = serialization.load_pem_private_key(client.key.read_bytes(), None)
    assert isinstance(loaded, rsa.RSAPrivateKey)
    locked = folder / "client.locked.pem"
    locked.write_bytes(_key_pem(loaded, KEY_PASSWORD))
    return Chain(
        folder / "root.pem",
        folder / "stranger.pem",
        between.issue(folder, "server", *local, until=_DAY),
        between.issue(folder, "elsewhere", "db.example.org", until=_DAY),
        between.issue(folder, "expired", *local, until=-_DAY),
        client,
        locked,
    )


@contextmanager
def door(issued: Issued) -> Iterator[int]:
    """A port of 127.0.0.1 that shows a certificate, and has nothing to say behind it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.chain, issued.key)
    context.set_alpn_protocols(["tds/8.0", "http/1.1"])

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            plain.settimeout(5)
            try:
                context.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)
