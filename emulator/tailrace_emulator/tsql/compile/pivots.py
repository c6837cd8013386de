"""PIVOT and UNPIVOT as the queries that they stand for.

https://learn.microsoft.com/sql/t-sql/queries/from-using-pivot-and-unpivot
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile.scope import SourceColumn
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    Case,
    Cast,
    ColumnName,
    Comparison,
    Derived,
    IsNull,
    Join,
    Literal,
    Pivot,
    Query,
    Select,
    SelectItem,
    Star,
    Unpivot,
    ValueRows,
)
from tailrace_emulator.values.types import MAX, SYSNAME, SqlType, nvarchar

_UNPIVOTED = "unpivoted"


def pivot_query(node: Pivot, columns: Sequence[SourceColumn]) -> Derived:
    """One aggregate per value, grouped by every column that the PIVOT does not name.

    Raises:
        SqlError: 207 for an unknown column, 195 for an aggregate of several or no columns.
    """
    call = node.aggregate
    argument = call.arguments[0] if len(call.arguments) == 1 else None
    if not isinstance(argument, ColumnName):
        raise messages.syntax("*" if isinstance(argument, Star) else call.name[-1], call.line)
    used = {_known(name, columns).casefold() for name in (argument, node.column)}
    groups = tuple(
        ColumnName((column.name,), call.line)
        for column in columns
        if column.name.casefold() not in used
    )
    items = [SelectItem(group) for group in groups]
    by_name = {column.name.casefold(): column for column in columns}
    pivoted = by_name[node.column.parts[-1].casefold()]
    sql_type = pivoted.type or SYSNAME
    for value in node.values:
        constant = Cast("CAST", Literal(nvarchar(max(len(value), 1)), value), _wide(sql_type))
        chosen = Case(None, ((Comparison("=", node.column, constant), argument),), None)
        items.append(SelectItem(Call(call.name, (chosen,), call.line, warns=False), alias=value))
    body = Select(tuple(items), call.line, source=node.source, group_by=groups)
    return Derived(Query(body), node.alias)


def _wide(sql_type: SqlType) -> SqlType:
    """Text is compared at full length."""
    if sql_type.is_character and sql_type.name != "xml":
        return SqlType("nvarchar", length=MAX, collation=sql_type.collation)
    return sql_type


def _known(name: ColumnName, columns: Sequence[SourceColumn]) -> str:
    folded = name.parts[-1].casefold()
    if all(column.name.casefold() != folded for column in columns):
        raise messages.invalid_column(name.parts[-1], name.line)
    return name.parts[-1]


def unpivot_query(node: Unpivot, columns: Sequence[SourceColumn]) -> Derived:
    """A row per column that is not NULL.

    Raises:
        SqlError: 207 for an unknown column, 8167 when the columns differ in type, 265 when a new
            name is one of the source's.
    """
    by_name = {column.name.casefold(): column for column in columns}
    chosen = []
    for name in node.columns:
        found = by_name.get(name.casefold())
        if found is None:
            raise messages.invalid_column(name, 1)
        chosen.append(found)
    for column in chosen[1:]:
        if column.type != chosen[0].type:
            raise _type_conflict(column.name)
    folded = {name.casefold() for name in node.columns}
    rest = [column for column in columns if column.name.casefold() not in folded]
    for name in (node.value, node.name):
        if any(column.name.casefold() == name.casefold() for column in rest):
            raise messages.error(265, name, "UNPIVOT", "UNPIVOT")
    items = [SelectItem(ColumnName((column.name,), 1)) for column in rest]
    value, label = ColumnName((_UNPIVOTED, node.value), 1), ColumnName((_UNPIVOTED, node.name), 1)
    items += [SelectItem(value), SelectItem(label)]
    rows = tuple(
        (ColumnName((column.name,), 1), Cast("CAST", Literal(SYSNAME, column.name), SYSNAME))
        for column in chosen
    )
    pairs = Derived(Query(ValueRows(rows, 1)), _UNPIVOTED, (node.value, node.name))
    source = Join("CROSS APPLY", node.source, pairs)
    body = Select(tuple(items), 1, source=source, where=IsNull(value, negated=True))
    return Derived(Query(body), node.alias)


def _type_conflict(name: str) -> SqlError:
    """8167."""
    return messages.error(8167, name)
