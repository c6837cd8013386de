"""A new lake table: its columns by a schema version, and their DDL. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tailrace_schemas.events.column_types import lake_type
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_sink.errors import UnsupportedSchemaChange
from tailrace_sink.tables.column_identity import FIRST_ORIGIN_ID
from tailrace_sink.tables.lake_table import (
    RESERVED,
    Kind,
    LakeColumn,
    LakeTable,
    literal,
    quote,
)


def new_table(schema: TableSchema, kind: Kind) -> LakeTable:
    """Describe the lake table of a source table in one schema version.

    Raises:
        UnsupportedSchemaChange: Spark cannot distinguish two names, or a name is reserved.
        UnsupportedType: a column has a type without a lake form.
    """
    check_names(schema)
    return LakeTable(
        table=schema.table,
        kind=kind,
        columns=tuple(lake_column(column) for column in schema.columns),
        schema_lsn=str(schema.schema_lsn),
    )


def column_ddl(column: LakeColumn, *, is_required: bool = False) -> str:
    """Format a column for DDL, with the SQL Server type as comment."""
    required = " NOT NULL" if is_required else ""
    return f"{quote(column.name)} {column.type}{required} COMMENT {literal(column.sql_type)}"


def columns_ddl(table: LakeTable, required: Collection[str] = ()) -> str:
    """Format all columns with their comments for DDL.

    Args:
        required: names of columns that refuse NULL.
    """
    columns = [column_ddl(c, is_required=c.name in required) for c in table.columns]
    columns += [
        f"{quote(name)} {type_} COMMENT {literal(comment)}"
        for name, (type_, comment) in table.cdc_columns.items()
    ]
    return ", ".join(columns)


def check_names(schema: TableSchema) -> None:
    """Refuse reserved names, and names that Spark cannot distinguish.

    Raises:
        UnsupportedSchemaChange: with the first such column.
    """
    seen: dict[str, str] = {}
    for column in schema.columns:
        lowered = column.name.lower()
        if lowered.startswith(RESERVED) and column.column_id < FIRST_ORIGIN_ID:
            raise UnsupportedSchemaChange(
                str(schema.table),
                column.name,
                f"names that start with {RESERVED} are reserved for the sink",
                "leave the column out of the capture instance",
            )
        if lowered in seen:
            raise UnsupportedSchemaChange(
                str(schema.table),
                column.name,
                f"Spark cannot distinguish it from {seen[lowered]}",
                "leave one of the two out of the capture instance",
            )
        seen[lowered] = column.name


def lake_column(column: SchemaColumn) -> LakeColumn:
    """Describe the lake column of a source column.

    Raises:
        UnsupportedType: it has a type without a lake form.
    """
    return LakeColumn(
        name=column.name,
        column_id=column.column_id,
        type=lake_type(column.type, lossless=column.lossless),
        sql_type=str(column.type),
        key_ordinal=column.key_ordinal,
        comment=str(column.type),
        is_required=column.is_required,
    )
