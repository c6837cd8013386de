"""The images' health checks: probes a part of the stack; the exit status is the result.

``python health.py PART`` (tds, kafka, registry, publisher, sink, verify, web), configured by the
same environment variables as the part itself. It uses the standard library only, because it runs
every few seconds.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import struct
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping

_LIMIT_S = 4.0
_TOLD_MAX = 500
# PRELOGIN: packet header (type 18, end of message, length, no session, packet 1), one option
# VERSION, and its six bytes. Any TDS server answers it before a login.
_PRELOGIN_BODY = struct.pack(">BHHB", 0, 6, 6, 0xFF) + bytes(6)
_PRELOGIN = struct.pack(">BBHHBB", 18, 1, 8 + len(_PRELOGIN_BODY), 0, 1, 0) + _PRELOGIN_BODY
_TABULAR_RESULT = 4
# Kafka's ApiVersions request, version 0: length, API key 18, version, correlation id, no client id.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class Unhealthy(Exception):
    """The part does not work; the message says what was observed."""


def check_tds(environ: Mapping[str, str]) -> None:
    """Request a SQL Server's PRELOGIN answer."""
    port = int(environ.get("MSSQL_TCP_PORT", "1433"))
    answer = _exchange(environ.get("MSSQL_IP_ADDRESS", "127.0.0.1"), port, _PRELOGIN)
    if answer[0] != _TABULAR_RESULT:
        raise Unhealthy(f"port {port} does not speak TDS")


def check_kafka(environ: Mapping[str, str]) -> None:
    """Request a broker's versions: it answers only after it has joined its cluster."""
    controllers = environ.get("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER").split(",")
    for listener in environ.get("KAFKA_LISTENERS", "PLAINTEXT://:9092").split(","):
        match = re.fullmatch(r"(\w+)://(.*):(\d+)", listener.strip())
        if match and match[1] not in controllers:
            _exchange(match[2], int(match[3]), _API_VERSIONS)
            return
    raise Unhealthy("KAFKA_LISTENERS names no listener for clients")


def check_registry(environ: Mapping[str, str]) -> None:
    """Request the registry's subjects."""
    port = environ.get("QUARKUS_HTTP_PORT", "8080")
    _page(environ.get("QUARKUS_HTTP_HOST", ""), port, "/apis/ccompat/v7/subjects")


def check_publisher(environ: Mapping[str, str]) -> None:
    """Check whether the publisher publishes changes."""
    _endpoint(environ, "PUBLISHER", "/ready")


def check_sink(environ: Mapping[str, str]) -> None:
    """Check whether the sink applies changes."""
    _endpoint(environ, "SINK", "/ready")


def check_verify(environ: Mapping[str, str]) -> None:
    """Check whether continuous verification runs, at the port of compose.yaml."""
    _page(environ.get("TAILRACE_VERIFY_METRICS_HOST", ""), "9407", "/health")


def check_web(environ: Mapping[str, str]) -> None:
    """Check whether the page is served."""
    host, port = environ.get("TAILRACE_WEB_HOST", ""), environ.get("TAILRACE_WEB_PORT", "9406")
    _page(host, port, "/health", is_tls=bool(environ.get("TAILRACE_WEB_CERTIFICATE")))


CHECKS: dict[str, Callable[[Mapping[str, str]], None]] = {
    "tds": check_tds,
    "kafka": check_kafka,
    "registry": check_registry,
    "publisher": check_publisher,
    "sink": check_sink,
    "verify": check_verify,
    "web": check_web,
}


def _endpoint(environ: Mapping[str, str], section: str, path: str) -> str:
    prefix = f"TAILRACE__{section}__METRICS"
    is_tls = bool(environ.get(f"TAILRACE__{section}__HTTP_CERTIFICATE"))
    return _page(environ.get(f"{prefix}_HOST", ""), environ[f"{prefix}_PORT"], path, is_tls=is_tls)


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104 - read, not bound


def _page(host: str, port: str, path: str, *, is_tls: bool = False) -> str:
    url = f"{'https' if is_tls else 'http'}://{_reachable(host)}:{port}{path}"
    # The part runs in this container, so no proxy is used, and its certificate is for the name
    # under which others reach it.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=_LIMIT_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        raise Unhealthy(f"{url}: {error.code} {error.read(_TOLD_MAX).decode().strip()}") from error
    except (urllib.error.URLError, OSError) as error:
        raise Unhealthy(f"{url}: {error}") from error


def _exchange(host: str, port: int, request: bytes) -> bytes:
    address = (_reachable(host), port)
    try:
        with socket.create_connection(address, timeout=_LIMIT_S) as connection:
            connection.sendall(request)
            answer = connection.recv(8)
    except OSError as error:
        raise Unhealthy(f"{address[0]}:{port}: {error}") from error
    if not answer:
        raise Unhealthy(f"{address[0]}:{port} closed the connection")
    return answer


def main(arguments: list[str]) -> int:
    """Run one check; return 0 if healthy."""
    if len(arguments) != 1 or arguments[0] not in CHECKS:
        sys.stderr.write(f"usage: health.py {'|'.join(CHECKS)}\n")
        return 2
    try:
        CHECKS[arguments[0]](os.environ)
    except (Unhealthy, KeyError) as error:
        sys.stdout.write(f"unhealthy: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
