"""The HTTP endpoint of a process that publishes several databases.

One port. ``/health``, ``/ready``, ``/metrics`` and ``/status`` cover all databases. Below
``/databases/<name>``, with the name spelled as in topic names, each database has all paths of an
endpoint of its own. So a client of one publisher (``tailrace web --publisher-url``) also works with
one of these databases.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

import structlog

from tailrace_publisher.daemon.process.endpoint import routes_of
from tailrace_publisher.daemon.process.one_database import OneDatabase
from tailrace_publisher.daemon.status.labelled_metrics import LabelledMetrics
from tailrace_schemas.topics.topic_names import database_path
from tailrace_service.endpoint import metrics_response
from tailrace_service.http.messages import Refused, Request, Response, Route, Routes

_log = structlog.get_logger(__name__)


def routes_of_all(databases: Sequence[OneDatabase]) -> Routes:
    """Return the routes of the endpoint."""
    pages = _Pages(databases)
    routes = {
        ("GET", "/health"): Route(pages.health, is_open=True),
        ("GET", "/ready"): Route(pages.ready, is_open=True),
        ("GET", "/metrics"): Route(pages.metrics, is_open=True),
        ("GET", "/status"): Route(pages.status),
    }
    for one in databases:
        below = database_path(one.name)
        for (method, path), route in routes_of(one.runtime, one, one).items():
            routes[method, f"{below}{path}"] = route
        routes["POST", f"{below}/start"] = Route(partial(_start, one))
    return routes


def routes_of_only(databases: Sequence[OneDatabase]) -> Routes:
    """Return the routes of a process with one database: those of a publisher that is alone."""
    (one,) = databases
    return {**routes_of(one.runtime, one, one), ("POST", "/start"): Route(partial(_start, one))}


def _start(one: OneDatabase, _: Request) -> Response:
    if not one.request_start():
        raise Refused(HTTPStatus.CONFLICT, f"{one.name} is not stopped: {one.phase}")
    _log.info("database_start_requested", database=one.name)
    return Response.of_json({"asked": one.name}, HTTPStatus.ACCEPTED)


class _Pages:
    """The pages that cover all databases."""

    def __init__(self, databases: Sequence[OneDatabase]) -> None:
        self._databases = databases
        self._metrics = LabelledMetrics("database")
        self._metrics.parts.update({one.name: one for one in databases})

    def health(self, _: Request) -> Response:
        hanging = [
            f"{one.name}: no step for {one.still_s:.0f} s"
            for one in self._databases
            if one.still_s > one.still_max_s
        ]
        if hanging:
            return Response.of_text("; ".join(hanging), HTTPStatus.SERVICE_UNAVAILABLE)
        away = self._in_phases({"stopped", "retrying", "paused"})
        return Response.of_text(f"ok, but {away}" if away else "ok")

    def ready(self, _: Request) -> Response:
        away = self._in_phases({"starting", "stopped", "retrying", "paused"})
        if away:
            return Response.of_text(f"not publishing, {away}", HTTPStatus.SERVICE_UNAVAILABLE)
        elsewhere = [one.name for one in self._databases if one.phase == "elsewhere"]
        if not elsewhere:
            return Response.of_text("publishing")
        here = ", ".join(one.name for one in self._databases if one.name not in elsewhere)
        return Response.of_text(f"publishing {here or 'none'}; elsewhere: {', '.join(elsewhere)}")

    def metrics(self, request: Request) -> Response:
        for one in self._databases:
            one.measure()
        return metrics_response(request, self._metrics)

    def status(self, request: Request) -> Response:
        found = {one.name: one.status() for one in self._databases}
        if request.wants_text:
            texts = (f"{name}: {status.to_text()}" for name, status in found.items())
            return Response.of_text("\n\n".join(texts))
        return Response.of_json(
            {
                "program": "publisher",
                "databases": {name: status.to_json() for name, status in found.items()},
            }
        )

    def _in_phases(self, phases: set[str]) -> str:
        """Describe the databases that are in some phases."""
        found = [(one.name, one.phase) for one in self._databases]
        return ", ".join(f"{name} is {phase}" for name, phase in found if phase in phases)
