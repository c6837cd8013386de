"""Parts of FROM that each execution fills: system views and functions of the catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.functions import TableFunction, table_function
from tailrace_emulator.catalog.views import SystemView
from tailrace_emulator.catalog.visibility import visible_rows
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.functions.operators import pack
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.tsql.compile.values import Value
    from tailrace_emulator.tsql.compile.workspace import Workspace


_SOURCE_COLUMN: Final = re.compile(r"\bs\d+\.")


@dataclass(frozen=True, slots=True)
class ViewHole:
    """A system view: its rows, built again by each execution."""

    view: SystemView
    database: Database

    def text(self, execution: Execution) -> str:
        """See :class:`tailrace_emulator.tsql.compile.plan.Hole`."""
        rows = visible_rows(execution.context, self.database, self.view)
        return _materialised(execution, rows, len(self.view.columns))


@dataclass(frozen=True, slots=True)
class FunctionHole:
    """A table function of the catalog, bound when its arguments are known."""

    function: TableFunction
    database: Database
    arguments: Callable[[Execution], tuple[StorageValue, ...]]

    def text(self, execution: Execution) -> str:
        """See :class:`tailrace_emulator.tsql.compile.plan.Hole`."""
        context = execution.context
        if self.database is not context.database:
            context = replace(context, database=self.database)
        found = self.function.bind(context, self.arguments(execution))
        if found.sql is None:
            return _materialised(execution, found.rows, len(self.function.columns))
        pieces = found.sql.split("?")
        text = pieces[0]
        for piece, value in zip(pieces[1:], found.bindings, strict=True):
            text += execution.bind(value) + piece
        return f"({text})"


def reads_columns(values: Sequence[Value]) -> bool:
    """Whether arguments may name columns of sources, so that they are known row by row only."""
    return any(_SOURCE_COLUMN.search(value.sql) for value in values)


def rows_call(
    workspace: Workspace, database: Database, schema: str, name: str
) -> Callable[..., StorageValue]:
    """A function that gives the rows of a table function of the catalog as JSON, for t_unpack.

    For arguments from the tables to the left of APPLY.
    """

    def call(*arguments: StorageValue) -> StorageValue:
        context = workspace.context
        if database is not context.database:
            context = replace(context, database=database)
        function = known(table_function(context, database, schema, name), "function of a plan")
        found = function.bind(context, arguments)
        rows: Sequence[Sequence[StorageValue]] = found.rows
        if found.sql is not None:
            rows = workspace.connection.execute(found.sql, found.bindings).fetchall()
        width = len(function.columns)
        return json.dumps([[pack(value) for value in row[:width]] for row in rows])

    return call


def _materialised(execution: Execution, rows: Sequence[Sequence[StorageValue]], width: int) -> str:
    """Rows as a subquery; LIMIT makes SQLite keep it as a table that it may index for a join."""
    columns = ", ".join(f"v{n}" for n in range(width))
    return f"(SELECT {columns} FROM {execution.rows(rows)} LIMIT -1)"
