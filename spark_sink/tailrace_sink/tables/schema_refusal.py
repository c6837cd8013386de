"""Refusals of changes of a source table's columns, of some or of all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tailrace_schemas.events.envelope import TableSchema
from tailrace_sink.errors import SchemaChangeRefused, UnsupportedSchemaChange
from tailrace_sink.tables.lake_table import Feature, Kind, LakeColumn, LakeTable
from tailrace_sink.tables.origins import ORIGIN
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
    return SchemaChangeRefused(table.source, column, change, str(version.schema_lsn))


def not_plain(
    table: LakeTable, column: str, reason: str, feature: Feature
) -> UnsupportedSchemaChange:
    """Describe a change that needs a feature which the profile does not allow."""
    return UnsupportedSchemaChange(
        table.source,
        column,
        f"{reason} needs {feature}, which sink.profile compatible does not allow",
        f"use sink.profile fast, or {way_out(table)}",
    )


def does_not_fit(
    table: LakeTable, present: LakeColumn, column: LakeColumn
) -> UnsupportedSchemaChange:
    """Describe a type that the lake's column does not hold.

    Args:
        column: with the type of the source.
    """
    return UnsupportedSchemaChange(
        table.source,
        column.name,
        f"its type became {column.sql_type}, which a lake column of type {present.type} does not"
        " hold and cannot be widened to",
        way_out(table),
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
        problem = f"its key changed with schema version {version.schema_lsn}"
        if table.is_shared:
            names = ", ".join(c.name for c in version.key_columns if c.name not in ORIGIN) or "none"
            of_lake = ", ".join(name for name in table.key if name not in ORIGIN) or "none"
            problem = f"its key ({names}) is not that of the lake table {table.table} ({of_lake})"
        raise UnsupportedSchemaChange(table.source, "", problem, way_out(table))


def way_out(table: LakeTable) -> str:
    """Return the fix of a change that the lake cannot follow."""
    if table.is_shared:
        return "give the source table another lake table in sink.into, or use tables.exclude"
    name = f"{table.table.schema}.{table.table.table}"
    snapshot = f"take a new snapshot of the source table (tailrace snapshot '{name}')"
    if table.kind is not Kind.MIRROR:
        return f"move the lake's table {table.path} away, and {snapshot}; or use tables.exclude"
    return f"{snapshot}, which replaces the lake's table; or use tables.exclude"
