"""Spans sent to an OpenTelemetry collector, with ids of our own; needs tailrace[tracing]."""

from __future__ import annotations

import threading
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)

from tailrace_service.tracing.options import TracingConfig
from tailrace_service.tracing.traces import ROOT, Span, TraceKey

_QUEUE_MAX: Final = 2048
_BATCH_MAX: Final = 1024
_DELAY_MS: Final = 1000
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class _GivenIds(IdGenerator):
    """The ids of the span that is being sent."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class OtlpExport:
    """Sends spans by OTLP over HTTP, with what OpenTelemetry's environment says of the resource.

    Args:
        service: name of the program.

    Raises:
        SecretUnreadable: the file of a header cannot be read.
    """

    def __init__(self, config: TracingConfig, service: str) -> None:
        exporter = OTLPSpanExporter(
            endpoint=config.endpoint,
            certificate_file=None if config.ca_file is None else str(config.ca_file),
            headers=config.all_headers(),
            timeout=config.timeout_s,
        )
        self._ids = _GivenIds()
        self._lock = threading.Lock()
        self._provider = TracerProvider(
            ALWAYS_ON,
            Resource.create({"service.name": service}),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, _QUEUE_MAX, _DELAY_MS, _BATCH_MAX)
        )
        self._tracer = self._provider.get_tracer("tailrace")

    def send(self, key: TraceKey, span: Span) -> None:
        """Send a span."""
        is_root = span.name == ROOT
        with self._lock:
            self._ids.trace_id, self._ids.span_id = key.trace_id, key.span_id(span.name)
            sent = self._tracer.start_span(
                span.name,
                Context() if is_root else _below(key),
                SpanKind.PRODUCER if is_root else SpanKind.INTERNAL,
                {
                    "db.system.name": "microsoft.sql_server",
                    "db.namespace": key.database,
                    "tailrace.prefix": key.prefix,
                    "tailrace.shard": key.shard,
                    "tailrace.closed_lsn": key.closed_lsn,
                    **span.attributes,
                },
                start_time=min(span.began_ms, span.ended_ms) * 1_000_000,
            )
        sent.end(span.ended_ms * 1_000_000)

    def close(self) -> None:
        """Send what waits, within the time limits of some requests."""
        self._provider.shutdown()


def _below(key: TraceKey) -> Context:
    """Below the trace's root, wherever that is sent from."""
    root = SpanContext(key.trace_id, key.span_id(ROOT), is_remote=True, trace_flags=_SAMPLED)
    return set_span_in_context(NonRecordingSpan(root), Context())
