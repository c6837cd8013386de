"""The publisher's HTTP endpoint: its status by GET, requests by POST.

A request becomes a signal, so it is durable, and there is only one way (ADR 0010, 0029). Pointless
requests are refused first: for an unpublished table, or for a state that already holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

import structlog
from prometheus_client.registry import Collector

from tailrace_publisher.daemon.orders.pause import refusal_of as is_so_already
from tailrace_publisher.daemon.orders.request_snapshot import send_signal
from tailrace_publisher.daemon.orders.table_orders import partial_refusal_of, refusal_of
from tailrace_publisher.daemon.status.status_board import StatusBoard
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.errors import ConfigError, DeliveryError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.sql_condition import check_condition
from tailrace_publisher.runtime import Runtime, kafka_access
from tailrace_schemas.records.signals import (
    PauseSignal,
    Signal,
    SnapshotSignal,
    TableOrder,
    TableSignal,
)
from tailrace_schemas.topics.topic_names import meant_by, told_apart
from tailrace_service.endpoint import (
    EndpointRefused,
    daemon_endpoint,
    metrics_response,
    status_response,
)
from tailrace_service.http.messages import Refused, Request, Response, Route, Routes

_log = structlog.get_logger(__name__)

_ORDERS: Final = {f"/{order.value.replace('_', '-')}": order for order in TableOrder}


@contextmanager
def endpoint(runtime: Runtime, board: StatusBoard, metrics: Collector) -> Iterator[None]:
    """Serve the endpoint while the block runs, if the option metrics_port is set.

    Raises:
        ConfigError: it cannot listen there, or the token cannot be read.
    """
    with served(runtime.config, routes_of(runtime, board, metrics)):
        yield


@contextmanager
def served(config: PublisherConfig, routes: Routes) -> Iterator[None]:
    """Serve given routes while the block runs, if the options enable an endpoint.

    Raises:
        ConfigError: it cannot listen there, or the token cannot be read.
    """
    try:
        with daemon_endpoint(config, routes) as url:
            if url is not None:
                _log.info("http_served", url=url)
            yield
    except EndpointRefused as error:
        raise ConfigError([str(error)]) from error


def routes_of(
    runtime: Runtime, board: StatusBoard, metrics: Collector
) -> dict[tuple[str, str], Route]:
    """Return the routes of one database's endpoint."""
    pages = _Pages(runtime, board, metrics)
    return {
        ("GET", "/health"): Route(pages.health, is_open=True),
        ("GET", "/ready"): Route(pages.ready, is_open=True),
        ("GET", "/metrics"): Route(pages.metrics, is_open=True),
        ("GET", "/status"): Route(pages.status),
        ("POST", "/snapshot"): Route(pages.snapshot),
        ("POST", "/pause"): Route(partial(pages.pause, is_paused=True)),
        ("POST", "/resume"): Route(partial(pages.pause, is_paused=False)),
        **{("POST", path): Route(partial(pages.order, order)) for path, order in _ORDERS.items()},
    }


class _Pages:
    def __init__(self, runtime: Runtime, board: StatusBoard, metrics: Collector) -> None:
        self._runtime = runtime
        self._board = board
        self._metrics = metrics

    def health(self, _: Request) -> Response:
        hang = self._hang()
        if hang is not None:
            return hang
        return Response.of_text("ok, paused" if self._board.phase == "paused" else "ok")

    def _hang(self) -> Response | None:
        """Return the answer of a publisher that hangs; None if it makes progress."""
        still_s, longest_s = self._board.still_s, self._board.still_max_s
        if still_s <= longest_s:
            return None
        return Response.of_text(
            f"no step for {still_s:.0f} s; time limits explain only {longest_s:.0f} s: it hangs",
            HTTPStatus.SERVICE_UNAVAILABLE,
        )

    def ready(self, _: Request) -> Response:
        hang = self._hang()
        if hang is not None:
            return hang
        if self._board.phase == "running":
            return Response.of_text("publishing")
        if self._board.phase == "elsewhere":
            return Response.of_text("standing by: another member of the fleet publishes it")
        return Response.of_text(
            f"not publishing, {self._board.phase}", HTTPStatus.SERVICE_UNAVAILABLE
        )

    def metrics(self, request: Request) -> Response:
        self._board.measure()
        return metrics_response(request, self._metrics)

    def status(self, request: Request) -> Response:
        return status_response(request, self._board.status())

    def snapshot(self, request: Request) -> Response:
        known = self._known(request.body)
        wanted, where = tuple(name for name, _ in known), _where_of(request.body)
        signal = SnapshotSignal(wanted, dict.fromkeys(wanted, where) if where is not None else {})
        if where is not None:
            _refuse_any((name, partial_refusal_of(record)) for name, record in known)
        return self._send(signal, list(wanted))

    def order(self, order: TableOrder, request: Request) -> Response:
        known = self._known(request.body)
        _refuse_any((name, refusal_of(order, record)) for name, record in known)
        wanted = tuple(name for name, _ in known)
        return self._send(TableSignal(order, wanted), list(wanted))

    def pause(self, _: Request, *, is_paused: bool) -> Response:
        if self._board.phase not in {"running", "paused"}:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"not publishing, {self._board.phase}")
        if self._board.is_paused == is_paused:
            raise Refused(HTTPStatus.CONFLICT, is_so_already(is_paused=is_paused))
        return self._send(PauseSignal(is_paused), [])

    def _known(self, body: bytes) -> list[tuple[str, TableRecord]]:
        """Return the tables that a request names, each once.

        Raises:
            Refused: a name is unknown or ambiguous.
        """
        known = self._board.records()
        meant = {name: meant_by(name, known) for name in _tables_of(body)}
        unknown = [name for name, found in meant.items() if not found]
        if unknown:
            raise Refused(
                HTTPStatus.NOT_FOUND,
                f"not published: {', '.join(unknown)}; name tables as schema.table",
            )
        several = [told_apart(name, found) for name, found in meant.items() if len(found) > 1]
        if several:
            raise Refused(HTTPStatus.CONFLICT, "; ".join(several))
        tables = dict.fromkeys(found[0] for found in meant.values())
        return [(table.in_database, known[table]) for table in tables]

    def _send(self, signal: Signal, tables: list[str]) -> Response:
        """Write a signal; the publisher reads it from its topic."""
        config = self._runtime.config
        try:
            offset = send_signal(
                kafka_access(config, self._runtime.ports),
                config.topics.signals,
                config.source.database,
                signal.to_bytes(),
                config.kafka.start_timeout_s,
            )
        except DeliveryError as error:
            raise Refused(HTTPStatus.BAD_GATEWAY, str(error)) from error
        _log.info("signal_sent", signal=type(signal).__name__, tables=tables, offset=offset)
        return Response.of_json({"asked": tables, "signal_offset": offset}, HTTPStatus.ACCEPTED)


def _refuse_any(refusals: Iterable[tuple[str, str | None]]) -> None:
    reasons = [f"{name}: {reason}" for name, reason in refusals if reason is not None]
    if reasons:
        raise Refused(HTTPStatus.CONFLICT, "; ".join(reasons))


def _where_of(body: bytes) -> str | None:
    """Return the condition of the snapshot; the body is already known to be an object."""
    where = json.loads(body).get("where")
    if where is None:
        return None
    if not isinstance(where, str):
        raise Refused(HTTPStatus.BAD_REQUEST, 'send {"tables": [...], "where": "id > 7"}')
    try:
        check_condition(where)
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"where = {where!r}: {error}") from error
    return where


def _tables_of(body: bytes) -> list[str]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    names = value.get("tables") if isinstance(value, dict) else None
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise Refused(HTTPStatus.BAD_REQUEST, 'send {"tables": ["schema.table"]}')
    return names
