"""One life of the publisher, from the first poll to the first error or the stop.

``wiring`` makes what it is made of: it checks the source, fences the producer before us, reads the
checkpoint to its true end. Nothing is carried from one life to the next but what Kafka holds, so an
error at any point costs a restart of this and no thought about what was half done.

Two errors do not end it. A restart of a thousand tables takes ten seconds, and they are the ones
that a healthy source brings: one table cannot go on, or a statement lost against others each time
that it was sent. Both come while rows are read, never between two rows that are sent: the position
says what was. So that is committed, and the next poll continues there.
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
from tailrace_publisher.errors import PublisherError, SourceBusy, TableFailed, TopicRefused
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.log.commit_times import milliseconds
from tailrace_service.backoff import Backoff

_log = structlog.get_logger(__name__)

_FAILURES_MAX: Final = 3
"""Polls in a row that may fail for a busy source before new connections are tried."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session conducts; each part is ready.

    Attributes:
        time: the server's local time.
        tables: what is published.
        stream: publishes windows of changes.
        committer: commits what was sent.
        snapshots: publishes tables that are read anew.
        modes: says which are, and whether they are all that is wanted.
        changes: tells what changes in the columns; None where that is not wanted.
        signals: what operators ask for.
        pause: of the publisher as a whole.
        switches: notices rows that came or went with a partition.
        sizes: asks how many rows the snapshots will have.
        watch: looks at the capture job.
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


class Session:
    """One life of the publisher.

    Args:
        runtime: what all parts share.
        parts: what it conducts.
    """

    def __init__(self, runtime: Runtime, parts: SessionParts) -> None:
        self._runtime = runtime
        self._parts = parts
        self._pacing = Pacing(runtime.config.poll_interval_ms / 1000)
        self._looked_at = 0.0
        self._backoff = Backoff(runtime.config.retry_backoff_max_s)

    def run(self) -> None:
        """Publish until the stop is set, or until nothing more is wanted.

        Raises:
            PublisherError, RegistryError: what ended this life.
        """
        self._parts.pause.show()
        try:
            self._loop()
        except TopicRefused as error:
            raise self._failed_table(error) from error
        finally:
            self._runtime.metrics.up.set(0)

    def _failed_table(self, error: TopicRefused) -> PublisherError:
        """The failure of the table behind a topic."""
        for table in self._parts.tables:
            if table.topic == error.topic:
                return TableFailed(table.name, error)
        return error

    def _loop(self) -> None:
        clock, stop = self._runtime.clock, self._runtime.stop
        parts, committer = self._parts, self._parts.committer
        if not parts.pause.is_on:
            self._announce()
        committer.begin()
        if is_closed(committer.state.position):
            parts.switches.look(committer.finish)
        parts.sizes.look()
        self._looked_at = clock.monotonic()
        while not stop.is_set() and not parts.modes.is_over():
            self._end_if_none_goes_on()
            before = committer.state.position
            more = self._turn_or_recover()
            if committer.state.position != before:
                self._pacing.news()
            if not more:
                clock.wait(self._pacing.pause_s(), stop)
        committer.finish()
        _log.info("stopped", position=str(committer.state.position))

    def _turn_or_recover(self) -> bool:
        """Look and publish once; whether there may be more.

        Raises:
            PublisherError, RegistryError: what ends this life.
        """
        parts = self._parts
        is_idle = parts.committer.idle_s >= self._runtime.config.heartbeat_s
        try:
            known_ms = self._look(is_idle=is_idle)
            parts.pause.end_if_too_long()
            has_looked = not parts.pause.is_on
            more = has_looked and self._publish()
        except TableFailed as error:
            return self._go_on_without(error)
        except SourceBusy as error:
            self._try_again(error)
            return True
        self._backoff.reset()
        if is_closed(parts.committer.state.position) and parts.signals.take(parts.committer.finish):
            parts.committer.commit()
        if is_idle:
            # A signal may have ended the pause just now: nothing was looked for yet.
            is_all = has_looked and not (more or parts.pause.is_on)
            parts.committer.heartbeat(known_ms if is_all else None)
        return more

    def _look(self, *, is_idle: bool) -> int | None:
        """Look at what polls do not show, now and then; gives the time up to which all is known."""
        config, clock, parts = self._runtime.config, self._runtime.clock, self._parts
        parts.tables.check_registered()
        parts.time.refresh()
        if not is_idle and clock.monotonic() - self._looked_at < config.heartbeat_s:
            return None
        parts.committer.finish()  # what was sent does not wait, and grow old, while this looks
        # Before the poll: what was captured before it is seen by it.
        known_ms = self._known_ms()
        if is_closed(parts.committer.state.position):
            parts.stream.look_at_catalog()
            parts.switches.look(parts.committer.finish)
        parts.sizes.look()
        self._looked_at = clock.monotonic()
        return known_ms

    def _go_on_without(self, error: TableFailed) -> bool:
        """Stop a table that failed, or have it begin again; whether there may be more at once.

        Raises:
            TableFailed: the configuration wants the publisher to end with it.
        """
        self._settle()
        is_taken_up = self._parts.tables.take_in_without(error)
        self._parts.committer.begin()
        return not is_taken_up

    def _try_again(self, error: SourceBusy) -> None:
        """Pause, and let the next poll continue at the position.

        Raises:
            SourceBusy: the error, when it came again and again.
        """
        if self._backoff.attempts >= _FAILURES_MAX:
            raise error
        self._settle()
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
        """Commit what was sent; forget what was read beside a poll that was not finished."""
        self._parts.committer.finish()
        self._parts.snapshots.forget()

    def _publish(self) -> bool:
        """Publish the next window, and what may be of snapshots; whether there may be more."""
        parts = self._parts
        self._announce()
        more = parts.stream.poll()
        if is_closed(parts.committer.state.position):
            parts.modes.begin()
            if parts.snapshots.look():
                # Behind the fence: without a capture instance the events beside it are missing.
                parts.stream.look_at_catalog()
                self._announce()
            if parts.switches.is_awaited():
                parts.switches.look(parts.committer.finish)
            more = parts.snapshots.advance(is_caught_up=not more) or more
        return more

    def _announce(self) -> None:
        """Tell what changes in the columns, before the events that have them."""
        if self._parts.changes is not None:
            self._parts.changes.announce()

    def _end_if_none_goes_on(self) -> None:
        """End when every table was stopped, which the next start must find in the checkpoint.

        It waits for an operator's signal with them. Without the commit it would meet the same gap,
        and end again.
        """
        failure = self._parts.tables.failure()
        if failure is not None:
            self._parts.committer.commit()
            raise failure

    def _known_ms(self) -> int | None:
        """Look at the capture job: the time up to which a poll that finds nothing has everything.

        That is not now: with the capture job behind or stopped the lag must grow.
        """
        known = self._parts.watch.look()
        if known is None:
            return None
        return milliseconds(known, self._parts.time.utc_offset_minutes)
