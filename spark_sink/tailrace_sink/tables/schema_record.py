"""Record of the changes of a lake table's columns, for the commit row of their batch. Pure.

The record is a property of the table, set by the statement that settles its columns. So a batch
that is finished by another process finds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tailrace_schemas.events.envelope import TableSchema
from tailrace_sink.tables.column_identity import Identity, source_id
from tailrace_sink.tables.lake_table import LakeColumn

SCHEMA_RECORD_PROPERTY: Final = "tailrace.schemaChanges"
"""Property with the changes of the last batch that changed the table's columns."""

Change = dict[str, Any]


def column_changes(
    before: Mapping[str, Identity], after: Mapping[str, Identity], dropped: Iterable[int]
) -> list[Change]:
    """List the differences of two sets of columns.

    Args:
        before: the settled columns by name.
        after: the same after the statements.
        dropped: ids of the columns that the source lost in between.
    """
    old = {identity.column_id: (name, identity) for name, identity in before.items()}
    new = {identity.column_id: (name, identity) for name, identity in after.items()}
    found: list[Change] = []
    for column_id, (name, identity) in new.items():
        if column_id < 0 and column_id not in old:
            known = old.get(source_id(column_id))
            was = None if known is None else known[0]
            found.append(_change("retired", name, was, identity.sql_type))
        elif column_id not in old:
            found.append(_change("added", name, None, identity.sql_type))
        else:
            old_name, old_identity = old[column_id]
            if old_name != name:
                found.append(_change("renamed", name, old_name, name))
            if old_identity.sql_type != identity.sql_type:
                old_type = old_identity.sql_type
                found.append(_change("retyped", name, old_type, identity.sql_type))
    names = {column_id: name for column_id, (name, _) in new.items()}
    found += [_change("dropped", names[column_id], None, None) for column_id in sorted(dropped)]
    return found


def replaced(reason: str) -> Change:
    """Describe the replacement of a whole table by an empty one."""
    return _change("replaced", "", None, reason)


def whole(column: str, lsn: str) -> Change:
    """Describe that all rows have a column's value from an LSN on: a patch of it ended."""
    return _change("whole", column, None, lsn)


def not_followed(columns: Mapping[int, LakeColumn], version: TableSchema) -> list[Change]:
    """List what a table that keeps its columns does not take from a version."""
    found = []
    for column in version.columns:
        known = columns.get(column.column_id)
        if known is None:
            found.append(_change("ignored", column.name, None, str(column.type)))
        elif known.name != column.name:
            found.append(_change("ignored", known.name, None, column.name))
    return found


def _change(change: str, column: str, was: str | None, becomes: str | None) -> Change:
    return {"change": change, "column": column, "was": was, "becomes": becomes}


def record_text(batch: int, known: str, changes: Iterable[Change]) -> str:
    """Format the property after further changes.

    Args:
        batch: id of the batch that needs the changes.
        known: the present property; the changes of the same batch are retained.
    """
    earlier = record_of(known, batch)
    return json.dumps({"batch": batch, "changes": [*earlier, *changes]}, ensure_ascii=False)


def record_batch(text: str) -> int:
    """Return the id of the batch in the property; 0 without one."""
    return int(json.loads(text)["batch"]) if text else 0


def record_of(text: str, batch: int) -> list[Change]:
    """Read the changes of one batch from the property."""
    if not text:
        return []
    found = json.loads(text)
    return list(found["changes"]) if found["batch"] == batch else []
