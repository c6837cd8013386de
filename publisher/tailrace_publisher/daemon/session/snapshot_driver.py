"""Conduct the snapshots while the stream runs: which tables to read, and which rows to publish."""

from __future__ import annotations

import structlog

from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.event_kinds import Kind
from tailrace_publisher.errors import TableFailed
from tailrace_publisher.runtime import Runtime, Step
from tailrace_publisher.snapshot.pending import PendingTable, SnapshotPart
from tailrace_publisher.snapshot.snapshots import Snapshots
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

_LOG_WAIT_AFTER_S = 60.0
"""How long snapshots wait for the stream before that is logged."""


class SnapshotDriver:
    """Starts and publishes chunks of the snapshots, between two windows of the stream."""

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
        self._state = committer.state
        self._time = time
        self._waits_since: float | None = None
        self._is_wait_logged = False
        self._has_rested = True
        self._started: set[TableName] = set()

    def forget(self) -> None:
        """Forget what was read but not published; it is read again."""
        self._snapshots.settle([])

    def look(self) -> bool:
        """Note which chunks were read, and which fences the stream has passed.

        Call this at a closed position, like :meth:`advance`.

        Returns:
            Whether a chunk may be published, if its table is still captured as it was.

        Raises:
            TableFailed, SourceError: as :meth:`advance`.
        """
        position = self._state.position.commit_lsn
        self._settled(position)
        try:
            if self._snapshots.look(position):
                self._runtime.on_step(Step.SNAPSHOT_READ)
        except TableFailed as failure:
            self._give_up_part(failure)
        return self._snapshots.is_due(position)

    def advance(self, *, is_caught_up: bool) -> bool:
        """Publish what is due, and request further chunks; call this at a closed position.

        Args:
            is_caught_up: whether the stream has published what is captured. Only then further
                chunks start. While the stream lags, their fences would be reached late, and the
                rows that change meanwhile would have to be remembered.

        Returns:
            Whether something was published.

        Raises:
            TableFailed: a table cannot be read, or the login may not read it any more.
            SourceError, DeliveryError, RegistryError: as their classes say.
        """
        position = self._state.position.commit_lsn
        self._tables.start_patches(position)
        pending = self._settled(position)
        if self._snapshots.has_failed(position):
            self._committer.finish()
            self._tables.refresh()  # it may have other columns by now
            pending = self._settled(position)
        try:
            parts = list(
                self._snapshots.take(position, self._time.utc_offset_minutes, self._encoder_of)
            )
        except TableFailed as failure:
            self._give_up_part(failure)
            pending, parts = self._settled(position), []
        if parts:
            self._publish(parts)
            pending = self._settled(position)
        if pending:
            self._begin(pending, position, is_caught_up=is_caught_up)
        elif not self._has_rested:
            self._snapshots.rest()
            self._has_rested = True
            self._note_started([])
        return bool(parts)

    def _give_up_part(self, failure: TableFailed) -> None:
        """Give up a partial snapshot that cannot be read: its table is whole without it.

        A table whose lost rows cannot be repaired gets a snapshot. Unpublished rows of other tables
        are read again.

        Raises:
            TableFailed: the failure is no partial snapshot's.
        """
        is_whole = not self._state.of(failure.table).repairs_lost_rows
        if not self._tables.stop_partial_snapshot(failure.table):
            raise failure
        if not is_whole:
            _log.warning(
                "lost_rows_not_repaired",
                table=str(failure.table),
                reason=str(failure.cause),
                effect="a new snapshot of it starts; it is not part of the lake's cuts until then",
            )
            return
        _log.error(
            "partial_snapshot_given_up",
            table=str(failure.table),
            reason=str(failure.cause),
            effect="some of its rows are published, others not; its changes continue",
            fix="correct the condition, or fix the reason, and request it again",
        )

    def _settled(self, position: Lsn) -> list[PendingTable]:
        pending = self._pending_tables(position)
        self._snapshots.settle(pending)
        return pending

    def _publish(self, parts: list[SnapshotPart]) -> None:
        self._committer.add_snapshot(part.rows for part in parts)
        for part in parts:
            self._tables.set_snapshot(part.table.name, part.progress)
        self._committer.commit()
        metrics = self._runtime.metrics
        for part in parts:
            name, topic = part.table.name, part.rows.topic
            metrics.snapshot_rows.labels(topic=topic).inc(len(part.rows))
            metrics.snapshot_bytes.labels(topic=topic).inc(part.rows.size)
            if part.progress.is_over:
                metrics.pace.forget(name)
            else:
                metrics.pace.note(name, part.progress.rows)

    def _begin(self, pending: list[PendingTable], position: Lsn, *, is_caught_up: bool) -> None:
        if not is_caught_up:
            self._log_waiting(pending)
            return
        self._waits_since = None
        self._is_wait_logged = False
        self._has_rested = False
        self._note_started(pending)
        self._committer.announce_snapshots()
        self._snapshots.begin(pending, position, self._encoder_of)

    def _note_started(self, pending: list[PendingTable]) -> None:
        """Start to measure the pace of snapshots that start, or resume after a pause."""
        pace = self._runtime.metrics.pace
        for table in pending:
            if table.name not in self._started:
                pace.forget(table.name)
                pace.note(table.name, table.progress.rows)
        self._started = {table.name for table in pending}

    def _log_waiting(self, pending: list[PendingTable]) -> None:
        now = self._runtime.clock.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        if not self._is_wait_logged and now - self._waits_since >= _LOG_WAIT_AFTER_S:
            self._is_wait_logged = True
            _log.info(
                "snapshots_wait_for_stream",
                tables=len(pending),
                reason="the stream lags the captured changes; they continue when it catches up",
            )

    def _pending_tables(self, position: Lsn) -> list[PendingTable]:
        """Return tables to read next: their instances must cover the changes after the position."""
        unread = {
            table.name
            for table in self._tables.unread()
            if self._state.of(table.name).knows_partitions
        }
        if not unread:
            return []
        return [
            PendingTable(
                reading.instance,
                reading.schema,
                self._tables.snapshot_of(reading.table),
                self._tables.condition_of(reading.table),
                self._state.snapshot_number(reading.table.name),
                Kind.PATCH if self._tables.is_patched(reading.table) else Kind.READ,
                self._state.of(reading.table.name).repair,
            )
            for reading in self._tables.plan.at(position.increment()).all
            if reading.table.name in unread and reading.covers_from <= position
        ]

    def _encoder_of(self, pending: PendingTable) -> EnvelopeEncoder | None:
        """Return the table's encoder; None if the instance that the read relied on is gone.

        Only that instance shows the keys that changed since.
        """
        for reading in self._tables.plan.at(self._state.position.commit_lsn.increment()).all:
            if (
                reading.table.name == pending.name
                and reading.instance.object_id == pending.instance.object_id
            ):
                return self._tables.encoder(reading.table, reading.schema)
        return None
