"""The log records of a transaction that is still open, in bounded memory.

Records gather in a list; every ``CHUNK_RECORDS`` of them become one marshalled blob in the
session's TEMP table ``journal``. SQLite keeps small TEMP tables in its cache and spills large ones
to a file. At commit the chunks move to the log as they are.

A record is a tuple (position, command id, object id, action, column ids, before, after). A DDL
record (position, command id, object id, ACTION_DDL, kind, command, (column id, old, new type)).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import apsw

from tailrace_emulator.values.fetching import fetch

CHUNK_RECORDS: Final = 256

INLINE_BYTES_MAX: Final = 1500
"""Up to so many bytes a transaction's records are in the row of its commit record: most
transactions are short, and each further table costs a commit two more pages. SQLite moves rows that
are longer than about half a page out of an index."""

ACTION_INSERT: Final = 0
ACTION_DELETE: Final = 1
ACTION_UPDATE: Final = 2
ACTION_DDL: Final = 3

Record = tuple[Any, ...]

JOURNAL_SCHEMA: Final = """
CREATE TEMP TABLE IF NOT EXISTS journal(
  database_id INTEGER NOT NULL, chunk INTEGER NOT NULL, first INTEGER NOT NULL,
  count INTEGER NOT NULL, records BLOB NOT NULL, PRIMARY KEY (database_id, chunk)
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class JournalMark:
    """Where a journal stood, to come back to after SQLite undid the TEMP table itself."""

    pending: tuple[Record, ...]
    chunks: int
    count: int


class Journal:
    """One open transaction's records for one database's log."""

    def __init__(self, connection: apsw.Connection, database_id: int) -> None:
        self._connection = connection
        self.database_id = database_id
        self.begin_position = -1
        self.count = 0
        self._pending: list[Record] = []
        self._chunks = 0

    def extend(self, records: list[Record], chunk_records: int = CHUNK_RECORDS) -> None:
        """Add records, in order.

        Args:
            chunk_records: how many make a chunk: fewer where rows hold large values.
        """
        self._pending.extend(records)
        self.count += len(records)
        if len(self._pending) >= chunk_records:
            self.flush()

    def flush(self) -> None:
        """Move what is in memory to the TEMP table."""
        if not self._pending:
            return
        self._connection.execute(
            "INSERT INTO temp.journal(database_id, chunk, first, count, records)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                self.database_id,
                self._chunks,
                self.count - len(self._pending),
                len(self._pending),
                marshal.dumps(self._pending),
            ),
        )
        self._chunks += 1
        self._pending = []

    def mark(self) -> JournalMark:
        """Where the journal stands now."""
        return JournalMark(tuple(self._pending), self._chunks, self.count)

    def restore(self, mark: JournalMark) -> None:
        """Go back to a mark, SQLite having undone the TEMP table itself.

        What was in memory at the mark may have been flushed before SQLite's own mark; then it is in
        the table still and not pending.
        """
        chunks = flushed = 0
        if self._chunks or mark.chunks:
            ((chunks, flushed),) = fetch(
                self._connection,
                "SELECT count(*), coalesce(sum(count), 0) FROM temp.journal WHERE database_id = ?",
                (self.database_id,),
            )
        unflushed = mark.count - flushed
        self._pending = list(mark.pending[len(mark.pending) - unflushed :]) if unflushed else []
        self._chunks = chunks
        self.count = mark.count

    def truncate(self, count: int) -> None:
        """Keep only the first ``count`` records (ROLLBACK to a savepoint)."""
        flushed = self.count - len(self._pending)
        if count >= flushed:
            del self._pending[count - flushed :]
            self.count = count
            return
        rows = fetch(
            self._connection,
            "SELECT chunk, first, records FROM temp.journal WHERE database_id = ? AND first <= ?"
            " ORDER BY chunk DESC LIMIT 1",
            (self.database_id, count),
        )
        chunk, first, blob = rows[0]
        self._pending = marshal.loads(blob)[: count - first]  # noqa: S302 - our own TEMP table
        self._connection.execute(
            "DELETE FROM temp.journal WHERE database_id = ? AND chunk >= ?",
            (self.database_id, chunk),
        )
        self._chunks = chunk
        self.count = count

    def write(self, connection: apsw.Connection, commit_position: int) -> bytes | None:
        """Move all records into the log, inside the caller's write transaction.

        Returns:
            The records, if they are few enough to be in its commit record's row.
        """
        if not self._chunks:
            return inline_or_chunk(connection, self.database_id, commit_position, self._pending)
        connection.execute(
            "INSERT INTO log_chunks(database_id, commit_position, chunk, records)"
            " SELECT database_id, ?, chunk, records FROM temp.journal WHERE database_id = ?",
            (commit_position, self.database_id),
        )
        if self._pending:
            records = marshal.dumps(self._pending)
            _write_chunk(connection, self.database_id, commit_position, self._chunks, records)
        return None

    def clear(self) -> None:
        """Forget everything: the transaction ended."""
        if self._chunks:
            self._connection.execute(
                "DELETE FROM temp.journal WHERE database_id = ?", (self.database_id,)
            )
        self._pending = []
        self._chunks = 0
        self.count = 0
        self.begin_position = -1


def inline_or_chunk(
    connection: apsw.Connection, database_id: int, commit_position: int, pending: list[Record]
) -> bytes | None:
    """The records as bytes for the commit record, or None: then they are in the log as a chunk."""
    records = marshal.dumps(pending)
    if len(records) <= INLINE_BYTES_MAX:
        return records
    _write_chunk(connection, database_id, commit_position, 0, records)
    return None


def _write_chunk(
    connection: apsw.Connection,
    database_id: int,
    commit_position: int,
    chunk: int,
    records: bytes,
) -> None:
    """Append one chunk of records to the log."""
    connection.execute(
        "INSERT INTO log_chunks(database_id, commit_position, chunk, records) VALUES (?, ?, ?, ?)",
        (database_id, commit_position, chunk, records),
    )


def inline_records(records: bytes) -> Iterator[Record]:
    """The records that share a commit record's row."""
    yield from marshal.loads(records)  # noqa: S302 - our own log


def read_chunks(
    connection: apsw.Connection, database_id: int, commit_position: int
) -> Iterator[Record]:
    """The records of a committed transaction, one chunk in memory at a time.

    Each chunk is a query of its own, so no read transaction is held between them.
    """
    chunk = 0
    while True:
        rows = fetch(
            connection,
            "SELECT records FROM log_chunks"
            " WHERE database_id = ? AND commit_position = ? AND chunk = ?",
            (database_id, commit_position, chunk),
        )
        if not rows:
            return
        yield from marshal.loads(rows[0][0])  # noqa: S302 - our own log
        chunk += 1
