"""The first page: the pipeline as a picture, the ledger, the tables, the last errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile
from typing import Final
from urllib.parse import quote

from tailrace.lag.freshness import Joint
from tailrace.lag.verdict import duration
from tailrace.web.html import DASH, lsn, moment, seconds, tag, text
from tailrace.web.model import Model, Row
from tailrace.web.strip import BUCKET_MS, BUCKETS, Bucket
from tailrace_service.status import DaemonStatus

_STAGES: Final = {"topics": "topics", "log": "lake's log", "lake": "lake's tables"}
_ERRORS_SHOWN: Final = 20


def overview(model: Model, name: str, age_s: float) -> str:
    """The part of the page that is renewed.

    Args:
        name: of the pipeline, for the title of the window.
        age_s: seconds since it was seen.
    """
    seen = f"Seen at {moment(model.freshness.at_ms)}, {duration(age_s)} ago."
    content = "".join(
        [
            tag("h1", "The pipeline", {"class": "quiet"}),
            tag("p", seen, {"class": "quiet"}),
            _verdict(model),
            _picture(model),
            _ledger(model),
            _tables(model),
            _errors(model),
        ]
    )
    attributes = {"id": "live", "data-age": f"{age_s:.1f}", "data-title": title(model, name)}
    return tag("div", content, attributes)


def title(model: Model, name: str) -> str:
    """The title of the window: how many matters there are, and which pipeline it is."""
    state, sentences = model.verdict
    return name if state == "good" else f"({len(sentences)}!) {name}"


def _verdict(model: Model) -> str:
    """Whether all is well, or what is not: one line a matter."""
    state, sentences = model.verdict
    lines = "".join(tag("li", text(sentence)) for sentence in sentences)
    return tag("ul", lines, {"class": f"verdict {state}", "role": "status"})


def _picture(model: Model) -> str:
    fresh = model.freshness
    captured = fresh.joints.get("captured")
    boxes = [
        _box("source", None if captured is None else captured.lsn, _capture(model)),
        _daemon_box("publisher", model.publisher, model.watched),
    ]
    for name, title in _STAGES.items():
        joint = fresh.joints.get(name)
        if joint is None:
            continue
        if name == "log":
            boxes.append(_daemon_box("sink", model.sink, model.watched))
        boxes.append(_box(title, joint.lsn, _lag(joint)))
    return tag("ol", "".join(boxes), {"class": "pipeline", "aria-label": "From source to lake"})


def _lag(joint: Joint) -> str:
    """Not the age of its last commit: an idle database is not late."""
    if joint.lsn is None:
        return "nothing yet"
    if joint.lag_s is None:
        return "not known how late"
    return f"{duration(joint.lag_s)} behind" if joint.lag_s else "up to date"


def _capture(model: Model) -> str:
    behind = model.freshness.capture_s
    told = "the login may not see the capture job's lag"
    if behind is not None:
        told = f"capture job {duration(behind)} behind"
    kept = model.freshness.retention_s
    return told if kept is None else f"{told}; change rows are kept {duration(kept)}"


def _box(title: str, reached: str | None, note: str) -> str:
    content = tag("h2", text(title)) + tag("p", lsn(reached)) + tag("p", text(note))
    return tag("li", content, {"class": "stage"})


def _daemon_box(name: str, daemon: DaemonStatus | None, watched: tuple[str, ...]) -> str:
    if daemon is None:
        told = ("no answer", "bad") if name in watched else ("not watched", "warn")
        content = tag("h2", name) + tag("p", told[0], {"class": told[1]})
        return tag("li", content, {"class": "daemon"})
    since = (daemon.now_ms - daemon.since_ms) / 1000
    kind = "good" if daemon.state == "running" else "bad"
    content = (
        tag("h2", name)
        + tag("p", text(daemon.state), {"class": kind})
        + tag("p", f"for {duration(since)}")
    )
    return tag("li", content, {"class": "daemon"})


def _ledger(model: Model) -> str:
    cells = "".join(_bucket(at, bucket) for at, bucket in model.strip)
    hours = BUCKETS * BUCKET_MS // 3_600_000
    sums = [
        f"{sum(bucket.rows for _, bucket in model.strip)} events",
        f"{sum(bucket.records for _, bucket in model.strip)} progress records",
    ]
    if model.has_lake:
        sums.append(f"{sum(bucket.cuts for _, bucket in model.strip)} cuts of the lake's tables")
    since_first = dropwhile(lambda entry: not entry[1].records, model.strip)
    silent = sum(bucket.records == 0 for _, bucket in since_first)
    if silent:
        sums.append(f"{silent * BUCKET_MS // 60_000} minutes without a progress record")
    return tag(
        "section",
        tag("h2", f"Ledger of the last {hours} hours")
        + tag("ol", cells, {"class": "strip", "aria-hidden": "true"})
        + tag("p", text(", ".join(sums) + "."))
        + "".join(
            tag("p", f"{moment(at)} {text(why)}", {"class": "bad"})
            for at, bucket in model.strip
            for why in bucket.broken
        ),
    )


def _bucket(at_ms: int, bucket: Bucket) -> str:
    kind = "moved" if bucket.moved else "idle"
    if bucket.broken:
        kind = "broken"
    elif not bucket.records:
        kind = "silent"
    elif bucket.rows:
        kind = "rows"
    told = f"{bucket.rows} events, {bucket.records} records, {bucket.cuts} cuts"
    return f'<li class="{kind}" title="{moment_text(at_ms)}: {told}"></li>'


def moment_text(at_ms: int) -> str:
    """A time as text."""
    return moment(at_ms).partition(">")[2].partition("<")[0]


def _tables(model: Model) -> str:
    stages = [name for name in _STAGES if name in model.freshness.joints]
    headings = ["table", "state", *(f"{_STAGES[name]} behind" for name in stages)]
    headings += ["events", "newest change", "schema from", ""]
    head = tag("tr", "".join(tag("th", text(heading)) for heading in headings))
    body = "".join(_row(row, stages, headings) for row in model.rows)
    table = f'<div class="wide"><table id="tables"><thead>{head}</thead>{body}</table></div>'
    return tag("section", tag("h2", f"{len(model.rows)} tables") + table)


def _row(row: Row, stages: list[str], headings: list[str]) -> str:
    field = {"topics": row.topic_s, "log": row.log_s, "lake": row.lake_s}
    name = text(row.table)
    cells = [
        f'<a href="/table?name={text(quote(row.table))}">{name}</a>',
        _state(row),
        *(seconds(field[stage]) if not row.is_bad else DASH for stage in stages),
        str(row.rows),
        lsn(row.newest_lsn),
        lsn(row.schema_lsn),
        f'<button type="button" data-snapshot="{name}">snapshot</button>',
    ]
    # A phone shows each row as a card, where each cell needs its heading.
    labelled = zip(headings, cells, strict=True)
    shown = tag("tr", "".join(tag("td", cell, {"data-label": label}) for label, cell in labelled))
    kind = "stands" if row.is_bad else "unread" if row.is_unread else ""
    return f'<tbody class="{kind}" data-name="{name.casefold()}">{shown}</tbody>'


def _state(row: Row) -> str:
    told = text(row.state)
    if row.snapshot_rows is not None:
        known = row.snapshot_estimate
        told += f" {text(row.snapshot_told)}"
        if known:
            told += f' <progress max="{known}" value="{min(row.snapshot_rows, known)}"></progress>'
    if row.reason:
        told += tag("div", text(row.reason), {"class": "reason"})
    return told


def _errors(model: Model) -> str:
    def told() -> Iterator[str]:
        for program, failure in model.errors[:_ERRORS_SHOWN]:
            of = f" {text(failure.table)}" if failure.table else ""
            yield tag(
                "li",
                f"{moment(failure.at_ms)} {program}{of}"
                f" <strong>{text(failure.error)}</strong> {text(failure.reason)}",
            )

    lines = "".join(told()) or tag("li", "none reported")
    return tag("section", tag("h2", "Last errors") + tag("ul", lines, {"class": "errors"}))
