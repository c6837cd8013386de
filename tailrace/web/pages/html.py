"""Small pieces of HTML. Whatever is not ours is escaped here, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Final

from tailrace.lag.verdict import duration

DASH: Final = "&ndash;"
SLOW_S: Final = 60.0
"""Lag of a table, in seconds, from which it needs attention."""


def text(value: object) -> str:
    """A value as text, also within the quotes of an attribute."""
    return escape(str(value), quote=True)


def tag(name: str, content: str = "", attributes: Mapping[str, object] | None = None) -> str:
    """An element.

    Args:
        attributes: text; None leaves one out.
    """
    told = "".join(
        f' {key}="{text(value)}"' for key, value in (attributes or {}).items() if value is not None
    )
    return f"<{name}{told}>{content}</{name}>"


def seconds(value: float | None) -> str:
    """Return a lag, marked if it is large; nothing worth reading if there is none."""
    if value is None:
        return DASH
    if value == 0:
        return '<span class="quiet">0 s</span>'
    kind = "warn" if value >= SLOW_S else "plain"
    return f'<span class="{kind}">{text(duration(value))}</span>'


def moment(at_ms: int | None) -> str:
    """A time for people and programs."""
    if at_ms is None:
        return DASH
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    shown = at.strftime("%Y-%m-%d %H:%M:%S")
    return f'<time datetime="{at.isoformat(timespec="milliseconds")}">{shown} UTC</time>'


def lsn(value: str | None) -> str:
    """An LSN."""
    return DASH if value is None else f"<code>{text(value)}</code>"


def page(
    title: str, body: str, pipeline: str, counts: str | None = None, *, home: str = "./"
) -> bytes:
    """A whole page.

    Args:
        body: HTML of the main part.
        pipeline: its name, for the head.
        counts: of its tables, for the head of a page that renews itself; None if it does not.
        home: where the name of the product leads. All links are relative.
    """
    live = (
        f'<span id="counts">{text(counts or "")}</span>'
        '<label class="scripts">Find a table <input id="find" type="search" autocomplete="off"'
        ' aria-controls="tables"></label><span id="age" class="quiet"></span>'
    )
    if counts is None:
        live = ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{text(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link id="icon" rel="icon" type="image/svg+xml" href="static/icon-plain.svg">'
        '<link rel="stylesheet" href="static/style.css">'
        '<script defer src="static/page.js"></script></head>'
        '<body><a class="skip" href="#main">To the content</a>'
        f'<header><a class="home" href="{text(home)}">Tailrace</a><span>{text(pipeline)}</span>'
        f'{live}</header><p id="notice" role="alert"></p>'
        f'<main id="main" tabindex="-1">{body}</main></body></html>'
    ).encode()
