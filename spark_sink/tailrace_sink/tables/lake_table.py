"""Columns and properties of a lake table. Pure.

A column is identified by the source's ``column_id`` (``column_identity``), whatever its name and
comment. The property ``tailrace.schemaLsn`` is the newest schema version applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Final

from tailrace_schemas.events.column_types import ColumnType, lake_type
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import UnsupportedSchemaChange
from tailrace_sink.tables.column_identity import (
    COLUMNS_PROPERTY,
    Identity,
    identities_text,
    parse_comment,
)

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
"""Property with the newest schema version applied; set last."""
DELETES_PROPERTY: Final = "tailrace.deletes"
"""Property whether the table may have rows of deleted keys: hard, or soft since it first was."""
DELETES_UNKNOWN: Final = "unknown"
"""Its value after a change of the table went to the dead letters: it may have been a delete."""
OWNER_PROPERTY: Final = "tailrace.owner"
"""Property with the sink that owns the table: the id of its log, and its epoch."""
RESERVED: Final = "_cdc_"
"""Prefix of the sink's own columns."""
NO_ZONE: Final = "TIMESTAMP_NTZ"
"""The type that needs a table feature before a column can use it."""
_NOT_IN_PARQUET: Final = frozenset(" ,;{}()\n\t=")


class Feature(StrEnum):
    """A feature that a table gets when it first needs it, as not every reader supports it.

    The values are the properties that turn it on. Source: Delta Lake's documentation of column
    mapping and of type widening; both can be turned on later without a rewrite.
    """

    COLUMN_MAPPING = "delta.columnMapping.mode"
    TYPE_WIDENING = "delta.enableTypeWidening"

    @property
    def on(self) -> str:
        """The property's value that turns it on."""
        return "name" if self is Feature.COLUMN_MAPPING else "true"


class Kind(Enum):
    """Meaning of the rows of a lake table."""

    MIRROR = auto()
    """A row for each key of a keyed source table."""
    EVENTS = auto()
    """A row for each change of a keyless source table."""
    CHANGES = auto()
    """A row for each change of a keyed source table: the companion of its mirror."""

    @classmethod
    def of(cls, version: TableSchema) -> Kind:
        """Return the kind of the lake table of a source table."""
        return cls.MIRROR if version.key_columns else cls.EVENTS

    @property
    def appends(self) -> bool:
        """Whether every change is a row."""
        return self is not Kind.MIRROR


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column that mirrors a source column.

    Attributes:
        name: in SQL Server's spelling.
        type: the Spark SQL type.
        sql_type: SQL Server type of the newest schema version.
        key_ordinal: 1-based place in the key; 0 outside of it.
        comment: in the lake; other people's comments stay.
    """

    name: str
    column_id: int
    type: str
    sql_type: str
    key_ordinal: int = 0
    comment: str | None = field(default=None, compare=False)

    @property
    def is_large(self) -> bool:
        """Whether a change may lack its value (LOB rules of CDC)."""
        return ColumnType.parse(self.sql_type).is_large

    @property
    def identity(self) -> Identity:
        """Identity of its source column."""
        return Identity(self.column_id, self.sql_type, self.key_ordinal)

    @property
    def has_our_comment(self) -> bool:
        """Whether the comment is the sink's."""
        return self.comment == self.sql_type or parse_comment(self.comment) is not None

    @property
    def needs_mapping(self) -> bool:
        """Whether Parquet does not allow its name."""
        return not _NOT_IN_PARQUET.isdisjoint(self.name)


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A lake table, at present or after some statements.

    Attributes:
        table: the source table that it mirrors.
        columns: in the lake's order, without the ``_cdc_`` columns.
        schema_lsn: LSN of the newest schema version applied, as text.
        foreign: names of columns that somebody else added, in lower case.
        recorded: the identities in its property, as text.
        deletes: whether deleted keys may have rows: hard, soft, or, if that is not known, unknown
            or empty.
        is_new: whether it has no rows.
    """

    table: TableName
    kind: Kind
    columns: tuple[LakeColumn, ...]
    schema_lsn: str
    features: frozenset[Feature] = field(default=frozenset(), compare=False)
    foreign: frozenset[str] = field(default=frozenset(), compare=False)
    recorded: str = field(default="", compare=False)
    deletes: str = field(default="", compare=False)
    is_new: bool = field(default=False, compare=False)

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key columns in key order; empty for a keyless table."""
        keyed = [column for column in self.columns if column.key_ordinal]
        return tuple(c.name for c in sorted(keyed, key=lambda c: c.key_ordinal))

    @property
    def path(self) -> str:
        """Path below the lake's address."""
        return table_path(self.table, self.kind)

    @property
    def identities(self) -> str:
        """Value of the property with the columns' identities."""
        return identities_text((column.name, column.identity) for column in self.columns)

    @property
    def needs_mapping(self) -> bool:
        """Whether Parquet does not allow a column's name."""
        return any(column.needs_mapping for column in self.columns)

    @property
    def cdc_columns(self) -> Mapping[str, tuple[str, str]]:
        """The sink's own columns in this kind of table."""
        return CHANGES_COLUMNS if self.kind.appends else CDC_COLUMNS


CHANGES_SUFFIX: Final = ".changes"


def table_path(table: TableName, kind: Kind = Kind.MIRROR) -> str:
    """Return a table's path below the lake: database/schema/table, escaped as in topic names.

    Escaped names have no dot, so ``.changes`` cannot clash with another table's path.
    """
    return changes_path(table.path) if kind is Kind.CHANGES else table.path


def changes_path(path: str) -> str:
    """Return the path of a table's append-only companion."""
    return f"{path}{CHANGES_SUFFIX}"


def quote(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Format a string literal for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


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


def create_statement(
    table: LakeTable,
    location: str,
    properties: Mapping[str, str],
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> str:
    """Build CREATE TABLE of a Delta table at a location."""
    layout = ""
    if partition_by:
        layout = f" PARTITIONED BY ({', '.join(map(quote, partition_by))})"
    elif cluster_by:
        layout = f" CLUSTER BY ({', '.join(map(quote, cluster_by))})"
    listed = properties_ddl(
        {
            **properties,
            **{feature.value: feature.on for feature in sorted(table.features)},
            COLUMNS_PROPERTY: table.identities,
            DELETES_PROPERTY: table.deletes,
            SCHEMA_LSN_PROPERTY: table.schema_lsn,
        }
    )
    return (
        f"CREATE TABLE IF NOT EXISTS delta.{quote(location)} ({columns_ddl(table)}) USING delta"
        f"{layout} TBLPROPERTIES ({listed})"
    )


def properties_ddl(properties: Mapping[str, str]) -> str:
    """Format properties for DDL."""
    return ", ".join(f"{literal(name)} = {literal(v)}" for name, v in properties.items())


def column_ddl(column: LakeColumn) -> str:
    """Format a column for DDL, with the SQL Server type as comment."""
    return f"{quote(column.name)} {column.type} COMMENT {literal(column.sql_type)}"


def columns_ddl(table: LakeTable) -> str:
    """Format all columns with their comments for DDL."""
    columns = [column_ddl(column) for column in table.columns]
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
        if lowered.startswith(RESERVED):
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
    )
