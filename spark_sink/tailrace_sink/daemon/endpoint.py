"""The sink's HTTP endpoint: /health, /ready, /status, /metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import structlog

from tailrace_service.endpoint import (
    EndpointRefused,
    daemon_endpoint,
    metrics_response,
    status_response,
)
from tailrace_service.http.messages import Request, Response, Route
from tailrace_sink.daemon.status_board import SinkBoard
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.watch.metrics import SinkMetrics

_log = structlog.get_logger("tailrace.sink")


@contextmanager
def endpoint(config: SinkConfig, metrics: SinkMetrics, board: SinkBoard) -> Iterator[None]:
    """Serve the endpoint while the block runs, if ``metrics_port`` is set.

    Raises:
        ConfigError: the port cannot be opened, or the token cannot be read.
    """
    pages = _Pages(metrics, board)
    routes = {
        ("GET", "/health"): Route(pages.health, is_open=True),
        ("GET", "/ready"): Route(pages.ready, is_open=True),
        ("GET", "/metrics"): Route(pages.metrics, is_open=True),
        ("GET", "/status"): Route(pages.status),
    }
    try:
        with daemon_endpoint(config, routes) as url:
            if url is not None:
                _log.info("http_served", url=url)
            yield
    except EndpointRefused as error:
        raise ConfigError([str(error)]) from error


class _Pages:
    def __init__(self, metrics: SinkMetrics, board: SinkBoard) -> None:
        self._metrics = metrics
        self._board = board

    def health(self, _: Request) -> Response:
        hang = self._board.steps.hang()
        if hang is not None:
            return Response.of_text(hang, HTTPStatus.SERVICE_UNAVAILABLE)
        return Response.of_text("ok")

    def ready(self, _: Request) -> Response:
        phase, hang = self._board.phase, self._board.steps.hang()
        is_ready = phase == "running" and hang is None
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Response.of_text(hang or phase, status)

    def metrics(self, request: Request) -> Response:
        return metrics_response(request, self._metrics.registry)

    def status(self, request: Request) -> Response:
        return status_response(request, self._board.status())
