"""sys.sp_cdc_disable_table: what disabling an instance removes.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-disable-table-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.cdc import lsn_time_mapping, scan_position
from tailrace_emulator.cdc.capture_instance import (
    CaptureInstance,
    capture_instances,
    require_enabled,
    source_instances,
)
from tailrace_emulator.cdc.metadata_tables import (
    CAPTURED_COLUMNS,
    CHANGE_TABLES,
    DDL_HISTORY,
    INDEX_COLUMNS,
    delete_rows,
    metadata_table,
)
from tailrace_emulator.storage import ddl

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database, Engine

ALL_INSTANCES: Final = "all"


def disable_table(
    engine: Engine,
    database: Database,
    source_schema: str | None,
    source_name: str | None,
    capture_instance: str | None,
) -> None:
    """Removes one capture instance of a source table, or all of them.

    With the last one of the database cdc.lsn_time_mapping is emptied (documented by message 22909).

    Args:
        source_schema: schema of the source table.
        capture_instance: name of the instance, or ``all``.

    Raises:
        SqlError: 22901 database not enabled, 22963 parameter missing, 22960 no such instance of
            that table; 22985 table missing, or not enabled (which is no error for ``all``).
    """
    procedure = "sp_cdc_disable_table"
    require_enabled(database, procedure)
    given = (
        ("@source_schema", source_schema),
        ("@source_name", source_name),
        ("@capture_instance", capture_instance),
    )
    for name, value in given:
        if value is None or not value.strip():
            raise messages.error(22963, name, procedure=procedure)
    schema, table_name, wanted = source_schema or "", source_name or "", capture_instance or ""
    with engine.write() as connection:
        source = database.table(schema, table_name)
        instances = source_instances(connection, database, source) if source is not None else []
        folded = wanted.strip().casefold()
        if not instances and source is not None and folded == ALL_INSTANCES:
            return
        if not instances:
            raise messages.error(22985, schema, table_name, procedure=procedure)
        chosen = [i for i in instances if folded in {ALL_INSTANCES, i.name.casefold()}]
        if not chosen:
            raise messages.error(22960, wanted, schema, table_name, procedure=procedure)
        for instance in chosen:
            drop_instance(connection, database, instance)
        if not capture_instances(connection, database):
            lsn_time_mapping.remove_all(connection, database)


def drop_instance(
    connection: apsw.Connection,
    database: Database,
    instance: CaptureInstance,
    *,
    keeps_history: bool = False,
) -> None:
    """Removes an instance's change table and metadata, inside the caller's write transaction.

    The source table stops being tracked with its last instance.

    Args:
        keeps_history: whether its entries in cdc.ddl_history stay: where its table was dropped.
    """
    table = database.table_by_id(instance.object_id)
    if table is not None:
        ddl.drop_table(connection, database, table)
    history = () if keeps_history else (DDL_HISTORY,)
    for definition in (CHANGE_TABLES, CAPTURED_COLUMNS, INDEX_COLUMNS, *history):
        delete_rows(
            connection, metadata_table(database, definition), "object_id", instance.object_id
        )
    scan_position.recognised(connection, database, instance.object_id)
    remaining = capture_instances(connection, database)
    if all(other.source_object_id != instance.source_object_id for other in remaining):
        source = database.table_by_id(instance.source_object_id)
        if source is not None:
            ddl.set_tracked(connection, database, source, tracked=False)
