"""The metadata procedures that drivers call: tables, columns, keys, statistics.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/catalog-stored-procedures-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.like import matches
from tailrace_emulator.catalog.odbc_types import legacy_code, odbc_type
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    flag,
    integer,
    procedure,
    result_set,
    text,
)
from tailrace_emulator.catalog.registry import Row
from tailrace_emulator.catalog.relations import Relation, relations, row_count
from tailrace_emulator.catalog.visibility import sees
from tailrace_emulator.storage.model import Column, Index, Table
from tailrace_emulator.values.results import Event
from tailrace_emulator.values.tds_types import assembly_name
from tailrace_emulator.values.types import (
    BIT,
    CLR_TYPES,
    INT,
    SYSNAME,
    SqlType,
    nvarchar,
    varchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_P = ProcedureParameter
_PATTERN: Final = nvarchar(384)
_CHAR: Final = SqlType("char", length=1, collation=SYSNAME.collation)

_TABLE_COLUMNS: Final = """TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname,
 TABLE_TYPE varchar(32), REMARKS varchar(254)"""


def matcher(pattern: str | None, *, use_pattern: bool) -> Callable[[str], bool]:
    """Whether a name is meant: by any name (None), by a pattern, or by this name."""
    if pattern is None:
        return lambda _name: True
    if use_pattern:
        return lambda name: matches(name, pattern)
    folded = pattern.casefold()
    return lambda name: name.casefold() == folded


@procedure(
    "sp_tables",
    _P("@table_name", _PATTERN, None),
    _P("@table_owner", _PATTERN, None),
    _P("@table_qualifier", SYSNAME, None),
    _P("@table_type", varchar(100), None),
    _P("@fUsePattern", BIT, 1),
)
def _tables(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name, owner = text(args["@table_name"]), text(args["@table_owner"])
    qualifier = text(args["@table_qualifier"])
    yield from result_set(
        _TABLE_COLUMNS,
        _listed_tables(context, name, owner, qualifier, text(args["@table_type"]))
        if not (name == "" or owner == "" or qualifier == "")
        else _enumeration(context, name, owner, qualifier),
    )


def _enumeration(
    context: SessionContext, name: str | None, owner: str | None, qualifier: str | None
) -> list[Row]:
    """ODBC's special calls: all catalogs, all schemas, all table types."""
    if qualifier == "%" and not owner and not name:
        return [(d.name, None, None, None, None) for d in context.engine.databases.values()]
    if owner == "%" and not qualifier and not name:
        return [(None, schema, None, None, None) for schema in context.database.schemas]
    return [(None, None, None, kind, None) for kind in ("SYSTEM TABLE", "TABLE", "VIEW")]


def _listed_tables(
    context: SessionContext,
    name: str | None,
    owner: str | None,
    qualifier: str | None,
    table_type: str | None,
) -> list[Row]:
    database = context.engine.database(qualifier) if qualifier else context.database
    types = {part.strip().strip("'").upper() for part in (table_type or "").split(",")} - {""}
    named, owned = matcher(name, use_pattern=True), matcher(owner, use_pattern=True)
    rows: list[Row] = []
    listed = [(t.schema, t.name, "TABLE") for t in database.tables() if sees(context, database, t)]
    views = [m for m in database.modules.values() if m.type == "V"]
    listed += [(m.schema, m.name, "VIEW") for m in views if sees(context, database, m)]
    for schema, table, kind in listed:
        if named(table) and owned(schema) and (not types or kind in types):
            rows.append((database.name, schema, table, kind, None))
    return sorted(rows, key=lambda row: (str(row[3]), str(row[1]), str(row[2])))


def _chosen_relations(
    context: SessionContext,
    name: str | None,
    owner: str | None,
    qualifier: str | None,
    *,
    use_pattern: bool,
) -> tuple[Database, list[Relation]]:
    """Tables and views; a temporary table is found by its short name in tempdb."""
    database = context.engine.database(qualifier) if qualifier else context.database
    named = matcher(name, use_pattern=use_pattern)
    owned = matcher(owner or None, use_pattern=use_pattern)
    found = [r for r in relations(context, database) if named(r.name) and owned(r.schema)]
    return database, sorted(found, key=lambda r: (r.schema, r.name))


def _chosen_tables(
    context: SessionContext,
    name: str | None,
    owner: str | None,
    qualifier: str | None,
    *,
    use_pattern: bool,
) -> tuple[Database, list[Table]]:
    database = context.engine.database(qualifier) if qualifier else context.database
    named = matcher(name, use_pattern=use_pattern)
    owned = matcher(owner or None, use_pattern=use_pattern)
    tables = [
        t
        for t in database.tables()
        if named(t.name) and owned(t.schema) and sees(context, database, t)
    ]
    return database, sorted(tables, key=lambda t: (t.schema, t.name))


_COLUMN_PARAMETERS: Final = (
    _P("@table_name", _PATTERN),
    _P("@table_owner", _PATTERN, None),
    _P("@table_qualifier", SYSNAME, None),
    _P("@column_name", _PATTERN, None),
    _P("@NameScope", INT, 0),
    _P("@ODBCVer", INT, 2),
    _P("@fUsePattern", BIT, 1),
)
_COLUMN_COLUMNS: Final = """TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname!,
 COLUMN_NAME sysname!, DATA_TYPE smallint!, TYPE_NAME sysname!, PRECISION int, LENGTH int,
 SCALE smallint, RADIX smallint, NULLABLE smallint!, REMARKS varchar(254),
 COLUMN_DEF nvarchar(4000), SQL_DATA_TYPE smallint!, SQL_DATETIME_SUB smallint,
 CHAR_OCTET_LENGTH int, ORDINAL_POSITION int!, IS_NULLABLE varchar(254)"""
_COLUMN_COLUMNS_100: Final = (
    _COLUMN_COLUMNS
    + """, SS_IS_SPARSE smallint, SS_IS_COLUMN_SET smallint, SS_IS_COMPUTED smallint,
 SS_IS_IDENTITY smallint, SS_UDT_CATALOG_NAME sysname, SS_UDT_SCHEMA_NAME sysname,
 SS_UDT_ASSEMBLY_TYPE_NAME nvarchar(4000), SS_XML_SCHEMACOLLECTION_CATALOG_NAME sysname,
 SS_XML_SCHEMACOLLECTION_SCHEMA_NAME sysname, SS_XML_SCHEMACOLLECTION_NAME sysname,
 SS_DATA_TYPE tinyint"""
)


def _column_rows(context: SessionContext, args: Arguments, *, newer: bool) -> Iterator[Row]:
    pattern = flag(args["@fUsePattern"]) is not False
    database, tables = _chosen_relations(
        context,
        text(args["@table_name"]),
        text(args["@table_owner"]),
        text(args["@table_qualifier"]),
        use_pattern=pattern,
    )
    wanted = matcher(text(args["@column_name"]) or None, use_pattern=pattern)
    version = integer(args["@ODBCVer"]) or 2
    for table in tables:
        for ordinal, column in enumerate(table.columns, 1):
            if not wanted(column.name):
                continue
            row, ss_code = _column_row(database, table, column, ordinal, version, newer=newer)
            if newer:
                computed, identity = column.computed is not None, column.identity is not None
                yield (
                    *row,
                    0,
                    0,
                    int(computed),
                    int(identity),
                    *_clr(database, column),
                    *(None,) * 3,
                    ss_code,
                )
            else:
                yield (*row, ss_code)


def _clr(database: Database, column: Column) -> tuple[str | None, str | None, str | None]:
    """Catalog, schema and class of a CLR type."""
    if column.type.name not in CLR_TYPES:
        return None, None, None
    return database.name, "sys", assembly_name(column.type.name)


def _column_row(
    database: Database,
    table: Relation,
    column: Column,
    ordinal: int,
    version: int,
    *,
    newer: bool,
) -> tuple[Row, int]:
    odbc = odbc_type(column.type, column.nullable, version)
    type_name = column.type.name
    if column.identity is not None:
        type_name += "() identity" if type_name in {"decimal", "numeric"} else " identity"
    code = odbc.code if newer else legacy_code(column.type, odbc.code)
    default = column.default
    return (
        *(database.name, table.schema, table.name, column.name, code, type_name),
        *(odbc.precision, odbc.length, odbc.scale, odbc.radix, int(column.nullable), None),
        *(default, odbc.sql_code, odbc.datetime_sub, odbc.octets, ordinal),
        "YES" if column.nullable else "NO",
    ), odbc.ss_code


@procedure("sp_columns_100", *_COLUMN_PARAMETERS)
def _columns_100(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from result_set(_COLUMN_COLUMNS_100, _column_rows(context, args, newer=True))


@procedure("sp_columns_90", *_COLUMN_PARAMETERS)
@procedure("sp_columns", *_COLUMN_PARAMETERS)
def _columns(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from result_set(
        _COLUMN_COLUMNS + ", SS_DATA_TYPE tinyint", _column_rows(context, args, newer=False)
    )


@procedure(
    "sp_pkeys",
    _P("@table_name", SYSNAME),
    _P("@table_owner", SYSNAME, None),
    _P("@table_qualifier", SYSNAME, None),
)
def _pkeys(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from result_set(
        """TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname!,
 COLUMN_NAME sysname!, KEY_SEQ smallint!, PK_NAME sysname""",
        _primary_key_rows(context, args),
    )


def _primary_key_rows(context: SessionContext, args: Arguments) -> Iterator[Row]:
    database, tables = _chosen_tables(
        context,
        text(args["@table_name"]),
        text(args["@table_owner"]),
        text(args["@table_qualifier"]),
        use_pattern=False,
    )
    for table in tables:
        key = table.primary_key
        if key is None:
            continue
        for sequence, name in enumerate(_column_names(table, key), 1):
            yield database.name, table.schema, table.name, name, sequence, key.name


def _column_names(table: Table, index: Index) -> list[str]:
    names = {column.column_id: column.name for column in table.columns}
    return [names[column_id] for column_id in index.column_ids]


_STATISTICS_PARAMETERS: Final = (
    _P("@table_name", SYSNAME),
    _P("@table_owner", SYSNAME, None),
    _P("@table_qualifier", SYSNAME, None),
    _P("@index_name", SYSNAME, "%"),
    _P("@is_unique", _CHAR, "N"),
    _P("@accuracy", _CHAR, "Q"),
)


@procedure("sp_statistics_100", *_STATISTICS_PARAMETERS)
@procedure("sp_statistics", *_STATISTICS_PARAMETERS)
def _statistics(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from result_set(
        """TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname!, NON_UNIQUE smallint,
 INDEX_QUALIFIER sysname, INDEX_NAME sysname, TYPE smallint!, SEQ_IN_INDEX smallint,
 COLUMN_NAME sysname, COLLATION char(1), CARDINALITY int, PAGES int,
 FILTER_CONDITION varchar(128)""",
        _statistics_rows(context, args),
    )


def _statistics_rows(context: SessionContext, args: Arguments) -> Iterator[Row]:
    database, tables = _chosen_tables(
        context,
        text(args["@table_name"]),
        text(args["@table_owner"]),
        text(args["@table_qualifier"]),
        use_pattern=False,
    )
    wanted = matcher(text(args["@index_name"]), use_pattern=True)
    unique_only = (text(args["@is_unique"]) or "N").upper() == "Y"
    for table in tables:
        count = row_count(context, table)
        place = (database.name, table.schema, table.name)
        yield (*place, None, None, None, 0, None, None, None, count, 1, None)
        indexes = sorted(table.indexes, key=lambda i: (not i.unique, not i.clustered, i.name))
        for index in indexes:
            if not wanted(index.name) or (unique_only and not index.unique):
                continue
            kind = 1 if index.clustered else 3
            for sequence, name in enumerate(_column_names(table, index), 1):
                direction = "D" if index.descending[sequence - 1] else "A"
                yield (
                    *(*place, int(not index.unique), table.name, index.name, kind, sequence),
                    *(name, direction, count, 1, None),
                )


_SPECIAL_PARAMETERS: Final = (
    _P("@table_name", SYSNAME),
    _P("@table_owner", SYSNAME, None),
    _P("@table_qualifier", SYSNAME, None),
    _P("@col_type", _CHAR, "R"),
    _P("@scope", _CHAR, "T"),
    _P("@nullable", _CHAR, "U"),
    _P("@ODBCVer", INT, 2),
)


@procedure("sp_special_columns_100", *_SPECIAL_PARAMETERS)
@procedure("sp_special_columns", *_SPECIAL_PARAMETERS)
def _special_columns(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from result_set(
        """SCOPE smallint, COLUMN_NAME sysname, DATA_TYPE smallint!, TYPE_NAME sysname!,
 PRECISION int, LENGTH int, SCALE smallint, PSEUDO_COLUMN smallint!""",
        _special_rows(context, args),
    )


def _special_rows(context: SessionContext, args: Arguments) -> Iterator[Row]:
    _, tables = _chosen_tables(
        context,
        text(args["@table_name"]),
        text(args["@table_owner"]),
        text(args["@table_qualifier"]),
        use_pattern=False,
    )
    version = integer(args["@ODBCVer"]) or 2
    for table in tables:
        if (text(args["@col_type"]) or "R").upper() == "V":
            columns = [c for c in table.columns if c.type.name == "timestamp"]
            scope = None
        else:
            unique = (i for i in table.indexes if i.unique)
            best = table.primary_key or next(unique, None)
            ids = best.column_ids if best is not None else ()
            columns = [c for i in ids if (c := table.column_by_id(i)) is not None]
            scope = 0
        for column in columns:
            odbc = odbc_type(column.type, column.nullable, version)
            yield (
                *(scope, column.name, odbc.code, column.type.name, odbc.precision, odbc.length),
                *(odbc.scale, 1),
            )


@procedure(
    "sp_fkeys",
    _P("@pktable_name", SYSNAME, None),
    _P("@pktable_owner", SYSNAME, None),
    _P("@pktable_qualifier", SYSNAME, None),
    _P("@fktable_name", SYSNAME, None),
    _P("@fktable_owner", SYSNAME, None),
    _P("@fktable_qualifier", SYSNAME, None),
)
def _fkeys(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from result_set(
        """PKTABLE_QUALIFIER sysname, PKTABLE_OWNER sysname, PKTABLE_NAME sysname!,
 PKCOLUMN_NAME sysname!, FKTABLE_QUALIFIER sysname, FKTABLE_OWNER sysname, FKTABLE_NAME sysname!,
 FKCOLUMN_NAME sysname!, KEY_SEQ smallint!, UPDATE_RULE smallint, DELETE_RULE smallint,
 FK_NAME sysname, PK_NAME sysname, DEFERRABILITY smallint""",
        _foreign_key_rows(context, args),
    )


def _foreign_key_rows(context: SessionContext, args: Arguments) -> Iterator[Row]:
    database = context.database
    rules = {"CASCADE": 0, "NO_ACTION": 1, "SET_NULL": 2, "SET_DEFAULT": 3}
    chosen = [
        matcher(text(args[name]) or None, use_pattern=False)
        for name in ("@pktable_name", "@pktable_owner", "@fktable_name", "@fktable_owner")
    ]
    for table in database.tables():
        for key in table.foreign_keys:
            parent = database.table_by_id(key.referenced)
            if parent is None:
                continue
            names = (parent.name, parent.schema, table.name, table.schema)
            if not all(test(name) for test, name in zip(chosen, names, strict=True)):
                continue
            key_name = parent.primary_key.name if parent.primary_key is not None else None
            pairs = zip(key.referenced_column_ids, key.column_ids, strict=True)
            for sequence, (parent_id, child_id) in enumerate(pairs, 1):
                parent_column = parent.column_by_id(parent_id)
                child_column = table.column_by_id(child_id)
                yield (
                    *(database.name, parent.schema, parent.name),
                    parent_column.name if parent_column is not None else None,
                    *(database.name, table.schema, table.name),
                    child_column.name if child_column is not None else None,
                    *(sequence, rules.get(key.on_update, 1), rules.get(key.on_delete, 1)),
                    *(key.name, key_name, 7),
                )
