"""Asking the daemons for their status."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from tailrace_schemas.topics.topic_names import database_path
from tailrace_service.http.access import read_token
from tailrace_service.status import DaemonStatus
from tailrace_service.tls_problems import certificate_problem

if TYPE_CHECKING:
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig

_LIMIT_S: Final = 3.0


class DaemonUnavailable(Exception):
    """A daemon did not report its status; the text says what to check."""


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """Where a daemon answers.

    Attributes:
        token_file: has the token of its guarded paths.
    """

    url: str
    token_file: Path | None = None


def address_of(config: PublisherConfig | SinkConfig) -> DaemonAddress | None:
    """Where the daemon of a configuration answers, if it runs on this machine; None where not."""
    if not config.metrics_port:
        return None
    host = config.metrics_host
    everywhere = ("0.0.0.0", "::", "")  # noqa: S104 - read, not bound
    name = "127.0.0.1" if host in everywhere else host
    shown = f"[{name}]" if ":" in name else name
    scheme = "http" if config.http_certificate is None else "https"
    return DaemonAddress(f"{scheme}://{shown}:{config.metrics_port}", config.http_token_file)


def ask_status(address: DaemonAddress) -> DaemonStatus:
    """The status of a daemon.

    Raises:
        DaemonUnavailable: it does not answer, or refuses.
    """
    url = f"{address.url.rstrip('/')}/status"
    try:
        token = read_token(address.token_file)
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        # The authorities of this machine, or of SSL_CERT_FILE; loading them takes 0.1 s.
        verify = ssl.create_default_context() if url.startswith("https:") else False
        answer = httpx.get(url, headers=headers, timeout=_LIMIT_S, trust_env=False, verify=verify)
        if answer.status_code != httpx.codes.OK:
            raise DaemonUnavailable(f"{url}: {answer.status_code} {answer.text.strip()[:200]}")
        told = answer.json()
        if isinstance(told, dict) and isinstance(told.get("databases"), dict):
            paths = ", ".join(database_path(name) for name in told["databases"])
            raise DaemonUnavailable(
                f"{url}: this publisher has several databases: give its address with that of the"
                f" one that is meant at its end: {paths}"
            )
        return DaemonStatus.from_json(told)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        problem = certificate_problem(error, "its certificate", "the variable SSL_CERT_FILE")
        raise DaemonUnavailable(f"{url} does not answer ({problem or error})") from error
    except ValueError as error:
        raise DaemonUnavailable(f"{url}: {error}") from error
