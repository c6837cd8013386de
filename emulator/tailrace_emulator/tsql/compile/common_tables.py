"""Parts of compiling common table expressions."""

from __future__ import annotations

from dataclasses import replace

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.values import HIDDEN, Value
from tailrace_emulator.tsql.syntax.nodes import CommonTable, Join, Source, TableName


def mentions_table(node: object, name: str) -> bool:
    """Whether a tree reads a table of that unqualified name."""
    if isinstance(node, TableName):
        return len(node.name) == 1 and node.name[0].casefold() == name.casefold()
    if isinstance(node, tuple):
        return any(mentions_table(item, name) for item in node)
    slots = [slot for kind in type(node).__mro__ for slot in getattr(kind, "__slots__", ())]
    return any(mentions_table(getattr(node, slot), name) for slot in slots)


def matched_columns(step: list[Value], anchor: list[Value], name: str) -> list[str]:
    """SQLite texts of a recursive member's columns, whose types must be the anchor's.

    Raises:
        SqlError: 205 for another number of columns, 240 for another type.
    """
    if len(step) != len(anchor):
        raise messages.error(205)
    texts = []
    for value, column in zip(step, anchor, strict=True):
        if (
            not value.is_null
            and replace(value.type, collation=column.type.collation) != column.type
        ):
            raise messages.error(240, column.name, name)
        texts.append(value.sql)
    return texts


def renamed_values(columns: list[Value], table: CommonTable) -> list[Value]:
    """Columns of a CTE under its own names.

    Raises:
        SqlError: 8158, 8159 for a wrong number of names.
    """
    if not table.column_names:
        return columns
    shown = sum(not column.name.startswith(HIDDEN) for column in columns)
    if len(table.column_names) != shown:
        more = shown > len(table.column_names)
        raise messages.error(8158 if more else 8159, table.name)
    named = zip(columns, table.column_names, strict=False)
    return [replace(c, name=n) for c, n in named] + columns[shown:]


def table_names(node: Source) -> list[str]:
    """The unqualified names of tables in FROM."""
    if isinstance(node, Join):
        return table_names(node.left) + table_names(node.right)
    return [node.name[0]] if isinstance(node, TableName) and len(node.name) == 1 else []
