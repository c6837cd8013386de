"""What differs between two versions of a table's schema, as an operator reads it (pure)."""

from __future__ import annotations

from tailrace_schemas.events.envelope import SchemaColumn, TableSchema


def differences(before: TableSchema, after: TableSchema) -> list[str]:
    """One line per column that is not as it was, in the order of the columns.

    Lines begin with ``+`` (new), ``-`` (gone) or ``~`` (another name, type or key). Columns are
    compared by their ids where both are of one capture instance or table, so a rename is shown
    as one.
    """
    old = {column.column_id: column for column in before.columns}
    new = {column.column_id: column for column in after.columns}
    lines = [f"- {_described(old[number])}" for number in old if number not in new]
    for number, column in new.items():
        known = old.get(number)
        if known is None:
            lines.append(f"+ {_described(column)}")
        elif _described(known) != _described(column):
            lines.append(f"~ {_described(known)} -> {_described(column)}")
    return lines


def _described(column: SchemaColumn) -> str:
    key = f" key {column.key_ordinal}" if column.key_ordinal else ""
    as_text = " as text" if column.lossless else ""
    required = " not null" if column.is_required else ""
    return f"{column.name} {column.type}{as_text}{required}{key}"
