"""The HTTP endpoint of a daemon, where its options ask for one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tailrace_schemas.http_service import Address, HttpService, Route, read_token


class EndpointRefused(ValueError):
    """The endpoint's options cannot be followed; the text names option and fix."""


@contextmanager
def daemon_endpoint(
    port: int | None, host: str, token_file: Path | None, routes: Mapping[tuple[str, str], Route]
) -> Iterator[HttpService | None]:
    """The endpoint while the block runs; None where no port was asked for.

    Args:
        port: the option metrics_port; 0 takes a free one.
        host: the option metrics_host.
        token_file: the option http_token_file.
        routes: by method and path.

    Raises:
        EndpointRefused: it cannot listen there, or the token cannot be read.
    """
    if port is None:
        yield None
        return
    try:
        token = read_token(token_file)
    except ValueError as error:
        raise EndpointRefused(f"http_token_file {error}") from error
    try:
        service = HttpService(Address(port, host, token), routes)
    except OSError as error:
        raise EndpointRefused(
            f"metrics_host {host}, metrics_port {port}: {error.strerror}; name an address of this"
            " machine and a free port"
        ) from error
    with service:
        yield service
