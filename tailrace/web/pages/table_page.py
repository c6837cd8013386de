"""The page of one table: its state, its schema's versions with what changed, its rows explained."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.web.pages.advice import advice
from tailrace.web.pages.html import DASH, lsn, moment, seconds, tag, text
from tailrace.web.pages.runbooks_page import runbook_link
from tailrace.web.pages.table_groups import STAGES, actions

if TYPE_CHECKING:
    from tailrace.reading.schema_versions import Version
    from tailrace.verify.verified import VerifiedTable
    from tailrace.web.browsing import Browsed
    from tailrace.web.model import Row


@dataclass(frozen=True, slots=True)
class Explorer:
    """What was asked of a table's rows.

    Attributes:
        key: of a row; empty where none was asked for.
        at: LSN or time of a commit; empty where none was asked for.
        answer: what was found, as lines; None where nothing was asked.
        since: time from which events are shown; empty for the newest.
        of: key of the row whose events are shown; empty for all.
        browsed: the events; None if none are asked for.
    """

    table: str
    key: str = ""
    at: str = ""
    answer: str | None = None
    since: str = ""
    of: str = ""
    browsed: Browsed | None = None


def table_page(
    explorer: Explorer,
    row: Row | None,
    versions: Sequence[Version],
    *,
    verified: VerifiedTable | None = None,
    problems: Sequence[str] = (),
    stages: Collection[str] = (),
) -> str:
    """Return the page's main part.

    Args:
        explorer: the table, and what was asked of its rows.
        row: what is known of it; None where nothing is.
        verified: what tailrace verify --continuous found of it.
        problems: what could not be asked.
        stages: those that are configured.
    """
    parts = [tag("h1", text(explorer.table))]
    parts += [tag("p", text(problem), {"class": "bad"}) for problem in problems]
    if row is not None:
        parts.append(_state(row, stages, verified))
    parts.append(_events(explorer))
    parts.append(_explorer(explorer))
    parts.append(_versions(versions))
    return "".join(parts)


def _state(row: Row, stages: Collection[str], verified: VerifiedTable | None) -> str:
    lags = {"topics": row.topic_s, "log": row.log_s, "lake": row.lake_s}
    facts = {
        "state": text(row.state),
        "reason": text(row.reason) if row.reason else "",
        "newest change": f"{moment(row.newest_ms)} {lsn(row.newest_lsn)}",
        **{f"{STAGES[name]} behind": seconds(lags[name]) for name in STAGES if name in stages},
        "schema from": lsn(row.schema_lsn),
        "snapshot": text(row.snapshot_told),
        "verified": "" if verified is None else _verified(verified),
    }
    told = "".join(tag("dt", name) + tag("dd", value) for name, value in facts.items() if value)
    command = f"<noscript><p>tailrace snapshot '{text(row.table)}'</p></noscript>"
    fix = advice(*row.fix) if row.is_bad else ""
    return tag("dl", told) + fix + actions(row, "Actions") + command


def _verified(table: VerifiedTable) -> str:
    if table.differing:
        told = f"{table.differing:,} rows differ from the source"
        return tag("strong", told, {"class": "bad"}) + f" {runbook_link('LakeDiffers')}"
    if table.lsn is None:
        return "not all rows yet"
    return f"every row is as in the source, since {moment(table.oldest_ms)} {lsn(table.lsn)}"


def _events(explorer: Explorer) -> str:
    form = (
        '<form method="get" action="table">'
        f'<input type="hidden" name="name" value="{text(explorer.table)}">'
        f'<label>Key <input name="of" value="{text(explorer.of)}" autocomplete="off"></label>'
        f' <label>Published since <input name="since" value="{text(explorer.since)}"'
        ' placeholder="ISO 8601, UTC" size="24" autocomplete="off"></label>'
        " <button>show events</button></form>"
        '<p class="quiet">No key: of all rows. No time: the newest. &ldquo;read&rdquo; is a row of'
        " a snapshot.</p>"
    )
    if explorer.browsed is not None:
        form += tag("pre", text("\n".join(explorer.browsed.lines) or "no events"))
        form += tag("p", text(explorer.browsed.searched), {"class": "quiet"})
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
