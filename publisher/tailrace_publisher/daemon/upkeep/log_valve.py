"""The valve of the source's log: it gives up the capture of tables, by option (ADR 0090).

The log is held until the capture process has read it. If that is too slow, the log becomes full,
and the source's own writes fail with error 9002. The valve disables the capture instances of one
table after another, as long as the log is too full. Each table goes in two steps:

1. It stops, like a table with an error of its own, and the checkpoint stores the reason.
2. Its capture instances are disabled, at the primary, in a thread of its own.

A publisher that is killed in between finds the instances at its next start. The table restarts
with a snapshot, and may be given up again. After the second step, the table is one that is not
captured any more. It gets a snapshot once it is captured again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.tables import PublishedTables
from tailrace_publisher.daemon.upkeep.log_pressure import LogPressure, LogReading
from tailrace_publisher.errors import CaptureGivenUp, LogValveRefused, SourceError, TableFailed
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import Runtime
from tailrace_publisher.source.catalog.capture_catalog import change_tables
from tailrace_publisher.source.catalog.capture_tsql import OUT_OF_SNAPSHOT, disable_table
from tailrace_publisher.source.log.queries import is_owner, is_read_only, max_lsn
from tailrace_publisher.source.log.space import read_space
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

_Then = Callable[[], None]
"""What the main loop does with the result of the thread."""

_EVERY_S: Final = 30.0
_READINGS: Final = 4
"""Readings in the time for which the log must be too full, if that is short."""
_REFUSED_S: Final = 300.0
"""After a refusal, which an operator has to resolve."""
_GONE: Final = frozenset({22931, 22960})
"""The capture instance does not exist: somebody else was faster.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A table that is stopped, and whose capture instances are to be disabled.

    Attributes:
        object_ids: of the instances' change tables: one that is created meanwhile stays.
    """

    table: TableName
    object_ids: frozenset[int]
    percent: float


class LogValve:
    """Gives up the capture of the configured tables, in their order.

    Args:
        executor: has exactly one thread.
    """

    def __init__(
        self, runtime: Runtime, tables: PublishedTables, state: PublisherState, executor: Executor
    ) -> None:
        options = runtime.config.source.log_valve
        self._runtime = runtime
        self._tables = tables
        self._state = state
        self._executor = executor
        self._pressure = LogPressure(options.at_percent, options.for_s)
        self._every_s = min(_EVERY_S, options.for_s / _READINGS)
        self._due_at = runtime.clock.monotonic() + self._every_s
        self._running: Future[_Then] | None = None
        self._next: TableName | None = None
        self._leaving: _Leaving | None = None
        self._logged: str | None = None

    def look(self) -> None:
        """Read the log, or disable what is given up, if it is time; never waits for the server.

        Raises:
            TableFailed: the next table is given up; its cause is CaptureGivenUp.
        """
        if self._running is not None:
            if not self._running.done():
                return
            done, self._running = self._running, None
            self._finish(done)
        now, leaving = self._runtime.clock.monotonic(), self._leaving
        if now < self._due_at:
            return
        self._due_at = now + self._every_s
        if leaving is None:
            self._running = self._executor.submit(self._read, now)
        elif self._state.of(leaving.table).given_up_reason is None:
            self._leaving = None  # an operator has requested a snapshot of it meanwhile
        else:
            self._running = self._executor.submit(self._disable, leaving)

    def _read(self, now: float) -> _Then:
        """Read the log; runs in the thread."""
        with self._runtime.ports.connect(self._runtime.config.source.for_changes) as connection:
            return partial(self._weigh, read_log(connection, now))

    def _disable(self, leaving: _Leaving) -> _Then:
        """Disable the capture instances of a table; runs in the thread."""
        with self._runtime.ports.connect(self._runtime.config.source.for_changes) as connection:
            return partial(self._given_up, leaving, _disabled(connection, leaving))

    def _finish(self, done: Future[_Then]) -> None:
        try:
            then = done.result()
        except SourceError as error:
            self._refused(error)
            return
        self._runtime.metrics.log_valve_refused.set(0)
        then()

    def _refused(self, error: SourceError) -> None:
        refused = error if isinstance(error, LogValveRefused) else LogValveRefused.of(error)
        if self._leaving is None and not error.retryable:
            self._due_at = self._runtime.clock.monotonic() + _REFUSED_S
        self._runtime.metrics.log_valve_refused.set(1)
        if self._is_news(str(refused)):
            self._runtime.metrics.failed(refused, str(refused))
            _log.warning(
                "log_valve_refused",
                reason=str(refused),
                effect="if the log becomes full, every write of the source fails with error 9002",
            )

    def _weigh(self, reading: LogReading) -> None:
        """Give up the next table if the log requires it.

        Raises:
            TableFailed: the table is given up.
        """
        table = self._first()
        if table != self._next:
            self._next = table
            self._pressure.clear()
        self._pressure.note(reading)
        if not self._pressure.is_lasting:
            self._logged = None
            return
        waits_for = self._waits_for(table)
        if table is not None and waits_for is None:
            self._give_up(table, reading)
        if waits_for is not None and self._is_news(waits_for):
            percent = round(reading.percent, 1)
            _log.warning("log_valve_waiting", log_used_percent=percent, reason=waits_for)

    def _first(self) -> TableName | None:
        """Return the first table in the order that is still captured, here or in another shard."""
        here = {t.name for t in self._tables if self._state.of(t.name).given_up_reason is None}
        options = self._runtime.config.source.log_valve
        return next(iter(options.order_of(here | self._tables.elsewhere)), None)

    def _waits_for(self, table: TableName | None) -> str | None:
        """Return why no table is given up though the log is too full; None if one is."""
        if table is None:
            return "no table of source.log_valve.tables is captured any more"
        if not self._pressure.is_captured:
            return (
                "the capture process has captured nothing meanwhile, so giving up tables frees no"
                " log. Fix: EXEC sys.sp_cdc_start_job @job_type = N'capture'; see sys.dm_cdc_errors"
            )
        if table in self._tables.elsewhere:
            return f"table {table} comes first, and the publisher of its shard gives it up"
        return None

    def _give_up(self, table: TableName, reading: LogReading) -> None:
        """Stop a table; the next look disables its instances, once that is committed.

        Raises:
            TableFailed: its cause is CaptureGivenUp.
        """
        published = self._tables.get(table)
        ids = frozenset(i.object_id for i in published.instances) if published else frozenset()
        self._leaving = _Leaving(table, ids, reading.percent)
        self._pressure.clear()
        self._due_at = -math.inf
        was_stopped = self._state.of(table).stopped_reason is not None
        after = None if was_stopped else self._state.published_lsn
        raise TableFailed(table, CaptureGivenUp(table, reading.percent, after))

    def _given_up(self, leaving: _Leaving, dropped: list[str]) -> None:
        self._leaving = None
        _log.error(
            "capture_given_up",
            table=str(leaving.table),
            capture_instances=dropped,
            log_used_percent=round(leaving.percent, 1),
            reason=self._state.of(leaving.table).given_up_reason,
        )

    def _is_news(self, text: str) -> bool:
        was, self._logged = self._logged, text
        return was != text


def read_log(connection: Connection, at: float) -> LogReading:
    """Read how full the log is.

    Args:
        connection: to the primary, as a login that may disable capture instances.
        at: seconds of a clock that only goes forward.

    Raises:
        LogValveRefused: no table could be given up: rights are missing, or the limit is unknown.
        SourceError: the server did not answer.
    """
    if is_read_only(connection):
        raise LogValveRefused(
            "source.primary reaches a read-only copy of the database",
            "let source.primary.host name the primary",
        )
    if not is_owner(connection):
        raise LogValveRefused(
            "the login is not in the role db_owner",
            "let source.primary name a login that is (tailrace grants)",
        )
    space = read_space(connection)
    if space is None or space.log_limit is None:
        raise LogValveRefused(
            "the use of the log is not visible"
            if space is None
            else "its files have no limit, and the size of their disk is not visible",
            "GRANT VIEW SERVER STATE to the login of source.primary, or set MAXSIZE of all files"
            " of the log",
        )
    captured = max_lsn(connection)
    return LogReading(at, space.log_used, space.log_limit, space.log_waits_for, captured)


def _disabled(connection: Connection, leaving: _Leaving) -> list[str]:
    """Disable the capture instances of a table; return the names of those that existed."""
    dropped = []
    for row in change_tables(connection):
        if row.object_id not in leaving.object_ids:
            continue
        try:
            connection.query_sets(
                OUT_OF_SNAPSHOT + disable_table(row.schema, row.table, row.instance)
            )
        except SourceError as error:
            if error.number not in _GONE:
                raise
        else:
            dropped.append(row.instance)
    return dropped
