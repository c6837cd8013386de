"""Refusals of changes of a source table's columns, of some or of all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tailrace_schemas.events.envelope import TableSchema
from tailrace_sink.errors import SchemaChangeRefused, UnsupportedSchemaChange
from tailrace_sink.tables.lake_table import Feature, Kind, LakeColumn, LakeTable
from tailrace_sink.tables.type_widening import Widening, widening


def require_unchanged(
    table: LakeTable,
    there: Mapping[int, LakeColumn],
    wanted: Mapping[int, LakeColumn],
    version: TableSchema,
    *,
    is_newer: bool,
) -> None:
    """Refuse every difference between a schema version and a lake table.

    It is the mode ``fail``. A type that the lake's type holds is no change: a longer text, a
    smaller integer.

    Args:
        there: the lake's columns by id.
        wanted: the version's columns by id.
        is_newer: whether the version is not older than the table's. An older one may lack columns.

    Raises:
        SchemaChangeRefused: with the first difference.
    """
    for column_id, column in wanted.items():
        known = there.get(column_id)
        if known is None:
            raise _refused(table, column.name, f"it was added ({column.sql_type})", version)
        if is_newer and known.name != column.name:
            raise _refused(table, known.name, f"it was renamed to {column.name}", version)
        if widening(known.type, column.type) is not Widening.HOLDS:
            was = f"its type became {column.sql_type} (it was {known.sql_type})"
            raise _refused(table, known.name, was, version)
    if not is_newer:
        return
    for column_id, known in there.items():
        if column_id > 0 and column_id not in wanted and column_id not in table.dropped:
            raise _refused(table, known.name, "it was dropped", version)
    if not table.kind.appends and key_of(there.values()) != key_of(wanted.values()):
        raise _refused(table, "", "its key changed", version)


def key_of(columns: Iterable[LakeColumn]) -> dict[int, int]:
    """Map the ids of key columns to their places in the key."""
    return {column.column_id: column.key_ordinal for column in columns if column.key_ordinal}


def _refused(
    table: LakeTable, column: str, change: str, version: TableSchema
) -> SchemaChangeRefused:
    return SchemaChangeRefused(str(table.table), column, change, str(version.schema_lsn))


def not_plain(
    table: LakeTable, column: str, reason: str, feature: Feature
) -> UnsupportedSchemaChange:
    """Describe a change that needs a feature which the profile does not allow."""
    return UnsupportedSchemaChange(
        str(table.table),
        column,
        f"{reason} needs Delta's {feature.value}, which sink.profile compatible does not allow",
        f"use sink.profile fast, or {way_out(table)}",
    )


def check_key(
    table: LakeTable,
    present: Iterable[LakeColumn],
    wanted: Iterable[LakeColumn],
    version: TableSchema,
) -> None:
    """Refuse another key.

    Raises:
        UnsupportedSchemaChange: the key's columns or their order differ.
    """
    if key_of(present) != key_of(wanted):
        raise UnsupportedSchemaChange(
            str(table.table),
            "",
            f"its key changed with schema version {version.schema_lsn}",
            way_out(table),
        )


def way_out(table: LakeTable) -> str:
    """Return the fix of a change that the lake cannot follow."""
    name = f"{table.table.schema}.{table.table.table}"
    snapshot = f"take a new snapshot of the source table (tailrace snapshot '{name}')"
    if table.kind is not Kind.MIRROR:
        return f"move the lake's table {table.path} away, and {snapshot}; or use tables.exclude"
    return f"{snapshot}, which replaces the lake's table; or use tables.exclude"
