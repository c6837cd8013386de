"""What every page of the service is sent with: headers, style, script and icons."""

from __future__ import annotations

from http import HTTPStatus
from importlib import resources
from typing import Final

from tailrace_service.http.messages import Response, Route, Routes

_HEADERS: Final = {
    # Nothing but what this page brings itself: text of the source cannot become a script.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self';"
    " connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_STATIC: Final = {
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}
_ICON: Final = {"plain": "#5d686c", "good": "#1d6f42", "warn": "#c98500", "bad": "#b3261e"}
"""The icon of the window has the colour of the verdict."""


def html_response(body: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A page, or a part of one."""
    return Response(body, "text/html; charset=utf-8", status, _HEADERS)


def asset_routes() -> Routes:
    """Style, script and icons, and whether the service lives."""
    files = {
        name: ((resources.files("tailrace.web") / "static" / name).read_bytes(), kind)
        for name, kind in _STATIC.items()
    }
    for state, colour in _ICON.items():
        files[f"icon-{state}.svg"] = (_icon(colour), "image/svg+xml")
    routes = {("GET", f"/static/{name}"): _fixed(*file) for name, file in files.items()}
    health = Route(lambda _: Response.of_text("ok"), is_open=True)
    return {**routes, ("GET", "/health"): health}


def _fixed(body: bytes, kind: str) -> Route:
    return Route(lambda _: Response(body, kind))


def _icon(colour: str) -> bytes:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
        f'<circle cx="8" cy="8" r="7" fill="{colour}"/></svg>'
    ).encode()
