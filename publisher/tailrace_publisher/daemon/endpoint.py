"""The publisher's HTTP endpoint: /health, /ready, /status, /metrics, and POST /snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import structlog
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tailrace_publisher.daemon.ask_snapshot import send_signal
from tailrace_publisher.daemon.board import Told
from tailrace_publisher.errors import ConfigError, DeliveryError
from tailrace_publisher.runtime import Runtime, kafka_access
from tailrace_schemas.daemon_endpoint import EndpointRefused, daemon_endpoint
from tailrace_schemas.http_service import (
    Refused,
    Request,
    Response,
    Route,
)
from tailrace_schemas.signals import SnapshotSignal

_log = structlog.get_logger(__name__)


@contextmanager
def endpoint(runtime: Runtime, board: Told, metrics: Collector) -> Iterator[None]:
    """The endpoint while the block runs, where the option metrics_port asks for one.

    Args:
        runtime: what all parts share.
        board: what is told.
        metrics: for Prometheus.

    Raises:
        ConfigError: it cannot listen there, or the token cannot be read.
    """
    config = runtime.config
    pages = _Pages(runtime, board, metrics)
    routes = {
        ("GET", "/health"): Route(pages.health, is_open=True),
        ("GET", "/ready"): Route(pages.ready, is_open=True),
        ("GET", "/metrics"): Route(pages.metrics, is_open=True),
        ("GET", "/status"): Route(pages.status),
        ("POST", "/snapshot"): Route(pages.snapshot),
    }
    try:
        with daemon_endpoint(config, routes) as url:
            if url is not None:
                _log.info("http_served", url=url)
            yield
    except EndpointRefused as error:
        raise ConfigError([str(error)]) from error


class _Pages:
    def __init__(self, runtime: Runtime, board: Told, metrics: Collector) -> None:
        self._runtime = runtime
        self._board = board
        self._metrics = metrics

    def health(self, _: Request) -> Response:
        board = self._board
        if board.still_s > board.still_max_s:
            return Response.of_text(
                f"no step for {board.still_s:.0f} s", HTTPStatus.SERVICE_UNAVAILABLE
            )
        return Response.of_text("ok")

    def ready(self, _: Request) -> Response:
        if self._board.phase == "running":
            return Response.of_text("publishing")
        return Response.of_text(
            f"not publishing, {self._board.phase}", HTTPStatus.SERVICE_UNAVAILABLE
        )

    def metrics(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(self._metrics), content_type)

    def status(self, request: Request) -> Response:
        status = self._board.status()
        if request.wants_text:
            return Response.of_text(status.to_text())
        return Response.of_json(status.to_json())

    def snapshot(self, request: Request) -> Response:
        names = _tables_of(request.body)
        known = {table.table.casefold(): table.table for table in self._board.tables()}
        unknown = [name for name in names if name.casefold() not in known]
        if unknown:
            raise Refused(
                HTTPStatus.NOT_FOUND,
                f"not published: {', '.join(unknown)}; name tables as schema.table",
            )
        wanted = tuple(dict.fromkeys(known[name.casefold()] for name in names))
        config = self._runtime.config
        try:
            offset = send_signal(
                kafka_access(config, self._runtime.ports),
                config.topics.signals,
                config.source.database,
                SnapshotSignal(wanted).to_bytes(),
                config.kafka.start_timeout_s,
            )
        except DeliveryError as error:
            raise Refused(HTTPStatus.BAD_GATEWAY, str(error)) from error
        _log.info("snapshot_asked", tables=wanted, offset=offset)
        return Response.of_json(
            {"asked": list(wanted), "signal_offset": offset}, HTTPStatus.ACCEPTED
        )


def _tables_of(body: bytes) -> list[str]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    names = value.get("tables") if isinstance(value, dict) else None
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise Refused(HTTPStatus.BAD_REQUEST, 'send {"tables": ["schema.table"]}')
    return names
