"""The paths of the page: what each answers, and who may ask."""

from __future__ import annotations

import time
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from tailrace.signals.request import SignalNotTaken
from tailrace.web.collector import Collector
from tailrace.web.details import Details
from tailrace.web.model import Model
from tailrace.web.pages.assets import asset_routes, html_response
from tailrace.web.pages.headline import summary, title
from tailrace.web.pages.html import page, tag, text
from tailrace.web.pages.overview import overview
from tailrace.web.pages.runbooks_page import runbook_html
from tailrace.web.pages.table_page import Explorer, table_page
from tailrace.web.requests import Requests
from tailrace_schemas.records.signals import (
    AcceptedLoss,
    PauseSignal,
    RepairSignal,
    Signal,
    SnapshotSignal,
    TableSignal,
    read_signal,
)
from tailrace_service.http.messages import Refused, Request, Response, Route, Routes

if TYPE_CHECKING:
    from tailrace.settings.settings import Settings

_FIRST_LOOK_S: Final = 25.0


class Site:
    """Answers from what the collector has seen.

    Args:
        collector: one that was started.
        home: where the name of the product leads: to the page of all pipelines if there are more.
    """

    def __init__(
        self, settings: Settings, collector: Collector, details: Details, home: str = "./"
    ) -> None:
        self._config = config = settings.publisher()
        self._name = f"{config.prefix} · {config.source.database} @ {config.source.host}"
        self._collector = collector
        self._details = details
        self._home = home
        self._requests = Requests(config)

    def routes(self) -> Routes:
        """What it answers; all of it is guarded."""
        return {
            ("GET", "/"): Route(self._overview),
            ("GET", "/fragment"): Route(self._fragment),
            ("GET", "/model.json"): Route(self._model_json),
            ("GET", "/table"): Route(self._table),
            ("GET", "/runbook"): Route(self._runbook),
            **asset_routes(),
            ("POST", "/signal"): Route(self._signal),
        }

    @property
    def name(self) -> str:
        """The pipeline's: prefix, database and host."""
        return self._name

    def seen(self) -> Model:
        """What the collector saw last.

        Raises:
            Refused: it has not looked yet.
        """
        model = self._collector.model(_FIRST_LOOK_S)
        if model is None:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the first look is not over: try again")
        return model

    def _overview(self, _: Request) -> Response:
        model = self.seen()
        heading = title(model, self._config.prefix)
        return html_response(self._page(heading, self._live(model), summary(model)))

    def _page(self, heading: str, body: str, counts: str | None = None) -> bytes:
        return page(heading, body, self._name, counts, home=self._home)

    def _fragment(self, _: Request) -> Response:
        return html_response(self._live(self.seen()).encode())

    def _live(self, model: Model) -> str:
        age_s = max(0.0, time.time() - model.freshness.at_ms / 1000)
        return overview(model, self._config.prefix, age_s, self._requests.newest_first())

    def _model_json(self, _: Request) -> Response:
        return Response.of_json(self.seen().to_json())

    def _table(self, request: Request) -> Response:
        name, key = request.query.get("name", ""), request.query.get("key", "")
        at = request.query.get("at", "")
        model = self.seen()
        row = next((r for r in model.rows if r.table.casefold() == name.casefold()), None)
        table = self._details.name_of(name if row is None else row.table)
        if row is None or table is None:
            body = tag("h1", text(f"No such table: {name}")) + '<p><a href="./">All tables</a></p>'
            return html_response(self._page("No such table", body), HTTPStatus.NOT_FOUND)
        problems: list[str] = []
        versions = self._details.versions(table, problems)
        quoted = f"[{table.schema.replace(']', ']]')}].[{table.table.replace(']', ']]')}]"
        explained = self._details.explained(quoted, key, at) if key or at else None
        since, of = request.query.get("since"), request.query.get("of")
        browsed = None
        if since is not None or of is not None:
            browsed = self._details.events(table, since or "", of or "")
        explorer = Explorer(row.table, key, at, explained, since or "", of or "", browsed)
        stages = model.freshness.stages
        verified = self._details.verified(row.table, problems)
        body = table_page(
            explorer, row, versions, verified=verified, problems=problems, stages=stages
        )
        return html_response(self._page(row.table, body))

    def _runbook(self, request: Request) -> Response:
        name = request.query.get("name", "")
        body = runbook_html(name)
        if body is None:
            body = tag("h1", "No such runbook") + '<p><a href="./">All tables</a></p>'
            return html_response(self._page("No such runbook", body), HTTPStatus.NOT_FOUND)
        return html_response(self._page(name, body))

    def _signal(self, request: Request) -> Response:
        try:
            signal = self._meant(read_signal(request.body))
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        try:
            requested = self._requests.send(signal, _in_words(signal))
        except SignalNotTaken as error:
            raise Refused(HTTPStatus.BAD_GATEWAY, str(error)) from error
        told = {"requested": requested.what, "signal_offset": requested.offset}
        return Response.of_json(told, HTTPStatus.ACCEPTED)

    def _meant(self, signal: Signal) -> Signal:
        """A signal with its tables spelled as they are.

        Raises:
            ValueError: it is none of those that the page sends, or names a table not shown.
        """
        match signal:
            case AcceptedLoss():
                raise ValueError("a lost checkpoint is accepted on the command line only")
            case RepairSignal():
                raise ValueError("rows are repaired by tailrace verify --repair only")
            case PauseSignal():
                return signal
        known = {row.table.casefold(): row.table for row in self.seen().rows}
        unknown = [name for name in signal.tables if name.casefold() not in known]
        if unknown:
            raise ValueError(f"not among the tables shown: {', '.join(unknown)}")
        return replace(signal, tables=tuple(known[name.casefold()] for name in signal.tables))

    def close(self) -> None:
        """End what follows the outcome of requests."""
        self._requests.close()


def _in_words(signal: Signal) -> str:
    match signal:
        case SnapshotSignal(tables=tables, where=where):
            return f"{'partial' if where else 'new'} snapshot of {', '.join(tables)}"
        case TableSignal(order=order, tables=tables):
            return f"{order.value.replace('_', ' ')}: {', '.join(tables) or 'all tables'}"
        case PauseSignal(is_paused=is_paused):
            return "pause" if is_paused else "resume"
    return type(signal).__name__
