"""The collector of traces, where there is to be one: does it take spans."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

import httpx

from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_service.options.sections import SecretUnreadable
from tailrace_service.tracing.options import TracingConfig

_JUDGE: Final = Judge(Part.TRACES)
_PACKAGE: Final = "opentelemetry"
_WHY: Final = "its spans are lost; nothing else is"


def look_at_traces(config: TracingConfig) -> Iterator[Finding]:
    """Send the collector an export of no spans, and see whether it takes it."""
    if config.endpoint is None:
        return
    if find_spec(_PACKAGE) is None:
        yield _JUDGE.problem(
            "packages",
            "those of OpenTelemetry are not installed here",
            "a daemon with tracing.endpoint does not start without them",
            Fix("pip install 'tailrace[tracing]'"),
        )
    try:
        # It is an empty message of protobuf, which every collector takes.
        answer = httpx.post(
            config.endpoint,
            content=b"",
            headers={**config.all_headers(), "Content-Type": "application/x-protobuf"},
            timeout=config.timeout_s,
            verify=ssl.create_default_context(cafile=config.ca_file),
        )
    except (SecretUnreadable, OSError) as error:
        yield _JUDGE.problem(
            config.endpoint,
            f"tracing cannot be used: {error}",
            "a daemon does not start with it",
            Fix("check tracing.headers_files and tracing.ca_file"),
        )
        return
    except httpx.HTTPError as error:
        yield _JUDGE.warning(
            config.endpoint,
            f"does not answer: {error}",
            _WHY,
            Fix("check tracing.endpoint (the whole address, with /v1/traces) and the collector"),
        )
        return
    if answer.is_success:
        yield _JUDGE.ok(config.endpoint, "takes spans")
        return
    yield _JUDGE.warning(
        config.endpoint,
        f"refuses: {answer.status_code} {answer.reason_phrase}",
        _WHY,
        Fix("check the path of tracing.endpoint (mostly /v1/traces), and tracing.headers"),
    )
