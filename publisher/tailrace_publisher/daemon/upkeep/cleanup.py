"""Cleanup of change tables that waits for topics or lakes (cleanup.wait_for; ADR 0086, 0087).

It works at the primary, in a thread of its own, because deletes wait for locks. It raises the low
watermark of a capture instance up to the committed closed LSN, or that of the lakes, and never
above it. It touches only a database that is proven to hold what was published (ADR 0114). Nothing
is stored: the next bite follows from the instance's low watermark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.lakes import Lakes
from tailrace_publisher.daemon.upkeep.source_thread import SourceThread, result_of
from tailrace_publisher.errors import (
    CleanupRefused,
    PermissionMissing,
    PublisherError,
    SourceBusy,
    TableFailed,
)
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.options.tables import SchemaChange
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.catalog.capture_catalog import change_tables
from tailrace_publisher.source.log.cleanup import next_low_watermark, remove_below
from tailrace_publisher.source.log.proven_source import ProvenSource
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.backoff import Backoff

_log = structlog.get_logger(__name__)

_REFUSED_S: Final = 300.0
"""The longest pause: after a refusal, which an operator has to resolve, and of those that grow."""
_RETRY_S: Final = 30.0
"""The first pause after a change that got no lock: while it waits for one, writers queue."""
_EFFECT: Final = "change rows stay until the server's cleanup job removes them"


@dataclass(frozen=True, slots=True)
class _Bites:
    """What a turn of the thread did.

    Attributes:
        is_more: whether more is left.
        failed: errors of single tables.
    """

    is_more: bool = False
    failed: Mapping[TableName, PublisherError] = field(default_factory=dict)


class Cleanup:
    """Removes change rows that are published.

    Args:
        lakes: those that cleanup waits for; None without any.
    """

    def __init__(
        self,
        runtime: Runtime,
        tables: PublishedTables,
        state: PublisherState,
        thread: SourceThread,
        lakes: Lakes | None,
    ) -> None:
        self._runtime = runtime
        self._tables = tables
        self._state = state
        self._thread = thread
        self._lakes = lakes
        self._running: Future[_Bites] | None = None
        self._due_at = -math.inf
        self._reached: Lsn | None = None
        self._backoffs: dict[TableName | None, Backoff] = {}
        self._not_before: dict[TableName, float] = {}
        self._waiting: set[TableName] = set()

    def look(self) -> None:
        """Remove a bite of each table if it is time; never waits for the server."""
        if self._running is not None:
            if not self._running.done():
                return
            self._finish(self._running)
        if self._runtime.clock.monotonic() < self._due_at:
            return
        instances, up_to, history = self._published(), self._reached, self._state.history
        if instances and up_to is not None and history is not None:
            remove = partial(self._remove, instances=instances, up_to=up_to)
            self._running = self._thread.submit(remove, history)
        else:
            self._pause(self._runtime.config.cleanup.every_s)

    def _published(self) -> list[CaptureInstance]:
        """Return the instances whose rows up to the closed LSN nobody needs again.

        A table whose columns changed is handed to a newer instance: rows of the older one may be
        read again. A table that is stopped, or read by a snapshot, needs its change rows, too.
        """
        now = self._runtime.clock.monotonic()
        return [
            table.instances.newest
            for table in self._tables
            if len(table.instances) == 1
            and self._state.of(table.name).state is TableState.FOLLOWED
            and not self._waits(table)
            and now >= self._not_before.get(table.name, -math.inf)
        ]

    def _waits(self, table: PublishedTable) -> bool:
        """Return whether a newer instance is to come; report once that its creation is awaited."""
        mode = self._runtime.config.tables.schema_change_of(table.name)
        if not table.added or mode is SchemaChange.IGNORE:
            self._waiting.discard(table.name)
            return False
        if table.name not in self._waiting and mode is not SchemaChange.ROTATE:
            instance, lacks = table.instances.newest.name, ", ".join(table.added)
            _log.warning(
                "cleanup_waiting",
                table=str(table.name),
                reason=f"capture instance {instance} lacks {lacks}",
                effect=_EFFECT,
                fix="create a second capture instance with the columns of today"
                " (docs/schema-changes.md); or set tables.schema_changes of the table to ignore",
            )
        self._waiting.add(table.name)
        return True

    def _remove(
        self, source: ProvenSource, instances: Sequence[CaptureInstance], up_to: Lsn
    ) -> _Bites:
        """Remove a bite of each instance; runs in the thread.

        Raises:
            PublisherError: an error that affects all tables.
        """
        is_more = False
        failed: dict[TableName, PublisherError] = {}
        present = {row.object_id: row.start_lsn for row in change_tables(source.connection)}
        for instance in instances:
            low = present.get(instance.object_id)
            if low is None:
                continue
            try:
                with of_one_table(instance.table, f"removing change rows of {instance.name}"):
                    is_more = _remove_bite(source, instance, low, up_to) or is_more
            except SourceBusy as error:
                failed[instance.table] = error
            except TableFailed as error:
                if isinstance(error.cause, PermissionMissing):  # so it is for all tables
                    raise error.cause from error
                failed[instance.table] = (
                    error.cause if isinstance(error.cause, PublisherError) else error
                )
            if self._thread.is_ending():
                break
        return _Bites(is_more, failed)

    def _finish(self, done: Future[_Bites]) -> None:
        self._running = None
        found = result_of(done, "removing change rows")
        if isinstance(found, PublisherError):
            self._pause(max(self._runtime.config.cleanup.every_s, self._failed(None, found)))
            return
        kept = self._backoffs.keys() & found.failed.keys()
        self._backoffs = {table: self._backoffs[table] for table in kept}
        for table, error in found.failed.items():
            self._not_before[table] = self._runtime.clock.monotonic() + self._failed(table, error)
        self._pause(0.0 if found.is_more else self._runtime.config.cleanup.every_s)

    def _failed(self, table: TableName | None, error: PublisherError) -> float:
        """Report an error, of one table or of all; return the seconds until the next attempt."""
        backoff = self._backoffs.setdefault(table, Backoff(_REFUSED_S, first_s=_RETRY_S))
        pause_s = backoff.next_s() if error.retryable else _REFUSED_S
        named = {} if table is None else {"table": str(table)}
        if error.retryable:
            _log.info("cleanup_retried", **named, reason=str(error), pause_s=round(pause_s))
            return pause_s
        refused = CleanupRefused(table, error)
        self._runtime.metrics.failed(refused, str(refused), named.get("table"))
        _log.warning(
            "cleanup_refused",
            **named,
            reason=str(refused),
            effect=_EFFECT,
            again_in_s=round(pause_s),
        )
        return pause_s

    def _pause(self, seconds: float) -> None:
        """Wait; what is closed by now may be removed after a pause, when DDL has been noticed."""
        if seconds:
            closed = self._state.closed_lsn
            self._reached = closed if self._lakes is None else min(closed, self._lakes.closed_lsn)
        self._due_at = self._runtime.clock.monotonic() + seconds


def _remove_bite(source: ProvenSource, instance: CaptureInstance, low: Lsn, up_to: Lsn) -> bool:
    """Remove a bite of an instance; return whether more is left and the next bite may go at once.

    Raises:
        HistoryUnproven, SourceError: see :func:`remove_below`.
    """
    bite = next_low_watermark(source.connection, instance.name, low, up_to)
    if bite is None:
        return False
    mark, has_more = bite
    reached = remove_below(source, instance, mark)
    return has_more and reached is not None and reached > low
