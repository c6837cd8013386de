"""The statements about capture instances, columns, keys and DDL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from tests.simulation.sqlserver.rows import Column
from tests.simulation.sqlserver.statements import Answer, pattern, statement
from tests.simulation.sqlserver.view import View

_TYPES: Final = {
    "int": ("int", 4, 10, 0),
    "bigint": ("bigint", 8, 19, 0),
    "nvarchar(20)": ("nvarchar", 40, 0, 0),
    "varchar(20)": ("varchar", 20, 0, 0),
    "nvarchar(max)": ("nvarchar", -1, 0, 0),
}
"""Name, max_length in bytes, precision and scale, as sys.columns has them."""


@statement(
    "SELECT ct.capture_instance, s.name, t.name, ct.object_id, ct.source_object_id, ct.start_lsn,"
    " ct.create_date, ct.supports_net_changes, t.modify_date, c.modify_date"
    " FROM cdc.change_tables ct JOIN sys.tables t ON t.object_id = ct.source_object_id"
    " JOIN sys.schemas s ON s.schema_id = t.schema_id"
    " LEFT JOIN sys.tables c ON c.object_id = ct.object_id ORDER BY ct.object_id"
)
def _change_tables(view: View, _: Sequence[Any]) -> Answer:
    tables = {table.object_id: table for table in view.tables()}
    return [
        (
            i.name,
            "dbo",
            tables[i.source].called,
            i.object_id,
            i.source,
            i.start_lsn,
            i.create_date,
            0,
            tables[i.source].modify_date,
            i.modify_date,
        )
        for i in view.instances()
    ]


@statement(
    "SELECT ct.capture_instance FROM cdc.change_tables ct WHERE NOT EXISTS"
    " (SELECT * FROM sys.tables t WHERE t.object_id = ct.source_object_id)"
    " ORDER BY ct.capture_instance"
)
def _hidden(view: View, _: Sequence[Any]) -> Answer:
    return []


@statement(
    "SELECT capture_instance, role_name FROM cdc.change_tables WHERE start_lsn IS NOT NULL"
    " AND sys.fn_cdc_get_min_lsn(capture_instance) = 0x00000000000000000000"
)
def _gated(view: View, _: Sequence[Any]) -> Answer:
    return [
        (i.name, None)
        for i in view.instances()
        if i.start_lsn is not None and i.source in view.features.refused
    ]


@statement(
    "SELECT object_id, column_name, column_id, column_ordinal, is_computed"
    " FROM cdc.captured_columns ORDER BY object_id, column_ordinal"
)
def _captured_columns(view: View, _: Sequence[Any]) -> Answer:
    return [
        (i.object_id, column.name, column.column_id, ordinal, 0)
        for i in view.instances()
        for ordinal, column in enumerate(i.columns, 1)
    ]


@statement("SELECT object_id, column_name FROM cdc.index_columns ORDER BY object_id, index_ordinal")
def _index_columns(view: View, _: Sequence[Any]) -> Answer:
    found = []
    for i in view.instances():
        names = {column.column_id: column.name for column in i.columns}
        found += [(i.object_id, names[column_id]) for column_id in i.key]
    return found


@statement(
    "SELECT i.object_id, i.index_id, i.is_primary_key, ic.column_id FROM sys.indexes i"
    " JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id"
    " WHERE i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 AND ic.key_ordinal > 0"
    " AND i.object_id IN (SELECT source_object_id FROM cdc.change_tables)"
    " ORDER BY i.object_id, i.is_primary_key DESC, i.index_id, ic.key_ordinal"
)
def _unique_keys(view: View, _: Sequence[Any]) -> Answer:
    captured = {i.source for i in view.instances()}
    return [
        (table.object_id, 1, True, column_id)
        for table in sorted(view.tables(), key=lambda table: table.object_id)
        if table.object_id in captured
        for column_id in table.key
    ]


@statement(
    "SELECT ic.object_id, c.name FROM sys.indexes i"
    " JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id"
    " JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id"
    " WHERE i.type = 1 AND ic.key_ordinal > 0"
    " AND i.object_id IN (SELECT object_id FROM cdc.change_tables)"
    " ORDER BY ic.object_id, ic.key_ordinal"
)
def _orders(view: View, _: Sequence[Any]) -> Answer:
    """The clustered index of each change table.

    https://learn.microsoft.com/troubleshoot/sql/database-engine/replication/ (KB 3030352)
    """
    found = []
    for i in view.instances():
        command = ["__$command_id"] if i.is_ordered_by_command_id else []
        names = ["__$start_lsn", *command, "__$seqval", "__$operation"]
        found += [(i.object_id, name) for name in names]
    return found


@statement(
    "SELECT c.object_id, c.name, c.column_id, ty.name, c.max_length, c.precision, c.scale,"
    " c.is_nullable, c.collation_name FROM sys.columns c"
    " JOIN sys.types ty ON ty.user_type_id = CASE WHEN c.user_type_id < 256"
    " OR c.system_type_id = 240 THEN c.user_type_id ELSE c.system_type_id END"
    " WHERE (c.object_id IN (SELECT object_id FROM cdc.change_tables)"
    " OR c.object_id IN (SELECT source_object_id FROM cdc.change_tables))"
    " ORDER BY c.object_id, c.column_id"
)
def _columns(view: View, _: Sequence[Any]) -> Answer:
    found = []
    for i in view.instances():
        meta = [("__$start_lsn", "binary", 10), ("__$end_lsn", "binary", 10)]
        meta += [("__$seqval", "binary", 10), ("__$operation", "int", 4)]
        meta += [("__$update_mask", "varbinary", 128)]
        for number, (name, type_name, length) in enumerate(meta, 1):
            found.append((i.object_id, name, number, type_name, length, 0, 0, 1, None))
        for number, column in enumerate(i.columns, len(meta) + 1):
            found.append(_described(i.object_id, number, column))
        if i.has_command_id:
            found.append((i.object_id, "__$command_id", 99, "int", 4, 10, 0, 1, None))
    for object_id in {i.source for i in view.instances()}:
        table = view.database.tables[object_id]
        found += [_described(object_id, column.column_id, column) for column in table.columns]
    return sorted(found, key=lambda row: (row[0], row[2]))


def _described(object_id: int, column_id: int, column: Column) -> tuple[Any, ...]:
    name, length, precision, scale = _TYPES[column.type]
    collation = "Latin1_General_BIN2" if name.endswith("varchar") else None
    nullable = int(column.nullable)
    return (object_id, column.name, column_id, name, length, precision, scale, nullable, collation)


@statement(
    "SELECT d.object_id, d.ddl_lsn FROM cdc.ddl_history d"
    " JOIN cdc.change_tables ct ON ct.object_id = d.object_id"
    " WHERE d.required_column_update = 1 ORDER BY d.ddl_lsn"
)
def _ddl_history(view: View, _: Sequence[Any]) -> Answer:
    known = {i.object_id for i in view.instances()}
    return [
        (e.instance_object_id, e.lsn)
        for e in view.database.ddl_history
        if e.instance_object_id in known and e.required_column_update
    ]


@statement(
    "SELECT s.name, t.name, t.is_tracked_by_cdc FROM sys.tables t"
    " JOIN sys.schemas s ON s.schema_id = t.schema_id WHERE t.is_ms_shipped = 0"
    " AND s.name <> N'cdc'"
)
def _tables(view: View, _: Sequence[Any]) -> Answer:
    return [
        ("dbo", table.called, int(bool(view.database.instances_of(table.object_id))))
        for table in view.tables()
    ]


@statement(
    "SELECT capture_instance, object_id, start_lsn FROM cdc.change_tables WHERE start_lsn > ?"
)
def _raised_watermarks(view: View, parameters: Sequence[Any]) -> Answer:
    (needed,) = parameters
    return [
        (i.name, i.object_id, i.start_lsn)
        for i in view.instances()
        if i.start_lsn is not None and i.start_lsn > needed
    ]


@statement(
    "SELECT COUNT(*), SUM(CASE WHEN start_lsn > 0x00000000000000000000"
    " THEN 1 ELSE 0 END),"
    " SUM(CAST(object_id AS bigint)), MAX(create_date) FROM cdc.change_tables"
)
def _instances_mark(view: View, _: Sequence[Any]) -> Answer:
    instances = view.instances()
    recognised = sum(i.start_lsn is not None for i in instances) if instances else None
    object_ids = sum(i.object_id for i in instances) if instances else None
    newest = max((i.create_date for i in instances), default=None)
    return [(len(instances), recognised, object_ids, newest)]


@statement(
    "SELECT MAX(ddl_lsn) FROM cdc.ddl_history WHERE ddl_lsn <= ?"
    " AND (required_column_update = 1 OR UPPER(ddl_command) LIKE N'%DROP%')"
)
def _newest_loss_up_to(view: View, parameters: Sequence[Any]) -> Answer:
    (up_to,) = parameters
    lsns = [
        entry.lsn
        for entry in view.database.ddl_history
        if entry.lsn <= up_to and (entry.required_column_update or "DROP" in entry.command.upper())
    ]
    return [(max(lsns, default=None),)]


@statement(
    "SELECT ddl_lsn, source_object_id, ddl_command, ddl_time FROM cdc.ddl_history"
    " WHERE ddl_lsn > ? ORDER BY ddl_lsn"
)
def _ddl_texts(view: View, parameters: Sequence[Any]) -> Answer:
    return sorted(
        (entry.lsn, entry.source_object_id, entry.command, entry.time)
        for entry in view.database.ddl_history
        if entry.lsn > parameters[0]
    )


@statement("SELECT object_id, ddl_lsn FROM cdc.ddl_history WHERE ddl_lsn > ?")
def _later_ddl(view: View, parameters: Sequence[Any]) -> Answer:
    return [
        (entry.instance_object_id, entry.lsn)
        for entry in view.database.ddl_history
        if entry.lsn > parameters[0]
    ]


@statement("SELECT object_id, ddl_command FROM cdc.ddl_history ORDER BY ddl_lsn")
def _ddl_commands(view: View, _: Sequence[Any]) -> Answer:
    return [(entry.instance_object_id, entry.command) for entry in view.database.ddl_history]


@statement("SELECT MAX(ddl_lsn), COUNT(*) FROM cdc.ddl_history")
def _newest_ddl(view: View, _: Sequence[Any]) -> Answer:
    entries = view.database.ddl_history
    return [(max((entry.lsn for entry in entries), default=None), len(entries))]


@statement(
    "SELECT p.object_id, p.partition_id, p.rows, c.allows_switch FROM sys.partitions p"
    " JOIN (SELECT source_object_id, MIN(CAST(partition_switch AS int)) AS allows_switch"
    " FROM cdc.change_tables GROUP BY source_object_id) c"
    " ON c.source_object_id = p.object_id WHERE p.index_id IN (0, 1)"
)
def _partitions(view: View, _: Sequence[Any]) -> Answer:
    captured = {instance.source for instance in view.instances()}
    fixed = {instance.source for instance in view.instances() if not instance.partition_switch}
    return [
        (table.object_id, table.partition_id, len(table.rows), int(table.object_id not in fixed))
        for table in view.tables()
        if table.object_id in captured
    ]


@pattern(r"SELECT COUNT\(\*\) FROM sys\.partitions WHERE partition_id IN \((?P<ids>[\d, ]+)\)")
def _partitions_elsewhere(view: View, _: Sequence[Any], match: re.Match[str]) -> Answer:
    wanted = {int(text) for text in match["ids"].split(", ")}
    return [(len(wanted & view.database.archived),)]


@statement("SELECT MIN(start_lsn) FROM cdc.change_tables")
def _lowest_watermark(view: View, _: Sequence[Any]) -> Answer:
    starts = [i.start_lsn for i in view.instances() if i.start_lsn is not None]
    return [(min(starts, default=None),)]


@statement("SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(?) AND name = N'__$command_id'")
def _has_command_id(view: View, parameters: Sequence[Any]) -> Answer:
    name = str(parameters[0]).removeprefix("cdc.[").removesuffix("_CT]")
    instance = view.database.instances.get(name)
    return [(1,)] if instance is not None and instance.has_command_id else []
