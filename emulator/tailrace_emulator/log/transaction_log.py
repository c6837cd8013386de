"""A database's transaction log, stored in SQLite next to the data that it describes.

A transaction's records are written in the same SQLite transaction as its effect, so after a kill -9
either both are there or neither. The commit record's position is allocated under the engine's write
lock: LSN order is commit order. Records' positions (seqvals) are allocated at the time of the
change, so those of transactions that were open together interleave, as in SQL Server's log.

Only tracked tables are logged, with full images: the log is for who tracks them, because recovery
is SQLite's. A record stays until that reader truncates up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import apsw

from tailrace_emulator.log.journal import (
    ACTION_DDL,
    ACTION_DELETE,
    ACTION_INSERT,
    ACTION_UPDATE,
    Journal,
    Record,
    inline_or_chunk,
    inline_records,
    read_chunks,
)
from tailrace_emulator.log.lsn import LsnAllocator, bytes_between, lsn_of, position_of
from tailrace_emulator.log.records import DdlChange, LogTransaction, RowAction, RowChange
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import SqlType

LOG_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS log_state(
  database_id INTEGER PRIMARY KEY, reserved INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS log_transactions(
  database_id INTEGER NOT NULL, commit_position INTEGER NOT NULL, begin_position INTEGER NOT NULL,
  begin_ticks INTEGER NOT NULL, commit_ticks INTEGER NOT NULL, change_count INTEGER NOT NULL,
  records BLOB, PRIMARY KEY (database_id, commit_position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_chunks(
  database_id INTEGER NOT NULL, commit_position INTEGER NOT NULL, chunk INTEGER NOT NULL,
  records BLOB NOT NULL, PRIMARY KEY (database_id, commit_position, chunk));
"""


def complete_schema(connection: apsw.Connection) -> None:
    """For a file from before short transactions' records shared their commit records' rows."""
    known = {row[1] for row in fetch(connection, "PRAGMA main.table_info(log_transactions)")}
    if "records" not in known:
        connection.execute("ALTER TABLE log_transactions ADD COLUMN records BLOB")


FREED_CHUNKS: Final = 128
"""Chunks of records removed by one write transaction: a few milliseconds."""

_ACTIONS: Final = {
    ACTION_INSERT: RowAction.INSERT,
    ACTION_DELETE: RowAction.DELETE,
    ACTION_UPDATE: RowAction.UPDATE,
}


class TransactionLog:
    """The log of one database; a :class:`tailrace_emulator.log.records.LogReader`. Thread-safe."""

    def __init__(
        self,
        database_id: int,
        connect: Callable[[], apsw.Connection],
        write: Callable[[], AbstractContextManager[apsw.Connection]],
    ) -> None:
        """Open the log; allocation continues after everything that was ever handed out.

        Args:
            connect: gives a new connection for reading.
            write: the engine's write path (nested in a running write of this thread, it joins it).
        """
        self._database_id = database_id
        self._connect = connect
        self._write = write
        self._readers: list[apsw.Connection] = []
        with write() as connection:
            self.allocator = LsnAllocator(database_id, connection)
            ((last,),) = fetch(
                connection,
                "SELECT coalesce(max(commit_ticks), 0) FROM log_transactions WHERE database_id = ?",
                (database_id,),
            )
        self._last_commit_ticks: int = last

    # -- reading: LogReader ---------------------------------------------------------------------

    def committed(self, after: bytes | None, limit: int) -> Iterator[LogTransaction]:
        """At most ``limit`` transactions with a commit LSN above ``after``, in commit order.

        Lazy: the ``changes`` of a transaction are read chunk by chunk as they are walked. They may
        be walked once, at any time before the log is truncated.
        """
        position = -1 if after is None else position_of(after)
        connection = self._take_reader()
        try:
            rows = fetch(
                connection,
                "SELECT commit_position, begin_position, begin_ticks, commit_ticks, change_count,"
                " records FROM log_transactions WHERE database_id = ? AND commit_position > ?"
                " ORDER BY commit_position LIMIT ?",
                (self._database_id, position, limit),
            )
        finally:
            self._readers.append(connection)
        for commit_position, begin_position, begin_ticks, commit_ticks, change_count, few in rows:
            yield LogTransaction(
                lsn_of(commit_position),
                lsn_of(begin_position),
                _tran_id(begin_position),
                begin_ticks,
                commit_ticks,
                change_count,
                self._changes(commit_position, few),
            )

    def last_commit(self) -> bytes | None:
        """The newest commit LSN in the log, or None when nothing waits there."""
        connection = self._take_reader()
        try:
            rows = fetch(
                connection,
                "SELECT max(commit_position) FROM log_transactions WHERE database_id = ?",
                (self._database_id,),
            )
        finally:
            self._readers.append(connection)
        return None if rows[0][0] is None else lsn_of(rows[0][0])

    def waiting_bytes(self) -> int:
        """Bytes of log from the first record that its reader has not read to the end."""
        connection = self._take_reader()
        try:
            rows = fetch(
                connection,
                "SELECT min(begin_position) FROM log_transactions WHERE database_id = ?",
                (self._database_id,),
            )
        finally:
            self._readers.append(connection)
        return 0 if rows[0][0] is None else bytes_between(rows[0][0], self.allocator.last)

    def end(self) -> bytes:
        """The LSN at or above every one in the log: of the last record, committed or not."""
        return lsn_of(self.allocator.last)

    def truncate(self, up_to: bytes) -> int:
        """Forget the transactions up to and with that LSN; returns how many went."""
        with self._write():
            count = self.forget(up_to)
        self.free(up_to)
        return count

    def forget(self, up_to: bytes) -> int:
        """Truncation's first, short step: the log does not hold these transactions any more.

        Returns:
            How many went.
        """
        with self._write() as connection:
            connection.execute(
                "DELETE FROM log_transactions WHERE database_id = ? AND commit_position <= ?",
                (self._database_id, position_of(up_to)),
            )
            return connection.changes()

    def free(self, up_to: bytes) -> None:
        """Its second step: their records go, a short write transaction at a time.

        What a kill between the two leaves goes with the next truncation.
        """
        freed = FREED_CHUNKS
        while freed == FREED_CHUNKS:
            with self._write() as connection:
                connection.execute(
                    "DELETE FROM log_chunks WHERE rowid IN (SELECT rowid FROM log_chunks"
                    " WHERE database_id = ? AND commit_position <= ? LIMIT ?)",
                    (self._database_id, position_of(up_to), FREED_CHUNKS),
                )
                freed = connection.changes()

    def close(self) -> None:
        """Close the reading connections."""
        while self._readers:
            self._readers.pop().close()

    def _take_reader(self) -> apsw.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return self._connect()

    def _changes(self, commit_position: int, few: bytes | None) -> Iterator[RowChange | DdlChange]:
        if few is not None:
            yield from map(_change, inline_records(few))
            return
        connection = self._take_reader()
        try:
            for record in read_chunks(connection, self._database_id, commit_position):
                yield _change(record)
        finally:
            self._readers.append(connection)

    # -- writing --------------------------------------------------------------------------------

    def allocate_lsn(self, connection: apsw.Connection) -> bytes:
        """A new LSN, above every one that was handed out before.

        For what the log's reader itself has to place in the order of the log. The position before
        it is taken too, so that it may be that of a transaction (:func:`without_changes`).

        Args:
            connection: inside :meth:`Engine.write`; its commit makes the LSN durable.
        """
        return lsn_of(self.allocator.take_last(connection, behind=1))

    def commit(
        self, connection: apsw.Connection, journal: Journal, begin_ticks: int, commit_ticks: int
    ) -> bytes:
        """Write a transaction's records and its commit record; returns the commit LSN.

        Args:
            connection: inside the write transaction that applies the changes.
            begin_ticks: when the transaction began, UTC ticks of 100 ns.
        """
        commit_position = self.allocator.take_last(connection)
        few = journal.write(connection, commit_position)
        self._commit_record(
            connection, commit_position, journal.begin_position, begin_ticks, commit_ticks,
            journal.count, few,
        )  # fmt: skip
        return lsn_of(commit_position)

    def commit_records(
        self, connection: apsw.Connection, records: list[Record], ticks: int
    ) -> bytes:
        """Write a transaction that has these few records (positions from :attr:`allocator`)."""
        commit_position = self.allocator.take_last(connection)
        few = inline_or_chunk(connection, self._database_id, commit_position, records)
        self._commit_record(
            connection, commit_position, records[0][0], ticks, ticks, len(records), few
        )
        return lsn_of(commit_position)

    def _commit_record(
        self,
        connection: apsw.Connection,
        commit_position: int,
        begin_position: int,
        begin_ticks: int,
        commit_ticks: int,
        change_count: int,
        few: bytes | None,
    ) -> None:
        # Commit times grow with commit LSNs, as mapping times to LSNs supposes, also when the
        # machine's clock is set back.
        self._last_commit_ticks = max(self._last_commit_ticks, commit_ticks)
        connection.execute(
            "INSERT INTO log_transactions(database_id, commit_position, begin_position,"
            " begin_ticks, commit_ticks, change_count, records) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                self._database_id,
                commit_position,
                begin_position,
                begin_ticks,
                self._last_commit_ticks,
                change_count,
                few,
            ),
        )


def without_changes(lsn: bytes, ticks: int) -> LogTransaction:
    """A transaction that is its beginning and its end alone.

    Args:
        lsn: that was allocated for it (:meth:`TransactionLog.allocate_lsn`).
    """
    begin_position = position_of(lsn) - 1
    return LogTransaction(
        lsn, lsn_of(begin_position), _tran_id(begin_position), ticks, ticks, 0, iter(())
    )


def _tran_id(begin_position: int) -> bytes:
    return begin_position.to_bytes(6, "big")


def _change(record: Record) -> RowChange | DdlChange:
    position, command_id, object_id, action, column_ids, before, after = record
    if action != ACTION_DDL:
        return RowChange(
            object_id, lsn_of(position), command_id, _ACTIONS[action], column_ids, before, after
        )
    # A DDL record has the kind, the text and the details in the places of a row's.
    column_id, old_type, new_type = after
    return DdlChange(
        object_id, lsn_of(position), column_ids, before, column_id, _type(old_type), _type(new_type)
    )


def type_fields(sql_type: SqlType | None) -> tuple[Any, ...] | None:
    """A type as marshal can keep it."""
    if sql_type is None:
        return None
    return (
        sql_type.name,
        sql_type.length,
        sql_type.precision,
        sql_type.scale,
        sql_type.collation,
    )


def _type(fields: tuple[Any, ...] | None) -> SqlType | None:
    return None if fields is None else SqlType(*fields)
