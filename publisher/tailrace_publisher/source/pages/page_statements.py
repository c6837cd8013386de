"""The statements that read pages of a change table, and their parameters."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.source.log.queries import all_changes, change_table
from tailrace_publisher.source.pages.column_values import change_value
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

Bound = tuple[str, tuple[object, ...]]
"""A statement and its parameters."""


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
    def of(
        cls, instance: CaptureInstance, schema: TableSchema, as_bytes: Set[str] = frozenset()
    ) -> PageStatements:
        """Return the statements for the columns of a version.

        Args:
            as_bytes: names of the columns whose reader takes the bytes of char and varchar.
        """
        # See: cdc.<capture_instance>_CT. Inferred: is __$command_id NULL in rows from before an
        # update in place?
        stored = {column.name: column.type for column in instance.columns}
        values = [
            change_value(column, stored.get(column.name), as_bytes=column.name in as_bytes)
            for column in schema.columns
        ]
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
