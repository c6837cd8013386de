"""What ``tailrace explain`` found, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tailrace.explain.row import Explanation
from tailrace.reading.change_rows import ChangeRow
from tailrace.reading.event_text import fields_text, json_value
from tailrace.reading.terminal import shown, shown_json
from tailrace_schemas.position.change_position import Operation

_WORDS = {
    Operation.DELETE: "delete",
    Operation.INSERT: "insert",
    Operation.UPDATE_AFTER: "update",
}


def explanation_lines(found: Explanation, *, has_lake: bool) -> Iterator[str]:
    """The stages of the way, each with what it holds of the row.

    Args:
        has_lake: whether a lake is configured.
    """
    yield f"{shown(f'{found.table.schema}.{found.table.table}')} {fields_text(found.key)}".rstrip()
    if found.key:
        yield f"source now: {_row(found.now, 'no such row that the login sees')}"
    if not found.changes:
        yield "changes:    none that the change tables still hold"
    for change in found.changes:
        position = change.position
        yield (
            f"change:     {position.commit_lsn} {_WORDS.get(change.position.operation, '?')}"
            f" in {shown(change.instance)}: {fields_text(change.values)}"
        )
        yield f"  event:    {_event(found, change)}"
        if has_lake:
            yield f"  lake:     {_cut(found, change)}"
    if not (has_lake and found.key):
        return
    if found.lake_problem is not None:
        yield f"lake now:   {found.lake_problem}"
    else:
        yield f"lake now:   {_row(found.lake, 'no such row')}"


def _row(row: Mapping[str, Any] | None, none: str) -> str:
    return none if row is None else fields_text(row)


def _event(found: Explanation, change: ChangeRow) -> str:
    event = found.events.get(change.position)
    if event is None:
        return "none: not published yet, older than the table's snapshot, or removed by retention"
    return f"{event.topic}[{event.partition}] offset {event.offset}, schema id {event.schema_id}"


def _cut(found: Explanation, change: ChangeRow) -> str:
    cut = found.cuts.get(change.position.commit_lsn)
    if cut is None:
        return "in no cut of the tables yet"
    at = cut.committed_at.isoformat(timespec="milliseconds")
    return f"in the cut {cut.closed_lsn} (batch {cut.batch}), readable since {at}"


def explanation_json(found: Explanation, *, has_lake: bool) -> str:
    """The same as one JSON object."""
    changes = []
    for change in found.changes:
        event = found.events.get(change.position)
        cut = found.cuts.get(change.position.commit_lsn)
        entry: dict[str, Any] = {
            "commit_lsn": str(change.position.commit_lsn),
            "command_id": change.position.command_id,
            "change_lsn": str(change.position.seqval),
            "operation": _WORDS.get(change.position.operation, "?"),
            "capture_instance": change.instance,
            "values": change.values,
            "event": None
            if event is None
            else {
                "topic": event.topic,
                "partition": event.partition,
                "offset": event.offset,
                "schema_id": event.schema_id,
            },
        }
        if has_lake:
            entry["cut"] = (
                None
                if cut is None
                else {
                    "closed_lsn": cut.closed_lsn,
                    "batch": cut.batch,
                    "committed_at": cut.committed_at,
                }
            )
        changes.append(entry)
    answer: dict[str, Any] = {
        "table": f"{found.table.schema}.{found.table.table}",
        **({"key": found.key, "now": found.now} if found.key else {}),
        "changes": changes,
    }
    if has_lake and found.key:
        answer |= {"lake": found.lake, "lake_problem": found.lake_problem}
    return shown_json(json.dumps(answer, default=json_value, indent=2, ensure_ascii=False))
