"""Columns, types and indexes: sys.columns, sys.types, sys.indexes and their kin.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-columns-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emulator.catalog.objects import QueryFunction, derived_id, query_functions
from emulator.catalog.registry import Columns, Row, view
from emulator.catalog.relations import (
    Relation,
    relations,
    system_relations,
    tables,
)
from emulator.catalog.type_facts import SYSTEM_TYPE_IDS, type_facts
from emulator.catalog.type_views import TYPE_COLUMNS, user_type_rows
from emulator.cdc.query_functions import all_changes_columns, net_changes_columns
from emulator.storage.model import Column
from emulator.types import DEFAULT_COLLATION, SYSNAME_USER_TYPE_ID, SqlType

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database
    from emulator.storage.model import Table

_COLUMN_COLUMNS: Final = """object_id int!, name sysname, column_id int!, system_type_id tinyint!,
 user_type_id int!, max_length smallint!, precision tinyint!, scale tinyint!,
 collation_name sysname, is_nullable bit, is_ansi_padded bit!, is_rowguidcol bit!,
 is_identity bit!, is_computed bit!, is_filestream bit!, is_replicated bit,
 is_non_sql_subscribed bit, is_merge_published bit, is_dts_replicated bit, is_xml_document bit!,
 xml_collection_id int!, default_object_id int!, rule_object_id int!, is_sparse bit,
 is_column_set bit, generated_always_type tinyint, generated_always_type_desc nvarchar(60),
 is_hidden bit!, is_masked bit!"""


def _column_row(table: Relation | Table, column: Column) -> Row:
    facts = type_facts(column.type)
    padded = column.type.is_character or column.type.name in {"binary", "varbinary"}
    default = (
        derived_id(table.object_id, column.default_name) if column.default_name is not None else 0
    )
    return (
        table.object_id,
        column.name,
        column.column_id,
        *(facts.system_type_id, column.user_type_id or facts.user_type_id, facts.max_length),
        *(facts.precision, facts.scale),
        _collation(column.type),
        int(column.nullable),
        int(padded),
        0,
        int(column.identity is not None),
        int(column.computed is not None),
        *(0, 0, 0, 0, 0, 0, 0, default, 0, 0, 0, 0, "NOT_APPLICABLE", 0, 0),
    )


def _collation(sql_type: SqlType) -> str | None:
    if not sql_type.is_character or sql_type.name == "xml":
        return None
    return sql_type.collation or DEFAULT_COLLATION


def _of_function(database: Database, function: QueryFunction) -> Relation:
    """A query function of CDC with the columns that it returns."""
    item, table = function.item, database.table_by_id(function.instance.object_id)
    named: tuple[tuple[str, SqlType], ...] = ()
    if table is not None:
        named = net_changes_columns(table) if function.net else all_changes_columns(table)
    columns = (Column(number, *column) for number, column in enumerate(named, 1))
    return Relation(item.object_id, item.schema, item.name, tuple(columns))


@view("sys.columns", _COLUMN_COLUMNS)
def _columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for relation in relations(context, database):
        for column in relation.columns:
            yield _column_row(relation, column)
    for function in query_functions(context.store.connection, database):
        relation = _of_function(database, function)
        for column in relation.columns:
            yield _column_row(relation, column)
    for found in database.state.user_types.values():
        relation = Relation(found.object_id, "sys", found.name, found.columns)
        for column in found.columns:
            yield _column_row(relation, column)


@view("sys.system_columns", _COLUMN_COLUMNS)
def _system_columns(_context: SessionContext, _database: Database) -> Iterator[Row]:
    for relation in system_relations().values():
        for column in relation.columns:
            yield _column_row(relation, column)


@view("sys.all_columns", _COLUMN_COLUMNS)
def _all_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    yield from _columns(context, database)
    yield from _system_columns(context, database)


@view(
    "sys.identity_columns",
    _COLUMN_COLUMNS
    + """, seed_value bigint, increment_value bigint, last_value bigint,
 is_not_for_replication bit""",
)
def _identity_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        for column in table.columns:
            if column.identity is None:
                continue
            rows = context.store.connection.execute(
                "SELECT last_value FROM identity_values WHERE database_id = ? AND object_id = ?",
                (database.database_id, table.object_id),
            ).fetchall()
            last = rows[0][0] if rows else None
            yield (
                *_column_row(table, column),
                *(column.identity.seed, column.identity.increment, last, 0),
            )


@view(
    "sys.computed_columns",
    _COLUMN_COLUMNS + ", definition nvarchar(max), uses_database_collation bit!, is_persisted bit!",
)
def _computed_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        for column in table.columns:
            if column.computed is not None:
                yield (
                    *_column_row(table, column),
                    *(column.computed, 1, int(column.persisted)),
                )


_LARGEST: Final = {
    "varchar": 8000,
    "char": 8000,
    "varbinary": 8000,
    "binary": 8000,
    "nvarchar": 8000,
    "nchar": 8000,
}


@view("sys.types", TYPE_COLUMNS)
def _types(_context: SessionContext, database: Database) -> Iterator[Row]:
    for name, type_id in SYSTEM_TYPE_IDS.items():
        if name in _LARGEST:
            length, precision, scale = _LARGEST[name], 0, 0
        else:
            digits = 38 if name in {"decimal", "numeric"} else 0
            facts = type_facts(SqlType(name, precision=digits, scale=digits or 7))
            length, precision, scale = facts.max_length, facts.precision, facts.scale
        collation = _collation(SqlType(name))
        nullable = int(name != "timestamp")
        yield (
            *(name, type_id, type_id, 4, None, length, precision, scale),
            *(collation, nullable, 0, 0, 0, 0, 0),
        )
    yield (
        *("sysname", SYSTEM_TYPE_IDS["nvarchar"], SYSNAME_USER_TYPE_ID, 4, None, 256, 0, 0),
        *(DEFAULT_COLLATION, 0, 0, 0, 0, 0, 0),
    )
    yield from user_type_rows(database)


@view(
    "sys.indexes",
    """object_id int!, name sysname, index_id int!, type tinyint!, type_desc nvarchar(60),
 is_unique bit, data_space_id int, ignore_dup_key bit, is_primary_key bit,
 is_unique_constraint bit, fill_factor tinyint!, is_padded bit, is_disabled bit,
 is_hypothetical bit, is_ignored_in_optimization bit, allow_row_locks bit, allow_page_locks bit,
 has_filter bit, filter_definition nvarchar(max), compression_delay int,
 suppress_dup_key_messages bit, auto_created bit""",
)
def _indexes(context: SessionContext, database: Database) -> Iterator[Row]:
    plain = (0, 0, 0, 0, 0, 1, 1)
    for table in tables(context, database):
        if not any(index.clustered for index in table.indexes):
            yield (
                *(table.object_id, None, 0, 0, "HEAP", 0, 1, 0, 0, 0, *plain),
                *(0, None, None, 0, 0),
            )
        for index in table.indexes:
            kind = (1, "CLUSTERED") if index.clustered else (2, "NONCLUSTERED")
            yield (
                *(table.object_id, index.name, index.index_id, *kind, int(index.unique), 1, 0),
                *(int(index.primary_key), int(index.unique_constraint), *plain),
                *(int(bool(index.filter)), index.filter_definition or None, None, 0, 0),
            )


_INDEX_COLUMNS: Final = Columns(
    """object_id int!, index_id int!, index_column_id int!, column_id int!, key_ordinal tinyint!,
 partition_ordinal tinyint! = 0, is_descending_key bit, is_included_column bit = 0"""
)


@view("sys.index_columns", _INDEX_COLUMNS)
def _index_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        for index in table.indexes:
            keys = zip(index.column_ids, index.descending, strict=True)
            for ordinal, (column_id, descending) in enumerate(keys, 1):
                yield _INDEX_COLUMNS.row(
                    object_id=table.object_id,
                    index_id=index.index_id,
                    index_column_id=ordinal,
                    column_id=column_id,
                    key_ordinal=ordinal,
                    is_descending_key=int(descending),
                )
            start = len(index.column_ids) + 1
            for ordinal, column_id in enumerate(index.included_column_ids, start):
                yield _INDEX_COLUMNS.row(
                    object_id=table.object_id,
                    index_id=index.index_id,
                    index_column_id=ordinal,
                    column_id=column_id,
                    key_ordinal=0,
                    is_descending_key=0,
                    is_included_column=1,
                )
