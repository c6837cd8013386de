"""The options of a daemon's HTTP endpoint."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from tailrace_service.options.sections import Section


class EndpointOptions(Section):
    """Where a daemon's HTTP endpoint listens, and how it is protected."""

    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of the HTTP endpoint: /metrics for Prometheus, /health, /ready and"
        " /status. The publisher's also takes requests by POST (/snapshot, /pause, /resume,"
        " /stop-table, ...). 0 takes a free one; default: none is opened.",
    )
    metrics_host: str = Field(
        default="127.0.0.1",
        description="Address the HTTP endpoint listens on. With 0.0.0.0 other machines and"
        " containers read /metrics, /health and /ready, which require no password. The rest then"
        " requires http_token_file.",
    )
    http_token_file: Path | None = Field(
        default=None,
        description="File whose first line is the token (16 characters or more) that /status and"
        " every POST require, as Authorization: Bearer ...; default none: they are answered on a"
        " loopback address only.",
    )
    http_certificate: Path | None = Field(
        default=None,
        description="Certificate (PEM, with its chain) of the HTTP endpoint, which then speaks TLS"
        " only. Read at a start; default none: plain HTTP.",
    )
    http_key: Path | None = Field(
        default=None,
        description="Its key (PEM, without a password); default: in the file of the certificate.",
    )
