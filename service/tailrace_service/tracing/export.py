"""Starts the export of spans, if the options have an endpoint and its packages are installed."""

from __future__ import annotations

from tailrace_service.options.sections import SecretUnreadable
from tailrace_service.tracing.options import TracingConfig
from tailrace_service.tracing.traces import Traces


class TracingUnavailable(ValueError):
    """Spans cannot be exported; names the option, and what is missing."""


def open_traces(config: TracingConfig, service: str) -> Traces | None:
    """Start the export that the options ask for; None without an endpoint.

    Raises:
        TracingUnavailable: packages are missing, or a header or certificate cannot be read.
    """
    if config.endpoint is None:
        return None
    try:
        from tailrace_service.tracing.otlp import OtlpExport
    except ImportError as error:
        raise TracingUnavailable(
            f"tracing.endpoint needs the package {error.name}, which is not installed: pip install"
            " 'tailrace[tracing]', or leave the option out"
        ) from error
    if config.ca_file is not None and not config.ca_file.is_file():
        raise TracingUnavailable(f"tracing.ca_file: there is no file {config.ca_file}")
    try:
        export = OtlpExport(config, service)
    except SecretUnreadable as error:
        raise TracingUnavailable(str(error)) from error
    return Traces(config.ratio, export)
