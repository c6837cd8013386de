"""Cleanup of change tables that waits for topics or lakes (cleanup.wait_for; ADR 0086, 0087).

It works at the primary, in a thread of its own, because deletes wait for locks. It raises the low
watermark of a capture instance up to the committed closed LSN, or that of the lakes, and never
above it. Nothing is stored: the next bite follows from the instance's low watermark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.lakes import Lakes
from tailrace_publisher.errors import CleanupRefused, SourceError
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.catalog.capture_catalog import change_tables
from tailrace_publisher.source.log.cleanup import next_low_watermark, remove_below
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

_REFUSED_S: Final = 300.0
"""After a refusal, which an operator has to resolve."""


class Cleanup:
    """Removes change rows that are published.

    Args:
        executor: has exactly one thread.
        lakes: those that cleanup waits for; None without any.
    """

    def __init__(
        self,
        runtime: Runtime,
        tables: PublishedTables,
        state: PublisherState,
        executor: Executor,
        lakes: Lakes | None,
    ) -> None:
        self._runtime = runtime
        self._tables = tables
        self._state = state
        self._executor = executor
        self._lakes = lakes
        self._running: Future[bool] | None = None
        self._due_at = -math.inf
        self._reached: Lsn | None = None

    def look(self) -> None:
        """Remove a bite of each table if it is time; never waits for the server."""
        if self._running is not None:
            if not self._running.done():
                return
            self._finish(self._running)
        if self._runtime.clock.monotonic() < self._due_at:
            return
        instances, up_to = self._published(), self._reached
        if instances and up_to is not None:
            self._running = self._executor.submit(self._remove, instances, up_to)
        else:
            self._pause(self._runtime.config.cleanup.every_s)

    def _published(self) -> list[CaptureInstance]:
        """Return the instances whose rows up to the closed LSN nobody needs again.

        A table whose columns changed is handed to a newer instance: rows of the older one may be
        read again. A table that is stopped, or read by a snapshot, needs its change rows, too.
        """
        return [
            table.instances[0]
            for table in self._tables
            if len(table.instances) == 1
            and not table.added
            and self._state.of(table.name).state is TableState.FOLLOWED
        ]

    def _remove(self, instances: Sequence[CaptureInstance], up_to: Lsn) -> bool:
        """Remove a bite of each instance; return whether more is left. Runs in the thread."""
        is_more = False
        with self._runtime.ports.connect(self._runtime.config.source.for_changes) as connection:
            present = {row.object_id: row.start_lsn for row in change_tables(connection)}
            for instance in instances:
                low = present.get(instance.object_id)
                bite = None if low is None else next_low_watermark(connection, low, up_to)
                if bite is not None:
                    mark, has_more = bite
                    remove_below(connection, instance.name, mark)
                    is_more = is_more or has_more
                if self._runtime.stop.is_set():
                    break
        return is_more

    def _finish(self, done: Future[bool]) -> None:
        self._running = None
        pause_s = self._runtime.config.cleanup.every_s
        try:
            if done.result():
                pause_s = 0.0
        except SourceError as error:
            pause_s = max(pause_s, _REFUSED_S)
            refused = CleanupRefused(error)
            self._runtime.metrics.failed(refused, str(refused))
            _log.warning(
                "cleanup_refused",
                reason=str(refused),
                effect="change rows stay until the server's cleanup job removes them",
                again_in_s=round(pause_s),
            )
        self._pause(pause_s)

    def _pause(self, seconds: float) -> None:
        """Wait; what is closed by now may be removed after a pause, when DDL has been noticed."""
        if seconds:
            closed = self._state.closed_lsn
            self._reached = closed if self._lakes is None else min(closed, self._lakes.closed_lsn)
        self._due_at = self._runtime.clock.monotonic() + seconds
