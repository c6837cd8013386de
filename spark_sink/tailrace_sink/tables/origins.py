"""Origin of a row in a lake table that several source tables share (ADR 0077). Pure.

Database, schema and table of the source are the first columns of the lake table and of its key. Its
other columns are known by their names: each source has column ids of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.tables.column_identity import FIRST_ORIGIN_ID
from tailrace_sink.tables.lake_table import LakeTable, literal

ORIGIN: Final[Mapping[str, int]] = {
    name: FIRST_ORIGIN_ID + place
    for place, name in enumerate(("_cdc_database", "_cdc_schema", "_cdc_table"))
}
"""The columns of the origin, with their ids."""
_TYPE: Final = ColumnType.parse("nvarchar(128)")


def origin_values(source: TableName) -> dict[int, str]:
    """Map the ids of the columns of the origin to the values of a source table."""
    names = (source.database, source.schema, source.table)
    return dict(zip(ORIGIN.values(), names, strict=True))


def from_source(source: TableName, alias: str = "") -> str:
    """Build the SQL condition of the rows of a source table.

    Args:
        alias: of the lake table.
    """
    prefix = f"{alias}." if alias else ""
    names = (source.database, source.schema, source.table)
    equal = (f"{prefix}{n} = {literal(v)}" for n, v in zip(ORIGIN, names, strict=True))
    return " AND ".join(equal)


def own_rows(table: LakeTable, alias: str = "") -> str:
    """Build the SQL condition of the rows of the table's source: all, unless others share it.

    Args:
        alias: of the lake table.
    """
    return "true" if table.origin is None else from_source(table.origin, alias)


def not_from(sources: Iterable[TableName]) -> str | None:
    """Build the SQL condition of the rows of all other source tables; None without any."""
    excluded = [f"NOT ({from_source(source)})" for source in sorted(sources)]
    return " AND ".join(excluded) or None


def in_shared_table(version: TableSchema, lake_table: TableName) -> TableSchema:
    """Describe a schema version of a source table in the terms of a lake table that it shares.

    Args:
        lake_table: unchanged is returned for the source table itself, which shares nothing.
    """
    if version.table == lake_table:
        return version
    is_keyed = bool(version.key_columns)
    origin = tuple(
        SchemaColumn(id_, name, _TYPE, not is_keyed, place if is_keyed else 0)
        for place, (name, id_) in enumerate(ORIGIN.items(), start=1)
    )
    columns = tuple(
        replace(
            column,
            column_id=_id_of(column.name),
            key_ordinal=column.key_ordinal + len(origin) if column.key_ordinal else 0,
        )
        for column in version.columns
    )
    return replace(version, table=lake_table, columns=(*origin, *columns))


def _id_of(name: str) -> int:
    """Id of a column of some name, in any case; so large that no two names have one."""
    digest = hashlib.sha256(name.casefold().encode()).digest()
    return int.from_bytes(digest[:8]) >> 2
