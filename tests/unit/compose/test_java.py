"""Java is found, refused when too old, and told of the user's proxy and authorities."""

import datetime
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tailrace_compose.local import java
from tailrace_compose.local.errors import JavaMissing


def fake_java(folder: Path, banner: str) -> Path:
    folder.mkdir(parents=True)
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("banner", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ("no such thing", None),
    ],
)
def test_version_is_read_from_the_banner(tmp_path, banner, major):
    assert java._major_version(str(fake_java(tmp_path / "bin", banner))) == major


def test_java_home_wins_when_it_is_new_enough(tmp_path, monkeypatch):
    expected = fake_java(tmp_path / "bin", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.java_executable() == str(expected)


def test_too_old_a_java_is_named_with_the_fix(tmp_path, monkeypatch):
    old = fake_java(tmp_path / "bin", 'java version "1.8.0_402"')
    monkeypatch.setattr(java, "_candidates", lambda: [str(old)])
    with pytest.raises(JavaMissing, match=r"Java 8\).*openjdk-17-jre-headless"):
        java.java_executable()


def test_proxy_settings_become_properties(tmp_path):
    properties = java.network_properties(
        tmp_path,
        {
            "HTTPS_PROXY": "http://me:p%40ss@proxy.example.com:3128",
            "http_proxy": "proxy.example.com:8080",
            "NO_PROXY": "localhost, .example.org",
        },
    )
    assert properties["https.proxyHost"] == "proxy.example.com"
    assert properties["https.proxyPort"] == "3128"
    assert properties["http.proxyPort"] == "8080"
    assert properties["http.proxyPassword"] == "p@ss"
    assert properties["http.nonProxyHosts"] == "localhost|*.example.org"


def test_nothing_is_set_where_the_environment_says_nothing(tmp_path):
    assert java.network_properties(tmp_path, {}) == {}
    assert java.network_properties(tmp_path, {"SSL_CERT_FILE": str(tmp_path / "absent")}) == {}


def test_authorities_become_a_truststore_that_java_reads(tmp_path):
    bundle = tmp_path / "ca.pem"
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    bundle.write_text(broken + certificate("Tailrace test authority"))
    properties = java.network_properties(tmp_path, {"SSL_CERT_FILE": str(bundle)})
    keytool = Path(java.java_executable()).resolve().with_name("keytool")
    shown = subprocess.run(
        [
            keytool,
            "-list",
            "-keystore",
            properties["javax.net.ssl.trustStore"],
            "-storepass",
            properties["javax.net.ssl.trustStorePassword"],
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "contains 1 entry" in shown
    assert "trustedCertEntry" in shown


def certificate(name: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM).decode()
