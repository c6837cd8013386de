"""The published tables: what is read of them, and the progress of their snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import structlog

from tailrace_publisher.change.ranges import first_lsn_after
from tailrace_publisher.daemon.tables.coverage import PublishedTable, Reading
from tailrace_publisher.daemon.tables.patches import note_end, patches_due
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.reading_plan import ReadingPlan
from tailrace_publisher.daemon.tables.registered import RegisteredVersions
from tailrace_publisher.daemon.tables.table_intake import TableIntake
from tailrace_publisher.daemon.tables.table_state import (
    PUBLISHED,
    UNREAD,
    WHOLE,
    TableEvent,
    TableState,
)
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.errors import PositionExpired, PublisherError, StillStopped, TableFailed
from tailrace_publisher.options.sql_condition import shape_of
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.source.catalog.catalog_state import CatalogState
from tailrace_publisher.source.catalog.hidden_data import hidden_data
from tailrace_publisher.source.log.loss import check_not_expired
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import RowKeys
from tailrace_schemas.topics.topic_names import TableName, meant_by

_log = structlog.get_logger(__name__)

_PROGRESS: Final = {
    TableState.PENDING: SnapshotState.PENDING,
    TableState.SNAPSHOTTING: SnapshotState.RUNNING,
    TableState.FOLLOWED: SnapshotState.DONE,
    TableState.REREADING: SnapshotState.RUNNING,
}


class PublishedTables:
    """All tables that the configuration selects and CDC captures."""

    def __init__(
        self,
        runtime: Runtime,
        intake: TableIntake,
        versions: RegisteredVersions,
        state: PublisherState,
    ) -> None:
        self._metrics = runtime.metrics
        self._snapshot = runtime.config.snapshot
        self._intake = intake
        self._versions = versions
        self._state = state
        self._plan: tuple[tuple[int, int], ReadingPlan] | None = None
        self._unfinished: tuple[object, list[PublishedTable]] = (None, [])
        self._watched: tuple[object, list[PublishedTable]] = (None, [])

    def __iter__(self) -> Iterator[PublishedTable]:
        return iter(self._intake.tables.values())

    @property
    def catalog_state(self) -> CatalogState | None:
        """State of the catalog when it was last read; None before."""
        return self._intake.catalog_state

    @property
    def refreshed(self) -> int:
        """How often the catalog was read."""
        return self._intake.refreshed

    def refresh(self) -> None:
        """Read the catalog again and add what is new.

        Raises:
            SourceError, RegistryError, DeliveryError: a system did not answer, or refused.
        """
        self._intake.refresh()
        self._count()

    def refresh_after_failure(self, error: TableFailed) -> bool:
        """Refresh the tables after one of them failed.

        Returns:
            Whether that table restarts with a snapshot; else it is stopped.

        Raises:
            TableFailed: the error, if it ends the publisher or came before.
            PublisherError, RegistryError: as :meth:`refresh`.
        """
        is_restarted = self._intake.note_failure(error)
        self.refresh()
        return is_restarted

    def failure(self) -> PublisherError | None:
        """Return the first table's error to end with if all tables are stopped; else None.

        Raise it only after a commit: the next start reads from the checkpoint what was stopped.
        """
        return self._intake.failure()

    def find(self, name: str) -> list[TableName]:
        """Return the tables that a name may mean."""
        return meant_by(name, self._intake.tables)

    def get(self, table: TableName) -> PublishedTable | None:
        """Return a published table; None if there is none of that name."""
        return self._intake.tables.get(table)

    def rows_refusal(
        self, table: PublishedTable, connection: Connection | None = None
    ) -> str | None:
        """Return why a table's rows may not be read as they are; None if they may.

        Args:
            connection: queries what is hidden now; None for what the last refresh showed.

        Raises:
            SourceError: the server did not answer.
        """
        hidden = None
        if connection is not None:
            exempt = self._snapshot.exempt_policies
            hidden = hidden_data(connection, exempt, table.instances.newest)
        return self._intake.rows_refusal(table, hidden)

    def resnapshot(self, table: PublishedTable) -> None:
        """Take a new snapshot of a table, running or stopped.

        Its topic is created again if it was deleted: the snapshot then brings the whole table.

        Raises:
            TableFailed: Kafka refuses its topic.
            PublisherError: any error of :meth:`refresh`.
        """
        table = self._intake.restart(table)
        if self._intake.is_stopped(table):  # its cause persists, and the refresh has logged it
            self._count()
            return
        if not table.versions or self._state.of(table.name).state in UNREAD - WHOLE:
            is_paused = self._state.of(table.name).snapshot_paused
            _log.info("snapshot_running_already", table=str(table.name), is_paused=is_paused)
            self._count()
            return
        _log.info("snapshot_requested", table=str(table.name))
        progress = SnapshotProgress(SnapshotState.PENDING)
        self._change_snapshot(table.name, TableEvent.SNAPSHOT_WANTED, progress)

    def start_partial_snapshot(self, table: PublishedTable, where: str) -> None:
        """Publish some rows of a followed table again, while it stays in the cut.

        Args:
            where: the condition of the rows, in the server's own T-SQL.
        """
        _log.info("partial_snapshot_requested", table=str(table.name), condition=shape_of(where))
        self._state.store(table.name, replace(self._state.of(table.name), snapshot_where=where))
        progress = SnapshotProgress(SnapshotState.RUNNING)
        self._change_snapshot(table.name, TableEvent.PART_WANTED, progress)

    def start_repair(self, table: PublishedTable, rows: RowKeys) -> None:
        """Publish rows of a followed table again as they are, while it stays in the cut."""
        _log.info("repair_requested", table=str(table.name), rows=len(rows.keys))
        self._state.store(table.name, replace(self._state.of(table.name), repair=rows))
        progress = SnapshotProgress(SnapshotState.RUNNING)
        self._change_snapshot(table.name, TableEvent.PART_WANTED, progress)

    def start_patches(self, position: Lsn) -> None:
        """Start the patches that are due at a closed LSN."""
        for name in patches_due(self._state, self._intake.tables, position):
            self._change_snapshot(
                name, TableEvent.PART_WANTED, SnapshotProgress(SnapshotState.RUNNING)
            )

    def stop_partial_snapshot(self, table: TableName) -> bool:
        """End a partial snapshot, a patch or a repair; return whether there was one.

        Without a repair of lost rows the table is not whole, so a snapshot takes its place.
        """
        record = self._state.of(table)
        if record.state is not TableState.REREADING:
            return False
        if record.repairs_lost_rows:
            progress = SnapshotProgress(SnapshotState.PENDING)
            self._change_snapshot(table, TableEvent.SNAPSHOT_WANTED, progress)
            return True
        given_up = replace(record, snapshot_fence=None, resume_key=None)
        if record.is_patched:
            given_up = replace(given_up, patch=None)
        self._state.happened(table, TableEvent.SNAPSHOT_STOPPED, given_up)
        self._count()
        return True

    def stop(self, table: PublishedTable) -> None:
        """Publish nothing more of a table until an operator requests a snapshot of it."""
        self._intake.stop(table, StillStopped("StoppedByOperator: an operator stopped it"))
        self._count()

    def lose(self, errors: Mapping[TableName, Exception]) -> None:
        """Stop tables that lack changes, or restart them, as the configuration says.

        Raises:
            PublisherError: any error of :meth:`refresh`.
        """
        self._intake.note(errors)
        self.refresh()

    def encoder(self, table: PublishedTable, schema: TableSchema) -> EnvelopeEncoder:
        """Return the encoder of a version; register its schemas the first time.

        Raises:
            RegistryError, SchemaRefused, UnsupportedType: as :meth:`RegisteredVersions.encoder`.
        """
        return self._versions.encoder(table.name, schema)

    def prepare_encoders(self, readings: Iterable[Reading]) -> None:
        """Create the encoders of what is read next.

        Raises:
            RegistryError: the registry did not answer.
        """
        self._versions.prepare_encoders((r.table.name, r.schema) for r in readings)

    def check_registered(self) -> None:
        """Check the versions that are registered while the stream runs.

        Raises:
            TableFailed, RegistryError: as :meth:`TableIntake.check_registered`.
        """
        self._intake.check_registered()

    @property
    def plan(self) -> ReadingPlan:
        """From where each table is read, as the tables are now."""
        made_of = self._intake.refreshed, self._state.moves
        if self._plan is None or self._plan[0] != made_of:
            published = [t for t in self if self._state.of(t.name).state in PUBLISHED]
            self._plan = made_of, ReadingPlan(published, list(self))
        return self._plan[1]

    def check_not_expired(self, readings: Iterable[Reading], state: CatalogState) -> None:
        """Check that cleanup deleted no rows that are still needed from a change table.

        Args:
            state: of the catalog, with the low watermarks that exceed what is published.

        Raises:
            TableFailed: for the table that lost rows, with PositionExpired as its cause.
        """
        if not state.raised:
            return
        first = first_lsn_after(self._state.position)
        for reading in readings:
            minimum = state.raised.get((reading.instance.name, reading.instance.object_id))
            if minimum is None:
                continue
            try:
                check_not_expired(reading.instance.name, max(first, reading.covers_from), minimum)
            except PositionExpired as error:
                raise TableFailed(reading.table.name, error) from error

    def snapshotting(self) -> list[PublishedTable]:
        """Return tables that are not part of the cut: unfinished snapshots and stopped ones."""
        made_of = self._intake.refreshed, self._state.out_of_cut()
        if self._unfinished[0] != made_of:
            names = set(made_of[1])
            self._unfinished = made_of, [table for table in self if table.name in names]
        return self._unfinished[1]

    def in_snapshot(self) -> list[PublishedTable]:
        """Return tables that are being snapshotted while their changes stream.

        Partial snapshots count.
        """
        unfinished = self.snapshotting()
        made_of = self._unfinished[0], self._state.unread()
        if self._watched[0] != made_of:
            names = {*made_of[1], *(table.name for table in unfinished)}
            self._watched = made_of, [table for table in self if table.name in names]
        return self._watched[1]

    def is_patched(self, table: PublishedTable) -> bool:
        """Return whether a patch of a table is being read."""
        return self._state.of(table.name).is_patched

    def condition_of(self, table: PublishedTable) -> str | None:
        """Return the condition of the rows that a table's snapshot reads; None for all rows."""
        record = self._state.of(table.name)
        where = self._snapshot.where_of(table.name)
        if record.is_patched and record.patch is not None:
            return record.patch.condition(table.instances.newest, where)
        return record.snapshot_where or (where if record.repair is None else None)

    def set_snapshot(self, table: TableName, progress: SnapshotProgress) -> None:
        """Store the progress of a table's snapshot, with the rows that are published."""
        is_finished = progress.state is SnapshotState.DONE
        event = TableEvent.SNAPSHOT_PUBLISHED if is_finished else TableEvent.ROWS_PUBLISHED
        if is_finished:
            note_end(self._state, table, progress)
            if self._state.of(table).repairs_lost_rows:
                _log.info(
                    "lost_rows_repaired",
                    table=str(table),
                    rows=progress.rows,
                    equal_from_lsn=str(progress.fence),
                )
        self._change_snapshot(table, event, progress)

    def unread(self) -> list[PublishedTable]:
        """Return tables whose snapshots are to be read further now, without the paused ones."""
        records = ((table, self._state.of(table.name)) for table in self.in_snapshot())
        return [t for t, r in records if r.state in UNREAD and not r.snapshot_paused]

    def snapshot_of(self, table: PublishedTable) -> SnapshotProgress:
        """Return the progress of a published table's snapshot."""
        record = self._state.of(table.name)
        return SnapshotProgress(
            _PROGRESS[record.state],
            record.snapshot_fence,
            record.resume_key,
            record.snapshot_rows,
            record.snapshot_bytes,
        )

    def _change_snapshot(
        self, table: TableName, event: TableEvent, progress: SnapshotProgress
    ) -> None:
        record = self._state.of(table)
        known = replace(
            record,
            snapshot_fence=progress.fence,
            resume_key=progress.resume_key,
            snapshot_rows=progress.rows,
            snapshot_bytes=progress.size,
        )
        if event is TableEvent.SNAPSHOT_WANTED:
            known = known.without_snapshot(self._state.position.commit_lsn)
        self._state.happened(table, event, known)
        self._count()

    def _count(self) -> None:
        self._metrics.snapshotting.set(len(self.snapshotting()))
