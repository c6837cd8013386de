"""Columns, types and indexes: sys.columns, sys.types, sys.indexes and their kin.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-columns-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.base_tables import base_tables
from tailrace_emulator.catalog.database_objects import derived_id
from tailrace_emulator.catalog.objects import generated_objects
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.relations import (
    Relation,
    relations,
    system_relations,
    tables,
)
from tailrace_emulator.catalog.type_facts import SYSTEM_TYPE_IDS, type_facts
from tailrace_emulator.catalog.type_views import SYS_SCHEMA_ID, TYPES, user_type_rows
from tailrace_emulator.storage.model import Column
from tailrace_emulator.storage.partitions import data_space_id
from tailrace_emulator.values.types import (
    DEFAULT_COLLATION,
    GEOGRAPHY,
    GEOMETRY,
    HIERARCHYID,
    SYSNAME_USER_TYPE_ID,
    SqlType,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table

_COLUMNS: Final = Columns(
    """object_id int!, name sysname, column_id int!, system_type_id tinyint!, user_type_id int!,
 max_length smallint!, precision tinyint!, scale tinyint!, collation_name sysname,
 is_nullable bit, is_ansi_padded bit!, is_rowguidcol bit! = 0, is_identity bit!,
 is_computed bit!, is_filestream bit! = 0, is_replicated bit = 0, is_non_sql_subscribed bit = 0,
 is_merge_published bit = 0, is_dts_replicated bit = 0, is_xml_document bit! = 0,
 xml_collection_id int! = 0, default_object_id int!, rule_object_id int! = 0, is_sparse bit = 0,
 is_column_set bit = 0, generated_always_type tinyint = 0,
 generated_always_type_desc nvarchar(60) = 'NOT_APPLICABLE', encryption_type int,
 encryption_type_desc nvarchar(64), encryption_algorithm_name sysname,
 column_encryption_key_id int, column_encryption_key_database_name sysname, is_hidden bit! = 0,
 is_masked bit!"""
)
_MASKED_COLUMNS: Final = _COLUMNS.extended("masking_function nvarchar(4000)")


def _column_row(table: Relation | Table, column: Column) -> Row:
    facts = type_facts(column.type)
    padded = column.type.is_character or column.type.name in {"binary", "varbinary"}
    default = (
        derived_id(table.object_id, column.default_name) if column.default_name is not None else 0
    )
    return _COLUMNS.row(
        object_id=table.object_id,
        name=column.name,
        column_id=column.column_id,
        system_type_id=facts.system_type_id,
        user_type_id=column.user_type_id or facts.user_type_id,
        max_length=facts.max_length,
        precision=facts.precision,
        scale=facts.scale,
        collation_name=_collation(column.type),
        is_nullable=int(column.nullable),
        is_ansi_padded=int(padded),
        is_identity=int(column.identity is not None),
        is_computed=int(column.computed is not None),
        default_object_id=default,
        is_masked=int(bool(getattr(column, "mask", ""))),
    )


def _collation(sql_type: SqlType) -> str | None:
    if not sql_type.is_character or sql_type.name == "xml":
        return None
    return sql_type.collation or DEFAULT_COLLATION


@view("sys.columns", _COLUMNS)
def _columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for base in base_tables():
        for column in base.columns:
            yield _column_row(base, column)
    for relation in relations(context, database):
        for column in relation.columns:
            yield _column_row(relation, column)
    for made in generated_objects(context, database):
        item = made.item
        relation = Relation(item.object_id, item.schema, item.name, made.columns())
        for column in relation.columns:
            yield _column_row(relation, column)
    for found in database.state.user_types.values():
        relation = Relation(found.object_id, "sys", found.name, found.columns)
        for column in found.columns:
            yield _column_row(relation, column)


@view("sys.masked_columns", _MASKED_COLUMNS)
def _masked_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    """Columns with a mask."""
    for table in tables(context, database):
        for column in table.columns:
            if column.mask:
                yield _MASKED_COLUMNS.row(_column_row(table, column), masking_function=column.mask)


@view("sys.system_columns", _COLUMNS)
def _system_columns(context: SessionContext, _database: Database) -> Iterator[Row]:
    for relation in system_relations(context).values():
        for column in relation.columns:
            yield _column_row(relation, column)


@view("sys.all_columns", _COLUMNS)
def _all_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    yield from _columns(context, database)
    yield from _system_columns(context, database)


_IDENTITY_COLUMNS: Final = _COLUMNS.extended(
    """seed_value bigint, increment_value bigint, last_value bigint,
 is_not_for_replication bit = 0"""
)


@view("sys.identity_columns", _IDENTITY_COLUMNS)
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
            yield _IDENTITY_COLUMNS.row(
                _column_row(table, column),
                seed_value=column.identity.seed,
                increment_value=column.identity.increment,
                last_value=last,
            )


_COMPUTED_COLUMNS: Final = _COLUMNS.extended(
    "definition nvarchar(max), uses_database_collation bit! = 1, is_persisted bit!"
)


@view("sys.computed_columns", _COMPUTED_COLUMNS)
def _computed_columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        for column in table.columns:
            if column.computed is not None:
                yield _COMPUTED_COLUMNS.row(
                    _column_row(table, column),
                    definition=column.computed,
                    is_persisted=int(column.persisted),
                )


_LARGEST: Final = {
    "varchar": 8000,
    "char": 8000,
    "varbinary": 8000,
    "binary": 8000,
    "nvarchar": 8000,
    "nchar": 8000,
}


@view("sys.types", TYPES)
def _types(_context: SessionContext, database: Database) -> Iterator[Row]:
    for name, type_id in SYSTEM_TYPE_IDS.items():
        if name in _LARGEST:
            length, precision, scale = _LARGEST[name], 0, 0
        else:
            digits = 38 if name in {"decimal", "numeric"} else 0
            facts = type_facts(SqlType(name, precision=digits, scale=digits or 7))
            length, precision, scale = facts.max_length, facts.precision, facts.scale
        yield TYPES.row(
            name=name,
            system_type_id=type_id,
            user_type_id=type_id,
            schema_id=SYS_SCHEMA_ID,
            max_length=length,
            precision=precision,
            scale=scale,
            collation_name=_collation(SqlType(name)),
            is_nullable=int(name != "timestamp"),
        )
    for clr in (HIERARCHYID, GEOMETRY, GEOGRAPHY):
        facts = type_facts(clr)
        yield TYPES.row(
            name=clr.name,
            system_type_id=facts.system_type_id,
            user_type_id=facts.user_type_id,
            schema_id=SYS_SCHEMA_ID,
            max_length=facts.max_length,
            is_nullable=1,
            is_assembly_type=1,
        )
    yield TYPES.row(
        name="sysname",
        system_type_id=SYSTEM_TYPE_IDS["nvarchar"],
        user_type_id=SYSNAME_USER_TYPE_ID,
        schema_id=SYS_SCHEMA_ID,
        max_length=256,
        collation_name=DEFAULT_COLLATION,
        is_nullable=0,
    )
    yield from user_type_rows(database)


_INDEXES: Final = Columns(
    """object_id int!, name sysname, index_id int!, type tinyint!, type_desc nvarchar(60),
 is_unique bit = 0, data_space_id int = 1, ignore_dup_key bit = 0, is_primary_key bit = 0,
 is_unique_constraint bit = 0, fill_factor tinyint! = 0, is_padded bit = 0, is_disabled bit = 0,
 is_hypothetical bit = 0, is_ignored_in_optimization bit = 0, allow_row_locks bit = 1,
 allow_page_locks bit = 1, has_filter bit = 0, filter_definition nvarchar(max),
 compression_delay int, suppress_dup_key_messages bit = 0, auto_created bit = 0"""
)


@view("sys.indexes", _INDEXES)
def _indexes(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        place = data_space_id(database, table)
        if not any(index.clustered for index in table.indexes):
            yield _INDEXES.row(
                object_id=table.object_id, index_id=0, type=0, type_desc="HEAP", data_space_id=place
            )
        for index in table.indexes:
            yield _INDEXES.row(
                object_id=table.object_id,
                name=index.name,
                index_id=index.index_id,
                type=1 if index.clustered else 2,
                type_desc="CLUSTERED" if index.clustered else "NONCLUSTERED",
                is_unique=int(index.unique),
                data_space_id=place,
                ignore_dup_key=int(index.ignore_dup_key),
                is_primary_key=int(index.primary_key),
                is_unique_constraint=int(index.unique_constraint),
                has_filter=int(bool(index.filter)),
                filter_definition=index.filter_definition or None,
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
