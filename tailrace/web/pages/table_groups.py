"""The tables in groups: those that need an operator first, the healthy ones folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tailrace.web.pages.advice import advice
from tailrace.web.pages.html import SLOW_S, moment, seconds, tag, text

if TYPE_CHECKING:
    from tailrace.web.model import Model, Row

STAGES: Final = {"topics": "topics", "log": "lake's log", "lake": "lake's tables"}
_HEALTHY: Final = "healthy"


def groups_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by group, the worst group first, and in each the longest delay first."""
    found: dict[str, list[Row]] = {}
    for name in ("stopped", "behind", "in snapshot", "not followed", _HEALTHY):
        members = [row for row in rows if group_of(row) == name]
        if members:
            found[name] = sorted(members, key=lambda row: (-row.lag_s, row.table.casefold()))
    return found


def group_of(row: Row) -> str:
    """The group that a table is shown in."""
    if row.is_bad:
        return "stopped"
    if row.is_unread:
        return "in snapshot"
    if row.lag_s >= SLOW_S:
        return "behind"
    return _HEALTHY if row.state == "followed" else "not followed"


def table_groups(model: Model) -> str:
    """All tables."""
    stages = [name for name in STAGES if name in model.freshness.stages]
    groups = groups_of(model.rows)
    shown = "".join(_group(name, rows, stages) for name, rows in groups.items())
    count = f"{len(model.rows)} table" + ("" if len(model.rows) == 1 else "s")
    content = tag("h2", count) + tag("div", shown, {"id": "tables", "data-keyed": ""})
    return tag("section", content, {"data-name": "tables"})


def _group(name: str, rows: Sequence[Row], stages: Sequence[str]) -> str:
    head = f"{len(rows)} {name}"
    if name == "stopped":
        cards = "".join(map(_card, rows))
        content = tag("h3", text(head)) + tag("div", cards, {"class": "cards", "data-keyed": ""})
        return tag("section", content, {"class": "group stopped", "data-name": name})
    table = _table(rows, stages, with_state=name != _HEALTHY)
    attributes = {"class": f"group {name.replace(' ', '-')}", "data-name": name}
    if name == _HEALTHY:
        return tag("details", tag("summary", text(head)) + table, attributes)
    return tag("section", tag("h3", text(head)) + table, attributes)


def _card(row: Row) -> str:
    """A stopped table: its reason on one line, whole when it is opened."""
    reason = row.reason or "no reason is reported"
    told = tag("summary", text(reason)) + tag("p", text(reason))
    content = (
        tag("p", f'{_link(row)} <strong class="bad">{text(row.state)}</strong>{actions(row)}')
        + tag("details", told, {"class": "reason"})
        + advice(*row.fix)
        + tag("p", f"newest change {moment(row.newest_ms)}", {"class": "quiet"})
    )
    attributes = {"class": "card", "data-name": row.table.casefold(), "data-table": row.table}
    return tag("article", content, attributes)


def _table(rows: Sequence[Row], stages: Sequence[str], *, with_state: bool) -> str:
    headings = ["table", *(["state"] if with_state else [])]
    headings += [*(f"{STAGES[name]} behind" for name in stages)]
    headings += ["events in 6 h", "newest change", ""]
    head = tag("tr", "".join(tag("th", text(heading)) for heading in headings))
    body = "".join(_row(row, stages, headings, with_state=with_state) for row in rows)
    return (
        '<div class="wide"><table data-keyed=""><thead data-name="">'
        f"{head}</thead>{body}</table></div>"
    )


def _row(row: Row, stages: Sequence[str], headings: Sequence[str], *, with_state: bool) -> str:
    lags = {"topics": row.topic_s, "log": row.log_s, "lake": row.lake_s}
    cells = [
        _link(row),
        *([_state(row)] if with_state else []),
        *(seconds(lags[stage]) for stage in stages),
        str(row.rows),
        moment(row.newest_ms),
        actions(row),
    ]
    # A phone shows each row as a card, where each cell needs its heading.
    labelled = zip(headings, cells, strict=True)
    shown = tag("tr", "".join(tag("td", cell, {"data-label": label}) for label, cell in labelled))
    return tag("tbody", shown, {"data-name": row.table.casefold(), "data-table": row.table})


def _link(row: Row) -> str:
    return f'<a href="table?name={text(quote(row.table))}">{text(row.table)}</a>'


def _state(row: Row) -> str:
    told = text(row.state)
    if row.snapshot_rows is not None:
        known = row.snapshot_estimate
        told += f" {text(row.snapshot_told)}"
        if known:
            told += f' <progress max="{known}" value="{min(row.snapshot_rows, known)}"></progress>'
    return told + (tag("div", text(row.reason), {"class": "quiet"}) if row.reason else "")


def actions(row: Row, summary: str = "&#8943;") -> str:
    """What an operator may ask of a table, in a menu: none of it happens by one click."""
    buttons = "".join(
        f'<button type="button" data-signal="{signal}" data-table="{text(row.table)}">{told}'
        "</button>"
        for signal, told in _actions(row)
    )
    label = f"actions of {row.table}"
    content = tag("summary", summary, {"aria-label": label}) + tag("div", buttons)
    return tag("details", content, {"class": "menu scripts", "data-name": "menu"})


def _actions(row: Row) -> Iterator[tuple[str, str]]:
    yield "snapshot", "new snapshot"
    if row.is_unread:
        yield "pause_snapshot", "pause its snapshot"
        yield "resume_snapshot", "resume its snapshot"
        yield "stop_snapshot", "stop its snapshot"
    if not row.is_bad:
        yield "stop_table", "stop the table"
