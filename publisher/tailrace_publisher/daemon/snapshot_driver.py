"""Conducts the snapshots beside the stream: which tables are read next, and what a round brings."""

from __future__ import annotations

from tailrace_publisher.daemon.committer import Committer
from tailrace_publisher.daemon.server_time import ServerTime
from tailrace_publisher.daemon.tables import PublishedTables
from tailrace_publisher.encode.envelope import EnvelopeEncoder
from tailrace_publisher.runtime import Runtime, Step
from tailrace_publisher.snapshot.rounds import PendingTable, Snapshots
from tailrace_schemas.lsn import Lsn


class SnapshotDriver:
    """Begins and ends the rounds of the snapshots, between two windows of the stream.

    Args:
        runtime: what all parts share.
        snapshots: reads the tables.
        tables: what is published.
        committer: takes the rows.
        time: the server's local time.
    """

    def __init__(
        self,
        runtime: Runtime,
        snapshots: Snapshots,
        tables: PublishedTables,
        committer: Committer,
        time: ServerTime,
    ) -> None:
        self._runtime = runtime
        self._snapshots = snapshots
        self._tables = tables
        self._committer = committer
        self._book = committer.book
        self._time = time

    def advance(self) -> bool:
        """Begin or end a round; to be called at a closed position.

        Returns:
            Whether something was published.

        Raises:
            TableFailed: a table may not be read any more, or cannot be.
            SourceError, DeliveryError, RegistryError: as their classes say.
        """
        position = self._book.position.commit_lsn
        if not self._snapshots.is_waiting:
            pending = self._pending_tables(position)
            if pending:
                self._committer.announce_snapshots()
                self._snapshots.begin(pending, position)
                self._runtime.on_step(Step.SNAPSHOT_READ)
            return False
        if not self._snapshots.has_passed(position):
            return False
        parts = self._snapshots.finish(
            position, self._time.utc_offset_minutes, self._current_encoder
        )
        self._committer.add_snapshot(part.rows for part in parts)
        for part in parts:
            for table in self._tables:
                if table.topic == part.table.topic:
                    self._tables.set_snapshot(table, part.progress)
        self._committer.commit()
        for part in parts:
            self._runtime.metrics.snapshot_rows.labels(topic=part.table.topic).inc(len(part.rows))
        return True

    def _pending_tables(self, position: Lsn) -> list[PendingTable]:
        """Tables to read next: their capture instance must cover what comes behind the position."""
        topics = {table.topic for table in self._tables.snapshotting()}
        return [
            PendingTable(
                reading.table.topic,
                reading.instance,
                reading.schema,
                self._tables.snapshot_of(reading.table),
            )
            for reading in self._tables.readings(position.increment())
            if reading.table.topic in topics and reading.covers_from <= position
        ]

    def _current_encoder(self, pending: PendingTable) -> EnvelopeEncoder | None:
        """The table's encoder; None when the instance is gone beside which its chunk was read.

        The keys that changed since are known from that instance only.
        """
        for reading in self._tables.readings(self._book.position.commit_lsn.increment()):
            if (
                reading.table.topic == pending.topic
                and reading.instance.object_id == pending.instance.object_id
            ):
                return self._tables.encoder(reading.table, reading.schema)
        return None
