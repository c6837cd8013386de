"""Where snapshots are read: threads of their own, each with a connection of its own.

The stream never waits for them. A lock that a writer holds on a table is waited for no longer than
``snapshot.lock_timeout_s``; where the database allows SNAPSHOT isolation, not at all: each
statement sees the rows as they were committed when it began.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final

from tailrace_publisher.errors import SourceBusy, SourceError, SourceUnavailable
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.table_reader import Chunk, ReadSource, TableReader
from tailrace_publisher.snapshot_options import SnapshotConfig, SnapshotIsolation
from tailrace_publisher.source.log_end import LogEndSource
from tailrace_publisher.source.queries import allows_snapshot_isolation
from tailrace_schemas.lsn import Lsn

_ISOLATION_GONE: Final = frozenset({3952, 3953, 3954, 3955, 3956, 3957, 3958, 3966})
"""SNAPSHOT isolation was switched off for the database, or the versions that it needs are gone.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors-3000-to-3999
"""


class Lane:
    """One thread with one connection, which is opened when there is something to read.

    Args:
        executor: with the one thread.
        connect: opens a connection.
        options: how to read.
    """

    def __init__(
        self, executor: Executor, connect: Callable[[], Connection], options: SnapshotConfig
    ) -> None:
        self._executor = executor
        self._connect = connect
        self._options = options
        self._source: ReadSource | None = None
        self._is_closing = False

    def submit(self, reader: TableReader, position: Lsn) -> Future[Chunk | None]:
        """Have the next chunk of a table read; see :meth:`TableReader.read`."""
        return self._executor.submit(self._read, reader, position)

    def is_closing(self) -> bool:
        """Whether a reading is to be given up."""
        return self._is_closing

    def rest(self) -> None:
        """Close the connection while there is nothing to read."""
        self._executor.submit(self._disconnect)

    def close(self) -> None:
        """End the thread, then its connection; what it reads is given up at the next statement."""
        self._is_closing = True
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._disconnect()

    def _read(self, reader: TableReader, position: Lsn) -> Chunk | None:
        source = self._source or self._open()
        try:
            return reader.read(source, position)
        except SourceUnavailable:
            self._disconnect()
            raise
        except SourceError as error:
            if error.number not in _ISOLATION_GONE:
                raise
            self._disconnect()
            raise SourceBusy(str(error), sqlstate=error.sqlstate, number=error.number) from error

    def _open(self) -> ReadSource:
        connection = self._connect()
        try:
            connection.query(f"SET LOCK_TIMEOUT {round(self._options.lock_timeout_s * 1000)}")
            may_be_used = self._options.isolation is SnapshotIsolation.AUTO
            if may_be_used and allows_snapshot_isolation(connection):
                connection.query("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
        except Exception:
            connection.close()
            raise
        self._source = ReadSource(connection, LogEndSource(connection, effect=None))
        return self._source

    def _disconnect(self) -> None:
        if self._source is not None:
            self._source.connection.close()
        self._source = None
