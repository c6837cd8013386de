"""Compiled text of a trigger's own statements: inserted, deleted and UPDATE(column)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.tsql.compile.firing import Row
from tailrace_emulator.tsql.syntax.nodes import Call, ColumnName
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.compile.plan import Execution


@dataclass(frozen=True, slots=True)
class PseudoTableHole:
    """inserted or deleted, of the trigger that the statement belongs to."""

    name: str
    columns: tuple[str, ...]

    def text(self, execution: Execution) -> str:
        """See :class:`tailrace_emulator.tsql.compile.plan.Hole`."""
        firing = execution.frame.trigger
        rows: Sequence[Row] = ()
        if firing is not None:
            rows = firing.inserted if self.name == "inserted" else firing.deleted
        shown = ", ".join(f"v{n} AS {column}" for n, column in enumerate(self.columns))
        return f"(SELECT {shown} FROM {execution.rows(rows)} LIMIT -1)"


def updates_column(compilation: Compilation, node: Call) -> str:
    """The condition ``UPDATE(column)``.

    Raises:
        SqlError: 156 outside of a trigger, 207 for a column that the table has not.
    """
    firing = compilation.frame.trigger
    if firing is None:
        raise messages.keyword_syntax("UPDATE", node.line)
    argument = node.arguments[0] if len(node.arguments) == 1 else None
    if not isinstance(argument, ColumnName):
        raise messages.syntax("(", node.line)
    column = firing.table.column(argument.parts[-1])
    if column is None:
        raise messages.invalid_column(argument.parts[-1], node.line)
    column_id = column.column_id

    def read(execution: Execution) -> StorageValue:
        known = execution.frame.trigger
        return int(known is not None and known.updates(column_id))

    return compilation.slot(("update", column_id), read)
