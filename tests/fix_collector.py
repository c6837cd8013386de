"""A collector of OpenTelemetry's spans: takes them by OTLP over HTTP, as the real ones do."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

PATH = "/v1/traces"


@dataclass(frozen=True)
class Received:
    """A span as it came."""

    service: str
    trace_id: int
    span_id: int
    parent_id: int
    name: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]


@dataclass
class Collector:
    """Spans by what they say, and the headers of the requests that brought them."""

    endpoint: str
    spans: list[Received] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def traces(self) -> dict[int, dict[str, Received]]:
        """The spans by trace and name."""
        found: dict[int, dict[str, Received]] = {}
        for span in list(self.spans):
            found.setdefault(span.trace_id, {})[span.name] = span
        return found

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                assert scope.scope.name == "tailrace"
                self.spans.extend(_received(service, span) for span in scope.spans)


def _received(service: str, span: Any) -> Received:
    return Received(
        service,
        int.from_bytes(span.trace_id),
        int.from_bytes(span.span_id),
        int.from_bytes(span.parent_span_id),
        span.name,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _values(span.attributes),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {entry.key: _value(entry.value) for entry in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            is_known = self.path == PATH
            if is_known:
                collector.headers.append(dict(self.headers))
                collector.take(body)
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """The spans are what is looked at."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_address[1]}{PATH}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="collector")
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
