"""sys.fn_cdc_* and the cdc.fn_cdc_get_*_changes_* functions, as T-SQL calls them.

https://learn.microsoft.com/sql/relational-databases/system-functions/change-data-capture-functions-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.catalog.table_functions import TableFunction, TableSource
from tailrace_emulator.cdc import functions, lsn, query_functions, update_mask
from tailrace_emulator.cdc.capture_instance import CaptureInstance, find_instance
from tailrace_emulator.cdc.surface.declarations import scalar
from tailrace_emulator.cdc.surface.instance_access import may_read_instance
from tailrace_emulator.messages import denied
from tailrace_emulator.values.results import ColumnMeta
from tailrace_emulator.values.types import (
    BIT,
    DATETIME,
    INT,
    LSN,
    SYSNAME,
    StorageValue,
    nvarchar,
    varbinary,
)

if TYPE_CHECKING:
    import apsw

    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_MASK = varbinary(128)


def _reading(context: SessionContext, database: Database | None = None) -> apsw.Connection:
    """What the functions read with, in the view that SNAPSHOT isolation requires.

    Raises:
        SqlError: 3951 or 3952 if that isolation is not possible.
    """
    context.store.snapshots.access_database(database or context.database)
    return context.store.connection


def _may_read(context: SessionContext, name: StorageValue) -> bool:
    """Whether the session may read the changes of a capture instance; true where there is none."""
    if context.security.owns(context.database):
        return True
    found = find_instance(_reading(context), context.database, str(name or ""))
    return found is None or may_read_instance(context, context.database, found)


@scalar("sys.fn_cdc_get_min_lsn", LSN, SYSNAME)
def _min_lsn(context: SessionContext, instance: StorageValue) -> StorageValue:
    if not _may_read(context, instance):
        return lsn.ZERO_LSN
    return functions.min_lsn(_reading(context), context.database, str(instance or ""))


@scalar("sys.fn_cdc_get_max_lsn", LSN)
def _max_lsn(context: SessionContext) -> StorageValue:
    return functions.max_lsn(_reading(context), context.database)


@scalar("sys.fn_cdc_increment_lsn", LSN, LSN)
def _increment_lsn(_context: SessionContext, value: StorageValue) -> StorageValue:
    return lsn.increment(value) if isinstance(value, bytes) else None


@scalar("sys.fn_cdc_decrement_lsn", LSN, LSN)
def _decrement_lsn(_context: SessionContext, value: StorageValue) -> StorageValue:
    return lsn.decrement(value) if isinstance(value, bytes) else None


@scalar("sys.fn_cdc_map_lsn_to_time", DATETIME, LSN)
def _map_lsn_to_time(context: SessionContext, value: StorageValue) -> StorageValue:
    if not isinstance(value, bytes):
        return None
    return functions.map_lsn_to_time(_reading(context), context.database, value)


@scalar("sys.fn_cdc_map_time_to_lsn", LSN, nvarchar(30), DATETIME)
def _map_time_to_lsn(
    context: SessionContext, operator: StorageValue, moment: StorageValue
) -> StorageValue:
    if not isinstance(operator, str) or not isinstance(moment, int):
        return None
    return functions.map_time_to_lsn(_reading(context), context.database, operator, moment)


@scalar("sys.fn_cdc_get_column_ordinal", INT, SYSNAME, SYSNAME)
def _column_ordinal(
    context: SessionContext, instance: StorageValue, column: StorageValue
) -> StorageValue:
    if not isinstance(instance, str) or not isinstance(column, str):
        return None
    if not _may_read(context, instance):
        return None
    return functions.column_ordinal(_reading(context), context.database, instance, column)


@scalar("sys.fn_cdc_check_parameters", BIT, SYSNAME, LSN, LSN, nvarchar(30), BIT)
def _check_parameters(
    context: SessionContext,
    name: StorageValue,
    from_lsn: StorageValue,
    to_lsn: StorageValue,
    option: StorageValue,
    net: StorageValue,
) -> StorageValue:
    """1 for arguments that the query functions take; error 313 otherwise."""
    connection, database = _reading(context), context.database
    found = find_instance(connection, database, str(name or ""))
    if not _may_read(context, name):
        found = None  # as fn_cdc_get_min_lsn, which is zero then
    query_functions.check_arguments(
        connection, database, found, (from_lsn, to_lsn, option), net=bool(net)
    )
    return 1


@scalar("sys.fn_cdc_is_bit_set", BIT, INT, _MASK)
def _is_bit_set(
    _context: SessionContext, position: StorageValue, mask: StorageValue
) -> StorageValue:
    if not isinstance(position, int) or not isinstance(mask, bytes):
        return None
    return int(update_mask.is_bit_set(position, mask))


@scalar("sys.fn_cdc_has_column_changed", BIT, SYSNAME, SYSNAME, _MASK)
def _has_column_changed(
    context: SessionContext, instance: StorageValue, column: StorageValue, mask: StorageValue
) -> StorageValue:
    if not (isinstance(instance, str) and isinstance(column, str) and isinstance(mask, bytes)):
        return None
    if not _may_read(context, instance):
        return None
    changed = functions.has_column_changed(
        _reading(context), context.database, instance, column, mask
    )
    return None if changed is None else int(changed)


_RANGE_PARAMETERS = (LSN, LSN, nvarchar(30))


def change_function(context: SessionContext, database: Database, name: str) -> TableFunction | None:
    """The query function ``cdc.name`` of a capture instance, or None."""
    folded = name.casefold()
    connection = context.store.connection
    for prefix, net in (
        (query_functions.ALL_CHANGES_PREFIX, False),
        (query_functions.NET_CHANGES_PREFIX, True),
    ):
        if not folded.startswith(prefix):
            continue
        instance = find_instance(connection, database, name[len(prefix) :])
        if instance is not None and (instance.supports_net_changes or not net):
            return _of_instance(database, instance, name, net=net)
    return None


def _of_instance(
    database: Database, instance: CaptureInstance, name: str, *, net: bool
) -> TableFunction | None:
    table = database.table_by_id(instance.object_id)
    if table is None:
        return None
    described = (
        query_functions.net_changes_columns(table)
        if net
        else query_functions.all_changes_columns(table)
    )
    query = query_functions.net_changes if net else query_functions.all_changes

    def bind(context: SessionContext, arguments: tuple[StorageValue, ...]) -> TableSource:
        connection = _reading(context, database)
        current = find_instance(connection, database, instance.name) or instance
        if not may_read_instance(context, database, current):
            raise denied("SELECT", name, database.name, "cdc")
        found = query(connection, database, current, (arguments[0], arguments[1], arguments[2]))
        return TableSource(found.sql, found.bindings)

    return TableFunction(
        name,
        _RANGE_PARAMETERS,
        tuple(ColumnMeta(column, sql_type) for column, sql_type in described),
        bind,
        table,
    )
