"""The statements that read pages of a change table, and what their parameters are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.source.connection.connection import quote_name, quote_text
from tailrace_publisher.source.log.queries import all_changes, change_table
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.events.transforms import ColumnTransform, TransformKind
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

_NVARCHAR_MAX: Final = 4000
_ANY: Final = ColumnType("nvarchar", length=1)

Bound = tuple[str, tuple[object, ...]]
"""A statement with its parameters."""


def value_expression(column: SchemaColumn, stored: ColumnType | None = None) -> str:
    """The select-list expression that gives a column's value in the form its version has.

    Args:
        column: the version's column.
        stored: type that the table has now, where it may differ from the version's.
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
    """What is read of a column whose values are not published as they are.

    Args:
        name: the column, quoted.
        transform: what is made of them; hashes are made of texts here, for the server is not to
            know the salt.
        stored: type that the table has now, where it is known.
    """
    match transform.kind:
        case TransformKind.MASK:
            units = transform.published_type(_ANY).length
            text = f"CAST({quote_text(transform.detail)} AS nvarchar({units}))"
            return f"CASE WHEN {name} IS NOT NULL THEN {text} END"
        case TransformKind.TRUNCATE:
            # Of xml the server refuses to cut what is too long.
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

    A page that begins inside a transaction needs that transaction's remaining rows and those of
    later ones. One condition for both would be a chain of ORs, for which a server finds no lower
    bound inside the transaction: each page of a large one would read it again from its beginning.

    NULL is a command id, too: an update of the server adds the column to the change tables that are
    there, without a value for the rows that are (KB 3030352). It is read as 0, and sorts as 0 does:
    a transaction's rows in one table have it all or none of them. Comparisons leave NULL out, and
    would be no seek with ISNULL around the column, so after command id 0 there are two statements.

    Attributes:
        rest: remaining rows of a transaction; parameters: rows, LSN, then the bound, the command
            id twice where the table is ordered by it, seqval twice, operation.
        rest_without_id: remaining rows whose command id is NULL; empty where the table is not
            ordered by it; parameters: rows, LSN, seqval three times, operation.
        later: rows of later transactions; parameters: rows, LSN, last LSN.
        by_function: whether they read through the query function: after the number of rows come
            the first and the last LSN that it is asked for. Where the range was ordered by the
            function's rows it would be sorted anew for each page, so it begins with the page.
    """

    rest: str
    rest_without_id: str
    later: str
    by_function: bool = False

    @classmethod
    def of(cls, instance: CaptureInstance, schema: TableSchema) -> PageStatements:
        """The statements for the columns of a version."""
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
        """The statements of the remaining rows of a transaction, in the order of their rows.

        Args:
            after: the position after which rows are wanted.
            asked: how many rows.
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
        """The statement of the rows of later transactions, up to the end of the range."""
        first, last = after.commit_lsn, up_to.to_bytes()
        span = self._asked_of_function(first.increment().to_bytes(), last)
        return self.later, (asked, *span, first.to_bytes(), last)

    def _asked_of_function(self, first: bytes, last: bytes) -> tuple[bytes, ...]:
        """The range that a query function is asked for; nothing where there is none."""
        return (first, last) if self.by_function else ()


def _rows_of(instance: CaptureInstance) -> str:
    """Where change rows are selected from."""
    if instance.by_function:
        return f"{all_changes(instance.name)}(?, ?, N'all update old')"
    return change_table(instance.name)
