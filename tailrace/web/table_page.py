"""The page of one table: its state, its schema's versions with what changed, its rows explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.web.html import DASH, lsn, moment, seconds, tag, text
from tailrace.web.table_groups import actions

if TYPE_CHECKING:
    from tailrace.reading.schema_versions import Version
    from tailrace.web.model import Row


@dataclass(frozen=True, slots=True)
class Explorer:
    """What was asked of a table's rows.

    Attributes:
        key: of a row; empty where none was asked for.
        at: LSN or time of a commit; empty where none was asked for.
        answer: what was found, as lines; None where nothing was asked.
        since: time from which events are shown; empty for the newest; None if none are asked for.
        events: a line each, or what kept them from being read.
    """

    table: str
    key: str = ""
    at: str = ""
    answer: str | None = None
    since: str | None = None
    events: tuple[str, ...] = ()


def table_page(
    explorer: Explorer,
    row: Row | None,
    versions: Sequence[Version],
    *,
    problems: Sequence[str] = (),
) -> str:
    """Return the page's main part.

    Args:
        explorer: the table, and what was asked of its rows.
        row: what is known of it; None where nothing is.
        problems: what could not be asked.
    """
    parts = [tag("h1", text(explorer.table))]
    parts += [tag("p", text(problem), {"class": "bad"}) for problem in problems]
    if row is not None:
        parts.append(_state(row))
    parts.append(_events(explorer))
    parts.append(_explorer(explorer))
    parts.append(_versions(versions))
    return "".join(parts)


def _state(row: Row) -> str:
    facts = {
        "state": text(row.state),
        "reason": text(row.reason) if row.reason else "",
        "newest change": f"{moment(row.newest_ms)} {lsn(row.newest_lsn)}",
        "topics behind": seconds(row.topic_s),
        "lake's log behind": seconds(row.log_s),
        "lake's table behind": seconds(row.lake_s),
        "schema from": lsn(row.schema_lsn),
        "snapshot": text(row.snapshot_told),
    }
    told = "".join(tag("dt", name) + tag("dd", value) for name, value in facts.items() if value)
    command = f"<noscript><p>tailrace snapshot '{text(row.table)}'</p></noscript>"
    return tag("dl", told) + actions(row, "Actions") + command


def _events(explorer: Explorer) -> str:
    form = (
        '<form method="get" action="table">'
        f'<input type="hidden" name="name" value="{text(explorer.table)}">'
        f'<label>Published since <input name="since" value="{text(explorer.since or "")}"'
        ' placeholder="ISO 8601, UTC" size="24" autocomplete="off"></label>'
        " <button>show events</button></form>"
        '<p class="quiet">No time: the newest. &ldquo;read&rdquo; is a row of a snapshot.</p>'
    )
    if explorer.since is not None:
        form += tag("pre", text("\n".join(explorer.events) or "no events"))
    return tag("section", tag("h2", "Events in the topic, newest first") + form)


def _explorer(explorer: Explorer) -> str:
    asked = (("Key", "key", explorer.key), ("LSN or time", "at", explorer.at))
    forms = "".join(
        '<form method="get" action="table">'
        f'<input type="hidden" name="name" value="{text(explorer.table)}">'
        f'<label>{label} <input name="{name}" value="{text(value)}" required autocomplete="off">'
        "</label> <button>explain</button></form>"
        for label, name, value in asked
    )
    told = (
        '<p class="quiet">A key of several columns is a JSON object or array; the source, its'
        " change tables, the topic and the lake are asked for the row. Of an LSN or a time (ISO"
        " 8601, UTC without offset): what the first commit at or after it did to the table.</p>"
    )
    answer = "" if explorer.answer is None else tag("pre", text(explorer.answer))
    head = tag("h2", "A row or a commit, from source to lake")
    return tag("section", head + forms + told + answer)


def _versions(versions: Sequence[Version]) -> str:
    told = "".join(
        tag(
            "li",
            f"from {lsn(str(version.schema.schema_lsn))} on,"
            f" capture instance {text(version.schema.capture_instance)}, id {version.schema_id}"
            + tag("ul", "".join(tag("li", text(change)) for change in version.changes))
            + ("" if version.ddl is None else tag("pre", text(version.ddl))),
        )
        for version in reversed(versions)
    )
    return tag("section", tag("h2", "Schema, newest first") + (tag("ol", told) if told else DASH))
