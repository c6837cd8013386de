"""Reading a change table page by page.

A page is found by the whole position (keyset), which is the change table's clustered order, so no
cursor stays open and a page of any size, down to one row, can be the last thing read before a
restart. Behind each page, in the same round trip, comes the instance's low watermark: it vouches
that nothing of the page was cleaned up before it was read.

One thread reads: while a page is encoded and sent, the next one of each instance is on its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Final

from publisher.change.instance import CaptureInstance
from publisher.change.page import ChangePage, ChangeRow, join_carried, position_of
from publisher.change.ranges import LsnRange, first_lsn_after
from publisher.errors import CaptureInstanceGone, SourceError
from publisher.source.connection import Connection, quote_name
from publisher.source.loss import check_not_expired
from publisher.source.queries import INVALID_OBJECT, change_table, lsn_or_none
from schemas.envelope import SchemaColumn, TableSchema
from schemas.lsn import Lsn
from schemas.types import ColumnType

ROWS_AHEAD_MAX: Final = 200_000
"""Bound on change rows in memory over all instances with news, two pages of each."""


def value_expression(column: SchemaColumn, stored: ColumnType | None = None) -> str:
    """The select-list expression that gives a column's value in the form its version has.

    Args:
        column: the version's column.
        stored: type that the table has now, where it may differ from the version's.
    """
    name = quote_name(column.name)
    if column.lossless:
        # Style 121 writes all seven digits, whatever they are.
        return f"CONVERT(varchar(27), {name}, 121)"
    if stored is not None and stored != column.type and stored.name != "timestamp":
        return f"CAST({name} AS {column.type})"
    return name


def page_statement(instance: CaptureInstance, schema: TableSchema) -> str:
    """The statement for one page: stable text per (instance, version).

    The first predicate on ``__$start_lsn`` follows from the others; it gives the server the lower
    bound of a seek, which it does not find in a chain of ORs.

    Parameters: rows, up_to, after's LSN four times interleaved with command id, seqval, operation,
    and the instance's name.
    """
    stored = {column.name: column.type for column in instance.columns}
    command = "[__$command_id]" if instance.has_command_id else "CAST(0 AS int)"
    values = [value_expression(column, stored.get(column.name)) for column in schema.columns]
    columns = ", ".join(
        ["[__$start_lsn]", command, "[__$seqval]", "[__$operation]", "[__$update_mask]", *values]
    )
    behind_row = "[__$seqval] > ? OR ([__$seqval] = ? AND [__$operation] > ?)"
    order = ["[__$start_lsn]", "[__$seqval]", "[__$operation]"]
    if instance.has_command_id:
        behind_row = f"[__$command_id] > ? OR ([__$command_id] = ? AND ({behind_row}))"
        order.insert(1, "[__$command_id]")
    return (
        f"SELECT TOP (?) {columns} FROM {change_table(instance.name)}"
        " WHERE [__$start_lsn] >= ? AND [__$start_lsn] <= ?"
        f" AND ([__$start_lsn] > ? OR ([__$start_lsn] = ? AND ({behind_row})))"
        f" ORDER BY {', '.join(order)};"
        " SELECT sys.fn_cdc_get_min_lsn(?)"
    )


class ChangePages:
    """The pages of one capture instance in a range; used by one thread at a time.

    Args:
        connection: a connection of the reading thread's own.
        instance: the capture instance.
        schema: the version that is in force in the whole range.
        span: the range.
        page_rows: rows per page, at least 1.
        covered_from: LSN from which on the instance holds the table's changes; rows before it are
            not needed from it.
    """

    def __init__(
        self,
        connection: Connection,
        instance: CaptureInstance,
        schema: TableSchema,
        span: LsnRange,
        page_rows: int,
        covered_from: Lsn,
    ) -> None:
        self._connection = connection
        self._instance = instance
        self._schema = schema
        self._up_to = span.up_to
        self._after = span.after
        self._page_rows = page_rows
        self._covered_from = covered_from
        self._statement = page_statement(instance, schema)
        self._carried: ChangeRow | None = None
        self._is_finished = False

    def read(self) -> ChangePage | None:
        """The next page; it is empty when only a before image was read, None at the end.

        Raises:
            PositionExpired: change rows of the range were cleaned up.
            CaptureInstanceGone: the instance was disabled meanwhile.
            SourceError: the change table is damaged, or the server did not answer.
        """
        if self._is_finished:
            return None
        rows = self._fetch()
        if len(rows) < self._page_rows:
            self._is_finished = True
        elif rows:
            self._after = position_of(rows[-1])
        try:
            whole, self._carried = join_carried(self._carried, rows)
        except ValueError as error:
            raise SourceError(f"change table of {self._instance.name}: {error}") from error
        if self._is_finished and self._carried is not None:
            raise SourceError(
                f"change table of {self._instance.name}: the before image at"
                f" {position_of(self._carried)} has no after image"
            )
        return ChangePage(self._schema, whole)

    def _fetch(self) -> list[ChangeRow]:
        after = self._after
        lsn = after.commit_lsn.to_bytes()
        row_key: tuple[object, ...] = (
            after.seqval.to_bytes(),
            after.seqval.to_bytes(),
            int(after.operation),
        )
        if self._instance.has_command_id:
            command = min(after.command_id, 0x7FFFFFFF)  # the end of a transaction is above int
            row_key = (command, command, *row_key)
        try:
            rows, minimum = self._connection.query_sets(
                self._statement,
                self._page_rows,
                lsn,
                self._up_to.to_bytes(),
                lsn,
                lsn,
                *row_key,
                self._instance.name,
            )
        except SourceError as error:
            if error.number == INVALID_OBJECT:
                raise CaptureInstanceGone(self._instance.name) from error
            raise
        needed = max(first_lsn_after(after), self._covered_from)
        check_not_expired(self._instance.name, needed, lsn_or_none(minimum[0][0]))
        return rows


def read_ahead(pages: ChangePages, reader: Executor) -> Iterator[ChangePage]:
    """The pages, the next one always on its way.

    Args:
        pages: what to read.
        reader: executor with the one thread that owns the connection.
    """
    coming = reader.submit(pages.read)
    while (page := coming.result()) is not None:
        coming = reader.submit(pages.read)
        yield page
