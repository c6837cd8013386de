"""TEXTPTR(column), and the row of a source for the statements that follow a pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.catalog.text_pointers import POINTED_TYPES, POINTER, TextPointer
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope, SourceColumn
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.functions.registry import special
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.syntax.nodes import Call, ColumnName
from tailrace_emulator.values.types import BIGINT

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

ROW_OF = "$ROW_OF"
"""Internal: the row id of the table that a column belongs to."""


@sqlite_function("t_textptr", 4)
def _pointer(rid: int, object_id: int, column_id: int, database_id: int) -> bytes:
    return TextPointer(rid, object_id, column_id, database_id).pack()


def _column(node: Call, scope: Scope) -> tuple[SourceColumn, BoundSource]:
    """The column of a stored table that is the argument, and its table.

    Raises:
        SqlError: 280 for anything else.
    """
    (argument,) = node.arguments
    if isinstance(argument, ColumnName):
        found = scope.resolve(argument.parts, node.line)
        inside: Scope | None = scope
        while inside is not None:
            for source in inside.sources:
                if source.stored is not None and any(c is found for c in source.columns):
                    return found, source
            inside = inside.parent
    raise messages.error(280, line=node.line)


@special("TEXTPTR", 1)
def _textptr(_: Expressions, node: Call, scope: Scope) -> Value:
    column, source = _column(node, scope)
    if column.type is None or column.type.name not in POINTED_TYPES:
        shown = column.type.name if column.type is not None else "computed"
        raise messages.error(8116, shown, 1, "textptr", line=node.line)
    value = column.value()  # checks that it may be read
    if source.stored is None:
        raise not_supported("TEXTPTR of a column that is not a stored table's")
    database_id, object_id = source.stored
    column_id = value.sql.rpartition(".c")[2]
    pointer = f"t_textptr({source.key}.rid, {object_id}, {column_id}, {database_id})"
    return Value(f"CASE WHEN {value.sql} IS NOT NULL THEN {pointer} END", POINTER)


@special(ROW_OF, 1)
def _row_of(_: Expressions, node: Call, scope: Scope) -> Value:
    return Value(f"{_column(node, scope)[1].key}.rid", BIGINT)
