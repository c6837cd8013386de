"""The row counts of tables in their snapshots, which their progress is measured against."""

from __future__ import annotations

from tailrace_publisher.daemon.status.status_board import PublisherBoard
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.options.snapshots import SnapshotConfig
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import estimated_rows
from tailrace_schemas.topics.topic_names import TableName


class TableSizes:
    """Estimates of the tables' rows, queried once for all tables that start a snapshot.

    Args:
        connection: of the main loop.
        options: name the tables with a condition, whose row count nobody can estimate.
    """

    def __init__(
        self,
        connection: Connection,
        tables: PublishedTables,
        board: PublisherBoard,
        options: SnapshotConfig,
    ) -> None:
        self._connection = connection
        self._options = options
        self._tables = tables
        self._board = board
        self._queried: set[TableName] = set()

    def look(self) -> None:
        """Query the estimates if a table is in its snapshot and has none.

        Raises:
            SourceError: the server did not answer.
        """
        if not self._board.is_read:
            return
        estimates = self._board.estimates
        unread = self._tables.in_snapshot()
        new = [table for table in unread if table.name not in self._queried]
        rows = estimated_rows(self._connection) if new else {}
        self._queried = {table.name for table in unread}
        for table in new:
            ids = [instance.source_object_id for instance in table.instances]
            is_known = ids and self._tables.condition_of(table) is None
            estimates[table.name] = rows.get(ids[-1]) if is_known else None
