"""What a lake table looks like, and how it follows its source table: pure, no Spark.

A column's identity is the source's ``column_id``, which survives renames. It is kept in the
column's comment together with the SQL Server type, so that it moves with the column in the very
commit that renames it: whatever part of a series of ALTERs was done before a crash, the rest
follows from the table itself. ``tailrace.schemaLsn`` in the table's properties is the newest schema
version applied; it is set last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tailrace_schemas.envelope import SchemaColumn, TableSchema
from tailrace_schemas.names import topic_part
from tailrace_schemas.topics import TableName
from tailrace_schemas.types import ColumnType, lake_type
from tailrace_sink.errors import UnsupportedSchemaChange
from tailrace_sink.type_widening import Widening, widening

POSITION: Final = "_cdc_position"
LSN: Final = "_cdc_lsn"
OPERATION: Final = "_cdc_op"
COMMIT_TIME: Final = "_cdc_commit_time"
CHANGED: Final = "_cdc_changed"

CDC_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    POSITION: ("BINARY", "Position of the last change: 25 bytes in log order"),
    LSN: ("STRING", "Commit LSN of the last change"),
    OPERATION: ("STRING", "c create, u update, d delete, r snapshot read"),
    COMMIT_TIME: ("TIMESTAMP", "When the source committed the last change"),
}
"""The columns that the sink adds, with their types and comments. Iceberg reserves ``_pos`` and its
like, hence the prefix."""

CHANGES_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    **CDC_COLUMNS,
    CHANGED: ("ARRAY<STRING>", "Columns in the update mask"),
}
"""The same for append-only tables."""

SCHEMA_LSN_PROPERTY: Final = "tailrace.schemaLsn"
_RESERVED: Final = "_cdc_"
_COMMENT: Final = re.compile(r"^(?P<type>[^;]*); column_id=(?P<id>\d+)(?:; key=(?P<key>\d+))?$")


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column that mirrors a source column.

    Attributes:
        name: its name in the lake, as SQL Server spells it.
        column_id: the source's column id.
        type: Spark SQL type.
        sql_type: SQL Server type of the newest version.
        key_ordinal: 1-based place in the key, 0 when not part of it.
    """

    name: str
    column_id: int
    type: str
    sql_type: str
    key_ordinal: int = 0

    @property
    def is_large(self) -> bool:
        """Whether a change may come without its value (LOB rules of CDC)."""
        return ColumnType.parse(self.sql_type).is_large

    @property
    def comment(self) -> str:
        """The column comment that carries its identity."""
        key = f"; key={self.key_ordinal}" if self.key_ordinal else ""
        return f"{self.sql_type}; column_id={self.column_id}{key}"


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A lake table as it is, or as it will be after its statements ran.

    Attributes:
        table: the source table.
        is_changes: append-only: every change is a row.
        columns: in the lake's order, without the ``_cdc_`` columns.
        schema_lsn: newest schema version applied, text.
    """

    table: TableName
    is_changes: bool
    columns: tuple[LakeColumn, ...]
    schema_lsn: str

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key columns in key order; empty for a keyless table."""
        keyed = [column for column in self.columns if column.key_ordinal]
        return tuple(c.name for c in sorted(keyed, key=lambda c: c.key_ordinal))

    @property
    def path(self) -> str:
        """Path below the lake; a keyless table's appends are the table itself."""
        return table_path(self.table, is_changes=self.is_changes and bool(self.key))

    @property
    def cdc_columns(self) -> Mapping[str, tuple[str, str]]:
        """Our columns of this kind of table."""
        return CHANGES_COLUMNS if self.is_changes else CDC_COLUMNS


def table_path(table: TableName, *, is_changes: bool = False) -> str:
    """Path of a table below the lake: database/schema/table, escaped as in topic names.

    The escape leaves no dot in a name, so that ``.changes`` cannot meet another table's path.
    """
    parts = map(topic_part, (table.database, table.schema, table.table))
    return "/".join(parts) + (".changes" if is_changes else "")


def quote(name: str) -> str:
    """An identifier in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal in Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def parse_comment(comment: str | None) -> tuple[str, int, int] | None:
    """SQL Server type, column id and key ordinal of a column comment, None when it is not ours."""
    match = _COMMENT.match(comment or "")
    if match is None:
        return None
    return match["type"], int(match["id"]), int(match["key"] or 0)


def new_table(schema: TableSchema, *, is_changes: bool) -> LakeTable:
    """The lake table of a source table in one schema version.

    Raises:
        UnsupportedSchemaChange: names that Spark cannot tell apart, or that are ours.
        UnsupportedType: a column has a type without a lake form.
    """
    _check_names(schema)
    return LakeTable(
        table=schema.table,
        is_changes=is_changes,
        columns=tuple(_lake_column(column) for column in schema.columns),
        schema_lsn=str(schema.schema_lsn),
    )


def create_statement(
    table: LakeTable,
    location: str,
    properties: Mapping[str, str],
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> str:
    """CREATE TABLE of a Delta table at a location."""
    layout = ""
    if partition_by:
        layout = f" PARTITIONED BY ({', '.join(map(quote, partition_by))})"
    elif cluster_by:
        layout = f" CLUSTER BY ({', '.join(map(quote, cluster_by))})"
    pairs = {**properties, SCHEMA_LSN_PROPERTY: table.schema_lsn}
    listed = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in pairs.items())
    return (
        f"CREATE TABLE IF NOT EXISTS delta.{quote(location)} ({columns_ddl(table)}) USING delta"
        f"{layout} TBLPROPERTIES ({listed})"
    )


def columns_ddl(table: LakeTable) -> str:
    """All columns with their comments, as DDL has them."""
    columns = [f"{quote(c.name)} {c.type} COMMENT {literal(c.comment)}" for c in table.columns]
    columns += [
        f"{quote(name)} {type_} COMMENT {literal(comment)}"
        for name, (type_, comment) in table.cdc_columns.items()
    ]
    return ", ".join(columns)


def evolve(
    existing: LakeTable, versions: Iterable[TableSchema], location: str
) -> tuple[LakeTable, list[str]]:
    """Follow schema versions, oldest first.

    A version newer than the table's renames and widens; an older one only adds what is missing.
    A dropped column stays with its values; when another column takes its name, it is renamed to
    ``<name>_dropped_<column_id>``. A type that the lake's type already holds changes nothing.

    Returns:
        The table afterwards and the ALTER statements that lead there, in order.

    Raises:
        UnsupportedSchemaChange: the lake cannot follow without losing values.
        UnsupportedType: a column has a type without a lake form.
    """
    statements: list[str] = []
    alter = f"ALTER TABLE delta.{quote(location)}"
    table = existing
    for version in sorted(versions, key=lambda version: version.schema_lsn):
        _check_names(version)
        is_newer = str(version.schema_lsn) > table.schema_lsn
        columns = _follow(table, version, alter, statements, is_newer=is_newer)
        table = replace(
            table,
            columns=columns,
            schema_lsn=max(table.schema_lsn, str(version.schema_lsn)),
        )
    if table.schema_lsn != existing.schema_lsn:
        prop = f"{literal(SCHEMA_LSN_PROPERTY)} = {literal(table.schema_lsn)}"
        statements.append(f"{alter} SET TBLPROPERTIES ({prop})")
    return table, statements


def _follow(
    table: LakeTable,
    version: TableSchema,
    alter: str,
    statements: list[str],
    *,
    is_newer: bool,
) -> tuple[LakeColumn, ...]:
    wanted = {column.column_id: _lake_column(column) for column in version.columns}
    if not table.is_changes:
        _check_key(table, wanted.values(), version)
    columns = {column.column_id: column for column in table.columns}
    if is_newer:
        _rename(columns, wanted, alter, statements)
    for column_id, column in wanted.items():
        present = columns.get(column_id)
        if present is None:
            statements.append(
                f"{alter} ADD COLUMNS ({quote(column.name)} {column.type}"
                f" COMMENT {literal(column.comment)})"
            )
            columns[column_id] = column
            continue
        changed = _retype(table, present, column, alter, statements)
        if is_newer and changed.comment != column.comment:
            changed = replace(changed, sql_type=column.sql_type, key_ordinal=column.key_ordinal)
            statements.append(
                f"{alter} ALTER COLUMN {quote(changed.name)} COMMENT {literal(changed.comment)}"
            )
        columns[column_id] = changed
    return tuple(columns.values())


def _rename(
    columns: dict[int, LakeColumn],
    wanted: Mapping[int, LakeColumn],
    alter: str,
    statements: list[str],
) -> None:
    """Give every column its newest name; columns that exchange names go by way of a third."""

    def rename(column_id: int, name: str) -> None:
        old = columns[column_id]
        statements.append(f"{alter} RENAME COLUMN {quote(old.name)} TO {quote(name)}")
        columns[column_id] = replace(old, name=name)

    new_names = {column.name.lower(): column_id for column_id, column in wanted.items()}
    for column_id, column in list(columns.items()):
        taker = new_names.get(column.name.lower())
        if taker is None or taker == column_id:
            continue
        if column_id in wanted:
            rename(column_id, f"{_RESERVED}renaming_{column_id}")
        else:
            rename(column_id, f"{column.name}_dropped_{column_id}")
    for column_id, column in wanted.items():
        if column_id in columns and columns[column_id].name != column.name:
            rename(column_id, column.name)


def _retype(
    table: LakeTable,
    present: LakeColumn,
    column: LakeColumn,
    alter: str,
    statements: list[str],
) -> LakeColumn:
    match widening(present.type, column.type):
        case Widening.HOLDS:
            return present
        case Widening.WIDENS:
            statements.append(f"{alter} ALTER COLUMN {quote(present.name)} TYPE {column.type}")
            return replace(present, type=column.type)
        case _:
            raise UnsupportedSchemaChange(
                str(table.table),
                column.name,
                f"its type became {column.sql_type}, which a lake column of type {present.type}"
                " does not hold and cannot be widened to",
                _way_out(table),
            )


def _check_key(table: LakeTable, wanted: Iterable[LakeColumn], version: TableSchema) -> None:
    old = {column.column_id: column.key_ordinal for column in table.columns if column.key_ordinal}
    new = {column.column_id: column.key_ordinal for column in wanted if column.key_ordinal}
    if old != new:
        raise UnsupportedSchemaChange(
            str(table.table),
            "",
            f"its key changed with schema version {version.schema_lsn}",
            _way_out(table),
        )


def _way_out(table: LakeTable) -> str:
    """What to do about a change that the lake cannot follow."""
    name = f"{table.table.schema}.{table.table.table}"
    snapshot = f"take a new snapshot of the source table (tailrace snapshot '{name}')"
    if table.is_changes:
        return f"move the lake's table {table.path} away, and {snapshot}; or use tables.exclude"
    return f"{snapshot}, which then replaces the lake's table; or use tables.exclude"


def _check_names(schema: TableSchema) -> None:
    seen: dict[str, str] = {}
    for column in schema.columns:
        lowered = column.name.lower()
        if lowered.startswith(_RESERVED):
            raise UnsupportedSchemaChange(
                str(schema.table),
                column.name,
                f"names that begin with {_RESERVED} are the sink's own",
                "leave the column out of the capture instance",
            )
        if lowered in seen:
            raise UnsupportedSchemaChange(
                str(schema.table),
                column.name,
                f"Spark does not tell it from {seen[lowered]}",
                "leave one of the two out of the capture instance",
            )
        seen[lowered] = column.name


def _lake_column(column: SchemaColumn) -> LakeColumn:
    return LakeColumn(
        name=column.name,
        column_id=column.column_id,
        type=lake_type(column.type, lossless=column.lossless),
        sql_type=str(column.type),
        key_ordinal=column.key_ordinal,
    )
