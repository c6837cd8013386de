"""sys.sp_cdc_enable_table: a capture instance for a source table.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.cdc import jobs, replication, scan_position
from tailrace_emulator.cdc.capture_instance import capture_instances, require_enabled
from tailrace_emulator.cdc.change_table import (
    RESERVED_NAMES,
    change_table_columns,
    change_table_indexes,
    encoded_columns,
)
from tailrace_emulator.cdc.column_list import split_column_list
from tailrace_emulator.cdc.job_runs import is_running
from tailrace_emulator.cdc.metadata_tables import (
    CAPTURED_COLUMNS,
    CDC_SCHEMA,
    CHANGE_TABLES,
    INDEX_COLUMNS,
    insert_rows,
    metadata_table,
)
from tailrace_emulator.cdc.principals import add_principal, find_principal
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage import ddl
from tailrace_emulator.storage.filegroups import find_filegroup
from tailrace_emulator.storage.partitions import place_table
from tailrace_emulator.storage.values import round_datetime

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.storage.engine import Database, Engine
    from tailrace_emulator.storage.model import Column, Index, Table

PROCEDURE: Final = "sp_cdc_enable_table"
INSTANCE_NAME_LENGTH_MAX: Final = 100
CAPTURED_COLUMNS_MAX: Final = 1008
"""SQL Server's tables have at most 1024 columns and __$update_mask 128 bytes; inferred limit."""
NET_CHANGES_KEY_COLUMNS_MAX: Final = 14


@dataclass(frozen=True, slots=True)
class EnableTable:
    """The nine parameters of sp_cdc_enable_table; ``supports_net_changes`` None means default."""

    source_schema: str | None
    source_name: str | None
    role_name: str | None
    capture_instance: str | None = None
    supports_net_changes: bool | None = None
    index_name: str | None = None
    captured_column_list: str | None = None
    filegroup_name: str | None = None
    allow_partition_switch: bool = True


@dataclass(frozen=True, slots=True)
class Notice:
    """An informational message of the procedure."""

    number: int
    text: str
    severity: int = 0


def enable_table(
    engine: Engine, database: Database, request: EnableTable, *, may_create_role: bool = True
) -> list[Notice]:
    """Creates a capture instance; for the database's first table also the two jobs, started.

    Args:
        may_create_role: whether the caller may create the gating role.

    Returns:
        The messages to show: the jobs' starts, warnings.

    Raises:
        SqlError: with SQL Server's number for whatever is wrong with the request.
    """
    require_enabled(database, PROCEDURE)
    notices: list[Notice] = []
    with engine.write() as connection:
        source = _source_table(database, request)
        name = _instance_name(connection, database, source, request)
        index = _identifying_index(source, request)
        net_changes = _net_changes(source, index, request)
        captured = _captured_columns(source, index, request, name)
        filegroup = _filegroup(database, request)
        warning = _switch_warning(source, request)
        if warning:
            notices.append(Notice(warning, messages.text(warning), severity=10))
        role = _gating_role(connection, database, source, request, may_create=may_create_role)
        first = not capture_instances(connection, database)
        _create_instance(
            connection,
            engine,
            database,
            source,
            _Instance(
                name,
                role,
                index,
                net_changes,
                captured,
                filegroup,
                warning != PARTITION_SWITCH_DISALLOWED,
            ),
        )
        if first:
            existing = {job.job_type for job in jobs.jobs_of(connection, engine, database)}
            for job_type in _job_types(database):
                if job_type not in existing:
                    _add_job(connection, engine, database, source, job_type)
    if first:
        notices += _start_jobs(engine, database)
    return notices


@dataclass(frozen=True, slots=True)
class _Instance:
    name: str
    role: str | None
    index: Index | None
    net_changes: bool
    columns: list[Column]
    filegroup: str | None
    partition_switch: bool


PARTITION_SWITCH_ALLOWED: Final = 22855
PARTITION_SWITCH_DISALLOWED: Final = 22856
PARTITION_SWITCH_IGNORED: Final = 22857


def _switch_warning(source: Table, request: EnableTable) -> int:
    """The number of the warning about switching partitions, or 0 without one."""
    if source.partition_scheme is None:
        return 0 if request.allow_partition_switch else PARTITION_SWITCH_IGNORED
    if request.allow_partition_switch:
        return PARTITION_SWITCH_ALLOWED
    return PARTITION_SWITCH_DISALLOWED


def _filegroup(database: Database, request: EnableTable) -> str | None:
    """The filegroup for the change table as it is named, or None for the default one."""
    if request.filegroup_name is None or not request.filegroup_name.strip():
        return None
    group = find_filegroup(database, request.filegroup_name.rstrip())
    if group is None:
        raise messages.error(22973, request.filegroup_name, database.name, procedure=PROCEDURE)
    return group.name


def _source_table(database: Database, request: EnableTable) -> Table:
    for name, value in (
        ("@source_schema", request.source_schema),
        ("@source_name", request.source_name),
    ):
        if value is None or not value.strip():
            raise messages.error(22963, name, procedure=PROCEDURE)
    schema, table_name = request.source_schema or "", request.source_name or ""
    if schema.casefold() == CDC_SCHEMA:
        raise messages.error(22974, procedure=PROCEDURE)
    source = database.table(schema, table_name)
    if source is None or source.is_ms_shipped:
        raise messages.error(22931, schema, table_name, procedure=PROCEDURE)
    return source


def _instance_name(
    connection: apsw.Connection, database: Database, source: Table, request: EnableTable
) -> str:
    name = request.capture_instance
    name = f"{source.schema}_{source.name}" if name is None else name.rstrip()
    if not name:
        raise messages.error(22932, name, procedure=PROCEDURE)
    if len(name) > INSTANCE_NAME_LENGTH_MAX:
        raise messages.error(22927, name, procedure=PROCEDURE)
    existing = capture_instances(connection, database)
    of_source = [i for i in existing if i.source_object_id == source.object_id]
    if len(of_source) >= 2:
        raise messages.error(22962, source.schema, source.name, procedure=PROCEDURE)
    taken = any(i.name.casefold() == name.casefold() for i in existing)
    if taken or database.table(CDC_SCHEMA, f"{name}_CT") is not None:
        raise messages.error(22926, name, procedure=PROCEDURE)
    return name


def _identifying_index(source: Table, request: EnableTable) -> Index | None:
    if request.index_name is None:
        return source.primary_key
    wanted = request.index_name.rstrip().casefold()
    index = next((i for i in source.indexes if i.name.casefold() == wanted), None)
    if index is None:
        raise messages.error(
            22928, request.index_name, source.schema, source.name, procedure=PROCEDURE
        )
    if not index.unique and not index.primary_key:
        raise messages.error(
            22929, request.index_name, source.schema, source.name, procedure=PROCEDURE
        )
    columns = [source.column_by_id(column_id) for column_id in index.column_ids]
    if any(column is None or column.nullable for column in columns):
        raise messages.error(
            22838, request.index_name, source.schema, source.name, procedure=PROCEDURE
        )
    return index


def _net_changes(source: Table, index: Index | None, request: EnableTable) -> bool:
    if request.supports_net_changes is None:
        return index is not None
    if not request.supports_net_changes:
        return False
    if index is None:
        raise messages.error(22939, procedure=PROCEDURE)
    if len(index.column_ids) > NET_CHANGES_KEY_COLUMNS_MAX:
        raise messages.error(22865, index.name, source.schema, source.name, procedure=PROCEDURE)
    return True


def _net_changes_key(source: Table, instance: _Instance) -> tuple[str, ...]:
    """The columns by which the net-changes function distinguishes rows; none without it."""
    if not instance.net_changes or instance.index is None:
        return ()
    found = (source.column_by_id(column_id) for column_id in instance.index.column_ids)
    return tuple(column.name for column in found if column is not None)


def _captured_columns(
    source: Table, index: Index | None, request: EnableTable, instance: str
) -> list[Column]:
    if request.captured_column_list is None:
        columns = list(source.columns)
    else:
        wanted = {name.casefold() for name in split_column_list(request.captured_column_list)}
        columns = [c for c in source.columns if c.name.casefold() in wanted]
        if len(columns) != len(wanted):
            raise messages.error(22942, source.schema, source.name, procedure=PROCEDURE)
    if any(column.name.casefold() in RESERVED_NAMES for column in columns):
        raise messages.error(22975, source.name, procedure=PROCEDURE)
    captured_ids = {column.column_id for column in columns}
    if index is not None and not captured_ids.issuperset(index.column_ids):
        raise messages.error(22943, procedure=PROCEDURE)
    if len(columns) > CAPTURED_COLUMNS_MAX:
        raise messages.error(22925, instance, CAPTURED_COLUMNS_MAX, procedure=PROCEDURE)
    return columns


def _gating_role(
    connection: apsw.Connection,
    database: Database,
    source: Table,
    request: EnableTable,
    *,
    may_create: bool,
) -> str | None:
    if request.role_name is None:
        return None
    role = request.role_name.rstrip()
    if not role:
        raise messages.error(22907, procedure=PROCEDURE)
    principal = find_principal(database, role)
    if principal is None and not may_create:
        refused = messages.not_allowed()
        raise messages.error(
            22832,
            f"[{source.schema}].[{source.name}]",
            f"create role [{role.replace(']', ']]')}]",
            *(refused.number, refused.message),
            procedure="sp_cdc_enable_table_internal",
        ) from refused
    if principal is None:
        principal = add_principal(connection, database, role, "R")
    return principal.name


def _create_instance(
    connection: apsw.Connection,
    engine: Engine,
    database: Database,
    source: Table,
    instance: _Instance,
) -> None:
    columns = change_table_columns(instance.columns)
    change_table = ddl.create_table(
        connection,
        database,
        CDC_SCHEMA,
        f"{instance.name}_CT",
        columns,
        indexes=change_table_indexes(instance.name, columns, _net_changes_key(source, instance)),
        is_ms_shipped=True,
        encoded=encoded_columns(columns),
    )
    if instance.filegroup is not None:
        change_table = place_table(
            connection, database, replace(change_table, filegroup=instance.filegroup)
        )
    object_id = change_table.object_id
    now = engine.clock.now_ticks()
    index = instance.index
    insert_rows(
        connection,
        metadata_table(database, CHANGE_TABLES),
        [
            (
                object_id,
                0,
                source.object_id,
                instance.name,
                None,  # established when the capture process recognises the instance
                None,
                int(instance.net_changes),
                None,
                instance.role,
                index.name if index is not None else None,
                instance.filegroup,
                round_datetime(now),
                int(instance.partition_switch),
            )
        ],
    )
    insert_rows(
        connection,
        metadata_table(database, CAPTURED_COLUMNS),
        [
            (
                object_id,
                column.name,
                column.column_id,
                column.type.name,
                ordinal,
                int(column.computed is not None),
            )
            for ordinal, column in enumerate(instance.columns, 1)
        ],
    )
    names = {column.column_id: column.name for column in source.columns}
    insert_rows(
        connection,
        metadata_table(database, INDEX_COLUMNS),
        [
            (object_id, names[column_id], ordinal, column_id)
            for ordinal, column_id in enumerate(index.column_ids if index is not None else (), 1)
        ],
    )
    ddl.set_tracked(connection, database, source, tracked=True)
    scan_position.await_instance(
        connection,
        database,
        scan_position.AwaitingInstance(object_id, database.log.allocate_lsn(connection), now),
    )


def _job_types(database: Database) -> tuple[str, ...]:
    """The jobs of a database: no capture job where the Log Reader Agent reads the log."""
    if replication.has_log_reader(database):
        return (jobs.CLEANUP,)
    return (jobs.CAPTURE, jobs.CLEANUP)


def _add_job(
    connection: apsw.Connection, engine: Engine, database: Database, source: Table, job_type: str
) -> None:
    try:
        jobs.add_job(connection, engine, database, job_type, jobs.JobOptions())
    except SqlError as error:
        raise messages.error(
            22832,
            f"[{source.schema}].[{source.name}]",
            f"[sys].[sp_cdc_add_job] @job_type = N''{job_type}''",
            *(error.number, error.message),
            procedure="sp_cdc_enable_table_internal",
        ) from error


def _start_jobs(engine: Engine, database: Database) -> list[Notice]:
    notices: list[Notice] = []
    with engine.write() as connection:
        for job_type in _job_types(database):
            if is_running(engine, database, job_type):
                continue
            try:
                text = jobs.start_job(connection, engine, database, job_type)
            except SqlError as error:
                # "SQL Server Agent does not have to be running when change data capture is
                # enabled for a table": its refusal is only shown.
                notices.append(Notice(error.number, error.message))
            else:
                notices.append(Notice(jobs.JOB_STARTED, text))
    return notices
