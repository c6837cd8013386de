"""cdc.ddl_history, and type changes of source columns reaching the change tables.

Documented: the capture process posts each DDL change of a tracked table when it reads the log
record. Added and dropped columns leave the change table alone. A changed data type of a captured
column is applied to the change table when the capture process encounters the record. The column
required_column_update is 1 then. ddl_lsn is the commit LSN of the DDL transaction, ddl_time its
time.

https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.cdc.change_table import METADATA_COLUMNS, captured_type
from tailrace_emulator.cdc.metadata_tables import (
    CAPTURED_COLUMNS,
    DDL_HISTORY,
    column_list,
    insert_rows,
    metadata_table,
    sqlite_column,
)
from tailrace_emulator.cdc.retype import conversion
from tailrace_emulator.messages.errors import LOCK_TIMEOUT, SqlError
from tailrace_emulator.storage import alter
from tailrace_emulator.storage.values import round_datetime

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.cdc.capture_instance import CaptureInstance
    from tailrace_emulator.log.records import DdlChange, LogTransaction
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.values.types import StorageValue

ALTER_COLUMN: Final = "alter_column"
DROP_TABLE: Final = "drop_table"
OTHER: Final = "other"
INDEX_STATEMENT: Final = re.compile(r"\s*(CREATE|ALTER|DROP)\b[^(]*\bINDEX\b", re.IGNORECASE)
"""Index statements, which are logged with or without their text, change no table: they make no
entry (inferred)."""


@dataclass(frozen=True, slots=True)
class DdlEntry:
    """One row of sp_cdc_get_ddl_history."""

    required_column_update: bool
    command: str
    lsn: bytes
    ticks: int


def post(
    connection: apsw.Connection,
    database: Database,
    instance: CaptureInstance,
    transaction: LogTransaction,
    change: DdlChange,
) -> None:
    """Enters a DDL change for one instance and, if it must, alters the change table.

    Raises:
        SqlError: 22976 when the change table's values do not fit the new type, 1222 when somebody
            holds locks on the change table.
    """
    if change.kind == OTHER and (not change.command or INDEX_STATEMENT.match(change.command)):
        return
    altered = _follow_type_change(connection, database, instance, change)
    table = metadata_table(database, DDL_HISTORY)
    update, command, lsn, owner = (
        sqlite_column(table, name)
        for name in ("required_column_update", "ddl_command", "ddl_lsn", "object_id")
    )
    # One statement that touches several columns is several log records but one entry.
    connection.execute(
        f'UPDATE "{table.sqlite_name}" SET {update} = max({update}, ?)'
        f" WHERE {owner} = ? AND {lsn} = ? AND {command} = ?",
        (int(altered), instance.object_id, transaction.commit_lsn, change.command),
    )
    if connection.changes():
        return
    insert_rows(
        connection,
        table,
        [
            (
                instance.source_object_id,
                instance.object_id,
                int(altered),
                change.command,
                transaction.commit_lsn,
                round_datetime(transaction.commit_ticks),
            )
        ],
    )


def entries(
    connection: apsw.Connection, database: Database, instance: CaptureInstance
) -> list[DdlEntry]:
    """The DDL history of an instance, in log order."""
    table = metadata_table(database, DDL_HISTORY)
    wanted = ("required_column_update", "ddl_command", "ddl_lsn", "ddl_time")
    return [
        DdlEntry(bool(update), command, lsn, ticks)
        for update, command, lsn, ticks in connection.execute(
            f'SELECT {column_list(table, wanted)} FROM "{table.sqlite_name}"'
            f" WHERE {sqlite_column(table, 'object_id')} = ?"
            f" ORDER BY {sqlite_column(table, 'ddl_lsn')}, rid",
            (instance.object_id,),
        )
    ]


def _follow_type_change(
    connection: apsw.Connection, database: Database, instance: CaptureInstance, change: DdlChange
) -> bool:
    if change.kind != ALTER_COLUMN or change.new_type is None or change.old_type is None:
        return False
    captured = next((c for c in instance.columns if c.column_id == change.column_id), None)
    change_table = database.table_by_id(instance.object_id)
    source = database.table_by_id(instance.source_object_id)
    if captured is None or change_table is None or captured.is_computed:
        return False
    column = change_table.columns[len(METADATA_COLUMNS) + captured.ordinal - 1]
    origin = source.column_by_id(captured.column_id) if source is not None else None
    identity = origin.identity if origin is not None else None
    new_type = captured_type(replace(column, type=change.new_type, identity=identity))
    if new_type == column.type:
        return False
    try:
        alter.alter_column(
            connection,
            database,
            change_table,
            column.column_id,
            replace(column, type=new_type),
            conversion(
                column.type,
                new_type,
                f"{database.name}.{change_table.schema}.{change_table.name}",
                column.name,
            ),
        )
    except SqlError as error:
        if error.number == LOCK_TIMEOUT:
            raise
        source_name = source.name if source is not None else captured.name
        raise messages.error(
            22976, column.name, change_table.name, source_name, source_name
        ) from error
    _record_type(connection, database, instance, captured.name, change.new_type.name)
    return True


def _record_type(
    connection: apsw.Connection,
    database: Database,
    instance: CaptureInstance,
    name: str,
    column_type: StorageValue,
) -> None:
    table = metadata_table(database, CAPTURED_COLUMNS)
    connection.execute(
        f'UPDATE "{table.sqlite_name}" SET {sqlite_column(table, "column_type")} = ?'
        f" WHERE {sqlite_column(table, 'object_id')} = ?"
        f" AND {sqlite_column(table, 'column_name')} = ?",
        (column_type, instance.object_id, name),
    )
