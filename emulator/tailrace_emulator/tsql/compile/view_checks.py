"""WITH CHECK OPTION: a row that a view let be changed must still be one of its rows.

https://learn.microsoft.com/sql/t-sql/statements/create-view-transact-sql, "CHECK OPTION"
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.access import chain_of
from tailrace_emulator.tsql.compile.named_targets import resolve_target
from tailrace_emulator.tsql.compile.plan import Execution, Plan, found_rows
from tailrace_emulator.tsql.compile.scope import Scope
from tailrace_emulator.tsql.compile.values import HIDDEN
from tailrace_emulator.tsql.syntax.nodes import TableName

if TYPE_CHECKING:
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.scope import SourceColumn
    from tailrace_emulator.tsql.compile.targets import Target


@dataclass(slots=True)
class ViewCheck:
    """What one statement checks: a plan for each view that it goes through."""

    plans: tuple[Plan, ...] = ()
    row_ids: str = "[]"
    """As JSON, for the plans."""

    def verify(self, execution: Execution, rids: Iterable[int]) -> None:
        """After rows were inserted or updated.

        Raises:
            SqlError: 550 when a view does not show one of them.
        """
        wanted = set(rids)
        if not wanted:
            return
        self.row_ids = json.dumps(list(wanted))
        for plan in self.plans:
            if not wanted <= {row[0] for row in found_rows(execution, plan)}:
                raise messages.error(550)


def view_check(compilation: Compilation, target: Target) -> ViewCheck | None:
    """The checks of a change whose query was compiled; None when no view requires any."""
    if not compilation.checked_views:
        return None
    check = ViewCheck()
    plans = (_plan(compilation, target, check, *view) for view in compilation.checked_views)
    check.plans = tuple(plan for plan in plans if plan is not None)
    return check if check.plans else None


def _plan(
    compilation: Compilation, target: Target, check: ViewCheck, database: Database, module: Module
) -> Plan | None:
    """The rows of a view that are changed rows of a table; None when it does not show the table."""
    from tailrace_emulator.tsql.compile.queries import QueryCompiler

    own = type(compilation)(compilation.context, compilation.workspace, compilation.frame)
    own.access.chain = chain_of(database, module)
    sources = QueryCompiler(own).sources
    sources.exposes_rows = True
    scope = Scope()
    source = sources.source(TableName((database.name, module.schema, module.name), 1), scope)
    slot = own.slot(("changed rows", id(check)), lambda _: check.row_ids)
    texts = [
        f"SELECT {column.sql} FROM {source} WHERE {column.sql} IN (SELECT value FROM"
        f" json_each({slot}))"
        for column in _row_ids(own, target, scope.sources[0].columns)
    ]
    return own.plan(" UNION ALL ".join(texts)) if texts else None


def _row_ids(
    compilation: Compilation, target: Target, columns: list[SourceColumn]
) -> Iterator[SourceColumn]:
    """A view's hidden columns that are row ids of the target."""
    for column in columns:
        if column.name.startswith(HIDDEN) and column.origin is not None:
            found = resolve_target(compilation, column.origin.target)
            if found.table.object_id == target.table.object_id:
                yield column
