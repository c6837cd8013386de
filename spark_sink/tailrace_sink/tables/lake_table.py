"""Columns and properties of a lake table. Pure.

A column is identified by the source's ``column_id`` (``column_identity``), whatever its name and
comment. The property ``tailrace.schemaLsn`` is the newest schema version applied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Final

from tailrace_schemas.events.column_types import ColumnType, lake_type
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.topics.escaped_names import unescape
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.tables.column_identity import (
    FIRST_ORIGIN_ID,
    Identity,
    identities_text,
    parse_comment,
    source_id,
)
from tailrace_sink.tables.type_widening import Widening, widening

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

VALID_FROM_LSN: Final = "_cdc_valid_from_lsn"
VALID_TO_LSN: Final = "_cdc_valid_to_lsn"
VALID_FROM: Final = "_cdc_valid_from"
VALID_TO: Final = "_cdc_valid_to"
CURRENT: Final = "_cdc_is_current"

HISTORY_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    POSITION: ("BINARY", "Position of the change that made the row"),
    OPERATION: ("STRING", "Its operation: c create, u update, r snapshot read"),
    VALID_FROM_LSN: ("STRING", "Commit LSN from which on the row was as it is"),
    VALID_TO_LSN: ("STRING", "Commit LSN that ended it; NULL: current"),
    VALID_FROM: ("TIMESTAMP", "When the source committed that start"),
    VALID_TO: ("TIMESTAMP", "When the source committed that end; NULL: current or unknown"),
    CURRENT: ("BOOLEAN", "Whether the source has the row now"),
}
"""The same for tables of validity intervals."""

OWN_COLUMNS: Final = frozenset({*CHANGES_COLUMNS, *HISTORY_COLUMNS})
"""Names of all columns of the sink."""

SCHEMA_LSN_PROPERTY: Final = "tailrace.schemaLsn"
"""Property with the newest schema version applied; set last."""
DELETES_PROPERTY: Final = "tailrace.deletes"
"""Property whether the table may have rows of deleted keys: hard, or soft since it first was."""
DELETES_UNKNOWN: Final = "unknown"
"""Its value after a change of the table went to the dead letters: it may have been a delete."""
OWNER_PROPERTY: Final = "tailrace.owner"
"""Property with the sink that owns the table: the id of its log, and its epoch."""
WHOLE_FROM_PROPERTY: Final = "tailrace.wholeFrom"
"""Property of a companion that started after its mirror: LSN from which on it lacks nothing."""
MODE_PROPERTY: Final = "tailrace.schemaMode"
"""Property how the table follows the source's columns; readers apply the log's tail alike."""
RESERVED: Final = "_cdc_"
"""Prefix of the sink's own columns."""
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
"""Metadata of a column whose name in Delta's files is another one. Source: Delta's protocol."""
NO_ZONE: Final = "TIMESTAMP_NTZ"
"""The type that needs a table feature before a column can use it."""
_NOT_IN_PARQUET: Final = frozenset(" ,;{}()\n\t=")


class Feature(StrEnum):
    """A feature that a table gets when it first needs it, as not every reader supports it."""

    COLUMN_MAPPING = "column mapping"
    TYPE_WIDENING = "type widening"
    NO_ZONE = "timestamps without a zone"


class Kind(Enum):
    """Meaning of the rows of a lake table."""

    MIRROR = auto()
    """A row for each key of a keyed source table."""
    EVENTS = auto()
    """A row for each change of a keyless source table."""
    CHANGES = auto()
    """A row for each change of a keyed source table: a companion of its mirror."""
    HISTORY = auto()
    """A row for each validity interval of a row of a keyed source table: another companion."""

    @classmethod
    def of(cls, version: TableSchema) -> Kind:
        """Return the kind of the lake table of a source table."""
        return cls.MIRROR if version.key_columns else cls.EVENTS

    @property
    def appends(self) -> bool:
        """Whether every change is a row."""
        return self in (Kind.EVENTS, Kind.CHANGES)


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column that mirrors a source column.

    Attributes:
        name: in SQL Server's spelling.
        type: the Spark SQL type.
        sql_type: SQL Server type of the newest schema version.
        key_ordinal: 1-based place in the key; 0 outside of it.
        comment: in the lake; other people's comments stay.
        is_required: whether it is of a key without NULLs; False also if unknown.
    """

    name: str
    column_id: int
    type: str
    sql_type: str
    key_ordinal: int = 0
    comment: str | None = field(default=None, compare=False)
    is_required: bool = field(default=False, compare=False)

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
    def is_origin(self) -> bool:
        """Whether it has a part of the source table's name."""
        return self.column_id >= FIRST_ORIGIN_ID

    @property
    def needs_mapping(self) -> bool:
        """Whether Parquet does not allow its name."""
        return not _NOT_IN_PARQUET.isdisjoint(self.name)


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A lake table, at present or after some statements.

    Attributes:
        table: the source table that it mirrors, or the name of a table with several sources.
        columns: in the lake's order, without the ``_cdc_`` columns.
        schema_lsn: LSN of the newest schema version applied, as text.
        foreign: names of columns that somebody else added, in lower case.
        recorded: the identities in its property, as text.
        deletes: whether deleted keys may have rows: hard, soft, or, if that is not known, unknown
            or empty.
        is_new: whether it has no rows.
        dropped: ids of columns that the source no longer has.
        mode: how it follows the source's columns: a ``SchemaMode`` as text; empty: ``evolve``.
        schema_record: the changes of the last batch that changed its columns, as text.
        origin: the source table whose rows are meant, if it has several; None: all rows.
        has_few_widenings: whether its format cannot widen an integer to a decimal and the like.
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
    dropped: frozenset[int] = field(default=frozenset(), compare=False)
    mode: str = field(default="", compare=False)
    schema_record: str = field(default="", compare=False)
    origin: TableName | None = field(default=None, compare=False)
    has_few_widenings: bool = field(default=False, compare=False)

    @property
    def is_shared(self) -> bool:
        """Whether it has several source tables."""
        return any(column.is_origin for column in self.columns)

    @property
    def source(self) -> str:
        """Name of the source table, for messages."""
        return str(self.origin or self.table)

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

    def holder_of(self, column: SchemaColumn) -> LakeColumn | None:
        """Return the column that holds the values of a source column of some version."""
        return self.holder(column.column_id, lake_type(column.type, lossless=column.lossless))

    def holder(self, column_id: int, type_: str) -> LakeColumn | None:
        """Return the column that holds a source column's values of some Spark SQL type.

        A retired column holds those of an earlier type.
        """
        own = [c for c in self.columns if source_id(c.column_id) == column_id]
        if len(own) < 2:
            return own[0] if own else None
        own.sort(key=lambda c: c.column_id if c.column_id < 0 else -math.inf)
        return next((c for c in own if widening(c.type, type_) is Widening.HOLDS), None)

    def names_in(self, known: LakeTable) -> dict[int, str]:
        """Return by column id how columns of this table are named in an earlier description."""
        names: dict[int, str] = {}
        for column in known.columns:
            is_retired = column.column_id < 0
            holder = column if is_retired else self.holder(column.column_id, column.type)
            if holder is not None:
                names[holder.column_id] = column.name
        return names

    @property
    def needs_mapping(self) -> bool:
        """Whether Parquet does not allow a column's name."""
        return any(column.needs_mapping for column in self.columns)

    @property
    def types(self) -> dict[str, str]:
        """Spark SQL type of each column, with the sink's own, in the order of the table."""
        own = {name: type_ for name, (type_, _) in self.cdc_columns.items()}
        return {column.name: column.type for column in self.columns} | own

    @property
    def cdc_columns(self) -> Mapping[str, tuple[str, str]]:
        """The sink's own columns in this kind of table."""
        if self.kind is Kind.HISTORY:
            return HISTORY_COLUMNS
        return CHANGES_COLUMNS if self.kind.appends else CDC_COLUMNS


COMPANIONS: Final[Mapping[Kind, str]] = {Kind.CHANGES: ".changes", Kind.HISTORY: ".history"}
"""Kinds of tables that a mirror may have next to it, and what their paths end with."""


def table_path(table: TableName, kind: Kind = Kind.MIRROR) -> str:
    """Return a table's path below the lake: database/schema/table, escaped as in topic names.

    Escaped names have no dot, so ``.changes`` cannot clash with another table's path.
    """
    return f"{table.path}{COMPANIONS.get(kind, '')}"


def lake_paths(table: TableName) -> list[str]:
    """Return the paths of all lake tables that a source table may have, its own first."""
    return [table_path(table), *companion_paths(table_path(table))]


def companion_paths(path: str) -> list[str]:
    """Return the paths of the companions that the table at a path may have."""
    return [f"{path}{suffix}" for suffix in COMPANIONS.values()]


def table_at(path: str) -> tuple[TableName, Kind]:
    """Return the name and the kind of the lake table at a path below the lake."""
    mirror = source_path(path)
    kind = next((k for k, suffix in COMPANIONS.items() if path == mirror + suffix), Kind.MIRROR)
    return TableName(*map(unescape, mirror.split("/"))), kind


def source_path(path: str) -> str:
    """Return the path of the table that a companion belongs to, or the path itself."""
    for suffix in COMPANIONS.values():
        path = path.removesuffix(suffix)
    return path


def quote(name: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Format a string literal for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def properties_ddl(properties: Mapping[str, str]) -> str:
    """Format properties for DDL."""
    return ", ".join(f"{literal(name)} = {literal(v)}" for name, v in properties.items())


def set_properties(properties: Mapping[str, str]) -> str:
    """Build the clause of ALTER TABLE that sets properties."""
    return f"SET TBLPROPERTIES ({properties_ddl(properties)})"
