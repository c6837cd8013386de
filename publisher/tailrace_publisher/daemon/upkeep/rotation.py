"""Rotation of capture instances (tables.schema_change: rotate; ADR 0082).

``rotation_step`` decides what a table needs next. This module carries it out, at the primary, in a
thread of its own, because the server waits for locks on the source table. One step runs at a time,
and only in a database that is proven to hold what was published (ADR 0114). It first reads the
instances at the primary again: a readable secondary may lag, and somebody else may have taken the
step meanwhile.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final

import structlog

from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.rotation_step import Create, Drop, Step, Wait, next_step
from tailrace_publisher.daemon.tables.table_state import PUBLISHED
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.lakes import Lakes
from tailrace_publisher.daemon.upkeep.source_thread import SourceThread, result_of
from tailrace_publisher.errors import CaptureInstanceGone, PublisherError, RotationRefused
from tailrace_publisher.options.tables import SchemaChange
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.runtime import Step as RuntimeStep
from tailrace_publisher.source.catalog.capture_catalog import change_tables
from tailrace_publisher.source.catalog.capture_changes import create_instance, drop_instance
from tailrace_publisher.source.catalog.next_instance import next_name, next_options
from tailrace_publisher.source.log.proven_source import ProvenSource
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.backoff import Backoff

_log = structlog.get_logger(__name__)

_PAUSE_S: Final = 30.0
"""Before a step is taken again: the catalog of a secondary shows it only after some time. Doubled
after each attempt that got no lock: while it waits for one, writers queue."""
_REFUSED_S: Final = 300.0
"""The longest pause: after a refusal, which an operator has to resolve, and of those that grow."""


class _Outcome(Enum):
    CREATED = auto()
    DROPPED = auto()
    OVERTAKEN = auto()


@dataclass(frozen=True, slots=True)
class _Running:
    """A step that was started, and its outcome with the instance that it was about."""

    table: TableName
    step: Create | Drop
    future: Future[tuple[_Outcome, str]]


class Rotation:
    """The rotation of all tables whose ``schema_change`` is ``rotate``.

    Args:
        lakes: those that the drop of an older instance waits for; None without any.
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
        self._running: _Running | None = None
        self._not_before: dict[tuple[TableName, str, int], float] = {}
        self._backoffs: dict[TableName, Backoff] = {}
        self._waiting: dict[TableName, str] = {}
        self._looked: tuple[int, int] | None = None
        self._open: list[PublishedTable] = []

    def look(self) -> None:
        """Take the next step of a table that needs one; never waits for the server."""
        if self._running is not None:
            if not self._running.future.done():
                return
            self._finish(self._running)
        for table in self._rotated():
            step = self._next_step(table)
            self._note_wait(table.name, step.reason if isinstance(step, Wait) else None)
            if isinstance(step, Create | Drop) and self._is_due(table.name, step):
                self._start(table.name, step)
                return

    def _next_step(self, table: PublishedTable) -> Step | None:
        lakes = self._lakes
        in_lakes = None if lakes is None else lakes.closed_lsn
        return next_step(table, self._state.closed_lsn, in_lakes)

    def _is_due(self, table: TableName, step: Create | Drop) -> bool:
        """Return whether a step may be taken now; one that was just taken is paused."""
        due_at = self._not_before.get(_key(table, step), -math.inf)
        return self._runtime.clock.monotonic() >= due_at

    def _pause(self, table: TableName, step: Create | Drop, seconds: float) -> None:
        self._not_before[_key(table, step)] = self._runtime.clock.monotonic() + seconds

    def _rotated(self) -> list[PublishedTable]:
        """Return the tables that may need a step, cached until the catalog or a state changes."""
        looked = self._tables.refreshed, self._state.moves
        if self._looked != looked:
            self._looked = looked
            modes = self._runtime.config.tables
            self._open = [
                table
                for table in self._tables
                if self._state.of(table.name).state in PUBLISHED
                and modes.schema_change_of(table.name) is SchemaChange.ROTATE
                and self._next_step(table) is not None
            ]
        return self._open

    def _start(self, table: TableName, step: Create | Drop) -> None:
        history = self._state.history
        if history is None:  # nothing is published that would prove which database this is
            return
        self._pause(table, step, _PAUSE_S)
        take = partial(_create, step) if isinstance(step, Create) else partial(_drop, step)
        self._running = _Running(table, step, self._thread.submit(take, history))
        if self._running.future.done():
            self._finish(self._running)

    def _finish(self, done: _Running) -> None:
        """Report how a step ended."""
        self._running = None
        table = done.table
        found = result_of(done.future, f"rotating the capture instances of {table}")
        if isinstance(found, PublisherError):
            self._failed(done, found)
            return
        outcome, instance = found
        self._backoffs.pop(table, None)
        self._runtime.metrics.rotation_refused.labels(table=str(table)).set(0)
        if outcome is _Outcome.OVERTAKEN:
            _log.info("rotation_overtaken", table=str(table), capture_instance=instance)
            return
        if isinstance(done.step, Create):
            _log.info(
                "capture_instance_created",
                table=str(table),
                capture_instance=instance,
                takes_over_from=done.step.present.name,
                reason=done.step.change,
            )
        else:
            _log.info(
                "capture_instance_dropped",
                table=str(table),
                capture_instance=instance,
                replaced_by=done.step.newer.name,
                closed_lsn=str(self._state.closed_lsn),
            )
        self._runtime.on_step(RuntimeStep.ROTATED)

    def _failed(self, done: _Running, error: PublisherError) -> None:
        table, step = done.table, done.step
        if error.retryable:
            backoff = self._backoffs.setdefault(table, Backoff(_REFUSED_S, first_s=_PAUSE_S))
            pause_s = backoff.next_s()
            self._pause(table, step, pause_s)
            _log.warning(
                "rotation_retried", table=str(table), reason=str(error), pause_s=round(pause_s)
            )
            return
        if isinstance(step, Create):
            doing, instance = "create", next_name(step.present.name, ())
        else:
            doing, instance = "drop", step.older.name
        refused = RotationRefused(table, instance, doing, error)
        self._pause(table, step, _REFUSED_S)
        self._runtime.metrics.rotation_refused.labels(table=str(table)).set(1)
        self._runtime.metrics.failed(refused, str(refused), str(table))
        _log.error(
            "rotation_refused",
            table=str(table),
            capture_instance=instance,
            reason=str(refused),
            effect="the table continues with its present capture instance",
            again_in_s=round(_REFUSED_S),
        )

    def _note_wait(self, table: TableName, reason: str | None) -> None:
        if reason is not None and self._waiting.get(table) != reason:
            _log.info("rotation_waiting", table=str(table), reason=reason)
        if reason is None:
            self._waiting.pop(table, None)
        else:
            self._waiting[table] = reason


def _key(table: TableName, step: Create | Drop) -> tuple[TableName, str, int]:
    """Return what distinguishes a step from others: the instance that it starts from."""
    present = step.present if isinstance(step, Create) else step.older
    return table, type(step).__name__, present.object_id


def _create(step: Create, source: ProvenSource) -> tuple[_Outcome, str]:
    """Create the second instance, unless the table has one by now; runs in the thread."""
    present = step.present
    rows = change_tables(source.connection)
    of_table = [row for row in rows if row.source_object_id == present.source_object_id]
    if [row.object_id for row in of_table] != [present.object_id]:
        return _Outcome.OVERTAKEN, present.name
    taken = [row.instance for row in rows]
    try:
        options = next_options(source.connection, present, step.added, taken)
    except CaptureInstanceGone:
        return _Outcome.OVERTAKEN, present.name
    is_created = create_instance(source, of_table[0], present, options)
    outcome = _Outcome.CREATED if is_created else _Outcome.OVERTAKEN
    return outcome, str(options.capture_instance)


def _drop(step: Drop, source: ProvenSource) -> tuple[_Outcome, str]:
    """Drop the older instance, if both are still the ones that were compared; in the thread."""
    rows = {row.object_id: row for row in change_tables(source.connection)}
    older = rows.get(step.older.object_id)
    if older is None or not drop_instance(source, older, step.older, step.newer):
        return _Outcome.OVERTAKEN, step.older.name
    return _Outcome.DROPPED, older.instance
