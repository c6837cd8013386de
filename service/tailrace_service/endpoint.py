"""The HTTP endpoint of a daemon, where its options ask for one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tailrace_service.http.access import Address, read_token, token_weaknesses
from tailrace_service.http.messages import Request, Response, Route
from tailrace_service.http.service import HttpService
from tailrace_service.http.tls import read_tls
from tailrace_service.options.endpoint import EndpointOptions
from tailrace_service.status import DaemonStatus

_log = structlog.get_logger(__name__)


class EndpointRefused(ValueError):
    """The endpoint's options cannot be followed; the text names option and fix."""


@contextmanager
def daemon_endpoint(
    options: EndpointOptions, routes: Mapping[tuple[str, str], Route]
) -> Iterator[str | None]:
    """Open the endpoint while the block runs; gives its address, None without a port.

    Args:
        routes: by method and path.

    Raises:
        EndpointRefused: it cannot listen there, or token or certificate cannot be read.
    """
    port, host = options.metrics_port, options.metrics_host
    if port is None:
        yield None
        return
    try:
        token = read_token(options.http_token_file)
    except ValueError as error:
        raise EndpointRefused(f"http_token_file {error}") from error
    try:
        tls = read_tls(options.http_certificate, options.http_key)
    except ValueError as error:
        raise EndpointRefused(f"http_certificate, http_key: {error}") from error
    address = Address(port, host, token, tls)
    try:
        service = HttpService(address, routes)
    except OSError as error:
        raise EndpointRefused(
            f"metrics_host {host}, metrics_port {port}: {error.strerror}; name an address of this"
            " machine and a free port"
        ) from error
    is_encrypted = tls is not None
    for weakness in token_weaknesses(host, options.http_token_file, is_encrypted=is_encrypted):
        _log.warning("http_token_exposed", reason=weakness.reason, fix=weakness.fix)
    with service:
        yield f"{address.scheme}://{host}:{service.port}"


def status_response(request: Request, status: DaemonStatus) -> Response:
    """The status of a daemon, as text or as JSON."""
    if request.wants_text:
        return Response.of_text(status.to_text())
    return Response.of_json(status.to_json())


def metrics_response(request: Request, metrics: Collector) -> Response:
    """Counts, in the form that a scraper accepts."""
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return Response(encode(metrics), content_type)
