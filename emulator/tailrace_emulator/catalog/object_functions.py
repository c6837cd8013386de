"""Metadata functions: names, ids and properties of databases, schemas, objects and columns.

https://learn.microsoft.com/sql/t-sql/functions/metadata-functions-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.catalog.database_objects import DatabaseObject
from tailrace_emulator.catalog.module_texts import object_text
from tailrace_emulator.catalog.names import split_name
from tailrace_emulator.catalog.objects import object_by_id, schema_id
from tailrace_emulator.catalog.property_functions import as_variant, database_properties
from tailrace_emulator.catalog.scalar_registry import scalar
from tailrace_emulator.catalog.type_facts import CLR_TYPE_IDS, SYSTEM_TYPE_IDS, type_facts
from tailrace_emulator.catalog.visibility import is_visible, visible_object
from tailrace_emulator.values.types import (
    INT,
    SMALLINT,
    SQL_VARIANT,
    SYSNAME,
    SYSNAME_USER_TYPE_ID,
    StorageValue,
    decimal_type,
    nvarchar,
    pack_decimal,
    varchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Identity, Table

_NAME = nvarchar(1035)
_PROPERTY = varchar(128)


def _database_by_id(context: SessionContext, database_id: StorageValue) -> Database | None:
    if not isinstance(database_id, int):
        return None
    return context.engine.database_by_id(database_id)


@scalar("DB_ID", SMALLINT, SYSNAME, required=0)
def _db_id(context: SessionContext, *name: StorageValue) -> StorageValue:
    if not name:
        return context.database.database_id
    if not isinstance(name[0], str):
        return None
    found = context.engine.databases.get(name[0].rstrip().casefold())
    return found.database_id if found is not None else None


@scalar("DB_NAME", SYSNAME, INT, required=0)
def _db_name(context: SessionContext, *database_id: StorageValue) -> StorageValue:
    if not database_id or database_id[0] == 0:
        return context.database.name
    found = _database_by_id(context, database_id[0])
    return found.name if found is not None else None


@scalar("ORIGINAL_DB_NAME", SYSNAME)
def _original_db_name(context: SessionContext) -> StorageValue:
    return context.database.name


@scalar("SCHEMA_ID", INT, SYSNAME, required=0)
def _schema_id(context: SessionContext, *name: StorageValue) -> StorageValue:
    if not name:
        return 1
    return schema_id(context.database, str(name[0] or "")) or None


@scalar("SCHEMA_NAME", SYSNAME, INT, required=0)
def _schema_name(context: SessionContext, *number: StorageValue) -> StorageValue:
    if not number:
        return "dbo"
    return next((n for n, i in context.database.schemas.items() if i == number[0]), None)


@scalar("OBJECT_ID", INT, _NAME, nvarchar(2), required=1)
def _object_id(context: SessionContext, name: StorageValue, *kind: StorageValue) -> StorageValue:
    found = visible_object(context, name)
    if found is None or (kind and str(kind[0] or "").strip().upper() != found.type):
        return None
    return found.object_id


def _object_of(
    context: SessionContext, object_id: StorageValue, database_id: tuple[StorageValue, ...]
) -> DatabaseObject | None:
    database = _database_by_id(context, database_id[0]) if database_id else context.database
    if database is None or not isinstance(object_id, int):
        return None
    found = object_by_id(context, database, object_id)
    return found if found is not None and is_visible(context, database, found) else None


@scalar("OBJECT_NAME", SYSNAME, INT, INT, required=1)
def _object_name(
    context: SessionContext, object_id: StorageValue, *database_id: StorageValue
) -> StorageValue:
    found = _object_of(context, object_id, database_id)
    return found.name if found is not None else None


@scalar("OBJECT_SCHEMA_NAME", SYSNAME, INT, INT, required=1)
def _object_schema_name(
    context: SessionContext, object_id: StorageValue, *database_id: StorageValue
) -> StorageValue:
    found = _object_of(context, object_id, database_id)
    return found.schema if found is not None else None


@scalar("OBJECT_DEFINITION", nvarchar(-1), INT)
def _object_definition(context: SessionContext, object_id: StorageValue) -> StorageValue:
    return object_text(context, context.database, object_id) if isinstance(object_id, int) else None


@scalar("COL_NAME", SYSNAME, INT, INT)
def _col_name(
    context: SessionContext, table_id: StorageValue, column_id: StorageValue
) -> StorageValue:
    table = _table(context, table_id)
    if table is None or not isinstance(column_id, int):
        return None
    column = table.column_by_id(column_id)
    return column.name if column is not None else None


@scalar("INDEX_COL", SYSNAME, _NAME, INT, INT)
def _index_col(
    context: SessionContext, table_name: StorageValue, index_id: StorageValue, key_id: StorageValue
) -> StorageValue:
    found = visible_object(context, table_name)
    table = _table(context, found.object_id) if found is not None else None
    index = next((i for i in table.indexes if i.index_id == index_id), None) if table else None
    if table is None or index is None or not isinstance(key_id, int):
        return None
    if not 1 <= key_id <= len(index.column_ids):
        return None
    column = table.column_by_id(index.column_ids[key_id - 1])
    return column.name if column is not None else None


def _table(context: SessionContext, object_id: StorageValue) -> Table | None:
    return context.database.table_by_id(object_id) if isinstance(object_id, int) else None


@scalar("COL_LENGTH", SMALLINT, _NAME, SYSNAME)
def _col_length(
    context: SessionContext, table_name: StorageValue, column_name: StorageValue
) -> StorageValue:
    found = visible_object(context, table_name)
    table = _table(context, found.object_id) if found is not None else None
    column = table.column(str(column_name)) if table is not None else None
    return type_facts(column.type).max_length if column is not None else None


@scalar("COLUMNPROPERTY", INT, INT, SYSNAME, _PROPERTY)
def _columnproperty(
    context: SessionContext, object_id: StorageValue, name: StorageValue, asked: StorageValue
) -> StorageValue:
    table = _table(context, object_id)
    column = table.column(str(name)) if table is not None else None
    if column is None:
        return None
    facts = type_facts(column.type)
    return {
        "allowsnull": int(column.nullable),
        "columnid": column.column_id,
        "iscomputed": int(column.computed is not None),
        "isidentity": int(column.identity is not None),
        "isidnotforrepl": 0,
        "isrowguidcol": 0,
        "issparse": 0,
        "iscolumnset": 0,
        "ishidden": 0,
        "generatedalwaystype": 0,
        "precision": facts.precision or facts.max_length,
        "scale": facts.scale,
        "charmaxlen": column.type.length,
    }.get(str(asked).casefold())


@scalar("OBJECTPROPERTY", INT, INT, _PROPERTY)
@scalar("OBJECTPROPERTYEX", INT, INT, _PROPERTY)
def _objectproperty(
    context: SessionContext, object_id: StorageValue, asked: StorageValue
) -> StorageValue:
    found = _object_of(context, object_id, ())
    if found is None:
        return None
    table = _table(context, object_id)
    facts = {
        "istable": int(found.type == "U"),
        "isusertable": int(found.type == "U" and not (table is not None and table.is_ms_shipped)),
        "isview": int(found.type == "V"),
        "isprocedure": int(found.type == "P"),
        "isextendedproc": int(found.type == "X"),
        "isexecuted": int(found.type in {"P", "V", "FN", "IF", "TF", "TR"}),
        "isscalarfunction": int(found.type == "FN"),
        "isinlinefunction": int(found.type == "IF"),
        "istablefunction": int(found.type == "TF"),
        "istrigger": int(found.type == "TR"),
        "isprimarykey": int(found.type == "PK"),
        "isuniquecnst": int(found.type == "UQ"),
        "isforeignkey": int(found.type == "F"),
        "isconstraint": int(found.type in {"PK", "UQ", "F", "C", "D"}),
        "isdefaultcnst": int(found.type == "D"),
        "ischeckcnst": int(found.type == "C"),
        "ismsshipped": int(found.is_ms_shipped or (table is not None and table.is_ms_shipped)),
        "issystemtable": int(found.type == "S"),
        "isschemabound": int(object_id in context.database.state.bindings),
        "isencrypted": 0,
        "ownerid": 1,
        "schemaid": schema_id(context.database, found.schema),
    }
    if table is not None:
        facts |= {
            "tablehasprimarykey": int(table.primary_key is not None),
            "tablehasidentity": int(any(c.identity is not None for c in table.columns)),
            "tablehasclustindex": int(any(i.clustered for i in table.indexes)),
            "tablehasforeignkey": int(bool(table.foreign_keys)),
            "tablehastimestamp": int(any(c.type.name == "timestamp" for c in table.columns)),
        }
    return facts.get(str(asked).casefold())


@scalar("TYPE_ID", INT, SYSNAME)
def _type_id(context: SessionContext, name: StorageValue) -> StorageValue:
    parts = split_name(str(name or ""))
    folded = parts.name.casefold() if parts is not None else ""
    if folded == "sysname":
        return SYSNAME_USER_TYPE_ID
    found = context.database.user_type(parts.schema or "dbo", folded) if parts is not None else None
    if found is not None:
        return found.user_type_id
    if folded in CLR_TYPE_IDS:
        return CLR_TYPE_IDS[folded]
    return SYSTEM_TYPE_IDS.get("timestamp" if folded == "rowversion" else folded)


@scalar("TYPE_NAME", SYSNAME, INT)
def _type_name(context: SessionContext, number: StorageValue) -> StorageValue:
    if number == SYSNAME_USER_TYPE_ID:
        return "sysname"
    for found in context.database.state.user_types.values():
        if found.user_type_id == number:
            return found.name
    ids = SYSTEM_TYPE_IDS | CLR_TYPE_IDS
    return next((name for name, i in ids.items() if i == number), None)


@scalar("IDENT_CURRENT", decimal_type(38, 0), _NAME)
def _ident_current(context: SessionContext, name: StorageValue) -> StorageValue:
    found = visible_object(context, name)
    table = _table(context, found.object_id) if found is not None else None
    column = next((c for c in table.columns if c.identity), None) if table is not None else None
    if table is None or column is None or column.identity is None:
        return None
    rows = context.store.connection.execute(
        "SELECT last_value FROM identity_values WHERE database_id = ? AND object_id = ?",
        (table.database_id, table.object_id),
    ).fetchall()
    last = rows[0][0] if rows else column.identity.seed
    return pack_decimal(last, decimal_type(38, 0)) if isinstance(last, int) else None


def _identity_of(context: SessionContext, name: StorageValue) -> Identity | None:
    found = visible_object(context, name)
    table = _table(context, found.object_id) if found is not None else None
    columns = table.columns if table is not None else ()
    return next((c.identity for c in columns if c.identity is not None), None)


@scalar("IDENT_SEED", decimal_type(38, 0), _NAME)
def _ident_seed(context: SessionContext, name: StorageValue) -> StorageValue:
    identity = _identity_of(context, name)
    return pack_decimal(identity.seed, decimal_type(38, 0)) if identity is not None else None


@scalar("IDENT_INCR", decimal_type(38, 0), _NAME)
def _ident_incr(context: SessionContext, name: StorageValue) -> StorageValue:
    identity = _identity_of(context, name)
    return pack_decimal(identity.increment, decimal_type(38, 0)) if identity is not None else None


@scalar("DATABASEPROPERTYEX", SQL_VARIANT, SYSNAME, _PROPERTY)
def _databasepropertyex(
    context: SessionContext, name: StorageValue, asked: StorageValue
) -> StorageValue:
    database = context.engine.databases.get(str(name or "").casefold())
    if database is None:
        return None
    properties = database_properties(database.collation) | {
        "status": "ONLINE",
        "updateability": "READ_ONLY" if database.options.get("is_read_only") else "READ_WRITE",
        "useraccess": "MULTI_USER",
        "recovery": "FULL",
        "version": 957,
        "isautoclose": 0,
        "isautoshrink": 0,
        "isfulltextenabled": 0,
        "ispublished": 0,
        "isnullconcat": 0,
        "isansinullsenabled": 0,
        "isquotedidentifiersenabled": 0,
    }
    return as_variant(properties.get(str(asked).casefold()))
