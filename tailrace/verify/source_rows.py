"""The source's side: hashes of its rows, read in chunks between two fences.

SQL Server writes and hashes the rows (``canonical_text``); only keys and hashes travel. Statements
are short, and wait for locks no longer than the publisher's. Each uses one processor of the server
(``MAXDOP 1``). The rate is bounded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa

from tailrace.verify.canonical_text import ROW_HASH_BYTES, source_row
from tailrace.verify.not_provable import NotProvable
from tailrace.verify.pace import Pace
from tailrace.verify.ranges import (
    EVERYTHING,
    NOTHING,
    Checksum,
    KeyRange,
    checksum_statement,
    range_rows,
)
from tailrace.verify.table_shape import ONE_PROCESSOR, Key, TableShape
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.fence import Fence, FenceSource
from tailrace_publisher.snapshot.statements import ChunkStatements, KeyWalk, check_reads_back
from tailrace_publisher.source.catalog.hidden_data import check_rows_visible, hidden_data
from tailrace_publisher.source.connection.quoting import quote_name, quote_table
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.log.queries import estimated_rows, max_lsn
from tailrace_schemas.position.lsn import Lsn

_CHUNK_ROWS: Final = 10_000
_ROWS_AT_ONCE: Final = 20
"""Rows by key in one round trip; each has a statement of its own."""
HASH: Final = "source_hash"
COUNT: Final = "source_count"


@dataclass(slots=True)
class Reading:
    """Rows that were read between two moments.

    Attributes:
        rows: keys and hashes; of a keyless table hashes and how often each is there.
        ranges: what was read of the table.
        checksums: of each range, if ranges were read instead of rows.
        texts: by key, the canonical texts of the columns; only of rows that were read by key.
        count: rows that were read.
        started: everything up to this LSN was committed before the read.
        fence: at or after everything that was committed when the read ended.
    """

    started: Lsn
    fence: Fence
    count: int
    rows: pa.Table | None = None
    ranges: Sequence[KeyRange] = (EVERYTHING,)
    checksums: Sequence[Checksum] = ()
    texts: Mapping[Key, Sequence[str | None]] = field(default_factory=dict)


class SourceRows:
    """Reads the rows of tables.

    Args:
        control: a connection to where changes are captured first.
        reader: where tables are read; maybe a secondary.
        wait_s: for a secondary to show what is captured.
        exempt: security policies that hide nothing from the login.
    """

    def __init__(
        self,
        control: Connection,
        reader: Connection,
        pace: Pace,
        wait_s: float = 60.0,
        exempt: Sequence[str] = (),
    ) -> None:
        self._exempt = exempt
        self.control = control
        self._wait_s = wait_s
        self._reader = reader
        self._pace = pace
        self._fences = FenceSource(control)
        self._log_ends = LogEndSource(reader, None)

    def checksums(
        self, shape: TableShape, after: int | None = None, rows: int | None = None
    ) -> Reading:
        """Read the checksum of each key range of a table that has ranges.

        Args:
            after: the key before the first row; None for all rows from the first one.
            rows: how many to read, about; None for all. The last range has no end if there are no
                further rows.

        Raises:
            NotProvable: the secondary does not show what is captured.
            ValuesHidden: the login reads masks, or may not see all rows.
            SourceError: the server did not answer.
        """
        begun = self._begin(shape)
        if rows is None:
            known = estimated_rows(self.control).get(shape.newest.source_object_id, 0)
            size = range_rows(known)
        else:
            size = min(range_rows(rows), rows)
        ranges: list[KeyRange] = []
        found: list[Checksum] = []
        last, count, is_end = after, 0, False
        while not is_end and (rows is None or count < rows):
            statement = checksum_statement(shape, is_first=last is None)
            parameters = [] if last is None else [str(last)]
            ((*checksum, end),) = self._reader.query(statement, size, *parameters)
            is_end = checksum[0] < size
            if checksum[0]:
                ranges.append(KeyRange(last, end))
                found.append(tuple(map(int, checksum)))
                last = end
                count += checksum[0]
                self._pace.took(checksum[0])
        if is_end:
            ranges.append(KeyRange(last, None))
            found.append(NOTHING)
        return Reading(begun, self._end(shape, begun), count, ranges=ranges, checksums=found)

    def rows(self, shape: TableShape, ranges: Sequence[KeyRange] = (EVERYTHING,)) -> Reading:
        """Read the key and the hash of every row; of a keyless table count equal hashes.

        Args:
            ranges: of keys, if the table has ranges.

        Raises:
            NotProvable, SourceError: as :meth:`checksums`.
        """
        begun = self._begin(shape)
        rows = self._keyed(shape, ranges) if shape.key else self._counted(shape)
        count = sum(rows[COUNT].to_pylist()) if COUNT in rows.column_names else rows.num_rows
        return Reading(begun, self._end(shape, begun), count, rows, ranges)

    def rows_of(self, shape: TableShape, keys: Sequence[Key]) -> Reading:
        """Read the canonical texts of the rows with some keys.

        Raises:
            NotProvable, SourceError: as :meth:`checksums`.
        """
        begun = self._begin(shape)
        names = ", ".join(column.source for column in (*shape.key, *shape.columns))
        select = f"SELECT {names} FROM {quote_table(shape.newest.source_table)} WHERE"
        texts: dict[Key, Sequence[str | None]] = {}
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            some = keys[start : start + _ROWS_AT_ONCE]
            batch = "; ".join(f"{select} {shape.condition_of(key)} {ONE_PROCESSOR}" for key in some)
            parameters = [text for key in some for text in key if text is not None]
            found = self._reader.query_sets(batch, *parameters)
            for row in (tuple(row) for rows in found for row in rows):
                texts[row[: len(shape.key)]] = row[len(shape.key) :]
            self._pace.took(len(some))
        return Reading(begun, self._end(shape, begun), len(texts), texts=texts)

    def reached(self, fence: Fence) -> Lsn | None:
        """Return the LSN at or after everything before the fence; None while it is not captured."""
        return self._fences.reached(fence)

    def _begin(self, shape: TableShape) -> Lsn:
        begun = max_lsn(self.control) or Lsn.ZERO
        if self._reader is not self.control:
            shown = wait_for(lambda: _at_least(begun, max_lsn(self._reader)), self._wait_s)
            if shown is None:
                raise NotProvable(
                    f"table {shape.table}: the secondary has not shown LSN {begun} within"
                    f" {self._wait_s:g} s. Fix: check its redo queue, or leave --secondary out"
                )
        self._check_visible(shape)
        self._pace.begin()
        return begun

    def _end(self, shape: TableShape, begun: Lsn) -> Fence:
        self._check_visible(shape)
        end = self._log_ends.read()
        return self._fences.mark(begun, None if end is None else end.lsn)

    def _check_visible(self, shape: TableShape) -> None:
        """Refuse hidden values and rows, before and after a read: rights may change in between."""
        hidden = hidden_data(self._reader, self._exempt, shape.newest)
        check_rows_visible(hidden, shape.newest, [column.name for column in shape.columns])

    def _keyed(self, shape: TableShape, ranges: Sequence[KeyRange]) -> pa.Table:
        names = key_names(shape)
        expressions = [*(column.source for column in shape.key), source_row(shape.columns)]
        types = [pa.string()] * len(names) + [pa.binary(ROW_HASH_BYTES)]
        schema = pa.schema(list(zip([*names, HASH], types, strict=True)))
        parts = [
            pa.table(dict(zip(schema.names, _by_column(rows, len(schema)), strict=True)), schema)
            for keys in ranges
            for rows in self._chunks(shape, expressions, keys)
        ]
        found = pa.concat_tables([schema.empty_table(), *parts])
        if shape.may_repeat_keys:
            keys = found.group_by(names).aggregate([]).num_rows
            if keys < found.num_rows:
                raise NotProvable(
                    f"table {shape.table}: {found.num_rows:,} rows have {keys:,} event keys, and"
                    " the lake has one row of each. Fix: name columns in message_keys that"
                    " identify a row"
                )
        return found

    def _counted(self, shape: TableShape) -> pa.Table:
        rows = self._reader.query(
            f"SELECT h, COUNT_BIG(*) FROM (SELECT {source_row(shape.columns)} AS h"
            f" FROM {quote_table(shape.newest.source_table)}) AS hashed GROUP BY h {ONE_PROCESSOR}"
        )
        self._pace.took(sum(row[1] for row in rows))
        schema = pa.schema([(HASH, pa.binary(ROW_HASH_BYTES)), (COUNT, pa.int64())])
        return pa.table(dict(zip(schema.names, _by_column(rows, 2), strict=True)), schema)

    def _chunks(
        self, shape: TableShape, expressions: Sequence[str], keys: KeyRange
    ) -> Iterator[Sequence[Any]]:
        """Yield rows in the order of the identity: at most so many for each statement."""
        where = None
        if keys != EVERYTHING:
            where = keys.condition(quote_name(shape.newest.identity[0]))
        statements = ChunkStatements(shape.newest, expressions, where, ONE_PROCESSOR)
        if not statements.depth:
            yield self._reader.query(statements.whole)
            return
        walk, is_last = KeyWalk(statements), False
        while not is_last:
            statement, parameters = walk.next()
            rows = self._reader.query(statement, _CHUNK_ROWS, *parameters)
            last = rows[-1] if rows else None
            is_last = walk.passed(last, is_full=len(rows) == _CHUNK_ROWS)
            if rows:
                yield rows
                self._pace.took(len(rows))
            if walk.after is not None and not is_last:
                check_reads_back(self._reader, shape.newest, walk.after)


Found = TypeVar("Found")


def wait_for(
    reached: Callable[[], Found | None], limit_s: float, poll_s: float = 0.2
) -> Found | None:
    """Poll until there is an answer; None if there is none in time."""
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    while (found := reached()) is None and time.monotonic() < deadline:
        pause.wait(poll_s)
    return found


def _at_least(wanted: Lsn, found: Lsn | None) -> Lsn | None:
    """Return an LSN that is not lower than another; else None."""
    return found if found is not None and found >= wanted else None


def key_names(shape: TableShape) -> list[str]:
    """Return the names of the columns with a key's texts."""
    return [f"key_{place}" for place in range(len(shape.key))]


def _by_column(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return the first columns of some rows."""
    return [[row[place] for row in rows] for place in range(width)]
