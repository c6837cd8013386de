"""Conducts the snapshots beside the stream: which tables are read, and what may be published."""

from __future__ import annotations

import structlog

from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.errors import TableFailed
from tailrace_publisher.runtime import Runtime, Step
from tailrace_publisher.snapshot.pending import PendingTable, SnapshotPart
from tailrace_publisher.snapshot.snapshots import Snapshots
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

_TOLD_AFTER_S = 60.0
"""How long snapshots wait for the stream before it is told."""


class SnapshotDriver:
    """Begins and publishes chunks of the snapshots, between two windows of the stream.

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
        self._state = committer.state
        self._time = time
        self._waits_since: float | None = None
        self._is_told = False
        self._has_rested = True
        self._begun: set[str] = set()

    def forget(self) -> None:
        """Forget what was read and is not published: it is read again."""
        self._snapshots.settle([])

    def look(self) -> bool:
        """Note which chunks were read, and which fences the stream has passed.

        To be called at a closed position, as :meth:`advance`.

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
        """Publish what may be, and have further chunks read; to be called at a closed position.

        Args:
            is_caught_up: whether the stream has published what is captured. Further chunks begin
                only then: while it is behind, their fences would be long in coming, and the rows
                that change meanwhile would be kept.

        Returns:
            Whether something was published.

        Raises:
            TableFailed: a table may not be read any more, or cannot be.
            SourceError, DeliveryError, RegistryError: as their classes say.
        """
        position = self._state.position.commit_lsn
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
            self._note_begun([])
        return bool(parts)

    def _give_up_part(self, failure: TableFailed) -> None:
        """Give a partial snapshot up that cannot be read: its table is whole without it.

        What was read of other tables and not published is read again.

        Raises:
            TableFailed: the failure is no partial snapshot's.
        """
        if not self._tables.end_part(failure.table):
            raise failure
        _log.error(
            "partial_snapshot_given_up",
            table=str(failure.table),
            reason=str(failure.cause),
            effect="some of its rows are out, others not; its changes go on",
            fix="mend the condition, or what the reason says, and ask again",
        )

    def _settled(self, position: Lsn) -> list[PendingTable]:
        pending = self._pending_tables(position)
        self._snapshots.settle(pending)
        return pending

    def _publish(self, parts: list[SnapshotPart]) -> None:
        self._committer.add_snapshot(part.rows for part in parts)
        for part in parts:
            for table in self._tables:
                if table.topic == part.table.topic:
                    self._tables.set_snapshot(table, part.progress)
        self._committer.commit()
        metrics = self._runtime.metrics
        for part in parts:
            topic = part.table.topic
            metrics.snapshot_rows.labels(topic=topic).inc(len(part.rows))
            metrics.snapshot_bytes.labels(topic=topic).inc(part.rows.size)
            if part.progress.is_over:
                metrics.pace.forget(topic)
            else:
                metrics.pace.note(topic, part.progress.rows)

    def _begin(self, pending: list[PendingTable], position: Lsn, *, is_caught_up: bool) -> None:
        if not is_caught_up:
            self._tell_waiting(pending)
            return
        self._waits_since = None
        self._is_told = False
        self._has_rested = False
        self._note_begun(pending)
        self._committer.announce_snapshots()
        self._snapshots.begin(pending, position, self._encoder_of)

    def _note_begun(self, pending: list[PendingTable]) -> None:
        """Measure the pace of those that begin, or go on behind a pause, from here on."""
        pace = self._runtime.metrics.pace
        for table in pending:
            if table.topic not in self._begun:
                pace.forget(table.topic)
                pace.note(table.topic, table.progress.rows)
        self._begun = {table.topic for table in pending}

    def _tell_waiting(self, pending: list[PendingTable]) -> None:
        now = self._runtime.clock.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        if not self._is_told and now - self._waits_since >= _TOLD_AFTER_S:
            self._is_told = True
            _log.info(
                "snapshots_wait_for_stream",
                tables=len(pending),
                reason="the stream is behind what is captured; they go on when it has caught up",
            )

    def _pending_tables(self, position: Lsn) -> list[PendingTable]:
        """Tables to read next: their capture instance must cover what comes behind the position."""
        topics = {
            table.topic
            for table in self._tables.unread()
            if self._state.of(table.name).knows_partitions
        }
        if not topics:
            return []
        return [
            PendingTable(
                reading.table.topic,
                reading.instance,
                reading.schema,
                self._tables.snapshot_of(reading.table),
                self._tables.condition_of(reading.table),
                self._state.beginning_of(reading.table.name),
            )
            for reading in self._tables.plan.at(position.increment()).all
            if reading.table.topic in topics and reading.covers_from <= position
        ]

    def _encoder_of(self, pending: PendingTable) -> EnvelopeEncoder | None:
        """The table's encoder; None when the instance is gone beside which it was read.

        The keys that changed since are known from that instance only.
        """
        for reading in self._tables.plan.at(self._state.position.commit_lsn.increment()).all:
            if (
                reading.table.topic == pending.topic
                and reading.instance.object_id == pending.instance.object_id
            ):
                return self._tables.encoder(reading.table, reading.schema)
        return None
