"""Cleanup: sys.sp_cdc_cleanup_change_table for one instance, sys.sp_MScdc_cleanup_job for all.

The job follows its documentation to the letter. It subtracts the retention (minutes) from the
newest tran_end_time in cdc.lsn_time_mapping. It maps that time to an LSN, the smallest one if
several entries share the time. First it raises the low watermark of every instance to it in one
transaction. Only then it deletes obsolete change rows and mapping entries, at most ``threshold``
rows by one statement. A failure on one table does not stop the others.

Inferred: the time is mapped to the first entry at or after it. So what is older than the retention
goes and what is younger stays. An instance whose low watermark is already above the new one keeps
it. Mapping entries are kept as long as any instance may need them.

A row that an open transaction has changed is waited for, as any DELETE waits. The Agent, whose
thread runs the jobs of all databases, does not wait in place but comes back later.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import apsw

from tailrace_emulator import messages
from tailrace_emulator.cdc import jobs, lsn_time_mapping
from tailrace_emulator.cdc.capture_instance import (
    CaptureInstance,
    capture_instances,
    find_instance,
    is_enabled,
    require_enabled,
)
from tailrace_emulator.cdc.functions import max_lsn
from tailrace_emulator.cdc.lsn import ZERO_LSN
from tailrace_emulator.cdc.metadata_tables import (
    CHANGE_TABLES,
    LSN_TIME_MAPPING,
    metadata_table,
    sqlite_column,
)
from tailrace_emulator.messages.errors import LOCK_TIMEOUT, SqlError
from tailrace_emulator.storage.removal import Removal

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine
    from tailrace_emulator.storage.transaction import StoreSession

THRESHOLD_DEFAULT: Final = 5000
_TICKS_PER_MINUTE: Final = 60 * 10_000_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """What a cleanup did.

    Attributes:
        deleted: rows per instance name.
        errors: of those, what failed them, where it is an error of SQL Server's.
        blocked: rows are left that open transactions have changed: only where nobody waits.
    """

    deleted: dict[str, int]
    failed: tuple[str, ...] = ()
    errors: dict[str, SqlError] = field(default_factory=dict)
    blocked: bool = False


class _Sweep:
    """The deletes of one cleanup, after the watermarks."""

    def __init__(
        self, engine: Engine, database: Database, threshold: int, session: StoreSession | None
    ) -> None:
        self._engine = engine
        self._database = database
        self._threshold = threshold
        self._session = session
        self.deleted: dict[str, int] = {}
        self.failed: list[str] = []
        self.errors: dict[str, SqlError] = {}
        self.blocked = False

    def change_table(self, instance: CaptureInstance, mark: bytes) -> None:
        """Deletes change rows below the mark, at most ``threshold`` by one statement."""
        database, name = self._database, instance.name
        removal = Removal(
            self._engine, database, instance.object_id, "__$start_lsn", mark, self._session
        )
        try:
            self.deleted[name] = removal.all(self._threshold)
        except SqlError as error:
            if error.number != LOCK_TIMEOUT:
                raise
            if self._session is None:
                self.blocked = True
            else:
                self.failed.append(name)
                self.errors[name] = error
        except apsw.Error:
            _log.exception("cleanup of %s.cdc.%s_CT failed", database.name, name)
            self.failed.append(name)

    def mapping(self) -> None:
        """Deletes mapping entries below every instance's low watermark."""
        with self._engine.write() as connection:
            marks = [i.start_lsn for i in capture_instances(connection, self._database)]
        known = [mark for mark in marks if mark is not None]
        if not known:
            return
        table = metadata_table(self._database, LSN_TIME_MAPPING)
        removal = Removal(
            self._engine, self._database, table.object_id, "start_lsn", min(known), self._session
        )
        try:
            removal.all(self._threshold)
        except SqlError as error:
            if error.number != LOCK_TIMEOUT or self._session is not None:
                raise
            self.blocked = True

    def result(self) -> CleanupResult:
        """What it did."""
        return CleanupResult(self.deleted, tuple(self.failed), self.errors, self.blocked)


def cleanup_change_table(
    engine: Engine,
    database: Database,
    capture_instance: str | None,
    low_water_mark: bytes | None,
    threshold: int = THRESHOLD_DEFAULT,
    session: StoreSession | None = None,
) -> CleanupResult:
    """sp_cdc_cleanup_change_table.

    Args:
        capture_instance: name of the instance.
        low_water_mark: the new low endpoint, which must be a start_lsn of
            cdc.lsn_time_mapping; None cleans up below the present one.
        threshold: rows deleted by one statement.
        session: whose call it is, and who waits; see :class:`Removal`.

    Raises:
        SqlError: 1205, 3617 while it waits for a row; 22901, 22963, 22920 unknown instance, 22850
            threshold not positive, 22964 LSN without an entry, 22957 LSN outside the instance's
            timeline.
    """
    procedure = "sp_cdc_cleanup_change_table"
    require_enabled(database, procedure)
    if capture_instance is None or not capture_instance.strip():
        raise messages.error(22963, "@capture_instance", procedure=procedure)
    if threshold <= 0:
        raise messages.error(22850, procedure=procedure)
    with engine.write() as connection:
        instance = find_instance(connection, database, capture_instance)
        if instance is None:
            raise messages.error(22920, capture_instance, database.name, procedure=procedure)
        mark = instance.start_lsn
        if low_water_mark is not None:
            mark = _new_mark(connection, database, instance, low_water_mark)
            _raise_mark(connection, database, instance, mark)
    if mark is None:
        return CleanupResult({instance.name: 0})
    sweep = _Sweep(engine, database, threshold, session)
    sweep.change_table(instance, max(mark, instance.start_lsn or mark))
    if not sweep.failed:
        sweep.mapping()
    return sweep.result()


def _new_mark(
    connection: apsw.Connection, database: Database, instance: CaptureInstance, lsn: bytes
) -> bytes:
    smallest = lsn_time_mapping.smallest_lsn_of_same_time(connection, database, lsn)
    if smallest is None:
        raise messages.error(
            22964, f"0x{lsn.hex().upper()}", procedure="sp_cdc_cleanup_change_table"
        )
    low = instance.start_lsn or ZERO_LSN
    high = max_lsn(connection, database) or ZERO_LSN
    if not low <= lsn <= high:
        raise messages.error(
            22957,
            *(f"0x{lsn.hex().upper()}", instance.name),
            *(f"0x{low.hex().upper()}", f"0x{high.hex().upper()}"),
            procedure="sp_cdc_cleanup_change_table",
        )
    return smallest


def _raise_mark(
    connection: apsw.Connection, database: Database, instance: CaptureInstance, mark: bytes
) -> None:
    table = metadata_table(database, CHANGE_TABLES)
    start = sqlite_column(table, "start_lsn")
    connection.execute(
        f'UPDATE "{table.sqlite_name}" SET {start} = ?'
        f" WHERE {sqlite_column(table, 'object_id')} = ? AND {start} < ?",
        (mark, instance.object_id, mark),
    )


def run_cleanup_job(
    engine: Engine, database: Database, session: StoreSession | None = None
) -> CleanupResult:
    """sp_MScdc_cleanup_job: with the retention and threshold of msdb.dbo.cdc_jobs.

    Args:
        session: whose call it is, and who waits; see :class:`Removal`.

    Raises:
        SqlError: 1205, 3617 while it waits for a row; 22910 database not enabled, 22997 no cleanup
            job.
    """
    if not is_enabled(database):
        raise messages.error(22910, database.name, procedure="sp_MScdc_cleanup_job")
    with engine.write() as connection:
        job = jobs.find_job(connection, engine, database, jobs.CLEANUP)
        mark = retention_mark(connection, database, job.retention or 0)
    threshold = job.threshold or THRESHOLD_DEFAULT
    return cleanup_change_tables(engine, database, mark, threshold, session)


def cleanup_change_tables(
    engine: Engine,
    database: Database,
    mark: bytes | None,
    threshold: int,
    session: StoreSession | None = None,
) -> CleanupResult:
    """The low watermark of all instances, in one transaction; then what lies below it goes.

    Args:
        mark: the new low watermark; an instance that has a higher one keeps it. None keeps all.
        threshold: how many entries a statement deletes at most.
        session: whose call it is, and who waits; see :class:`Removal`.

    Raises:
        SqlError: 1205, 3617 while it waits for a row.
    """
    with engine.write() as connection:
        if mark is not None:
            for instance in capture_instances(connection, database):
                _raise_mark(connection, database, instance, mark)
        instances = capture_instances(connection, database)
    sweep = _Sweep(engine, database, threshold, session)
    for instance in instances:
        if instance.start_lsn is not None:
            sweep.change_table(instance, instance.start_lsn)
    sweep.mapping()
    return sweep.result()


def retention_mark(
    connection: apsw.Connection, database: Database, retention_minutes: int
) -> bytes | None:
    """The low watermark for a retention, or None when nothing was captured."""
    newest_time = lsn_time_mapping.newest_time(connection, database)
    if newest_time is None:
        return None
    oldest_kept = newest_time - retention_minutes * _TICKS_PER_MINUTE
    return lsn_time_mapping.lsn_for_time(
        connection, database, "smallest greater than or equal", oldest_kept
    )
