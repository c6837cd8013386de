"""Rotation of capture instances (tables.schema_change: rotate; ADR 0082).

``rotation_step`` decides what a table needs next. This module carries it out, at the primary, in a
thread of its own, because the server waits for locks on the source table. One step runs at a time.
It first reads the instances at the primary again: a readable secondary may lag, and somebody else
may have taken the step meanwhile.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import structlog

from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.rotation_step import Create, Drop, Step, Wait, next_step
from tailrace_publisher.daemon.tables.table_state import PUBLISHED
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.lakes import Lakes
from tailrace_publisher.errors import RotationRefused, SourceError
from tailrace_publisher.options.tables import SchemaChange
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.runtime import Step as RuntimeStep
from tailrace_publisher.source.catalog.capture_catalog import change_tables
from tailrace_publisher.source.catalog.capture_tsql import (
    OUT_OF_SNAPSHOT,
    disable_table,
    enable_table,
)
from tailrace_publisher.source.catalog.next_instance import next_name, next_options
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

_TAKEN: Final = frozenset({22926, 22962})
"""The name is taken, or the table has two instances: somebody else was faster.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""
_PAUSE_S: Final = 30.0
"""Before a step is taken again: the catalog of a secondary shows it only after some time."""
_REFUSED_S: Final = 300.0
"""After a refusal, which an operator has to resolve."""


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
        executor: has exactly one thread.
        lakes: those that the drop of an older instance waits for; None without any.
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
        self._running: _Running | None = None
        self._not_before: dict[tuple[TableName, str, int], float] = {}
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
        self._pause(table, step, _PAUSE_S)
        self._running = _Running(table, step, self._executor.submit(self._take, step))
        if self._running.future.done():
            self._finish(self._running)

    def _take(self, step: Create | Drop) -> tuple[_Outcome, str]:
        """Take a step; runs in the thread."""
        with self._runtime.ports.connect(self._runtime.config.source.for_changes) as connection:
            return (
                _create(connection, step) if isinstance(step, Create) else _drop(connection, step)
            )

    def _finish(self, done: _Running) -> None:
        """Report how a step ended."""
        self._running = None
        table = done.table
        try:
            outcome, instance = done.future.result()
        except SourceError as error:
            self._failed(done, error)
            return
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

    def _failed(self, done: _Running, error: SourceError) -> None:
        table, step = done.table, done.step
        if error.retryable:
            _log.warning(
                "rotation_retried", table=str(table), reason=str(error), pause_s=round(_PAUSE_S)
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


def _create(connection: Connection, step: Create) -> tuple[_Outcome, str]:
    """Create the second instance, unless the table has one by now."""
    present = step.present
    rows = change_tables(connection)
    of_table = [row for row in rows if row.source_object_id == present.source_object_id]
    if [row.object_id for row in of_table] != [present.object_id]:
        return _Outcome.OVERTAKEN, present.name
    options = next_options(connection, present, step.added, [row.instance for row in rows])
    name = str(options.capture_instance)
    statement = enable_table(of_table[0].schema, of_table[0].table, options)
    try:
        connection.query_sets(OUT_OF_SNAPSHOT + statement)
    except SourceError as error:
        if error.number not in _TAKEN:
            raise
        return _Outcome.OVERTAKEN, name
    return _Outcome.CREATED, name


def _drop(connection: Connection, step: Drop) -> tuple[_Outcome, str]:
    """Drop the older instance, if both are still the ones that were compared."""
    rows = {row.object_id: row for row in change_tables(connection)}
    older, newer = rows.get(step.older.object_id), rows.get(step.newer.object_id)
    if older is None or newer is None:
        return _Outcome.OVERTAKEN, step.older.name
    connection.query_sets(
        OUT_OF_SNAPSHOT + disable_table(older.schema, older.table, older.instance)
    )
    return _Outcome.DROPPED, older.instance
