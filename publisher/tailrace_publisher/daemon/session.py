"""One life of the publisher, from the first poll to the first error or the stop.

``wiring`` makes what it is made of: it checks the source, fences the producer before us, reads the
checkpoint to its true end. Nothing is carried from one life to the next but what Kafka holds, so an
error at any point costs a restart of this and no thought about what was half done.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.daemon.committer import Committer
from tailrace_publisher.daemon.pacing import Pacing
from tailrace_publisher.daemon.pause import Pause
from tailrace_publisher.daemon.schema_changes import SchemaChanges
from tailrace_publisher.daemon.server_time import ServerTime
from tailrace_publisher.daemon.signals import Signals
from tailrace_publisher.daemon.snapshot_driver import SnapshotDriver
from tailrace_publisher.daemon.snapshot_modes import SnapshotModes
from tailrace_publisher.daemon.stream import Stream
from tailrace_publisher.daemon.switches import Switches
from tailrace_publisher.daemon.table_sizes import TableSizes
from tailrace_publisher.daemon.tables import PublishedTables
from tailrace_publisher.daemon.watch import CaptureWatch
from tailrace_publisher.errors import PublisherError, TableFailed, TopicRefused
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.commit_times import milliseconds

_log = structlog.get_logger(__name__)


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
        config, clock, stop = self._runtime.config, self._runtime.clock, self._runtime.stop
        parts, committer, state = self._parts, self._parts.committer, self._parts.committer.state
        pacing = Pacing(config.poll_interval_ms / 1000)
        if not parts.pause.is_on:
            self._announce()
        committer.begin()
        if is_closed(state.position):
            parts.switches.look(committer.finish)
        parts.sizes.look()
        looked_at = clock.monotonic()
        while not stop.is_set() and not parts.modes.is_over():
            self._end_if_none_goes_on()
            parts.tables.check_registered()
            parts.time.refresh()
            known_ms, before = None, state.position
            is_idle = committer.idle_s >= config.heartbeat_s
            if is_idle or clock.monotonic() - looked_at >= config.heartbeat_s:
                committer.finish()  # what was sent does not wait, and grow old, while this looks
                # Before the poll: what was captured before it is seen by it.
                known_ms = self._known_ms()
                if is_closed(state.position):
                    parts.stream.look_at_catalog()
                    parts.switches.look(committer.finish)
                parts.sizes.look()
                looked_at = clock.monotonic()
            parts.pause.end_if_too_long()
            has_looked = not parts.pause.is_on
            more = has_looked and self._publish()
            if is_closed(state.position) and parts.signals.take(committer.finish):
                committer.commit()
            if is_idle:
                # A signal may have ended the pause just now: nothing was looked for yet.
                is_all = has_looked and not (more or parts.pause.is_on)
                committer.heartbeat(known_ms if is_all else None)
            if state.position != before:
                pacing.news()
            if not more:
                clock.wait(pacing.pause_s(), stop)
        committer.finish()
        _log.info("stopped", position=str(state.position))

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
