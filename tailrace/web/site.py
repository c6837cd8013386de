"""The paths of the page: what each answers, and who may ask."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Final

from tailrace.signals.request import SignalNotTaken, send
from tailrace.web.collector import Collector
from tailrace.web.details import Details
from tailrace.web.html import page, tag
from tailrace.web.model import Model
from tailrace.web.overview import overview, title
from tailrace.web.table_page import Explorer, table_page
from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_service.http.messages import Refused, Request, Response, Route, Routes

if TYPE_CHECKING:
    from tailrace.settings.load import Settings

_FIRST_LOOK_S: Final = 25.0
_HEADERS: Final = {
    # Nothing but what this page brings itself: text of the source cannot become a script.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_STATIC: Final = {"style.css": "text/css", "page.js": "text/javascript"}


class Site:
    """Answers from what the collector has seen.

    Args:
        collector: already started.
    """

    def __init__(self, settings: Settings, collector: Collector, details: Details) -> None:
        self._config = config = settings.publisher()
        self._name = f"{config.prefix} · {config.source.database} @ {config.source.host}"
        self._collector = collector
        self._details = details
        self._static = {
            name: (resources.files(__package__) / "static" / name).read_bytes() for name in _STATIC
        }

    def routes(self) -> Routes:
        """What it answers; all of it is guarded."""
        return {
            ("GET", "/"): Route(self._overview),
            ("GET", "/fragment"): Route(self._fragment),
            ("GET", "/model.json"): Route(self._model_json),
            ("GET", "/table"): Route(self._table),
            ("GET", "/static/style.css"): Route(self._file),
            ("GET", "/static/page.js"): Route(self._file),
            ("GET", "/health"): Route(lambda _: Response.of_text("ok"), is_open=True),
            ("POST", "/snapshot"): Route(self._snapshot),
        }

    def _seen(self) -> Model:
        model = self._collector.model(_FIRST_LOOK_S)
        if model is None:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the first look is not over: try again")
        return model

    def _overview(self, _: Request) -> Response:
        model = self._seen()
        heading = title(model, self._config.prefix)
        return _html(page(heading, self._live(model), self._name, is_live=True))

    def _fragment(self, _: Request) -> Response:
        return _html(self._live(self._seen()).encode())

    def _live(self, model: Model) -> str:
        age_s = max(0.0, time.time() - model.freshness.at_ms / 1000)
        return overview(model, self._config.prefix, age_s)

    def _model_json(self, _: Request) -> Response:
        return Response.of_json(self._seen().to_json())

    def _table(self, request: Request) -> Response:
        name, key = request.query.get("name", ""), request.query.get("key", "")
        at = request.query.get("at", "")
        model = self._seen()
        row = next((r for r in model.rows if r.table.casefold() == name.casefold()), None)
        table = self._details.name_of(name if row is None else row.table)
        if row is None or table is None:
            body = tag("h1", "No such table") + '<p><a href="/">All tables</a></p>'
            return _html(page("No such table", body, self._name), HTTPStatus.NOT_FOUND)
        problems: list[str] = []
        versions = self._details.versions(table, problems)
        quoted = f"[{table.schema.replace(']', ']]')}].[{table.table.replace(']', ']]')}]"
        explained = self._details.explained(quoted, key, at) if key or at else None
        explorer = Explorer(row.table, key, at, explained)
        body = table_page(explorer, row, versions, problems=problems)
        return _html(page(row.table, body, self._name))

    def _file(self, request: Request) -> Response:
        name = request.path.rpartition("/")[2]
        return Response(self._static[name], f"{_STATIC[name]}; charset=utf-8")

    def _snapshot(self, request: Request) -> Response:
        known = {row.table.casefold(): row.table for row in self._seen().rows}
        try:
            names = json.loads(request.body)["tables"]
            wanted = tuple(known[str(name).casefold()] for name in names)
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(
                HTTPStatus.BAD_REQUEST, 'send {"tables": ["schema.table"]}, of the tables shown'
            ) from error
        try:
            offset = send(self._config, SnapshotSignal(wanted).to_bytes())
        except SignalNotTaken as error:
            raise Refused(HTTPStatus.BAD_GATEWAY, str(error)) from error
        return Response.of_json(
            {"asked": list(wanted), "signal_offset": offset}, HTTPStatus.ACCEPTED
        )


def _html(body: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(body, "text/html; charset=utf-8", status, _HEADERS)
