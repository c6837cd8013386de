"""The threads that read snapshots, each with a connection of its own.

The stream never waits for them. If a writer holds a lock on a table, a read waits at most
``snapshot.lock_timeout_s``. If the database allows SNAPSHOT isolation, it does not wait: each
statement sees the rows that were committed when it started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Final

import structlog

from tailrace_publisher.errors import SourceBusy, SourceError, SourceUnavailable
from tailrace_publisher.options.snapshots import SnapshotConfig, SnapshotIsolation
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_publisher.snapshot.table_reader import ReadSource, TableReader
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.log.queries import (
    SERVER_NAME,
    allows_snapshot_isolation,
    server_name,
)
from tailrace_publisher.source.pages.page_readers import BlockReading
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

_ISOLATION_GONE: Final = frozenset({3952, 3953, 3954, 3955, 3956, 3957, 3958, 3966})
"""SNAPSHOT isolation was switched off for the database, or row versions that it needs are gone.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors-3000-to-3999
"""


class Lane:
    """One thread and its connections, which are opened when there is something to read.

    Args:
        executor: has exactly one thread.
        connect_blocks: opens a reader of blocks; returns None if blocks cannot be read.
        topics: have the events of a lost history, whose keys a repair reads.
    """

    def __init__(
        self,
        executor: Executor,
        connect: Callable[[], Connection],
        options: SnapshotConfig,
        connect_blocks: Callable[[], BlockReading | None] = lambda: None,
        topics: DatabaseTopics | None = None,
    ) -> None:
        self._executor = executor
        self._connect = connect
        self._topics = topics
        self._connect_blocks = connect_blocks
        self._options = options
        self._source: ReadSource | None = None
        self._in_blocks: BlockReading | None = None
        self._has_no_blocks = False
        self._is_closing = False

    def submit(self, reader: TableReader, position: Lsn) -> Future[Chunk | None]:
        """Queue the read of a table's next chunk; see :meth:`TableReader.read`."""
        return self._executor.submit(self._read, reader, position)

    def is_closing(self) -> bool:
        """Return whether a read must be given up."""
        return self._is_closing

    def rest(self) -> None:
        """Close the connections until there is something to read."""
        self._executor.submit(self._disconnect)

    def close(self) -> None:
        """Cancel what is being read, end the thread and close its connections."""
        self._is_closing = True
        if self._source is not None:
            self._source.connection.cancel()
        if self._in_blocks is not None:
            self._in_blocks.cancel()
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
        # See: SET LOCK_TIMEOUT; SET TRANSACTION ISOLATION LEVEL
        connection = self._connect()
        try:
            settings = [f"SET LOCK_TIMEOUT {round(self._options.lock_timeout_s * 1000)}"]
            if self._options.isolation is SnapshotIsolation.READ_COMMITTED:
                settings.append("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            elif allows_snapshot_isolation(connection):
                settings.append("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
            for setting in settings:
                connection.query(setting)
        except Exception:
            connection.close()
            raise
        log_ends = LogEndSource(connection, effect=None)
        blocks = partial(self._blocks, settings)
        exempt = self._options.exempt_policies
        self._source = ReadSource(connection, log_ends, blocks, self._topics, exempt)
        return self._source

    def _blocks(self, settings: Sequence[str]) -> BlockReading | None:
        """Return the reader of blocks, opened on first use; None if there is none."""
        if self._in_blocks is None and not self._has_no_blocks and self._source is not None:
            self._in_blocks = self._open_blocks(self._source.connection, settings)
            self._has_no_blocks = self._in_blocks is None
        return self._in_blocks

    def _open_blocks(self, connection: Connection, settings: Sequence[str]) -> BlockReading | None:
        """Open a reader of blocks, or return None if it reaches another server than the connection.

        The end of the log is queried on the connection, so both must read from one server.
        """
        blocks = self._connect_blocks()
        if blocks is None:
            return None
        try:
            for setting in settings:
                blocks.run(setting)
            if blocks.text(SERVER_NAME) == server_name(connection):
                return blocks
        except Exception:
            blocks.close()
            raise
        blocks.close()
        _log.info("snapshot_blocks_unavailable", reason="two connections reached two servers")
        return None

    def _disconnect(self) -> None:
        if self._source is not None:
            self._source.connection.close()
        if self._in_blocks is not None:
            self._in_blocks.close()
        self._source = self._in_blocks = None
        self._has_no_blocks = False
