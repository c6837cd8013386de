"""One session of the publisher, from the first poll to the first error or the stop.

``wiring`` creates its parts: it checks the source, fences the earlier producer, and reads the
checkpoint to its true end. A session passes nothing to the next one except through Kafka. So an
error at any point costs a restart of the session, and no half-done work has to be undone.

Two errors do not end a session, because a restart with a thousand tables takes ten seconds and a
healthy source raises both. One table cannot continue, or a statement repeatedly lost against other
statements. Both occur while rows are read, never between two rows that are sent, and the position
says which rows were sent. So the session commits those, and the next poll continues there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.daemon.orders.pause import Pause
from tailrace_publisher.daemon.orders.signals import Signals
from tailrace_publisher.daemon.session.capture_job_watch import CaptureWatch
from tailrace_publisher.daemon.session.committer import Committer
from tailrace_publisher.daemon.session.pacing import Pacing
from tailrace_publisher.daemon.session.schema_changes import SchemaChanges
from tailrace_publisher.daemon.session.server_time import ServerTime
from tailrace_publisher.daemon.session.snapshot_driver import SnapshotDriver
from tailrace_publisher.daemon.session.snapshot_modes import SnapshotModes
from tailrace_publisher.daemon.session.stream import Stream
from tailrace_publisher.daemon.status.table_sizes import TableSizes
from tailrace_publisher.daemon.tables.switches import Switches
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.upkeep import Upkeep
from tailrace_publisher.errors import (
    PublisherError,
    SendingFailed,
    SourceBusy,
    TableFailed,
    TopicRefused,
)
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.commit_times import milliseconds
from tailrace_service.backoff import Backoff

_log = structlog.get_logger(__name__)

_FAILURES_MAX: Final = 3
"""Consecutive polls that may fail for a busy source before new connections are tried."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """The parts of a session, each ready.

    Attributes:
        stream: publishes windows of changes.
        snapshots: publishes the rows of snapshots.
        modes: requests the snapshots of the configured mode, and knows when they are all done.
        changes: publishes schema changes; None if they are not configured.
        switches: notices rows that came or went with a partition.
        sizes: estimates the row counts of the snapshots.
        upkeep: looks after the source: rotation, cleanup, forecasts.
    """

    time: ServerTime
    tables: PublishedTables
    stream: Stream
    committer: Committer
    snapshots: SnapshotDriver
    modes: SnapshotModes
    changes: SchemaChanges | None
    signals: Signals
    pause: Pause
    switches: Switches
    sizes: TableSizes
    watch: CaptureWatch
    upkeep: Upkeep


class Session:
    """One session of the publisher."""

    def __init__(self, runtime: Runtime, parts: SessionParts) -> None:
        self._runtime = runtime
        self._parts = parts
        self._pacing = Pacing(runtime.config.poll_interval_ms / 1000)
        self._checked_at = 0.0
        self._backoff = Backoff(runtime.config.retry_backoff_max_s)

    def run(self) -> None:
        """Publish until the stop is set, or until nothing more is wanted.

        Raises:
            PublisherError, RegistryError: the error that ended the session.
        """
        self._parts.pause.show()
        try:
            self._loop()
        except TopicRefused as error:
            raise self._failed_table(error) from error
        finally:
            self._runtime.metrics.up.set(0)

    def _failed_table(self, error: TopicRefused) -> PublisherError:
        """Return the failure of the table that a topic belongs to."""
        table = self._runtime.config.topics.table_of(error.topic)
        if table is None or self._parts.tables.get(table) is None:
            return error
        return TableFailed(table, error)

    def _loop(self) -> None:
        clock, stop = self._runtime.clock, self._runtime.stop
        parts, committer = self._parts, self._parts.committer
        if not parts.pause.is_on:
            self._announce()
        committer.commit_start()
        if is_closed(committer.state.position):
            parts.switches.look(committer.finish)
        parts.sizes.look()
        self._checked_at = clock.monotonic()
        while not stop.is_set() and not parts.modes.is_over():
            self._end_if_all_stopped()
            before = committer.state.position
            more = self._turn_or_recover()
            if committer.state.position != before:
                self._pacing.news()
            if not more:
                clock.wait(self._pacing.pause_s(), stop)
        committer.finish()
        _log.info("stopped", position=str(committer.state.position))

    def _turn_or_recover(self) -> bool:
        """Check the source and publish once; return whether to do so again at once.

        Raises:
            PublisherError, RegistryError: the error that ends the session.
        """
        parts = self._parts
        is_idle = parts.committer.idle_s >= self._runtime.config.heartbeat_s
        try:
            known_ms = self._look(is_idle=is_idle)
            parts.pause.end_if_too_long()
            has_read = not parts.pause.is_on
            more = has_read and self._publish()
            parts.upkeep.watch(is_caught_up=has_read and not more)
            parts.upkeep.look()
        except SendingFailed:
            raise
        except TableFailed as error:
            return self._continue_without(error)
        except SourceBusy as error:
            self._try_again(error)
            return True
        self._backoff.reset()
        if is_closed(parts.committer.state.position) and parts.signals.take(parts.committer.finish):
            parts.committer.commit()
        if is_idle:
            # A signal may have ended the pause just now, before anything was read.
            is_all = has_read and not (more or parts.pause.is_on)
            # A commit may stand where a time mark does: captured, and not read yet.
            is_all = is_all and not parts.stream.may_lack_commits
            parts.committer.heartbeat(known_ms if is_all else None)
        return more

    def _look(self, *, is_idle: bool) -> int | None:
        """Check at each heartbeat what polls do not show.

        Returns:
            The time up to which all changes are known, milliseconds UTC; None if unknown.
        """
        config, clock, parts = self._runtime.config, self._runtime.clock, self._parts
        parts.tables.check_registered()
        parts.time.refresh()
        if not is_idle and clock.monotonic() - self._checked_at < config.heartbeat_s:
            return None
        parts.committer.finish()  # sent rows must not wait for these checks
        # Before the poll, so that the poll sees everything that was captured until then.
        known_ms = self._known_ms()
        if is_closed(parts.committer.state.position):
            parts.stream.refresh_if_catalog_changed()
            parts.switches.look(parts.committer.finish)
        parts.sizes.look()
        self._checked_at = clock.monotonic()
        return known_ms

    def _continue_without(self, error: TableFailed) -> bool:
        """Stop or restart a failed table; return whether to poll again at once.

        Raises:
            TableFailed: the configuration wants the publisher to end with it.
        """
        self._settle()
        is_restarted = self._parts.tables.refresh_after_failure(error)
        self._parts.committer.commit_start()
        return not is_restarted

    def _try_again(self, error: SourceBusy) -> None:
        """Pause, and let the next poll continue at the position.

        Raises:
            SourceBusy: the error, once it has come too often in a row.
        """
        if self._backoff.attempts >= _FAILURES_MAX:
            raise error
        self._settle()
        if self._parts.committer.idle_s >= self._runtime.config.heartbeat_s:
            self._parts.committer.heartbeat(None)  # the publisher lives, and knows nothing new
        pause_s = self._backoff.next_s()
        self._runtime.metrics.retries.labels(error=type(error).__name__).inc()
        self._runtime.metrics.failed(error, str(error))
        _log.warning(
            "poll_retried",
            reason=str(error),
            attempt=self._backoff.attempts,
            pause_s=round(pause_s, 2),
        )
        self._runtime.clock.wait(pause_s, self._runtime.stop)

    def _settle(self) -> None:
        """Commit what was sent; forget what was read during an unfinished poll."""
        self._parts.committer.finish()
        self._parts.snapshots.forget()

    def _publish(self) -> bool:
        """Publish the next window and the due snapshot rows; return whether to poll again."""
        parts = self._parts
        self._announce()
        more = parts.stream.poll()
        if is_closed(parts.committer.state.position):
            parts.modes.start_snapshots()
            if parts.snapshots.look():
                # After the fence: had a capture instance been dropped, the changes streamed
                # meanwhile would be missing.
                parts.stream.refresh_if_catalog_changed()
                self._announce()
            if parts.switches.is_awaited():
                parts.switches.look(parts.committer.finish)
            more = parts.snapshots.advance(is_caught_up=not more) or more
        return more

    def _announce(self) -> None:
        """Publish schema changes before the first events of the new schema."""
        if self._parts.changes is not None:
            self._parts.changes.announce()

    def _end_if_all_stopped(self) -> None:
        """End if every table was stopped, after a commit that lets the next start know.

        The next start then waits for an operator's signal. Without the commit it would meet the
        same gap, and end again.
        """
        failure = self._parts.tables.failure()
        if failure is not None:
            self._parts.committer.commit()
            raise failure

    def _known_ms(self) -> int | None:
        """Check the capture job; return the time up to which an empty poll has everything.

        This is not the present time: while the capture job lags or is stopped, the lag must grow.
        """
        known = self._parts.watch.look()
        if known is None:
            return None
        return milliseconds(known, self._parts.time.utc_offset_minutes)
