"""The capture process: reads the log in commit order and fills the change tables.

One scan cycle takes at most ``maxtrans`` transactions from the log, in one write transaction of its
own, so all change tables, cdc.lsn_time_mapping, cdc.ddl_history and the position in the log move
together. When the cycle has committed, the captured part of the log may be truncated. A cycle that
is stopped or fails is undone as a whole and loses nothing.

A newly enabled instance is recognised when the scan reaches the LSN at which it was enabled: from
there on its changes are taken, and that LSN becomes its start_lsn.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-scan-transact-sql
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import apsw

from emulator.cdc import ddl_history, lsn_time_mapping, scan_position
from emulator.cdc.capture_instance import CaptureInstance, capture_instances, require_enabled
from emulator.cdc.change_table import (
    ChangeRow,
    ImageReader,
    change_rows,
    everything_mask,
    image_reader,
)
from emulator.cdc.disable import drop_instance
from emulator.cdc.jobs import check_polling_interval, check_scan_limits
from emulator.cdc.lsn import ZERO_LSN
from emulator.cdc.messages import cdc_error
from emulator.cdc.metadata_tables import (
    CHANGE_TABLES,
    column_list,
    metadata_table,
    sqlite_column,
)
from emulator.cdc.runtime import runtime
from emulator.cdc.scan_sessions import ScanError, ScanSession
from emulator.errors import SqlError
from emulator.log.records import DdlChange, LogTransaction, RowChange
from emulator.storage.model import Table

if TYPE_CHECKING:
    from emulator.storage.engine import Database, Engine

MAXTRANS_DEFAULT: Final = 500
MAXSCANS_DEFAULT: Final = 10
FLUSH_ROWS: Final = 4096
"""Change rows held in memory per cycle before they go to SQLite; also how often a stop is seen."""

_log = logging.getLogger(__name__)

AGENT_SESSION: Final = 0
"""Session id under which the capture job scans."""


class ScanStopped(Exception):
    """The scan was asked to stop; what it did in this cycle is undone."""


def never() -> bool:
    """A scan that nobody stops."""
    return False


def scan(
    engine: Engine,
    database: Database,
    *,
    maxtrans: int = MAXTRANS_DEFAULT,
    maxscans: int = MAXSCANS_DEFAULT,
    session_id: int = AGENT_SESSION,
    stopped: Callable[[], bool] = never,
) -> list[ScanSession]:
    """Runs scan cycles until the log is drained or ``maxscans`` cycles ran.

    Args:
        engine: the engine.
        database: the database whose log is scanned.
        maxtrans: transactions per cycle.
        maxscans: cycles.
        session_id: who scans, for the message to another scanner.
        stopped: asked between batches of rows; a true answer undoes the cycle and ends the scan.

    Returns:
        One session per cycle; the last one found fewer than ``maxtrans`` transactions if the log
        is drained.

    Raises:
        SqlError: 22901 database not enabled, 22903 another scan is active; an error of the cycle,
            which is recorded in sys.dm_cdc_errors.
    """
    require_enabled(database, "sp_cdc_scan")
    sessions: list[ScanSession] = []
    history = runtime(engine).history(database)
    with runtime(engine).scanning(database, session_id):
        for _ in range(maxscans):
            begun = engine.clock.now_ticks()
            try:
                session = _Cycle(engine, database, maxtrans, stopped, begun).run()
            except ScanStopped:
                break
            except SqlError as error:
                _record_failure(engine, database, begun, error)
                raise
            except apsw.Error as error:
                failure = cdc_error(22859, procedure="sp_cdc_scan")
                failure.message += f" {error}"
                _record_failure(engine, database, begun, failure)
                raise failure from error
            sessions.append(history.record(session))
            if session.tran_count < maxtrans:
                break
    return sessions


def _record_failure(engine: Engine, database: Database, begun: int, error: SqlError) -> None:
    _log.warning("log scan of %s failed: %s", database.name, error)
    now = engine.clock.now_ticks()
    runtime(engine).history(database).record_failure(
        begun,
        now,
        ScanError(0, now, error.number, error.severity, error.state, error.message),
    )


@dataclass(slots=True)
class _Target:
    """One capture instance during a cycle: its change table and the rows not yet written."""

    instance: CaptureInstance
    change_table: Table
    everything: bytes
    insert: str
    readers: dict[tuple[int, ...], ImageReader] = field(default_factory=dict)
    rows: list[ChangeRow] = field(default_factory=list)


class _Cycle:
    """One scan cycle."""

    def __init__(
        self,
        engine: Engine,
        database: Database,
        maxtrans: int,
        stopped: Callable[[], bool],
        begun: int,
    ) -> None:
        self._engine = engine
        self._database = database
        self._maxtrans = maxtrans
        self._stopped = stopped
        self._begun = begun
        self._targets: dict[int, list[_Target]] = {}
        self._awaiting: list[scan_position.AwaitingInstance] = []
        self._entries: list[lsn_time_mapping.Entry] = []
        self._pending_rows = 0
        self._commands = 0
        self._schema_changes = 0

    def run(self) -> ScanSession:
        """Scans, commits, and lets the log be truncated."""
        database = self._database
        with self._engine.write() as connection:
            require_enabled(database, "sp_cdc_scan")
            start = scan_position.load(connection, database) or ZERO_LSN
            self._awaiting = scan_position.awaiting(connection, database)
            self._load_targets(connection)
            taken: list[tuple[bytes, int]] = []
            records = 0
            for transaction in database.log.committed(start, self._maxtrans):
                self._recognise(connection, transaction.commit_lsn)
                self._capture(connection, transaction)
                taken.append((transaction.commit_lsn, transaction.commit_ticks))
                records += transaction.change_count
            self._flush(connection)
            if len(taken) < self._maxtrans:
                self._recognise(connection, None)
                self._mark_time(connection)
            lsn_time_mapping.add_entries(connection, database, self._entries)
            end = taken[-1][0] if taken else start
            if taken:
                scan_position.save(connection, database, end)
                database.log.truncate(end)
        ended = self._engine.clock.now_ticks()
        if not taken:
            return ScanSession(0, self._begun, ended)
        return ScanSession(
            0,
            self._begun,
            ended,
            start_lsn=start,
            end_lsn=end,
            tran_count=len(taken),
            last_commit_lsn=end,
            last_commit_ticks=taken[-1][1],
            log_record_count=records,
            schema_change_count=self._schema_changes,
            command_count=self._commands,
            first_begin_cdc_lsn=taken[0][0],
            last_commit_cdc_lsn=end,
            last_commit_cdc_ticks=taken[-1][1],
            latency_s=max(0, ended - taken[-1][1]) // 10_000_000,
        )

    # -- instances ---------------------------------------------------------------------------------

    def _load_targets(self, connection: apsw.Connection) -> None:
        """The instances whose changes are taken now: those that are recognised."""
        waiting = {instance.object_id for instance in self._awaiting}
        self._targets = {}
        for instance in capture_instances(connection, self._database):
            table = self._database.table_by_id(instance.object_id)
            if instance.object_id in waiting or table is None:
                continue
            marks = ", ".join("?" * len(table.columns))
            self._targets.setdefault(instance.source_object_id, []).append(
                _Target(
                    instance,
                    table,
                    everything_mask(instance),
                    f'INSERT INTO "{table.sqlite_name}" ({column_list(table)}) VALUES ({marks})',
                )
            )

    def _recognise(self, connection: apsw.Connection, before: bytes | None) -> None:
        """Begins the instances that were enabled before that LSN; all of them when it is None."""
        ready = [i for i in self._awaiting if before is None or i.enabled_lsn < before]
        if not ready:
            return
        self._awaiting = self._awaiting[len(ready) :]
        table = metadata_table(self._database, CHANGE_TABLES)
        for instance in ready:
            connection.execute(
                f'UPDATE "{table.sqlite_name}" SET {sqlite_column(table, "start_lsn")} = ?'
                f" WHERE {sqlite_column(table, 'object_id')} = ?",
                (instance.enabled_lsn, instance.object_id),
            )
            scan_position.recognised(connection, self._database, instance.object_id)
            self._entries.append(
                lsn_time_mapping.dummy_entry(instance.enabled_lsn, instance.enabled_ticks)
            )
        self._flush(connection)
        self._load_targets(connection)

    def _mark_time(self, connection: apsw.Connection) -> None:
        """On a quiet database, enters a moment that no change row has."""
        if self._entries:
            return
        now = self._engine.clock.now_ticks()
        newest = lsn_time_mapping.newest(connection, self._database)
        if newest is None or now - newest[1] < lsn_time_mapping.QUIET_TICKS:
            return
        self._entries.append(
            lsn_time_mapping.dummy_entry(self._database.log.allocate_lsn(connection), now)
        )

    # -- changes -----------------------------------------------------------------------------------

    def _capture(self, connection: apsw.Connection, transaction: LogTransaction) -> None:
        commit_lsn = transaction.commit_lsn
        written = 0
        for change in transaction.changes:
            if isinstance(change, DdlChange):
                self._follow_ddl(connection, transaction, change)
                continue
            for target in self._targets.get(change.object_id, ()):
                reader = target.readers.get(change.column_ids)
                if reader is None:
                    reader = self._reader(target, change)
                rows = change_rows(reader, commit_lsn, change, target.everything)
                target.rows.extend(rows)
                written += len(rows)
                self._pending_rows += len(rows)
            if self._pending_rows >= FLUSH_ROWS:
                self._flush(connection)
        if written:
            self._entries.append(lsn_time_mapping.transaction_entry(transaction))
        self._commands += written

    def _reader(self, target: _Target, change: RowChange) -> ImageReader:
        reader = image_reader(
            target.instance,
            self._database.table_by_id(change.object_id),
            target.change_table,
            change.column_ids,
        )
        target.readers[change.column_ids] = reader
        return reader

    def _flush(self, connection: apsw.Connection) -> None:
        """Writes the rows held so far, and looks whether the scan shall stop."""
        if self._stopped():
            raise ScanStopped
        for targets in self._targets.values():
            for target in targets:
                if target.rows:
                    connection.executemany(target.insert, target.rows)
                    target.rows = []
        self._pending_rows = 0

    def _follow_ddl(
        self, connection: apsw.Connection, transaction: LogTransaction, change: DdlChange
    ) -> None:
        targets = self._targets.get(change.object_id)
        if not targets:
            return
        self._flush(connection)
        self._schema_changes += 1
        for target in targets:
            if change.kind == ddl_history.DROP_TABLE:
                drop_instance(connection, self._database, target.instance)
            else:
                ddl_history.post(connection, self._database, target.instance, transaction, change)
        self._load_targets(connection)


def check_scan_parameters(
    maxtrans: int | None, maxscans: int | None, continuous: int, pollinginterval: int
) -> None:
    """Checks the parameters of sp_cdc_scan.

    Raises:
        SqlError: 22991 and 22970 for a @maxtrans or @maxscans that is not positive, 22998 for a
            @continuous that is not 0 or 1, 22999 for a polling interval without continuous mode,
            22990 for one of a day and more.
    """
    check_scan_limits(maxtrans, maxscans)
    check_polling_interval(pollinginterval)
    if continuous not in {0, 1}:
        raise cdc_error(22998)
    if not continuous and pollinginterval:
        raise cdc_error(22999)
