"""The statements that read pages of a change table, and their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.source.connection.quoting import quote_name, quote_text
from tailrace_publisher.source.log.queries import all_changes, change_table
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

_NVARCHAR_MAX: Final = 4000
_ANY: Final = ColumnType("nvarchar", length=1)

Bound = tuple[str, tuple[object, ...]]
"""A statement and its parameters."""


def value_expression(column: SchemaColumn, stored: ColumnType | None = None) -> str:
    """Return the select-list expression of a column's value in the form of its version.

    Args:
        stored: type that the table has now, if it may differ.
    """
    name = quote_name(column.name)
    if column.transform is not None:
        return _transformed(name, column.transform, stored)
    if column.lossless:
        # Style 121 writes all seven digits, whatever they are.
        return f"CONVERT(varchar(27), {name}, 121)"
    if stored is not None and stored != column.type and stored.name != "timestamp":
        return f"CAST({name} AS {column.type})"
    return name


def _transformed(name: str, transform: ColumnTransform, stored: ColumnType | None) -> str:
    """Return the expression of a column whose values are not published unchanged.

    A hash is computed here from the text, because the server must not know the salt.

    Args:
        name: the quoted name of the column.
        stored: type that the table has now, if known.
    """
    match transform.kind:
        case TransformKind.MASK:
            units = transform.published_type(_ANY).length
            text = f"CAST({quote_text(transform.detail)} AS nvarchar({units}))"
            return f"CASE WHEN {name} IS NOT NULL THEN {text} END"
        case TransformKind.TRUNCATE:
            # The server refuses to cut xml that is too long.
            is_parsed = stored is None or stored.name in {"xml", "json"}
            whole = f"CAST({name} AS nvarchar(max))" if is_parsed else name
            return f"CAST({whole} AS nvarchar({transform.detail}))"
        case TransformKind.HASH:
            if 0 < transform.width <= _NVARCHAR_MAX:
                return f"CAST({name} AS nvarchar({transform.width}))"
            return name
        case _:
            assert_never(transform.kind)


@dataclass(frozen=True, slots=True)
class PageStatements:
    """The statements of one (instance, version): stable texts, each a seek of the clustered index.

    A page that starts inside a transaction needs that transaction's remaining rows and those of
    later transactions. A single condition would be a chain of ORs, for which a server finds no
    lower bound inside the transaction. Each page of a large transaction would then read it again
    from its start.

    A command id may be NULL. A server update adds the column to existing change tables, without a
    value for existing rows (KB 3030352). NULL is read as 0 and sorts like 0. Either all rows of a
    transaction in one table have an id, or none. Comparisons exclude NULL, and ISNULL around the
    column would prevent a seek, so after command id 0 there are two statements.

    Attributes:
        rest: remaining rows of a transaction. Parameters: rows, LSN, then the bound. The bound is
            the command id twice if the table is ordered by it, seqval twice, operation.
        rest_without_id: remaining rows whose command id is NULL. Empty if the table is not ordered
            by it. Parameters: rows, LSN, seqval three times, operation.
        later: rows of later transactions. Parameters: rows, LSN, last LSN.
        by_function: whether they read through the query function. After the number of rows follow
            the first and the last LSN of its range. The range starts with the page, because the
            function's rows may have to be sorted again for each page.
    """

    rest: str
    rest_without_id: str
    later: str
    by_function: bool = False

    @classmethod
    def of(cls, instance: CaptureInstance, schema: TableSchema) -> PageStatements:
        """Return the statements for the columns of a version."""
        stored = {column.name: column.type for column in instance.columns}
        values = [value_expression(column, stored.get(column.name)) for column in schema.columns]
        has_id = instance.ordered_by_command_id
        command = "ISNULL([__$command_id], 0)" if has_id else "CAST(0 AS int)"
        position = ["[__$start_lsn]", command, "[__$seqval]", "[__$operation]"]
        select = (
            f"SELECT TOP (?) {', '.join([*position, '[__$update_mask]', *values])}"
            f" FROM {_rows_of(instance)} WHERE"
        )
        order = f"{'[__$command_id], ' if has_id else ''}[__$seqval], [__$operation]"
        order = f"ORDER BY [__$start_lsn], {order};"
        later = f"{select} [__$start_lsn] > ? AND [__$start_lsn] <= ? {order}"
        further = "[__$seqval] > ? OR ([__$seqval] = ? AND [__$operation] > ?)"
        in_order = f"[__$seqval] >= ? AND ({further})"
        rest = f"{select} [__$start_lsn] = ?"
        if not has_id:
            return cls(f"{rest} AND {in_order} {order}", "", later, instance.by_function)
        return cls(
            rest=f"{rest} AND [__$command_id] >= ?"
            f" AND ([__$command_id] > ? OR ([__$command_id] = ? AND ({further}))) {order}",
            rest_without_id=f"{rest} AND [__$command_id] IS NULL AND {in_order} {order}",
            later=later,
        )

    def rest_of(self, after: ChangePosition, asked: int) -> list[Bound]:
        """Return the statements of a transaction's remaining rows, in the order of their rows.

        Args:
            after: the position after which rows are wanted.
            asked: the number of rows to request.
        """
        seqval = after.seqval.to_bytes()
        commit = after.commit_lsn.to_bytes()
        start = (asked, *self._asked_of_function(commit, commit), commit)
        further = (seqval, seqval, int(after.operation))
        if not self.rest_without_id:
            return [(self.rest, (*start, seqval, *further))]
        command = after.command_id
        with_id = (self.rest, (*start, command, command, command, *further))
        if command:
            return [with_id]
        return [(self.rest_without_id, (*start, seqval, *further)), with_id]

    def later_of(self, after: ChangePosition, up_to: Lsn, asked: int) -> Bound:
        """Return the statement of the rows of later transactions, up to the end of the range."""
        first, last = after.commit_lsn, up_to.to_bytes()
        span = self._asked_of_function(first.increment().to_bytes(), last)
        return self.later, (asked, *span, first.to_bytes(), last)

    def _asked_of_function(self, first: bytes, last: bytes) -> tuple[bytes, ...]:
        """Return the range to request of a query function; nothing if there is none."""
        return (first, last) if self.by_function else ()


def _rows_of(instance: CaptureInstance) -> str:
    """Return the source of change rows: the query function or the change table."""
    if instance.by_function:
        return f"{all_changes(instance.name)}(?, ?, N'all update old')"
    return change_table(instance.name)
