"""INFORMATION_SCHEMA views.

https://learn.microsoft.com/sql/relational-databases/system-information-schema-views/system-information-schema-views-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.module_texts import generated_modules
from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.relations import relations, tables
from tailrace_emulator.catalog.type_facts import (
    character_length,
    datetime_precision,
    numeric_facts,
    octet_length,
)
from tailrace_emulator.catalog.visibility import definition
from tailrace_emulator.values.collations import page_of
from tailrace_emulator.values.types import DEFAULT_COLLATION, SqlType
from tailrace_emulator.wire.code_pages import UTF8

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.database_objects import DatabaseObject
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Index


@view(
    "INFORMATION_SCHEMA.TABLES",
    """TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!,
 TABLE_TYPE varchar(10)""",
)
def _tables(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        yield database.name, table.schema, table.name, "BASE TABLE"
    for module in database.modules.values():
        if module.type == "V":
            yield database.name, module.schema, module.name, "VIEW"


_COLUMNS: Final = Columns(
    """TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!,
 COLUMN_NAME sysname, ORDINAL_POSITION int, COLUMN_DEFAULT nvarchar(4000), IS_NULLABLE varchar(3),
 DATA_TYPE nvarchar(128), CHARACTER_MAXIMUM_LENGTH int, CHARACTER_OCTET_LENGTH int,
 NUMERIC_PRECISION tinyint, NUMERIC_PRECISION_RADIX smallint, NUMERIC_SCALE int,
 DATETIME_PRECISION smallint, CHARACTER_SET_CATALOG sysname, CHARACTER_SET_SCHEMA sysname,
 CHARACTER_SET_NAME sysname, COLLATION_CATALOG sysname, COLLATION_SCHEMA sysname,
 COLLATION_NAME sysname, DOMAIN_CATALOG sysname, DOMAIN_SCHEMA sysname, DOMAIN_NAME sysname"""
)
_CHARACTER_SETS: Final = {1252: "iso_1", UTF8: "UTF-8"}


@view("INFORMATION_SCHEMA.COLUMNS", _COLUMNS)
def _columns(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in relations(context, database):
        for position, column in enumerate(table.columns, 1):
            precision, radix, scale = numeric_facts(column.type)
            is_text = column.type.is_character and column.type.name != "xml"
            yield _COLUMNS.row(
                TABLE_CATALOG=database.name,
                TABLE_SCHEMA=table.schema,
                TABLE_NAME=table.name,
                COLUMN_NAME=column.name,
                ORDINAL_POSITION=position,
                COLUMN_DEFAULT=column.default,
                IS_NULLABLE="YES" if column.nullable else "NO",
                DATA_TYPE=column.type.name,
                CHARACTER_MAXIMUM_LENGTH=character_length(column.type),
                CHARACTER_OCTET_LENGTH=octet_length(column.type),
                NUMERIC_PRECISION=precision,
                NUMERIC_PRECISION_RADIX=radix,
                NUMERIC_SCALE=scale,
                DATETIME_PRECISION=datetime_precision(column.type),
                CHARACTER_SET_NAME=_character_set(column.type) if is_text else None,
                COLLATION_NAME=(column.type.collation or DEFAULT_COLLATION) if is_text else None,
            )


def _character_set(sql_type: SqlType) -> str:
    if sql_type.name in {"nchar", "nvarchar", "ntext"}:
        return "UNICODE"
    page = page_of(sql_type.collation).number
    return _CHARACTER_SETS.get(page, f"cp{page}")


def _keys(database: Database) -> Iterator[tuple[str, str, Index]]:
    for table in database.tables():
        for index in table.indexes:
            if index.primary_key or index.unique_constraint:
                yield table.schema, table.name, index


_TABLE_CONSTRAINTS: Final = Columns(
    """CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME sysname!,
 TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname,
 CONSTRAINT_TYPE varchar(11), IS_DEFERRABLE varchar(2)! = 'NO',
 INITIALLY_DEFERRED varchar(2)! = 'NO'"""
)


@view("INFORMATION_SCHEMA.TABLE_CONSTRAINTS", _TABLE_CONSTRAINTS)
def _table_constraints(_context: SessionContext, database: Database) -> Iterator[Row]:
    named: list[tuple[str, str, str, str]] = [
        (schema, table, index.name, "PRIMARY KEY" if index.primary_key else "UNIQUE")
        for schema, table, index in _keys(database)
    ]
    for item in database.tables():
        named += [(item.schema, item.name, key.name, "FOREIGN KEY") for key in item.foreign_keys]
        named += [(item.schema, item.name, check.name, "CHECK") for check in item.checks]
    for schema, table, name, kind in named:
        catalog = database.name
        yield _TABLE_CONSTRAINTS.row(
            CONSTRAINT_CATALOG=catalog,
            CONSTRAINT_SCHEMA=schema,
            CONSTRAINT_NAME=name,
            TABLE_CATALOG=catalog,
            TABLE_SCHEMA=schema,
            TABLE_NAME=table,
            CONSTRAINT_TYPE=kind,
        )


_KEY_COLUMN_USAGE: Final = Columns(
    """CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128),
 CONSTRAINT_NAME nvarchar(128)!, TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128),
 TABLE_NAME nvarchar(128)!, COLUMN_NAME nvarchar(128), ORDINAL_POSITION int!"""
)


@view("INFORMATION_SCHEMA.KEY_COLUMN_USAGE", _KEY_COLUMN_USAGE)
def _key_column_usage(_context: SessionContext, database: Database) -> Iterator[Row]:
    for table in database.tables():
        constraints = [
            (index.name, index.column_ids)
            for index in table.indexes
            if index.primary_key or index.unique_constraint
        ]
        constraints += [(key.name, key.column_ids) for key in table.foreign_keys]
        names = {column.column_id: column.name for column in table.columns}
        for name, column_ids in constraints:
            for position, column_id in enumerate(column_ids, 1):
                yield _KEY_COLUMN_USAGE.row(
                    CONSTRAINT_CATALOG=database.name,
                    CONSTRAINT_SCHEMA=table.schema,
                    CONSTRAINT_NAME=name,
                    TABLE_CATALOG=database.name,
                    TABLE_SCHEMA=table.schema,
                    TABLE_NAME=table.name,
                    COLUMN_NAME=names[column_id],
                    ORDINAL_POSITION=position,
                )


_CONSTRAINT_COLUMN_USAGE: Final = Columns(
    """TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME nvarchar(128)!,
 COLUMN_NAME nvarchar(128), CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128),
 CONSTRAINT_NAME nvarchar(128)!"""
)


@view("INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE", _CONSTRAINT_COLUMN_USAGE)
def _constraint_column_usage(_context: SessionContext, database: Database) -> Iterator[Row]:
    for table in database.tables():
        names = {column.column_id: column.name for column in table.columns}
        for index in table.indexes:
            if not index.primary_key and not index.unique_constraint:
                continue
            for column_id in index.column_ids:
                yield _CONSTRAINT_COLUMN_USAGE.row(
                    TABLE_CATALOG=database.name,
                    TABLE_SCHEMA=table.schema,
                    TABLE_NAME=table.name,
                    COLUMN_NAME=names[column_id],
                    CONSTRAINT_CATALOG=database.name,
                    CONSTRAINT_SCHEMA=table.schema,
                    CONSTRAINT_NAME=index.name,
                )


_REFERENTIAL_CONSTRAINTS: Final = Columns(
    """CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME sysname!,
 UNIQUE_CONSTRAINT_CATALOG nvarchar(128), UNIQUE_CONSTRAINT_SCHEMA nvarchar(128),
 UNIQUE_CONSTRAINT_NAME sysname, MATCH_OPTION varchar(7) = 'SIMPLE', UPDATE_RULE varchar(11),
 DELETE_RULE varchar(11)"""
)


@view("INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS", _REFERENTIAL_CONSTRAINTS)
def _referential_constraints(_context: SessionContext, database: Database) -> Iterator[Row]:
    for table in database.tables():
        for key in table.foreign_keys:
            referenced = database.table_by_id(key.referenced)
            if referenced is None:
                continue
            unique = next(
                (i.name for i in referenced.indexes if i.column_ids == key.referenced_column_ids),
                None,
            )
            yield _REFERENTIAL_CONSTRAINTS.row(
                CONSTRAINT_CATALOG=database.name,
                CONSTRAINT_SCHEMA=table.schema,
                CONSTRAINT_NAME=key.name,
                UNIQUE_CONSTRAINT_CATALOG=database.name,
                UNIQUE_CONSTRAINT_SCHEMA=referenced.schema,
                UNIQUE_CONSTRAINT_NAME=unique,
                UPDATE_RULE=key.on_update.replace("_", " "),
                DELETE_RULE=key.on_delete.replace("_", " "),
            )


_SCHEMATA: Final = Columns(
    """CATALOG_NAME nvarchar(128), SCHEMA_NAME nvarchar(128)!, SCHEMA_OWNER nvarchar(128),
 DEFAULT_CHARACTER_SET_CATALOG sysname, DEFAULT_CHARACTER_SET_SCHEMA sysname,
 DEFAULT_CHARACTER_SET_NAME sysname = 'iso_1'"""
)


@view("INFORMATION_SCHEMA.SCHEMATA", _SCHEMATA)
def _schemata(_context: SessionContext, database: Database) -> Iterator[Row]:
    for schema in database.schemas:
        owner = schema if schema in database.principals else "dbo"
        yield _SCHEMATA.row(CATALOG_NAME=database.name, SCHEMA_NAME=schema, SCHEMA_OWNER=owner)


_VIEWS: Final = Columns(
    """TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!,
 VIEW_DEFINITION nvarchar(4000), CHECK_OPTION varchar(7), IS_UPDATABLE varchar(2)! = 'NO'"""
)


@view("INFORMATION_SCHEMA.VIEWS", _VIEWS)
def _views(context: SessionContext, database: Database) -> Iterator[Row]:
    for module in database.modules.values():
        if module.type == "V":
            text = definition(context, database, module)
            shown = text[:4000] if text is not None else None
            option = "CASCADE" if module.has_check_option else "NONE"
            yield _VIEWS.row(
                TABLE_CATALOG=database.name,
                TABLE_SCHEMA=module.schema,
                TABLE_NAME=module.name,
                VIEW_DEFINITION=shown,
                CHECK_OPTION=option,
            )


@view(
    "INFORMATION_SCHEMA.CHECK_CONSTRAINTS",
    """CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128),
 CONSTRAINT_NAME sysname!, CHECK_CLAUSE nvarchar(4000)""",
)
def _check_constraints(context: SessionContext, database: Database) -> Iterator[Row]:
    for table in tables(context, database):
        for check in table.checks:
            yield database.name, table.schema, check.name, check.expression[:4000]


_CONSTRAINT_TABLE_USAGE: Final = Columns(
    """TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!,
 CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME sysname!"""
)


@view("INFORMATION_SCHEMA.CONSTRAINT_TABLE_USAGE", _CONSTRAINT_TABLE_USAGE)
def _constraint_table_usage(context: SessionContext, database: Database) -> Iterator[Row]:
    for row in _table_constraints(context, database):
        catalog, schema, name, _, _, table, *_ = row
        yield _CONSTRAINT_TABLE_USAGE.row(
            TABLE_CATALOG=catalog,
            TABLE_SCHEMA=schema,
            TABLE_NAME=table,
            CONSTRAINT_CATALOG=catalog,
            CONSTRAINT_SCHEMA=schema,
            CONSTRAINT_NAME=name,
        )


_ROUTINES: Final = Columns(
    """SPECIFIC_CATALOG nvarchar(128), SPECIFIC_SCHEMA nvarchar(128), SPECIFIC_NAME nvarchar(128)!,
 ROUTINE_CATALOG nvarchar(128), ROUTINE_SCHEMA nvarchar(128), ROUTINE_NAME nvarchar(128)!,
 ROUTINE_TYPE nvarchar(20), ROUTINE_DEFINITION nvarchar(4000), CREATED datetime!,
 LAST_ALTERED datetime!"""
)


@view("INFORMATION_SCHEMA.ROUTINES", _ROUTINES)
def _routines(context: SessionContext, database: Database) -> Iterator[Row]:
    for module in database.modules.values():
        if module.type in {"P", "FN", "IF", "TF"}:
            kind = "PROCEDURE" if module.type == "P" else "FUNCTION"
            text = definition(context, database, module)
            yield _routine_row(database, module, kind, text)
    for item, text in generated_modules(context, database):
        yield _routine_row(database, item, "FUNCTION", text)


def _routine_row(
    database: Database, item: Module | DatabaseObject, kind: str, text: str | None
) -> Row:
    created = datetime_of(item.create_ticks)
    return _ROUTINES.row(
        SPECIFIC_CATALOG=database.name,
        SPECIFIC_SCHEMA=item.schema,
        SPECIFIC_NAME=item.name,
        ROUTINE_CATALOG=database.name,
        ROUTINE_SCHEMA=item.schema,
        ROUTINE_NAME=item.name,
        ROUTINE_TYPE=kind,
        ROUTINE_DEFINITION=text[:4000] if text is not None else None,
        CREATED=created,
        LAST_ALTERED=created,
    )
