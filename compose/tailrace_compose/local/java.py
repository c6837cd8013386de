"""Finds a Java runtime that Spark, Kafka and the registry accept; configures proxy and CAs.

Java ignores `HTTPS_PROXY`, `NO_PROXY` and `SSL_CERT_FILE`, which name a machine's proxy and
certificate authorities. This module translates them into Java's own properties.
"""

import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tailrace_compose.local.errors import JavaMissing

JAVA_VERSION_MIN = 17
# For processes that start often and work little: the quick compiler only and a collector without
# threads of its own halve the processor time until they are ready (11 s to 5.5 s, measured).
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# With the quick compiler alone the JVM has 48 MB for compiled code. A sink under load filled them
# in 102 s (measured), and after that the JVM compiles nothing any more.
# Growing to the space that its classes need took five collections of the whole heap (measured).
SPARK_QUICK_START = " ".join(
    (*QUICK_START, "-XX:ReservedCodeCacheSize=256m", "-XX:MetaspaceSize=256m")
)
_CA_VARIABLES = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
_PEM_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)
# The truststore holds public certificates only; Java insists on a password all the same.
_TRUSTSTORE_PASSWORD = "changeit"  # noqa: S105  # Java's own default, guards nothing


def java_executable() -> str:
    """Return the path of a `java` of version 17 or newer: `JAVA_HOME`'s, else the one on PATH.

    Raises:
        JavaMissing: there is none, or it is too old; the message says what to install.
    """
    tried = []
    for candidate in _candidates():
        version = _major_version(candidate)
        if version is not None and version >= JAVA_VERSION_MIN:
            return candidate
        tried.append(f"{candidate} ({'not runnable' if version is None else f'Java {version}'})")
    found = f" Found: {', '.join(tried)}." if tried else ""
    raise JavaMissing(
        f"Kafka, the schema registry and Spark need Java {JAVA_VERSION_MIN} or newer.{found} "
        "Install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
    )


def _candidates() -> list[str]:
    """Return the java commands to try, in order of preference, each once."""
    home = os.environ.get("JAVA_HOME")
    found = [
        str(Path(home) / "bin" / "java") if home else None,
        shutil.which("java"),
        *sorted(str(path) for path in Path("/usr/lib/jvm").glob("*/bin/java")),
    ]
    return list(dict.fromkeys(path for path in found if path and Path(path).exists()))


def _major_version(java: str) -> int | None:
    """Return the major version of a java command; None if it cannot be run."""
    try:
        result = subprocess.run(  # noqa: S603  # the command is a path found above
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', result.stdout + result.stderr)
    if match is None:
        return None
    # Java 8 and older call themselves 1.8.
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def network_properties(folder: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Translate the user's proxy and certificate settings into Java system properties.

    Args:
        folder: where a truststore may be written.
        environ: the environment to read.

    Returns:
        System properties by name; empty if the environment sets none.
    """
    return _proxy_properties(environ) | _truststore_properties(folder, environ)


def _proxy_properties(environ: Mapping[str, str]) -> dict[str, str]:
    properties = {}
    for scheme in ("https", "http"):
        address = environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY")
        if not address:
            continue
        proxy = urlsplit(address if "//" in address else f"//{address}")
        if proxy.hostname is None:
            continue
        properties[f"{scheme}.proxyHost"] = proxy.hostname
        properties[f"{scheme}.proxyPort"] = str(proxy.port or 80)
        if proxy.username:
            # Ivy's authenticator reads the first two; Java refuses Basic for tunnels without the
            # third.
            properties["http.proxyUser"] = unquote(proxy.username)
            properties["http.proxyPassword"] = unquote(proxy.password or "")
            properties["jdk.http.auth.tunneling.disabledSchemes"] = ""
    direct = environ.get("no_proxy") or environ.get("NO_PROXY")
    if properties and direct:
        hosts = [host.strip() for host in direct.split(",") if host.strip()]
        properties["http.nonProxyHosts"] = "|".join(
            f"*{host}" if host.startswith(".") else host for host in hosts
        )
    return properties


def _truststore_properties(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    bundle = next((environ[name] for name in _CA_VARIABLES if environ.get(name)), None)
    if bundle is None or not Path(bundle).is_file():
        return {}
    truststore = folder / "truststore.p12"
    if not _write_truststore(Path(bundle), truststore):
        return {}
    return {
        "javax.net.ssl.trustStore": str(truststore),
        "javax.net.ssl.trustStoreType": "PKCS12",
        "javax.net.ssl.trustStorePassword": _TRUSTSTORE_PASSWORD,
    }


def _write_truststore(bundle: Path, truststore: Path) -> bool:
    """Write the certificates of a PEM bundle as a truststore; return False if it holds none."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    certificates: list[pkcs12.PKCS12Certificate] = []
    with warnings.catch_warnings():
        # Some authorities' certificates are older than today's rules; they are trusted as they are.
        warnings.simplefilter("ignore")
        for pem in _PEM_CERTIFICATE.findall(bundle.read_bytes()):
            try:
                certificate = x509.load_pem_x509_certificate(pem)
            except ValueError:
                # One unreadable authority must not hide the others.
                continue
            alias = str(len(certificates)).encode()
            certificates.append(pkcs12.PKCS12Certificate(certificate, alias))
    if not certificates:
        return False
    truststore.write_bytes(
        pkcs12.serialize_java_truststore(
            certificates, BestAvailableEncryption(_TRUSTSTORE_PASSWORD.encode())
        )
    )
    return True
