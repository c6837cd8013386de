"""The state of a database after a prefix of its log: tables, change tables and metadata.

It is built by redoing records, on every replica alike, so it has no clock and no choice.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.rows import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    ChangeRow,
    Column,
    DdlEntry,
    Instance,
    MappingEntry,
    Row,
    Table,
    change_row_images,
)

_STEP = timedelta(milliseconds=4)
_VERBS = {
    "add": "ADD",
    "drop": "DROP COLUMN",
    "alter": "ALTER COLUMN",
    "mask": "ALTER COLUMN",
}

TIME_MARK = b"\x00"
"""``tran_id`` of an entry that the capture process makes while nothing happens.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
"""


@dataclass(slots=True)
class Scanned:
    """What a scan of the capture process found: for its row in the scan sessions."""

    transactions: int = 0
    last_commit: wal.Record | None = None


@dataclass(slots=True)
class Database:
    """A database after ``applied`` records.

    Attributes:
        tables: by object id; dropped ones stay, marked.
        instances: by name.
        mapping: ``cdc.lsn_time_mapping``, in order.
        ddl_history: ``cdc.ddl_history``, in order.
        archived: partitions that were switched out: other tables have them.
        scanned: records that the capture process has read.
        has_command_id: whether new change tables get ``__$command_id``.
        applied: records that were redone.
    """

    has_command_id: bool = True
    tables: dict[int, Table] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    mapping: list[MappingEntry] = field(default_factory=list)
    ddl_history: list[DdlEntry] = field(default_factory=list)
    archived: set[int] = field(default_factory=set)
    scanned: int = 0
    applied: int = 0
    last_scan: Scanned = field(default_factory=Scanned)

    def redo(self, records: list[wal.Record], up_to: int) -> None:
        """Redo the records up to a number of them."""
        while self.applied < up_to:
            record = records[self.applied]
            self.applied += 1
            _REDO[type(record)](self, record, records)

    # -- what records do ---------------------------------------------------------------------------

    def create_table(self, record: wal.CreateTable, _: list[wal.Record]) -> None:
        columns = list(record.columns)
        self.tables[record.object_id] = Table(
            record.object_id,
            record.name,
            columns,
            record.key,
            record.time,
            next_column_id=max(column.column_id for column in columns) + 1,
            partition_id=record.object_id,
            called=record.name,
        )

    def commit(self, record: wal.Commit, _: list[wal.Record]) -> None:
        for change in record.changes:
            rows = self.tables[change.object_id].rows
            if change.after is None:
                del rows[change.row_id]
            else:
                rows[change.row_id] = change.after

    def alter_table(self, record: wal.AlterTable, _: list[wal.Record]) -> None:
        table = self.tables[record.object_id]
        table.modify_date = _modified(table.modify_date, record)
        others = [c for c in table.columns if c.column_id != record.column.column_id]
        if record.kind == "drop":
            table.columns = others
            table.rows = {
                row_id: {c: v for c, v in row.items() if c != record.column.column_id}
                for row_id, row in table.rows.items()
            }
        elif record.kind == "add":
            table.columns = [*others, record.column]
            number = record.column.column_id
            if record.fill is not None:
                table.rows = {i: {**row, number: record.fill} for i, row in table.rows.items()}
            table.next_column_id = record.column.column_id + 1
        elif record.kind == "mask":
            table.masked.add(record.column.column_id)
        else:
            table.columns = [
                record.column if c.column_id == record.column.column_id else c
                for c in table.columns
            ]

    def switch_out(self, record: wal.SwitchOut, _: list[wal.Record]) -> None:
        table = self.tables[record.object_id]
        table.modify_date = _modified(table.modify_date, record)
        self.archived.add(table.partition_id)
        table.partition_id = record.partition_id
        table.rows = {}

    def rename_table(self, record: wal.RenameTable, _: list[wal.Record]) -> None:
        table = self.tables[record.object_id]
        table.called = record.called
        table.modify_date = _modified(table.modify_date, record)

    def drop_table(self, record: wal.DropTable, _: list[wal.Record]) -> None:
        self.tables[record.object_id].is_dropped = True
        for instance in self.instances_of(record.object_id):
            del self.instances[instance.name]

    def enable(self, record: wal.EnableInstance, _: list[wal.Record]) -> None:
        table = self.tables[record.source]
        self.instances[record.name] = Instance(
            record.name,
            record.object_id,
            record.source,
            record.lsn,
            record.created or record.time,
            [c for c in table.columns if record.captured is None or c.name in record.captured],
            table.key,
            self.has_command_id,
            self.has_command_id and record.is_ordered,
            record.time,
            listed=record.captured if record.is_list else None,
            masked=set(table.masked),
        )

    def mask_change_tables(self, record: wal.MaskChangeTables, _: list[wal.Record]) -> None:
        """Older instances come to have what new ones have from their creation (inferred)."""
        for instance in self.instances.values():
            instance.masked = set(self.tables[instance.source].masked)
            instance.modify_date = _modified(instance.modify_date, record)

    def disable(self, record: wal.DisableInstance, _: list[wal.Record]) -> None:
        del self.instances[record.name]

    def capture(self, record: wal.Capture, records: list[wal.Record]) -> None:
        """Read the log from where the last scan ended: at most ``maxtrans`` transactions."""
        found = Scanned()
        while self.scanned < record.readable_end and found.transactions < record.maxtrans:
            read = records[self.scanned]
            self.scanned += 1
            if isinstance(read, wal.Commit):
                if self._capture_commit(read):
                    found.transactions += 1
                    found.last_commit = read
            elif isinstance(read, wal.EnableInstance):
                self._recognise(read)
            elif isinstance(read, wal.AlterTable):
                self._capture_ddl(read, record)
        # "The completion of LSN processing in periods of low or no change activity": not while the
        # log reader waits for a replica (inferred).
        # https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
        is_late = record.flushed is not None and self.scanned == record.readable_end
        is_complete = is_late or self.scanned == self.applied - 1
        if record.marks_time and not found.transactions and is_complete and self.scanned:
            # The mark is at the last LSN that was flushed when it was written: of the log that was
            # read, or of what was committed since, which the next scan captures below it
            # (cdc.sp_ins_dummy_lsn_time_mapping; that a commit comes in between is inferred).
            at = records[(record.flushed or self.scanned) - 1]
            if not self.mapping or at.lsn > self.mapping[-1].start_lsn:
                self.mapping.append(MappingEntry(at.lsn, record.time, TIME_MARK))
        self.last_scan = found

    def _enter(self, entry: MappingEntry) -> None:
        """Add an entry in the order of the LSNs: below a mark, perhaps."""
        if entry.start_lsn not in {known.start_lsn for known in self.mapping[-8:]}:
            insort(self.mapping, entry, key=lambda known: known.start_lsn)

    def raise_watermarks(self, record: wal.RaiseWatermarks, _: list[wal.Record]) -> None:
        for instance in self.instances.values():
            if record.instance not in {None, instance.name}:
                continue
            if instance.start_lsn is not None and instance.start_lsn < record.watermark:
                instance.start_lsn = record.watermark

    def delete_change_rows(self, _: wal.DeleteChangeRows, __: list[wal.Record]) -> None:
        """Change rows below each watermark, and entries below the lowest one.

        https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-cleanup-change-table-transact-sql
        """
        for instance in self.instances.values():
            if instance.start_lsn is not None:
                kept = instance.start_lsn
                instance.rows = [row for row in instance.rows if row.start_lsn >= kept]
        starts = [i.start_lsn for i in self.instances.values() if i.start_lsn is not None]
        if starts:
            self.mapping = [e for e in self.mapping if e.start_lsn >= min(starts)]

    def update_server(self, record: wal.UpdateServer, _: list[wal.Record]) -> None:
        """Old rows have NULL in the new column (KB 3030352 adds it; NULL is inferred)."""
        self.has_command_id = True
        for instance in self.instances.values():
            instance.has_command_id = True
            instance.is_ordered_by_command_id |= record.rebuilds_index
            instance.modify_date = _modified(instance.modify_date, record)

    # -- capture -----------------------------------------------------------------------------------

    def instances_of(self, object_id: int) -> list[Instance]:
        """Capture instances of a table, oldest first."""
        return [i for i in self.instances.values() if i.source == object_id]

    def _recognise(self, record: wal.EnableInstance) -> None:
        """The instance holds its table's changes from here on."""
        instance = self.instances.get(record.name)
        if instance is not None and instance.object_id == record.object_id:
            instance.start_lsn = record.lsn
            # In the validity interval from the first moment on (inferred).
            self._enter(MappingEntry(record.lsn, record.time, TIME_MARK))

    def _capture_ddl(self, record: wal.AlterTable, scan: wal.Capture) -> None:
        """A row for each instance; a type changes in the change table, too.

        https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql
        """
        for instance in self.instances_of(record.object_id):
            if instance.start_lsn is None:
                continue
            captured = {column.column_id for column in instance.columns}
            required = record.kind == "alter" and record.column.column_id in captured
            if required:
                instance.modify_date = _modified(instance.modify_date, scan)
                instance.columns = [
                    with_fields(c, type=record.column.type)
                    if c.column_id == record.column.column_id
                    else c
                    for c in instance.columns
                ]
            self.ddl_history.append(
                DdlEntry(
                    instance.object_id,
                    instance.source,
                    required,
                    f"ALTER TABLE t {_VERBS[record.kind]} {record.column.name}",
                    record.lsn,
                    record.time,
                )
            )

    def _capture_commit(self, record: wal.Commit) -> bool:
        """Write the change rows of a transaction; whether there are any."""
        found = False
        for instance in self.instances.values():
            if instance.start_lsn is None or instance.enabled_lsn >= record.lsn:
                continue
            for change in record.changes:
                if change.object_id == instance.source:
                    found = True
                    instance.rows += self.change_rows(instance, record.lsn, change)
        if found:
            self._enter(MappingEntry(record.lsn, record.time, record.tran_id))
        return found

    def change_rows(self, instance: Instance, lsn: bytes, change: Change) -> Iterable[ChangeRow]:
        """The change rows of one change in one instance."""
        mask = _mask(instance.columns, change)
        full = ((1 << len(instance.columns)) - 1).to_bytes((len(instance.columns) + 7) // 8, "big")
        for operation, command_id, image in change_row_images(change):
            is_update = operation in {UPDATE_BEFORE, UPDATE_AFTER}
            yield ChangeRow(
                lsn,
                command_id if instance.has_command_id else None,
                change.seqval,
                operation,
                mask if is_update else full,
                tuple(_captured(column, change, operation, image) for column in instance.columns),
            )


def _modified(before: datetime, record: wal.Record) -> datetime:
    """Two ALTERs of one table are never in one step of the clock: each takes longer than that."""
    return max(record.time, before + _STEP)


def _captured(column: Column, change: Change, operation: int, image: Row) -> Any:
    """A value as the change table has it: large ones only where they changed.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
    (Large Object Data Types): before images never have them, after images when they changed.
    """
    value = image.get(column.column_id)
    if column.type == "nvarchar(max)" and operation not in {DELETE, INSERT}:
        if operation == UPDATE_BEFORE:
            return None
        before = change.before or {}
        return value if before.get(column.column_id) != value else None
    return value


def _mask(columns: list[Column], change: Change) -> bytes:
    before, after = change.before or {}, change.after or {}
    bits = 0
    for ordinal, column in enumerate(columns):
        if before.get(column.column_id) != after.get(column.column_id):
            bits |= 1 << ordinal
    return bits.to_bytes((len(columns) + 7) // 8, "big")


_REDO: dict[type[wal.Record], Callable[[Database, Any, list[wal.Record]], None]] = {
    wal.CreateTable: Database.create_table,
    wal.Commit: Database.commit,
    wal.AlterTable: Database.alter_table,
    wal.SwitchOut: Database.switch_out,
    wal.RenameTable: Database.rename_table,
    wal.DropTable: Database.drop_table,
    wal.EnableInstance: Database.enable,
    wal.DisableInstance: Database.disable,
    wal.Capture: Database.capture,
    wal.RaiseWatermarks: Database.raise_watermarks,
    wal.DeleteChangeRows: Database.delete_change_rows,
    wal.UpdateServer: Database.update_server,
    wal.MaskChangeTables: Database.mask_change_tables,
}


def as_datetime(moment: datetime) -> datetime:
    """A time as ``datetime`` keeps it: in steps of 1/300 s."""
    ticks = round(moment.microsecond * 3 / 10_000)
    whole = moment.replace(microsecond=0)
    if ticks >= 300:
        return whole.replace(microsecond=997_000)
    return whole.replace(microsecond=round(ticks * 10 / 3) * 1000)
