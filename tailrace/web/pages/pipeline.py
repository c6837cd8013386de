"""The pipeline as a picture: stages as boxes, and on each arrow who moves the changes, how late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tailrace.lag.verdict import LAG_MAX_S, duration
from tailrace.web.pages.html import lsn, moment, tag, text

if TYPE_CHECKING:
    from tailrace.lag.freshness import StageLag
    from tailrace.web.model import Model
    from tailrace_service.status import DaemonStatus

_STAGES: Final = {
    "captured": ("change tables", "capture job"),
    "topics": ("topics", "publisher"),
    "log": ("lake's log", "sink"),
    "lake": ("lake's tables", "sink"),
}
"""The title of each stage, and who moves changes to it."""


def pipeline(model: Model) -> str:
    """From the source's log to the lake's tables."""
    items = "".join(_items(model))
    attributes = {"class": "pipeline", "aria-label": "From source to lake", "data-name": "pipeline"}
    return tag("ol", items, attributes)


def _items(model: Model) -> Iterator[str]:
    kept = model.freshness.retention_s
    yield _box("source", "" if kept is None else f"change rows are kept {duration(kept)}")
    slowest = slowest_stage(model.freshness.stages)
    daemons = {"publisher": model.publisher, "sink": model.sink}
    for name, stage in model.freshness.stages.items():
        title, mover = _STAGES[name]
        if name == "captured":
            told = tag("strong", mover)
            if model.freshness.capture_age_s is None:
                told += tag("span", "not visible to the login", {"class": "warn"})
        else:
            told = _daemon(mover, daemons[mover], mover in model.watched)
        if name == "lake":
            told += _backlog(model.sink)
        delay = delay_text(stage)
        kind = "slow" if name == slowest else ""
        yield tag("li", told + tag("span", text(delay)), {"class": f"arrow {kind}".strip()})
        yield _box(title, "" if stage.lsn is None else f"up to {_reached(stage)}", is_html=True)


def _backlog(sink: DaemonStatus | None) -> str:
    """A bar over what the sink still has to carry; nothing without a backlog."""
    backlog = None if sink is None else sink.backlog
    if backlog is None or not backlog.left:
        return ""
    limits = {"value": backlog.done, "max": backlog.total, "aria-label": "backlog"}
    return tag("progress", "", limits) + tag("span", text(backlog.to_text()))


def _box(title: str, note: str, *, is_html: bool = False) -> str:
    shown = note if is_html else text(note)
    return tag("li", tag("h2", text(title)) + tag("p", shown), {"class": "stage"})


def _reached(stage: StageLag) -> str:
    """The commit time up to which a stage has everything; the LSN if no time is known."""
    return lsn(stage.lsn) if stage.commit_ms is None else moment(stage.commit_ms)


def delay_text(stage: StageLag) -> str:
    """How late a stage is. An idle database is not late, however old its last commit is."""
    if stage.lsn is None:
        return "nothing yet"
    if stage.lag_s is None:
        return "delay not known"
    return f"{duration(stage.lag_s)} behind" if stage.lag_s else "up to date"


def slowest_stage(stages: Mapping[str, StageLag]) -> str | None:
    """The stage whose own delay makes its lag exceed the bound; None if every lag is in bound."""
    found: tuple[float, str] | None = None
    before_s = 0.0
    for name, stage in stages.items():
        lag_s = stage.lag_s or 0.0
        own_s = lag_s - before_s
        if lag_s > LAG_MAX_S[name] and (found is None or own_s > found[0]):
            found = own_s, name
        before_s = max(before_s, lag_s)
    return None if found is None else found[1]


def _daemon(name: str, daemon: DaemonStatus | None, is_watched: bool) -> str:
    if daemon is None:
        state, kind = ("no answer", "bad") if is_watched else ("not watched", "warn")
        return tag("strong", name) + tag("span", state, {"class": kind})
    since = duration((daemon.now_ms - daemon.since_ms) / 1000)
    kind = "good" if daemon.state == "running" else "bad"
    return tag("strong", name) + tag("span", f"{text(daemon.state)} for {since}", {"class": kind})
