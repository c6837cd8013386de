"""Source tables: their columns, and the rows that they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.topics.topic_names import TableName

DATABASE = "shop"

Row = dict[str, Any]
Key = tuple[Any, ...]
Cut = dict[str, dict[Key, Row]]
"""Rows by table and key at one LSN."""


def column(
    column_id: int, name: str, sql_type: str, *, key: int = 0, nullable: bool = True
) -> SchemaColumn:
    """A captured column."""
    return SchemaColumn(column_id, name, ColumnType.parse(sql_type), nullable and not key, key)


@dataclass
class SourceTable:
    """A source table: its newest schema version, and its rows."""

    name: TableName
    topic: str
    schema: TableSchema
    value_schema_id: int
    rows: dict[Key, Row] = field(default_factory=dict)

    def key_of(self, row: Row) -> Key:
        return tuple(row[c.name] for c in self.schema.key_columns)
