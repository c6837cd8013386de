"""Statements about capture instances and their columns: a constant number for all tables together.

Statements about columns and keys can be narrowed to some tables, if only these have changed.

https://learn.microsoft.com/sql/relational-databases/system-tables/change-data-capture-tables-transact-sql
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import lsn_or_none
from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.position.lsn import Lsn

NARROWED_MAX: Final = 40
"""Highest number of object ids in a narrowed statement, which always has so many parameters."""

_TYPES_MAX: Final = 4096
"""Types that are cached; thousands of columns share a few of them."""


_PRECISE = frozenset({"decimal", "numeric"})
_FRACTIONAL = frozenset({"time", "datetime2", "datetimeoffset"})
_DOUBLE_BYTE = frozenset({"nchar", "nvarchar"})
_SIZED = frozenset({"char", "varchar", "binary", "varbinary"}) | _DOUBLE_BYTE


@dataclass(frozen=True, slots=True)
class ChangeTableRow:
    """A row of ``cdc.change_tables`` with its source table's name.

    ``modify_date`` of the two tables shows whether their known columns, keys and order are still
    valid. Any ALTER TABLE and any change of an index moves it.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-objects-transact-sql
    """

    instance: str
    schema: str
    table: str
    object_id: int
    source_object_id: int
    start_lsn: Lsn | None
    create_date: datetime
    supports_net_changes: bool
    source_modified: datetime
    table_modified: datetime | None


@dataclass(frozen=True, slots=True)
class CapturedColumnRow:
    """A row of ``cdc.captured_columns``."""

    name: str
    column_id: int
    ordinal: int
    is_computed: bool


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A row of ``sys.columns`` with its base type."""

    name: str
    column_id: int
    type: ColumnType
    nullable: bool
    collation: str | None


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """Columns of the source table that identify every row.

    Attributes:
        column_ids: in the order of the index.
    """

    column_ids: tuple[int, ...]
    is_primary: bool


def narrowed(word: str, column: str, only: Collection[int] | None) -> tuple[str, list[int]]:
    """Return the condition that a column is one of some object ids, with its parameters."""
    if only is None:
        return "", []
    ids = sorted(only)
    marks = ", ".join("?" * NARROWED_MAX)
    return f" {word} {column} IN ({marks})", ids + ids[-1:] * (NARROWED_MAX - len(ids))


METADATA_TABLES: Final = (
    "change_tables",
    "captured_columns",
    "index_columns",
    "ddl_history",
    "lsn_time_mapping",
)
"""The tables of schema cdc that are read, in addition to change tables."""


def change_tables(connection: Connection) -> list[ChangeTableRow]:
    """Read all capture instances whose source table exists."""
    # See: cdc.change_tables; sys.tables, modify_date. Inferred: is start_lsn NULL or zero from
    # sp_cdc_enable_table until a scan has read it?
    rows = connection.query(
        "SELECT ct.capture_instance, s.name, t.name, ct.object_id, ct.source_object_id,"
        " ct.start_lsn, ct.create_date, ct.supports_net_changes, t.modify_date, c.modify_date"
        " FROM cdc.change_tables ct JOIN sys.tables t ON t.object_id = ct.source_object_id"
        " JOIN sys.schemas s ON s.schema_id = t.schema_id"
        " LEFT JOIN sys.tables c ON c.object_id = ct.object_id ORDER BY ct.object_id"
    )
    return [
        ChangeTableRow(
            instance=row[0],
            schema=row[1],
            table=row[2],
            object_id=row[3],
            source_object_id=row[4],
            start_lsn=lsn_or_none(row[5]),
            create_date=row[6],
            supports_net_changes=bool(row[7]),
            source_modified=row[8],
            table_modified=row[9],
        )
        for row in rows
    ]


def captured_columns(
    connection: Connection, only: Collection[int] | None = None
) -> dict[int, list[CapturedColumnRow]]:
    """Read captured columns by ordinal, per change table's object id."""
    # See: the page of cdc.captured_columns
    where, ids = narrowed("WHERE", "object_id", only)
    rows = connection.query(
        "SELECT object_id, column_name, column_id, column_ordinal, is_computed"
        f" FROM cdc.captured_columns{where} ORDER BY object_id, column_ordinal",
        *ids,
    )
    return _per_object(
        (object_id, CapturedColumnRow(name, column_id, ordinal, bool(is_computed)))
        for object_id, name, column_id, ordinal, is_computed in rows
    )


def index_columns(
    connection: Connection, only: Collection[int] | None = None
) -> dict[int, list[str]]:
    """Read the columns of ``cdc.index_columns``, which identify a row, in order.

    They are returned per change table's object id.
    """
    # See: the page of cdc.index_columns
    where, ids = narrowed("WHERE", "object_id", only)
    rows = connection.query(
        f"SELECT object_id, column_name FROM cdc.index_columns{where}"
        " ORDER BY object_id, index_ordinal",
        *ids,
    )
    return _per_object(rows)


def unique_keys(
    connection: Connection, only: Collection[int] | None = None
) -> dict[int, list[UniqueKey]]:
    """Read the keys that identify every row, per captured source table's object id.

    The primary key comes first. An index with a filter does not cover all rows, and one that is
    disabled is not enforced. With IGNORE_DUP_KEY an index is still unique: it only answers a
    duplicate with a warning.

    See: sys.indexes (is_unique, has_filter, is_disabled), sys.index_columns (key_ordinal is 0 for
    an included column), Create filtered indexes, Disable indexes and constraints.
    """
    where, ids = narrowed("AND", "i.object_id", only)
    rows = connection.query(
        "SELECT i.object_id, i.index_id, i.is_primary_key, ic.column_id FROM sys.indexes i"
        " JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id"
        " WHERE i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 AND ic.key_ordinal > 0"
        f" AND i.object_id IN (SELECT source_object_id FROM cdc.change_tables){where}"
        " ORDER BY i.object_id, i.is_primary_key DESC, i.index_id, ic.key_ordinal",
        *ids,
    )
    found: defaultdict[int, list[UniqueKey]] = defaultdict(list)
    for (object_id, _, is_primary), columns in groupby(rows, key=lambda row: tuple(row[:3])):
        key = UniqueKey(tuple(row[3] for row in columns), is_primary=bool(is_primary))
        found[object_id].append(key)
    return found


def orders_of_change_tables(
    connection: Connection, only: Collection[int] | None = None
) -> dict[int, list[str]]:
    """Read the columns of clustered indexes, in order, per change table's object id.

    On a server that was updated in place, ``__$command_id`` may exist without being in the index.
    An order by it would then sort the whole range for each page.
    """
    # See: sys.indexes, type; sys.index_columns, key_ordinal. Inferred: is __$command_id missing in
    # the clustered index after an update in place?
    where, ids = narrowed("AND", "i.object_id", only)
    rows = connection.query(
        "SELECT ic.object_id, c.name FROM sys.indexes i"
        " JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id"
        " JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id"
        " WHERE i.type = 1 AND ic.key_ordinal > 0"
        f" AND i.object_id IN (SELECT object_id FROM cdc.change_tables){where}"
        " ORDER BY ic.object_id, ic.key_ordinal",
        *ids,
    )
    return _per_object(rows)


def columns_of_captured_tables(
    connection: Connection, only: Collection[int] | None = None
) -> dict[int, list[ColumnRow]]:
    """Read the columns of all change tables and their source tables, per object id.

    An alias type, and sysname (256), has its base type's name. A login may not see the row of an
    alias type. CLR types share system type 240 and are identified by their user type.
    See: sys.types (system_type_id, user_type_id, is_user_defined); Metadata Visibility
    Configuration. Inferred: have the server's own types, vector and json among them, a user type
    below 256, and alias types one above it?
    """
    where, ids = narrowed("AND", "c.object_id", only)
    rows = connection.query(
        "SELECT c.object_id, c.name, c.column_id, ty.name, c.max_length, c.precision, c.scale,"
        " c.is_nullable, c.collation_name FROM sys.columns c"
        " JOIN sys.types ty ON ty.user_type_id = CASE WHEN c.user_type_id < 256"
        " OR c.system_type_id = 240 THEN c.user_type_id ELSE c.system_type_id END"
        " WHERE (c.object_id IN (SELECT object_id FROM cdc.change_tables)"
        f" OR c.object_id IN (SELECT source_object_id FROM cdc.change_tables)){where}"
        " ORDER BY c.object_id, c.column_id",
        *ids,
    )
    return _per_object((object_id, _column_row(*column)) for object_id, *column in rows)


def _column_row(
    name: str,
    column_id: int,
    type_name: str,
    length: int,
    precision: int,
    scale: int,
    nullable: int,
    collation: str | None,
) -> ColumnRow:
    """Convert a row of sys.columns and sys.types as `columns_of_captured_tables` selects it."""
    column_type = column_type_of(type_name, length, precision, scale)
    return ColumnRow(name, column_id, column_type, bool(nullable), collation)


def _per_object(rows: Iterable[Sequence[Any]]) -> dict[int, list[Any]]:
    """Group the second fields of rows by their first, an object id, in their order."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for object_id, value in rows:
        found[object_id].append(value)
    return found


@lru_cache(maxsize=_TYPES_MAX)
def column_type_of(name: str, max_length: int, precision: int, scale: int) -> ColumnType:
    """Convert a type as sys.columns describes it: max_length in bytes, -1 for (max)."""
    name = name.lower()
    if name in _PRECISE:
        return ColumnType(name, precision=precision, scale=scale)
    if name in _FRACTIONAL:
        return ColumnType(name, scale=scale)
    if name == "float":
        return ColumnType(name, precision=precision)
    if name in _SIZED:
        if max_length == MAX:
            return ColumnType(name, length=MAX)
        return ColumnType(name, length=max_length // 2 if name in _DOUBLE_BYTE else max_length)
    return ColumnType(name)


def database_collation(connection: Connection) -> str:
    """Return the collation of string parameters in a cast."""
    # See: sys.databases, collation_name; Collation Precedence
    rows = connection.query("SELECT collation_name FROM sys.databases WHERE name = DB_NAME()")
    return str(rows[0][0]) if rows else ""


def tables(connection: Connection) -> dict[str, bool]:
    """Return user tables as schema.table, and whether CDC captures them."""
    return {f"{schema}.{table}": captured for schema, table, captured in user_tables(connection)}


def user_tables(connection: Connection) -> list[tuple[str, str, bool]]:
    """Return user tables: schema, name, whether CDC captures them. Either name may have dots."""
    # See: sys.tables, is_tracked_by_cdc and is_ms_shipped
    rows = connection.query(
        "SELECT s.name, t.name, t.is_tracked_by_cdc FROM sys.tables t"
        " JOIN sys.schemas s ON s.schema_id = t.schema_id WHERE t.is_ms_shipped = 0"
        " AND s.name <> N'cdc'"
    )
    return [(str(row[0]), str(row[1]), bool(row[2])) for row in rows]
