"""What differs between two versions of a table's schema, as an operator reads it (pure)."""

from __future__ import annotations

from tailrace_schemas.events.envelope import SchemaColumn, TableSchema


def differences(before: TableSchema, after: TableSchema) -> list[str]:
    """One line per column that is not as it was, in the order of the columns.

    Lines begin with ``+`` (new), ``-`` (gone) or ``~`` (another name, type or key). Columns are
    compared by their ids where both are of one capture instance or table, so a renamed one is told
    as such.
    """
    old = {column.column_id: column for column in before.columns}
    new = {column.column_id: column for column in after.columns}
    lines = [f"- {_told(old[number])}" for number in old if number not in new]
    for number, column in new.items():
        known = old.get(number)
        if known is None:
            lines.append(f"+ {_told(column)}")
        elif _told(known) != _told(column):
            lines.append(f"~ {_told(known)} -> {_told(column)}")
    return lines


def _told(column: SchemaColumn) -> str:
    key = f" key {column.key_ordinal}" if column.key_ordinal else ""
    as_text = " as text" if column.lossless else ""
    required = " not null" if column.is_required else ""
    return f"{column.name} {column.type}{as_text}{required}{key}"
