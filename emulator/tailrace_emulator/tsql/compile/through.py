"""Changing rows through a view, common table expression or subquery.

Such a query shows, as hidden columns, the row ids of the tables that it reads. Each of its columns
knows the table's column that it is. The change itself joins the table by row id.

https://learn.microsoft.com/sql/t-sql/statements/create-view-transact-sql, "Updatable views"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import is_local_temporary
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.names import base_object
from tailrace_emulator.tsql.compile.scope import BoundSource
from tailrace_emulator.tsql.compile.values import HIDDEN, Origin, Views
from tailrace_emulator.tsql.functions.aggregates import contains_aggregate
from tailrace_emulator.tsql.syntax.nodes import Name, Select, TableName, VariableTable

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.syntax.statements import Assignment, Insert


def is_updatable(select: Select) -> bool:
    """Whether each row of a SELECT is one row of each of its tables."""
    return not (
        select.distinct
        or select.group_by
        or select.grouping_sets
        or select.having is not None
        or select.source is None
        or any(contains_aggregate(item.expression) for item in select.items)
    )


@dataclass(frozen=True, slots=True)
class Through:
    """The table below a query that a statement changes.

    Attributes:
        target: the table, as the query names it.
        rid: SQLite text of the row id.
        names: the table's column by the query's column, casefolded.
        views: through which the table is reached, the outermost first.
    """

    target: TableName | VariableTable
    rid: str
    names: dict[str, str]
    views: Views = ()

    @property
    def renames(self) -> bool:
        """Whether a column has another name in the query."""
        return any(shown != own.casefold() for shown, own in self.names.items())


def find_view(compilation: Compilation, node: TableName | VariableTable) -> bool:
    """Whether a statement's target is a view."""
    if isinstance(node, VariableTable) or is_local_temporary(node.name[-1]):
        return False
    where = base_object(compilation.context, node.name, node.line)
    module = where.database.module(where.schema, where.name)
    return module is not None and module.type == "V"


def behind(source: BoundSource, shown: str, columns: Sequence[str]) -> Through:
    """The table that a change of some columns (of none: a DELETE) goes to.

    Args:
        shown: its name, for messages.
        columns: names of the columns that are assigned.

    Raises:
        SqlError: 207 unknown column, 4405 several tables, 4406 a derived column, 4403 a query whose
            rows are not rows of a table.
    """
    hidden = [column for column in source.columns if column.name.startswith(HIDDEN)]
    if not hidden:
        raise messages.error(4403, shown)
    rids = {column.name for column in hidden}
    if columns:
        rids = {_origin(source, shown, name).rid for name in columns}
    if len(rids) > 1:
        raise messages.error(4405, shown)
    (rid,) = rids
    carrier = next(column for column in hidden if column.name == rid)
    origins = [(c.name, c.origin) for c in source.columns if c.origin and c.origin.column]
    names = {name.casefold(): o.column for name, o in origins if o.rid == rid}
    if carrier.origin is None:
        raise not_supported(f"changing rows through {shown}")
    return Through(carrier.origin.target, carrier.sql, names, carrier.origin.views)


def _origin(source: BoundSource, shown: str, name: str) -> Origin:
    """Where an assigned column comes from."""
    column = source.find(name)
    if column is None:
        raise messages.invalid_column(name, 1)
    if column.origin is None:
        raise derived_column(shown)
    return column.origin


def derived_column(shown: str) -> SqlError:
    """4406."""
    return messages.error(4406, shown)


def renamed(through: Through, assignments: Sequence[Assignment]) -> tuple[Assignment, ...]:
    """Assignments to the query's columns as assignments to the table's."""
    return tuple(
        replace(node, column=(through.names[node.column[-1].casefold()],))
        if node.column is not None
        else node
        for node in assignments
    )


def inserted_through(
    node: Insert, name: Name, source: BoundSource
) -> tuple[Through, tuple[str, ...]]:
    """The table below a view, and its columns that an INSERT into the view means.

    Raises:
        SqlError: the same as :func:`behind`.
    """
    visible = [c.name for c in source.columns if not c.name.startswith(HIDDEN)]
    given = node.columns or tuple(visible)
    through = behind(source, messages.dotted(name), given)
    return through, tuple(through.names[column.casefold()] for column in given)
