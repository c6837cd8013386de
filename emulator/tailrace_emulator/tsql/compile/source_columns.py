"""The columns that a source in FROM shows: their names, and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.scope import BoundSource, SourceColumn
from tailrace_emulator.tsql.compile.values import HIDDEN, Value, View
from tailrace_emulator.tsql.syntax.nodes import TableName
from tailrace_emulator.values.results import ColumnMeta


def seen_through(value: Value, view: View, *, is_elsewhere: bool) -> Value:
    """A column of a view, which knows that it is one.

    Args:
        view: the view and its database.
        is_elsewhere: whether that is another database than the one that names the view: its table
            is named with its database then.
    """
    origin = value.origin
    if origin is None:
        return value
    target = origin.target
    if is_elsewhere and isinstance(target, TableName) and len(target.name) < 3:
        name = (view[0].name, *("",) * (2 - len(target.name)), *target.name)
        target = replace(target, name=name)
    return replace(value, origin=replace(origin, target=target, views=(view, *origin.views)))


def make_nullable(sources: Sequence[BoundSource]) -> None:
    """The side of an outer join that may find no row."""
    for source in sources:
        for column in source.columns:
            column.nullable = True
            if column.make is not None:
                column.make = partial(_of_found_row, column.make, source.key)


def _of_found_row(make: Callable[[], Value], key: str) -> Value:
    """A computed column of a row that may not be there: it is NULL, and is not computed then."""
    made = make()
    return replace(made, sql=f"CASE WHEN {key}.rid IS NOT NULL THEN {made.sql} END")


def meta_columns(columns: Sequence[ColumnMeta], key: str) -> list[SourceColumn]:
    """Columns of a system view or catalog function."""
    return [SourceColumn(c.name, c.type, c.nullable, f"{key}.v{n}") for n, c in enumerate(columns)]


def renamed_columns(columns: list[SourceColumn], names: Sequence[str]) -> list[SourceColumn]:
    """``f() AS x(a, b)``."""
    for column, name in zip(columns, names, strict=False):
        column.name = name
    return columns


def named_columns(columns: list[Value], names: Sequence[str], alias: str) -> list[SourceColumn]:
    """Columns of a subquery; each needs a name.

    Raises:
        SqlError: 8155 for a column without one, 8158 or 8159 for a wrong number of names.
    """
    shown = sum(not column.name.startswith(HIDDEN) for column in columns)
    if names and len(names) != shown:
        raise messages.error(8158 if shown > len(names) else 8159, alias)
    bound = []
    for position, column in enumerate(columns):
        name = names[position] if position < len(names) else column.name
        if not name:
            raise messages.error(8155, position + 1, alias)
        bound.append(
            SourceColumn(
                name,
                column.type,
                column.nullable,
                column.sql,
                column.identity,
                column.computed,
                origin=column.origin,
                mask=column.mask,
            )
        )
    return bound
