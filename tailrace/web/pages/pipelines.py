"""Several pipelines on one page: each with its verdict, the worst first; each has its own page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tailrace.lag.verdict import State
from tailrace.web.pages.assets import asset_routes, html_response
from tailrace.web.pages.headline import summary
from tailrace.web.pages.html import moment, page, tag, text
from tailrace_service.http.messages import Refused, Request, Response, Route, Routes

if TYPE_CHECKING:
    from tailrace.web.model import Model
    from tailrace.web.site import Site

_WORST_FIRST: Final = (State.BAD, State.WARN, State.GOOD)


class Pipelines:
    """The page of all pipelines, and those of each under ``/db/<name>/``.

    Args:
        sites: by what the configuration calls the database.
    """

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = sites

    def routes(self) -> Routes:
        """What it answers; all of it is guarded."""
        routes = {
            **asset_routes(),
            ("GET", "/"): Route(self._index),
            ("GET", "/fragment"): Route(self._fragment),
        }
        for name, site in self._sites.items():
            for (method, path), route in site.routes().items():
                if not route.is_open:
                    routes[method, f"/db/{quote(name, safe='')}{path}"] = route
        return routes

    def _index(self, _: Request) -> Response:
        return html_response(page("pipelines", self._live(), "all pipelines", self._counts()))

    def _fragment(self, _: Request) -> Response:
        return html_response(self._live().encode())

    def _counts(self) -> str:
        return f"{len(self._sites)} pipelines"

    def _seen(self) -> dict[str, Model | None]:
        found: dict[str, Model | None] = {}
        for name, site in self._sites.items():
            try:
                found[name] = site.seen()
            except Refused as refused:
                if refused.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                found[name] = None
        return found

    def _live(self) -> str:
        seen = self._seen()
        states = {name: _state(model) for name, model in seen.items()}
        ordered = sorted(seen, key=lambda name: (_WORST_FIRST.index(states[name]), name.casefold()))
        cards = "".join(_card(n, self._sites[n], seen[n], states[n]) for n in ordered)
        oldest_ms = min((m.freshness.at_ms for m in seen.values() if m), default=0)
        bad = sum(state is not State.GOOD for state in states.values())
        attributes = {
            "id": "live",
            "data-keyed": "",
            "data-age": f"{max(0.0, time.time() - oldest_ms / 1000):.1f}",
            "data-title": f"({bad}!) pipelines" if bad else "pipelines",
            "data-state": next(state for state in _WORST_FIRST if state in states.values()),
            "data-counts": self._counts(),
        }
        table = {"id": "tables", "class": "cards", "data-keyed": "", "data-name": "pipelines"}
        heading = tag("h1", "Pipelines", {"data-name": "heading"})
        return tag("div", heading + tag("div", cards, table), attributes)


def _state(model: Model | None) -> State:
    return State.WARN if model is None else model.verdict.state


def _card(name: str, site: Site, model: Model | None, state: State) -> str:
    link = f'<a href="db/{text(quote(name, safe=""))}/">{text(site.name)}</a>'
    told = "the first look is not over"
    counts = ""
    if model is not None:
        told = model.verdict.headline
        counts = f"{text(summary(model))}; seen at {moment(model.freshness.at_ms)}"
    content = (
        tag("h2", link)
        + tag("p", text(told), {"class": state})
        + tag("p", counts, {"class": "quiet"})
    )
    attributes = {"class": f"card {state}", "data-name": name.casefold(), "data-table": name}
    return tag("article", content, attributes)
