"""One scan cycle: reads the log in commit order and fills the change tables.

One scan cycle takes at most ``maxtrans`` transactions from the log and makes one visible step. All
change tables, cdc.lsn_time_mapping, cdc.ddl_history and the position in the log move together. When
the cycle is published, the captured part of the log is truncated. A cycle that is stopped or fails
was never there, and loses nothing.

Nobody's commit waits for a cycle. Its rows go into the change tables in pieces of ``PIECE_ROWS``,
each a write transaction of a few milliseconds. They stay out of sight until the last, equally short
one publishes them (storage/written_ahead.py). A transaction with DDL on a tracked table is captured
by one write from its DDL on, and published with all that came before it. What it does to the change
table cannot be done out of sight.

A newly enabled instance is recognised when the scan reaches the LSN at which it was enabled: from
there on its changes are taken. The transaction that enabled it gets an entry in
cdc.lsn_time_mapping, and its start_lsn, which lies below, one without a transaction. So a reader
finds it that looks for a start_lsn below the newest transaction's entry.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-scan-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

import apsw

from tailrace_emulator.cdc import ddl_history, lsn_time_mapping, scan_position
from tailrace_emulator.cdc.capture_instance import (
    CaptureInstance,
    capture_instances,
    require_enabled,
)
from tailrace_emulator.cdc.change_table import (
    ChangeRow,
    ImageReader,
    change_rows,
    everything_mask,
    image_reader,
)
from tailrace_emulator.cdc.disable import drop_instance
from tailrace_emulator.cdc.lsn import ZERO_LSN
from tailrace_emulator.cdc.metadata_tables import (
    CHANGE_TABLES,
    column_list,
    metadata_table,
    sqlite_column,
)
from tailrace_emulator.cdc.scan_sessions import (
    LAST_SCAN,
    READING_CONFIGURATION,
    SCHEMA_VERSIONING,
    ScanSession,
)
from tailrace_emulator.log.records import DdlChange, LogTransaction, RowChange
from tailrace_emulator.messages.errors import LOCK_TIMEOUT, SqlError
from tailrace_emulator.storage import written_ahead
from tailrace_emulator.storage.encoded_rows import HIDDEN_COLUMNS, with_encoded
from tailrace_emulator.storage.model import Table

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine

PIECE_ROWS: Final = 1024
"""Change rows gathered before they go to SQLite: how long a commit may have to wait for a scan (a
few milliseconds), how much memory a cycle takes, and how often a stop is seen."""


class ScanStopped(Exception):
    """The scan was asked to stop; what it did in this cycle is undone."""


class ChangeTableHeld(Exception):
    """A transaction holds locks on a change table that a DDL record wants altered or dropped.

    What the scan did in this cycle is undone.

    Attributes:
        table: the SQLite name of the change table.
        error: 1222, of a caller that does not wait.
    """

    def __init__(self, table: str, error: SqlError) -> None:
        super().__init__(table)
        self.table = table
        self.error = error


@dataclass(slots=True)
class _Target:
    """One capture instance during a cycle: its change table and the rows not yet written."""

    instance: CaptureInstance
    change_table: Table
    everything: bytes
    insert: str
    readers: dict[tuple[int, ...], ImageReader] = field(default_factory=dict)
    rows: list[ChangeRow] = field(default_factory=list)


class ScanCycle:
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
        self.begun = begun
        self._targets: dict[int, list[_Target]] = {}
        self._instances: list[CaptureInstance] = []
        self._catalog_version = 0
        self._awaiting: list[scan_position.AwaitingInstance] = []
        self._recognised: list[scan_position.AwaitingInstance] = []
        self._position = ZERO_LSN
        self._written_ahead: set[int] = set()
        """Change tables (object ids) with rows of this cycle that are not published."""
        self._entries: list[lsn_time_mapping.Entry] = []
        self._pending_rows = 0
        self._commands = 0
        self._schema_changes = 0
        self.phase = READING_CONFIGURATION
        """Which part of the cycle runs, of scan_sessions.PHASES."""
        self.taken = 0
        """How many transactions were taken whole so far."""
        self._begin_lsn = self._seqval = ZERO_LSN

    @property
    def place(self) -> tuple[bytes, bytes, bytes]:
        """LSNs of where the cycle began, of the transaction and of the record it has reached."""
        return self._position, self._begin_lsn, self._seqval

    def run(self) -> ScanSession:
        """Scans, publishes, and truncates the log."""
        database = self._database
        start, log_end, transactions = self._begin()
        taken: list[tuple[bytes, int]] = []
        records = 0
        for transaction in transactions:
            self._recognise(transaction.commit_lsn)
            self._capture(transaction)
            taken.append((transaction.commit_lsn, transaction.commit_ticks))
            self.taken += 1
            records += transaction.change_count
        end = taken[-1][0] if taken else start
        with self._engine.write() as connection:
            self._check_instances(connection)
            if len(taken) < self._maxtrans:
                self._recognise(None)
                self._mark_time(connection)
            self._publish(connection, end)
        if taken:
            database.log.free(end)
        ended = self._engine.clock.now_ticks()
        if not taken:
            # Nothing waits up to where the log ended when it was read.
            return ScanSession(0, self.begun, ended, end_lsn=log_end)
        return ScanSession(
            0,
            self.begun,
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

    def _begin(self) -> tuple[bytes, bytes, list[LogTransaction]]:
        """Where the log was captured to, where it ends, and what comes next in it.

        Position, instances and transactions are read as of one moment: what is enabled later has
        all of its transactions later too.
        """
        engine, database = self._engine, self._database
        with engine.write() as connection:
            waits = written_ahead.waits(connection, database)
        if waits:
            written_ahead.discard(engine, database)
        with engine.write() as connection:
            require_enabled(database, "sp_cdc_scan")
            start = scan_position.load(connection, database) or ZERO_LSN
            self._position = start
            self._awaiting = scan_position.awaiting(connection, database)
            self._load_targets(connection)
            log_end = database.log.end()
            return start, log_end, list(database.log.committed(start, self._maxtrans))

    # -- instances ---------------------------------------------------------------------------------

    def _load_targets(self, connection: apsw.Connection) -> None:
        """Reads the instances again, as of now."""
        self._instances = capture_instances(connection, self._database)
        self._catalog_version = self._database.version
        self._choose_targets()

    def _choose_targets(self) -> None:
        """The instances whose changes are taken now: those that are recognised."""
        waiting = {instance.object_id for instance in self._awaiting}
        pending = {
            target.instance.object_id: target.rows
            for targets in self._targets.values()
            for target in targets
        }
        self._targets = {}
        for instance in self._instances:
            table = self._database.table_by_id(instance.object_id)
            if instance.object_id in waiting or table is None:
                continue
            columns = ", ".join((column_list(table), *HIDDEN_COLUMNS))
            marks = ", ".join("?" * (len(table.columns) + len(HIDDEN_COLUMNS)))
            self._targets.setdefault(instance.source_object_id, []).append(
                _Target(
                    instance,
                    table,
                    everything_mask(instance),
                    f'INSERT INTO "{table.sqlite_name}" ({columns}) VALUES ({marks})',
                    rows=pending.get(instance.object_id, []),
                )
            )

    def _check_instances(self, connection: apsw.Connection) -> None:
        """At the beginning of each write: what was disabled between them is left out from here.

        Raises:
            SqlError: 22901 when the database is not enabled any more.
            ScanStopped: it was disabled and enabled again.
        """
        if self._database.version == self._catalog_version:
            return
        require_enabled(self._database, "sp_cdc_scan")
        if (scan_position.load(connection, self._database) or ZERO_LSN) != self._position:
            raise ScanStopped
        known = {instance.object_id for instance in self._instances}
        self._load_targets(connection)
        self._instances = [i for i in self._instances if i.object_id in known]
        self._choose_targets()

    def _recognise(self, before: bytes | None) -> None:
        """Begins the instances that were enabled before that LSN; all of them when it is None."""
        ready = [i for i in self._awaiting if before is None or i.enabled_lsn < before]
        if ready:
            self._awaiting = self._awaiting[len(ready) :]
            self._recognised += ready
            for instance in ready:
                self._entries += [
                    lsn_time_mapping.dummy_entry(instance.start_lsn, instance.enabled_ticks),
                    lsn_time_mapping.transaction_entry(instance.enabling),
                ]
            self._choose_targets()

    def _begin_validity(self, connection: apsw.Connection) -> None:
        """Gives the recognised instances their start_lsn."""
        table = metadata_table(self._database, CHANGE_TABLES)
        known = {instance.object_id for instance in self._instances}
        for instance in self._recognised:
            if instance.object_id not in known:
                continue  # disabled meanwhile
            connection.execute(
                f'UPDATE "{table.sqlite_name}" SET {sqlite_column(table, "start_lsn")} = ?'
                f" WHERE {sqlite_column(table, 'object_id')} = ?",
                (instance.start_lsn, instance.object_id),
            )
            scan_position.recognised(connection, self._database, instance.object_id)
        self._recognised = []

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

    def _capture(self, transaction: LogTransaction) -> None:
        before = self._commands
        changes = transaction.changes
        self.phase, self._begin_lsn = LAST_SCAN, transaction.begin_lsn
        for change in changes:
            if isinstance(change, RowChange):
                self._take(transaction, change)
                if self._pending_rows >= PIECE_ROWS:
                    self._write_piece()
            elif change.object_id in self._targets:
                self._capture_with_ddl(transaction, change, changes, before)
                return
        self._enter(transaction, before)

    def _capture_with_ddl(
        self,
        transaction: LogTransaction,
        first: DdlChange,
        rest: Iterator[RowChange | DdlChange],
        before: int,
    ) -> None:
        """From a DDL record on to the end of its transaction, in one write; publishes it."""
        with self._engine.write() as connection:
            self._check_instances(connection)
            self._follow_ddl(connection, transaction, first)
            for change in rest:
                if isinstance(change, RowChange):
                    self._take(transaction, change)
                    if self._pending_rows >= PIECE_ROWS:
                        self._flush(connection)
                else:
                    self._follow_ddl(connection, transaction, change)
            self._enter(transaction, before)
            self._publish(connection, transaction.commit_lsn)

    def _take(self, transaction: LogTransaction, change: RowChange) -> None:
        """The change rows of a logged change, kept until they are written."""
        for target in self._targets.get(change.object_id, ()):
            reader = target.readers.get(change.column_ids)
            if reader is None:
                reader = self._reader(target, change)
            rows = change_rows(reader, transaction.commit_lsn, change, target.everything)
            target.rows.extend(rows)
            self._pending_rows += len(rows)
            self._commands += len(rows)

    def _enter(self, transaction: LogTransaction, before: int) -> None:
        """A captured transaction's entry, when it has change rows."""
        if self._commands > before:
            self._entries.append(lsn_time_mapping.transaction_entry(transaction))

    def _reader(self, target: _Target, change: RowChange) -> ImageReader:
        reader = image_reader(
            target.instance,
            self._database.table_by_id(change.object_id),
            target.change_table,
            change.column_ids,
        )
        target.readers[change.column_ids] = reader
        return reader

    def _write_piece(self) -> None:
        """Writes the rows held so far, out of sight."""
        with self._engine.write() as connection:
            self._check_instances(connection)
            filled = [target for target in self._all_targets() if target.rows]
            for target in filled:
                if target.instance.object_id not in self._written_ahead:
                    written_ahead.begin(connection, target.change_table)
            self._flush(connection)
        # Only now: a write that failed left no note.
        self._written_ahead |= {target.instance.object_id for target in filled}

    def _publish(self, connection: apsw.Connection, end: bytes) -> None:
        """The visible step: everything up to that LSN is captured."""
        self._flush(connection)
        written_ahead.publish(connection, self._database)
        self._written_ahead = set()
        self._begin_validity(connection)
        lsn_time_mapping.add_entries(connection, self._database, self._entries)
        self._entries = []
        if end != self._position:
            scan_position.save(connection, self._database, end)
            self._database.log.forget(end)
            self._position = end

    def _all_targets(self) -> Iterator[_Target]:
        return chain.from_iterable(self._targets.values())

    def _flush(self, connection: apsw.Connection) -> None:
        """Writes the rows held so far, and looks whether the scan shall stop."""
        if self._stopped():
            raise ScanStopped
        for target in self._all_targets():
            if target.rows:
                encoding = self._engine.row_encoding
                connection.executemany(
                    target.insert,
                    [(*row, None, None) for row in target.rows]
                    if encoding is None
                    else with_encoded(encoding, target.change_table, target.rows),
                )
                target.rows = []
        self._pending_rows = 0

    def _follow_ddl(
        self, connection: apsw.Connection, transaction: LogTransaction, change: DdlChange
    ) -> None:
        targets = self._targets.get(change.object_id)
        if not targets:
            return
        self._flush(connection)
        self.phase, self._seqval = SCHEMA_VERSIONING, change.seqval
        self._schema_changes += 1
        for target in targets:
            try:
                ddl_history.post(connection, self._database, target.instance, transaction, change)
                if change.kind == ddl_history.DROP_TABLE:
                    drop_instance(connection, self._database, target.instance, keeps_history=True)
            except SqlError as error:
                if error.number != LOCK_TIMEOUT:
                    raise
                raise ChangeTableHeld(target.change_table.sqlite_name, error) from error
        self.phase = LAST_SCAN
        self._load_targets(connection)
