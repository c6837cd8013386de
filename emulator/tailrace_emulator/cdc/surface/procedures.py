"""sys.sp_cdc_*: T-SQL names and parameters over the functions of cdc.

Those that enable and disable take part in the caller's transaction (cdc_transactions.py). A scan
and a cleanup commit their own work, and are refused in a transaction with DDL.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/change-data-capture-stored-procedures-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    flag,
    integer,
    result_set,
    text,
)
from tailrace_emulator.catalog.registry import Row
from tailrace_emulator.catalog.type_facts import character_length, datetime_precision, numeric_facts
from tailrace_emulator.cdc import (
    capture_scan,
    cleanup,
    ddl_history,
    disable,
    enable_database,
    lsn_time_mapping,
)
from tailrace_emulator.cdc.capture_instance import (
    CaptureInstance,
    capture_instances,
    find_instance,
    is_enabled,
    require_enabled,
)
from tailrace_emulator.cdc.change_table import METADATA_COLUMNS
from tailrace_emulator.cdc.enable_table import EnableTable, enable_table
from tailrace_emulator.cdc.log_readers import refuse_beside_log_reader
from tailrace_emulator.cdc.metadata_tables import CDC_SCHEMA, LSN_TIME_MAPPING
from tailrace_emulator.cdc.surface.declarations import procedure
from tailrace_emulator.cdc.surface.instance_access import may_read_instance
from tailrace_emulator.cdc.surface.transactions import as_ddl, refuse_within_ddl
from tailrace_emulator.security.access import Securable
from tailrace_emulator.values.results import Event, Message, ReturnValue
from tailrace_emulator.values.types import (
    BIGINT,
    BIT,
    INT,
    LSN,
    MAX,
    SYSNAME,
    TINYINT,
    StorageValue,
    nvarchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_P = ProcedureParameter
_LONG: Final = nvarchar(MAX)


@procedure("sp_cdc_enable_db")
def _enable_db(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    if not as_ddl(
        context, lambda: enable_database.enable_database(context.engine, context.database)
    ):
        yield Message(22905, messages.text(22905, context.database.name), severity=10)


@procedure("sp_cdc_disable_db")
def _disable_db(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    database = context.database
    # Before the write path is taken, as who writes a table holds its locks when it asks for that.
    sources = (
        [
            database.table_by_id(instance.source_object_id)
            for instance in capture_instances(context.store.connection, database)
        ]
        if is_enabled(database)
        else []
    )
    as_ddl(context, lambda: enable_database.disable_database(context.engine, database), *sources)
    yield from ()


@procedure(
    "sp_cdc_enable_table",
    _P("@source_schema", SYSNAME),
    _P("@source_name", SYSNAME),
    _P("@capture_instance", SYSNAME, None),
    _P("@supports_net_changes", BIT, None),
    _P("@role_name", SYSNAME),
    _P("@index_name", SYSNAME, None),
    _P("@captured_column_list", _LONG, None),
    _P("@filegroup_name", SYSNAME, None),
    _P("@allow_partition_switch", BIT, 1),
    _P("@enable_extended_ddl_handling", BIT, 0),
)
def _enable_table(context: SessionContext, args: Arguments) -> Iterator[Event]:
    if args["@enable_extended_ddl_handling"]:
        raise messages.error(22874, procedure="sp_cdc_enable_table")
    request = EnableTable(
        source_schema=text(args["@source_schema"]),
        source_name=text(args["@source_name"]),
        role_name=text(args["@role_name"]),
        capture_instance=text(args["@capture_instance"]),
        supports_net_changes=flag(args["@supports_net_changes"]),
        index_name=text(args["@index_name"]),
        captured_column_list=text(args["@captured_column_list"]),
        filegroup_name=text(args["@filegroup_name"]),
        allow_partition_switch=flag(args["@allow_partition_switch"]) is not False,
    )
    source = context.database.table(request.source_schema or "", request.source_name or "")
    may_create_role = context.security.has(Securable(context.database), "CREATE ROLE")
    notices = as_ddl(
        context,
        lambda: enable_table(
            context.engine, context.database, request, may_create_role=may_create_role
        ),
        source,
    )
    for notice in notices:
        yield Message(notice.number, notice.text, severity=notice.severity)


@procedure(
    "sp_cdc_disable_table",
    _P("@source_schema", SYSNAME),
    _P("@source_name", SYSNAME),
    _P("@capture_instance", SYSNAME),
)
def _disable_table(context: SessionContext, args: Arguments) -> Iterator[Event]:
    schema, name = text(args["@source_schema"]), text(args["@source_name"])
    instance = text(args["@capture_instance"])
    database = context.database
    source = database.table(schema or "", name or "")
    known = capture_instances(context.store.connection, database)
    # With the last instance all entries go, those that somebody has changed when he is done.
    emptied = None
    if source is not None and all(i.source_object_id == source.object_id for i in known):
        emptied = database.table(CDC_SCHEMA, LSN_TIME_MAPPING.name) if known else None
    as_ddl(
        context,
        lambda: disable.disable_table(context.engine, database, schema, name, instance),
        source,
        emptied,
    )
    yield from ()


@procedure(
    "sp_cdc_scan",
    _P("@maxtrans", INT, capture_scan.MAXTRANS_DEFAULT),
    _P("@maxscans", INT, capture_scan.MAXSCANS_DEFAULT),
    _P("@continuous", TINYINT, 0),
    _P("@pollinginterval", BIGINT, 0),
    _P("@is_from_job", INT, 0),
)
def _scan(context: SessionContext, args: Arguments) -> Iterator[Event]:
    maxtrans = integer(args["@maxtrans"])
    maxscans = integer(args["@maxscans"])
    continuous = integer(args["@continuous"]) or 0
    pause_s = integer(args["@pollinginterval"]) or 0
    capture_scan.check_scan_parameters(maxtrans, maxscans, continuous, pause_s)
    refuse_beside_log_reader(context.database, "sp_cdc_scan")
    refuse_within_ddl(context, "sys.sp_cdc_scan")
    while True:
        capture_scan.scan(
            context.engine,
            context.database,
            maxtrans=maxtrans or capture_scan.MAXTRANS_DEFAULT,
            maxscans=maxscans or capture_scan.MAXSCANS_DEFAULT,
            session_id=context.session_id,
            stopped=context.cancelled.is_set,
            session=context.store,
        )
        if not continuous or context.cancelled.wait(max(pause_s, CONTINUOUS_PAUSE_S)):
            break
    yield from ()


CONTINUOUS_PAUSE_S: Final = 0.05
"""sp_cdc_scan with @continuous = 1 and no polling interval: between looks at an empty log."""


def _instance_row(database: Database, instance: CaptureInstance) -> Row:
    source = database.table_by_id(instance.source_object_id)
    return (
        source.schema if source is not None else None,
        source.name if source is not None else None,
        instance.name,
        instance.object_id,
        instance.source_object_id,
        instance.start_lsn,
        None,
        int(instance.supports_net_changes),
        int(instance.has_drop_pending) or None,
        instance.role_name,
        instance.index_name,
        instance.filegroup_name,
        instance.create_ticks,
        _name_list(instance.index_columns) or None,
        _name_list(tuple(column.name for column in instance.columns)),
    )


def _name_list(names: tuple[str, ...]) -> str:
    return ", ".join("[" + name.replace("]", "]]") + "]" for name in names)


@procedure(
    "sp_cdc_help_change_data_capture",
    _P("@source_schema", SYSNAME, None),
    _P("@source_name", SYSNAME, None),
)
def _help_change_data_capture(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name = "sp_cdc_help_change_data_capture"
    database = context.database
    require_enabled(database, name)
    schema, table_name = text(args["@source_schema"]), text(args["@source_name"])
    if bool(schema) != bool(table_name):
        raise messages.error(22972, procedure=name)
    instances = capture_instances(context.store.connection, database)
    if schema and table_name:
        source = database.table(schema, table_name)
        if source is None:
            raise messages.error(22931, schema, table_name, procedure=name)
        instances = [i for i in instances if i.source_object_id == source.object_id]
        if not instances:
            raise messages.error(22985, schema, table_name, procedure=name)
        if not any(may_read_instance(context, database, i) for i in instances):
            raise messages.error(22981, procedure=name)
    instances = [i for i in instances if may_read_instance(context, database, i)]
    yield from result_set(
        """source_schema sysname, source_table sysname, capture_instance sysname!,
 object_id int!, source_object_id int, start_lsn binary(10), end_lsn binary(10),
 supports_net_changes bit, has_drop_pending bit, role_name sysname, index_name sysname,
 filegroup_name sysname, create_date datetime, index_column_list nvarchar(max),
 captured_column_list nvarchar(max)""",
        (_instance_row(database, instance) for instance in instances),
    )


def _required_instance(
    context: SessionContext, name: StorageValue, procedure_name: str
) -> CaptureInstance:
    require_enabled(context.database, procedure_name)
    if not isinstance(name, str) or not name.strip():
        raise messages.error(22963, "@capture_instance", procedure=procedure_name)
    instance = find_instance(context.store.connection, context.database, name)
    if instance is None or not may_read_instance(context, context.database, instance):
        raise messages.error(22981, procedure=procedure_name)
    return instance


@procedure("sp_cdc_get_captured_columns", _P("@capture_instance", SYSNAME))
def _get_captured_columns(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name = "sp_cdc_get_captured_columns"
    instance = _required_instance(context, args["@capture_instance"], name)
    database = context.database
    source = database.table_by_id(instance.source_object_id)
    table = database.table_by_id(instance.object_id)
    if table is None or source is None:
        raise messages.error(22981, procedure=name)
    captured = zip(instance.columns, table.columns[len(METADATA_COLUMNS) :], strict=False)
    yield from result_set(
        """source_schema sysname, source_table sysname, capture_instance sysname!,
 column_name sysname!, column_id int, column_ordinal int!, data_type sysname,
 character_maximum_length int, numeric_precision tinyint, numeric_precision_radix smallint,
 numeric_scale int, datetime_precision smallint""",
        (
            (
                *(source.schema, source.name, instance.name, column.name, column.column_id),
                *(column.ordinal, column.column_type, character_length(stored.type)),
                *numeric_facts(stored.type),
                datetime_precision(stored.type),
            )
            for column, stored in captured
        ),
    )


@procedure("sp_cdc_get_ddl_history", _P("@capture_instance", SYSNAME))
def _get_ddl_history(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name = "sp_cdc_get_ddl_history"
    instance = _required_instance(context, args["@capture_instance"], name)
    source = context.database.table_by_id(instance.source_object_id)
    place = (source.schema, source.name) if source is not None else (None, None)
    history = ddl_history.entries(context.store.connection, context.database, instance)
    yield from result_set(
        """source_schema sysname, source_table sysname, capture_instance sysname!,
 required_column_update bit, ddl_command nvarchar(max), ddl_lsn binary(10)!, ddl_time datetime""",
        (
            (
                *(*place, instance.name, int(entry.required_column_update), entry.command),
                *(entry.lsn, entry.ticks),
            )
            for entry in history
        ),
    )


@procedure(
    "sp_cdc_cleanup_change_table",
    _P("@capture_instance", SYSNAME),
    _P("@low_water_mark", LSN),
    _P("@threshold", BIGINT, cleanup.THRESHOLD_DEFAULT),
    _P("@fCleanupFailed", BIT, 0, output=True),
)
def _cleanup_change_table(context: SessionContext, args: Arguments) -> Iterator[Event]:
    refuse_within_ddl(context, "sys.sp_cdc_cleanup_change_table")
    mark = args["@low_water_mark"]
    result = cleanup.cleanup_change_table(
        context.engine,
        context.database,
        text(args["@capture_instance"]),
        mark if isinstance(mark, bytes) else None,
        integer(args["@threshold"]) or 0,
        context.store,
    )
    yield from _failures(context, result)
    yield ReturnValue("@fCleanupFailed", BIT, int(bool(result.failed)))


def _failures(context: SessionContext, result: cleanup.CleanupResult) -> Iterator[Event]:
    """One message for each change table that could not be cleaned up."""
    for name in result.failed:
        command = f"delete from cdc.{name}_CT"
        error = result.errors.get(name)
        number, said = (error.number, error.message) if error is not None else (0, name)
        text_of = messages.text(22852, context.database.name, command, number, said)
        yield Message(22852, text_of, severity=10)


@procedure(
    "sp_cdc_cleanup_change_tables",
    _P("@low_water_mark", LSN),
    _P("@threshold", BIGINT, cleanup.THRESHOLD_DEFAULT),
)
def _cleanup_change_tables(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """What the cleanup job calls with the watermark that it has computed."""
    name = "sp_cdc_cleanup_change_tables"
    refuse_within_ddl(context, f"sys.{name}")
    require_enabled(context.database, name)
    mark, threshold = args["@low_water_mark"], integer(args["@threshold"])
    if threshold is None or threshold <= 0:
        raise messages.error(22850, procedure=name)
    lsn = mark if isinstance(mark, bytes) else b""
    with context.engine.write() as connection:
        smallest = lsn_time_mapping.smallest_lsn_of_same_time(connection, context.database, lsn)
    if smallest is None:
        raise messages.error(22964, f"0x{lsn.hex().upper()}", procedure=name)
    result = cleanup.cleanup_change_tables(
        context.engine, context.database, smallest, threshold, context.store
    )
    yield from _failures(context, result)


@procedure("sp_MScdc_cleanup_job")
def _cleanup_job(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    refuse_within_ddl(context, "sys.sp_MScdc_cleanup_job")
    result = cleanup.run_cleanup_job(context.engine, context.database, context.store)
    yield from _failures(context, result)


@procedure("sp_cdc_vupgrade")
def _vupgrade(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    """There is one version of the metadata: nothing to upgrade."""
    require_enabled(context.database, "sp_cdc_vupgrade")
    yield from ()
