"""The page of one table: its state, its schema's versions with what changed, its rows explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tailrace.web.html import DASH, lsn, seconds, tag, text

if TYPE_CHECKING:
    from tailrace.versions import Version
    from tailrace.web.model import Row


def table_page(
    name: str,
    row: Row | None,
    versions: Sequence[Version],
    *,
    key: str = "",
    explained: str | None = None,
    problems: Sequence[str] = (),
) -> str:
    """What stands in the page's main part.

    Args:
        name: of the table.
        row: what is known of it; None where nothing is.
        versions: of its schema.
        key: that was asked for.
        explained: what was found of that row, as lines; None where none was asked for.
        problems: what could not be asked.
    """
    parts = [tag("h1", text(name))]
    parts += [tag("p", text(problem), {"class": "bad"}) for problem in problems]
    if row is not None:
        parts.append(_state(row))
    parts.append(_explorer(name, key, explained))
    parts.append(_versions(versions))
    return "".join(parts)


def _state(row: Row) -> str:
    facts = {
        "state": text(row.state),
        "reason": text(row.reason) if row.reason else "",
        "newest change": lsn(row.newest_lsn),
        "topics behind": seconds(row.topic_s),
        "lake's log behind": seconds(row.log_s),
        "lake's table behind": seconds(row.lake_s),
        "schema from": lsn(row.schema_lsn),
        "snapshot": text(row.snapshot_told),
    }
    told = "".join(tag("dt", name) + tag("dd", value) for name, value in facts.items() if value)
    button = f'<p><button type="button" data-snapshot="{text(row.table)}" hidden>snapshot</button>'
    command = f"<noscript>tailrace snapshot '{text(row.table)}'</noscript></p>"
    return tag("dl", told) + button + command


def _explorer(name: str, key: str, explained: str | None) -> str:
    form = (
        f'<form method="get" action="/table"><input type="hidden" name="name" value="{text(name)}">'
        f'<label>Key <input name="key" value="{text(key)}" required autocomplete="off"></label>'
        " <button>explain</button></form>"
        '<p class="quiet">Of several columns a JSON object or array. The source, its change tables,'
        " the topic and the lake are asked for this row.</p>"
    )
    answer = "" if explained is None else tag("pre", text(explained))
    return tag("section", tag("h2", "A row, from source to lake") + form + answer)


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
