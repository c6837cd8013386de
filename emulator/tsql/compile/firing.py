"""What a trigger sees of the statement that fired it: inserted, deleted, and which columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from emulator import messages
from emulator.storage.model import Column
from emulator.tsql.syntax.nodes import Call, ColumnName
from emulator.types import StorageValue

if TYPE_CHECKING:
    from emulator.storage.model import Table
    from emulator.tsql.compile.compiler import Compilation
    from emulator.tsql.compile.plan import Execution

PSEUDO_TABLES: Final = frozenset({"inserted", "deleted"})

Row = tuple[StorageValue, ...]


@dataclass(frozen=True, slots=True)
class Firing:
    """One action of one statement on a table.

    Attributes:
        table: the table as it is now.
        event: INSERT, UPDATE or DELETE.
        inserted: full rows, after.
        deleted: full rows, before.
        column_ids: of an UPDATE: the columns of its SET.
        is_instead_of: whether the trigger replaces the statement.
    """

    table: Table
    event: str
    inserted: Sequence[Row] = ()
    deleted: Sequence[Row] = ()
    column_ids: frozenset[int] = frozenset()
    is_instead_of: bool = False

    def updates(self, column_id: int) -> bool:
        """UPDATE(column): an INSERT gives every column a value."""
        if self.event == "UPDATE":
            return column_id in self.column_ids
        return self.event == "INSERT"

    def columns_updated(self) -> bytes:
        """COLUMNS_UPDATED(): the lowest bit of the first byte is the column with id 1."""
        highest = max(column.column_id for column in self.table.columns)
        bits = bytearray((highest + 7) // 8)
        for column in self.table.columns:
            if self.updates(column.column_id):
                bits[(column.column_id - 1) >> 3] |= 1 << ((column.column_id - 1) & 7)
        return bytes(bits)


def pseudo_columns(table: Table) -> tuple[Column, ...]:
    """The columns of inserted and deleted: values as they are, nothing is generated in them."""
    return tuple(replace(column, identity=None) for column in table.columns)


@dataclass(frozen=True, slots=True)
class PseudoTableHole:
    """inserted or deleted, of the trigger that the statement belongs to."""

    name: str
    columns: tuple[str, ...]

    def text(self, execution: Execution) -> str:
        """See :class:`emulator.tsql.compile.plan.Hole`."""
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
