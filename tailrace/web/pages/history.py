"""The last hours as a picture: the lag of topics and lake as lines over the ledger, with marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from tailrace.lag.verdict import duration
from tailrace.web.pages.html import moment, tag, text
from tailrace.web.strip import BUCKET_MS, BUCKETS, Bucket

if TYPE_CHECKING:
    from tailrace.web.model import Model

_WIDTH, _HEIGHT, _STRIP = 720, 120, 12
_STEP: Final = _WIDTH / BUCKETS
_HOUR_MS: Final = 3_600_000
_MARKS_SHOWN: Final = 20
_Strip = Sequence[tuple[int, Bucket]]


def history(model: Model) -> str:
    """The section of the page."""
    strip = model.strip
    lines = {"topics": [bucket.lag_ms for _, bucket in strip]}
    if model.has_lake:
        lines["lake"] = [bucket.lake_lag_ms for _, bucket in strip]
    known = [lag for line in lines.values() for lag in line if lag is not None]
    top_ms = max(1000, *known) if known else 1000
    hours = BUCKETS * BUCKET_MS // _HOUR_MS
    content = (
        tag("h2", f"Lag of the last {hours} hours")
        + _picture(strip, lines, top_ms)
        + tag("p", "".join(_legend(lines)), {"class": "legend"})
        + tag("p", text(_sums(model)))
        + _broken(strip)
        + _marks(strip)
    )
    return tag("section", content, {"data-name": "history"})


def _picture(strip: _Strip, lines: dict[str, list[int | None]], top_ms: int) -> str:
    def y(lag_ms: float) -> float:
        return _HEIGHT - lag_ms / top_ms * (_HEIGHT - 10)

    shown = "".join(_bucket(number, at, bucket) for number, (at, bucket) in enumerate(strip))
    shown += "".join(_hours(strip))
    for name, line in lines.items():
        points = [(number, lag) for number, lag in enumerate(line) if lag is not None]
        shown += _line(name, points, y)
    for number, (at, bucket) in enumerate(strip):
        if bucket.marks:
            told = text(f"{_clock(at)} {'; '.join(bucket.marks)}")
            x = (number + 0.5) * _STEP
            mark = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}"/>'
            shown += tag("g", tag("title", told) + mark)
    shown += f'<text x="4" y="15">{text(duration(top_ms / 1000))}</text>'
    box = f"0 0 {_WIDTH} {_HEIGHT + _STRIP + 22}"
    label = f"Lag, at most {duration(top_ms / 1000)}; the table of numbers is /model.json"
    return tag(
        "svg", shown, {"class": "history", "viewBox": box, "role": "img", "aria-label": label}
    )


def _line(name: str, points: Sequence[tuple[int, int]], y: Callable[[float], float]) -> str:
    at = [f"{(number + 0.5) * _STEP:.1f},{y(lag):.1f}" for number, lag in points]
    dots = "".join(
        f'<circle class="{name}" cx="{place.split(",")[0]}" cy="{place.split(",")[1]}" r="1.5"/>'
        for place in at
    )
    return f'<polyline class="{name}" points="{" ".join(at)}"/>{dots}'


def _bucket(number: int, at_ms: int, bucket: Bucket) -> str:
    kind = "moved" if bucket.moved else "idle"
    if bucket.broken:
        kind = "broken"
    elif not bucket.records:
        kind = "silent"
    elif bucket.rows:
        kind = "rows"
    told = f"{_clock(at_ms)}: {bucket.rows} events, {bucket.records} records, {bucket.cuts} cuts"
    place = f'x="{number * _STEP:.1f}" y="{_HEIGHT + 2}" width="{_STEP - 1:.1f}" height="{_STRIP}"'
    return tag("g", tag("title", told) + f'<rect class="{kind}" {place}/>')


def _hours(strip: _Strip) -> Iterator[str]:
    for number, (at, _) in enumerate(strip):
        if at % _HOUR_MS == 0:
            x = number * _STEP
            yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}"/>'
            is_last = x > _WIDTH - 60  # its label would not fit on its right
            place = f'x="{x - 2:.1f}" text-anchor="end"' if is_last else f'x="{x + 2:.1f}"'
            yield f'<text {place} y="{_HEIGHT + _STRIP + 18}">{_clock(at)}</text>'


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M")


def _legend(lines: dict[str, list[int | None]]) -> Iterator[str]:
    told = {"topics": "commit to topics", "lake": "commit to lake's tables"}
    for name in lines:
        yield tag("span", told[name], {"class": f"key {name}"})
    yield tag("span", "restart, pause, schema, snapshot", {"class": "key mark"})
    yield tag("span", "times are UTC", {"class": "quiet"})


def _sums(model: Model) -> str:
    strip = model.strip
    sums = [
        f"{sum(bucket.rows for _, bucket in strip)} events",
        f"{sum(bucket.records for _, bucket in strip)} progress records",
    ]
    if model.has_lake:
        sums.append(f"{sum(bucket.cuts for _, bucket in strip)} cuts of the lake's tables")
    since_first = dropwhile(lambda entry: not entry[1].records, strip)
    silent = sum(bucket.records == 0 for _, bucket in since_first)
    if silent:
        sums.append(f"{silent * BUCKET_MS // 60_000} minutes without a progress record")
    return ", ".join(sums) + "."


def _broken(strip: _Strip) -> str:
    return "".join(
        tag("p", f"{moment(at)} {text(why)}", {"class": "bad"})
        for at, bucket in strip
        for why in bucket.broken
    )


def _marks(strip: _Strip) -> str:
    """The same as the marks of the picture, for those who do not see it."""
    found = [(at, mark) for at, bucket in strip for mark in bucket.marks][-_MARKS_SHOWN:]
    lines = "".join(tag("li", f"{moment(at)} {text(mark)}") for at, mark in reversed(found))
    if not lines:
        return ""
    head = tag("summary", f"{len(found)} restarts, pauses, schemas and snapshots")
    return tag("details", head + tag("ul", lines), {"data-name": "marks"})
