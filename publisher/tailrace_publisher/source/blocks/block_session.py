"""A connection that reads in blocks, with what encodes its rows and what went wrong on it."""

from __future__ import annotations

from typing import Final

from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.blocks.block_cursor import BlockConnection
from tailrace_publisher.source.blocks.block_faults import BlockFaults
from tailrace_publisher.source.blocks.block_rows import EncodingThread
from tailrace_publisher.source.blocks.commit_columns import commits_in_blocks
from tailrace_publisher.source.connection.driver import find_driver
from tailrace_publisher.source.connection.odbc import DriverManager, OdbcError
from tailrace_publisher.source.connection.quoting import connection_string
from tailrace_publisher.source.connection.server_errors import source_error
from tailrace_publisher.source.connection.session_settings import SESSION_SETTINGS
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_schemas.position.lsn import Lsn
from tailrace_service.closing import Closing

_NAME_BYTES: Final = 512


class BlockSession(Closing):
    """A connection for blocks, opened at its first statement, and the thread that encodes its rows.

    Attributes:
        encoding: encodes what the connection fetches.
        faults: the instances that are read row by row because the block path failed.

    Raises:
        OSError: the driver manager cannot be loaded.
    """

    def __init__(self, config: SourceConfig) -> None:
        DriverManager()
        self._config = config
        self._connection: BlockConnection | None = None
        self.encoding = EncodingThread()
        self.faults = BlockFaults()

    @property
    def connection(self) -> BlockConnection:
        """The connection, for the reading thread; the first use opens it.

        Raises:
            ConfigError: the driver is not installed.
            SourceError: the typed reason why there is no connection.
        """
        if self._connection is None:
            config = self._config
            text = connection_string(config, find_driver(config.driver))
            try:
                self._connection = BlockConnection(
                    text,
                    login_timeout_s=config.login_timeout_s,
                    query_timeout_s=config.query_timeout_s,
                )
            except OdbcError as error:
                raise self.translated(error, is_login=True) from None
            self.run(SESSION_SETTINGS)
        return self._connection

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return 0 if self._connection is None else self._connection.queries

    def close(self) -> None:
        """Close the connection, after its memory is encoded."""
        self.encoding.close()
        if self._connection is not None:
            self._connection.close()

    def cancel(self) -> None:
        """End the statement that runs now, if one does; for another thread."""
        connection = self._connection
        if connection is not None:
            connection.cancel()

    def commits(self, first: Lsn, limit: int, zone: str | None) -> Commits:
        """See :class:`BlockReading`."""
        try:
            return commits_in_blocks(self.connection, first, limit, zone)
        except OdbcError as error:
            raise self.translated(error) from error

    def run(self, statement: str) -> None:
        """See :class:`BlockReading`."""
        try:
            self.connection.execute(statement)
            self.connection.end()
        except OdbcError as error:
            raise self.translated(error) from error

    def text(self, statement: str) -> str:
        """See :class:`BlockReading`."""
        try:
            self.connection.execute(statement)
            found = self.connection.values(_NAME_BYTES)
            self.connection.end()
        except OdbcError as error:
            raise self.translated(error) from error
        return (found[0] or b"").decode("utf-16-le") if found else ""

    def translated(self, error: OdbcError, *, is_login: bool = False) -> Exception:
        """The typed reason of a failure of the driver's."""
        numbers = [number for _, number, _ in error.records]
        sqlstate = error.records[0][0] if error.records else ""
        return source_error(self._config, sqlstate, numbers, str(error), is_login=is_login)
