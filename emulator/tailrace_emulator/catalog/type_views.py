"""User-defined types and the parameters of modules.

https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-table-types-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-parameters-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.like import matches
from tailrace_emulator.catalog.objects import generated_objects, schema_id
from tailrace_emulator.catalog.odbc_types import OdbcType, legacy_code, odbc_type
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    flag,
    integer,
    procedure,
    result_set,
    text,
)
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.type_facts import (
    character_length,
    datetime_precision,
    numeric_facts,
    octet_length,
    type_facts,
)
from tailrace_emulator.catalog.visibility import sees
from tailrace_emulator.storage.catalog_state import ModuleParameter
from tailrace_emulator.values.types import (
    BIT,
    DEFAULT_COLLATION,
    INT,
    SYSNAME,
    SqlType,
    StorageValue,
    nvarchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import UserType
    from tailrace_emulator.values.results import Event

TYPES: Final = Columns(
    """name sysname!, system_type_id tinyint!, user_type_id int!, schema_id int!,
 principal_id int, max_length smallint!, precision tinyint! = 0, scale tinyint! = 0,
 collation_name sysname, is_nullable bit, is_user_defined bit! = 0, is_assembly_type bit! = 0,
 default_object_id int! = 0, rule_object_id int! = 0, is_table_type bit! = 0"""
)
SYS_SCHEMA_ID: Final = 4
TABLE_SYSTEM_TYPE_ID: Final = 243


def user_type_rows(database: Database) -> Iterator[Row]:
    """What sys.types shows of the types that users made."""
    for found in database.state.user_types.values():
        yield _type_row(database, found)


def _type_row(database: Database, found: UserType) -> Row:
    schema = schema_id(database, found.schema)
    if found.type is None:
        return TYPES.row(
            name=found.name,
            system_type_id=TABLE_SYSTEM_TYPE_ID,
            user_type_id=found.user_type_id,
            schema_id=schema,
            max_length=-1,
            is_nullable=0,
            is_user_defined=1,
            is_table_type=1,
        )
    facts = type_facts(found.type)
    collation = (found.type.collation or database.collation) if found.type.is_character else None
    return TYPES.row(
        name=found.name,
        system_type_id=facts.system_type_id,
        user_type_id=found.user_type_id,
        schema_id=schema,
        max_length=facts.max_length,
        precision=facts.precision,
        scale=facts.scale,
        collation_name=collation,
        is_nullable=int(found.nullable),
        is_user_defined=1,
    )


_TABLE_TYPES: Final = TYPES.extended("type_table_object_id int!, is_memory_optimized bit = 0")


@view("sys.table_types", _TABLE_TYPES)
def _table_types(_context: SessionContext, database: Database) -> Iterator[Row]:
    for found in database.state.user_types.values():
        if found.is_table:
            yield _TABLE_TYPES.row(_type_row(database, found), type_table_object_id=found.object_id)


# Parameters -------------------------------------------------------------------------------------


def _modules(context: SessionContext, database: Database) -> Iterator[Module]:
    """Procedures and functions that the session may know of."""
    for module in database.modules.values():
        if module.object_id in database.state.parameters and sees(context, database, module):
            yield module


def _numbered(database: Database, module: Module) -> Iterator[tuple[int, ModuleParameter]]:
    """Parameters with their ids: 0 is what a function returns."""
    number = 1
    for parameter in database.state.parameters[module.object_id]:
        if not parameter.name:
            yield 0, parameter
            continue
        yield number, parameter
        number += 1


_PARAMETERS: Final = Columns(
    """object_id int!, name sysname, parameter_id int!, system_type_id tinyint!,
 user_type_id int!, max_length smallint!, precision tinyint! = 0, scale tinyint! = 0,
 is_output bit!, is_cursor_ref bit! = 0, has_default_value bit! = 0, is_xml_document bit! = 0,
 default_value sql_variant, xml_collection_id int! = 0, is_readonly bit!, is_nullable bit = 1,
 encryption_type int, encryption_type_desc nvarchar(64), encryption_algorithm_name sysname,
 column_encryption_key_id int, column_encryption_key_database_name sysname,
 vector_dimensions int"""
)


@view("sys.parameters", _PARAMETERS)
def _parameters(context: SessionContext, database: Database) -> Iterator[Row]:
    for module in _modules(context, database):
        for number, parameter in _numbered(database, module):
            yield _parameter_row(module.object_id, number, parameter)
    for made in generated_objects(context, database):
        for number, parameter in enumerate(made.parameters, 1):
            yield _parameter_row(made.item.object_id, number, parameter)


def _parameter_row(object_id: int, number: int, parameter: ModuleParameter) -> Row:
    said = {
        "object_id": object_id,
        "name": parameter.name,
        "parameter_id": number,
        "is_output": int(parameter.is_output or number == 0),
        "is_readonly": int(parameter.is_readonly),
    }
    if parameter.type is None:
        return _PARAMETERS.row(
            **said,
            system_type_id=TABLE_SYSTEM_TYPE_ID,
            user_type_id=parameter.user_type_id,
            max_length=-1,
        )
    facts = type_facts(parameter.type)
    return _PARAMETERS.row(
        **said,
        system_type_id=facts.system_type_id,
        user_type_id=parameter.user_type_id or facts.user_type_id,
        max_length=facts.max_length,
        precision=facts.precision,
        scale=facts.scale,
    )


_INFORMATION_PARAMETERS: Final = Columns(
    """SPECIFIC_CATALOG nvarchar(128), SPECIFIC_SCHEMA nvarchar(128),
 SPECIFIC_NAME nvarchar(128)!, ORDINAL_POSITION int!, PARAMETER_MODE nvarchar(10),
 IS_RESULT nvarchar(10), AS_LOCATOR nvarchar(10) = 'NO', PARAMETER_NAME nvarchar(128),
 DATA_TYPE nvarchar(128), CHARACTER_MAXIMUM_LENGTH int, CHARACTER_OCTET_LENGTH int,
 COLLATION_CATALOG sysname, COLLATION_SCHEMA sysname, COLLATION_NAME sysname,
 CHARACTER_SET_CATALOG sysname, CHARACTER_SET_SCHEMA sysname, CHARACTER_SET_NAME sysname,
 NUMERIC_PRECISION tinyint, NUMERIC_PRECISION_RADIX smallint, NUMERIC_SCALE int,
 DATETIME_PRECISION smallint, INTERVAL_TYPE nvarchar(30), INTERVAL_PRECISION smallint,
 USER_DEFINED_TYPE_CATALOG nvarchar(128), USER_DEFINED_TYPE_SCHEMA nvarchar(128),
 USER_DEFINED_TYPE_NAME sysname, SCOPE_CATALOG sysname, SCOPE_SCHEMA sysname,
 SCOPE_NAME sysname"""
)


@view("INFORMATION_SCHEMA.PARAMETERS", _INFORMATION_PARAMETERS)
def _information_parameters(context: SessionContext, database: Database) -> Iterator[Row]:
    types = {found.user_type_id: found for found in database.state.user_types.values()}
    for module in _modules(context, database):
        for number, parameter in _numbered(database, module):
            found = types.get(parameter.user_type_id)
            sql_type = parameter.type
            facts = (
                {"DATA_TYPE": "table type"}
                if sql_type is None
                else _type_facts_of(sql_type, (sql_type.collation or database.collation))
            )
            yield _INFORMATION_PARAMETERS.row(
                SPECIFIC_CATALOG=database.name,
                SPECIFIC_SCHEMA=module.schema,
                SPECIFIC_NAME=module.name,
                ORDINAL_POSITION=number,
                PARAMETER_MODE="INOUT" if parameter.is_output else "OUT" if number == 0 else "IN",
                IS_RESULT="YES" if number == 0 else "NO",
                PARAMETER_NAME=parameter.name,
                USER_DEFINED_TYPE_CATALOG=None if found is None else database.name,
                USER_DEFINED_TYPE_SCHEMA=None if found is None else found.schema,
                USER_DEFINED_TYPE_NAME=None if found is None else found.name,
                **facts,
            )


def _type_facts_of(sql_type: SqlType, collation: str) -> dict[str, StorageValue]:
    """What INFORMATION_SCHEMA says of a type; xml has no collation there."""
    precision, radix, scale = numeric_facts(sql_type)
    has_collation = sql_type.is_character and sql_type.name != "xml"
    return {
        "DATA_TYPE": sql_type.name,
        "CHARACTER_MAXIMUM_LENGTH": character_length(sql_type),
        "CHARACTER_OCTET_LENGTH": octet_length(sql_type),
        "COLLATION_NAME": collation if has_collation else None,
        "CHARACTER_SET_NAME": _character_set(sql_type),
        "NUMERIC_PRECISION": precision,
        "NUMERIC_PRECISION_RADIX": radix,
        "NUMERIC_SCALE": scale,
        "DATETIME_PRECISION": datetime_precision(sql_type),
    }


def _character_set(sql_type: SqlType) -> str | None:
    if sql_type.name in {"nchar", "nvarchar", "ntext"}:
        return "UNICODE"
    return "iso_1" if sql_type.name in {"char", "varchar", "text"} else None


_DOMAINS: Final = Columns(
    """DOMAIN_CATALOG nvarchar(128), DOMAIN_SCHEMA nvarchar(128), DOMAIN_NAME sysname!,
 DATA_TYPE sysname, CHARACTER_MAXIMUM_LENGTH int, CHARACTER_OCTET_LENGTH int,
 COLLATION_CATALOG varchar(6), COLLATION_SCHEMA varchar(3), COLLATION_NAME sysname,
 CHARACTER_SET_CATALOG varchar(6), CHARACTER_SET_SCHEMA varchar(3), CHARACTER_SET_NAME sysname,
 NUMERIC_PRECISION tinyint, NUMERIC_PRECISION_RADIX smallint, NUMERIC_SCALE tinyint,
 DATETIME_PRECISION smallint, DOMAIN_DEFAULT nvarchar(4000)"""
)


@view("INFORMATION_SCHEMA.DOMAINS", _DOMAINS)
def _domains(_context: SessionContext, database: Database) -> Iterator[Row]:
    for found in database.state.user_types.values():
        facts = (
            {"DATA_TYPE": "table type"}
            if found.type is None
            else _type_facts_of(found.type, found.type.collation or DEFAULT_COLLATION)
        )
        yield _DOMAINS.row(
            DOMAIN_CATALOG=database.name,
            DOMAIN_SCHEMA=found.schema,
            DOMAIN_NAME=found.name,
            **facts,
        )


# For drivers ------------------------------------------------------------------------------------

_PATTERN: Final = nvarchar(384)
_P = ProcedureParameter
_IN, _INOUT, _RETURNED = 1, 2, 5
_RETURN_CODE: Final = SqlType("int")

_SPROC_PARAMETERS: Final = (
    _P("@procedure_name", _PATTERN, "%"),
    _P("@procedure_owner", _PATTERN, None),
    _P("@procedure_qualifier", SYSNAME, None),
    _P("@column_name", _PATTERN, None),
    _P("@ODBCVer", INT, 2),
    _P("@fUsePattern", BIT, 1),
)
_SPROC_COLUMNS: Final = """PROCEDURE_QUALIFIER sysname, PROCEDURE_OWNER sysname,
 PROCEDURE_NAME nvarchar(134)!, COLUMN_NAME sysname!, COLUMN_TYPE smallint!, DATA_TYPE smallint!,
 TYPE_NAME sysname!, PRECISION int, LENGTH int, SCALE smallint, RADIX smallint,
 NULLABLE smallint!, REMARKS varchar(254), COLUMN_DEF nvarchar(4000), SQL_DATA_TYPE smallint!,
 SQL_DATETIME_SUB smallint, CHAR_OCTET_LENGTH int, ORDINAL_POSITION int!,
 IS_NULLABLE varchar(254)"""
_SPROC_COLUMNS_100: Final = (
    _SPROC_COLUMNS
    + """, SS_TYPE_CATALOG_NAME sysname, SS_TYPE_SCHEMA_NAME sysname,
 SS_UDT_CATALOG_NAME sysname, SS_UDT_SCHEMA_NAME sysname,
 SS_UDT_ASSEMBLY_TYPE_NAME nvarchar(4000), SS_XML_SCHEMACOLLECTION_CATALOG_NAME sysname,
 SS_XML_SCHEMACOLLECTION_SCHEMA_NAME sysname, SS_XML_SCHEMACOLLECTION_NAME sysname,
 SS_DATA_TYPE tinyint"""
)
_TABLE_ODBC_CODE: Final = -153
_TABLE_SS_CODE: Final = 31


def _sproc_rows(context: SessionContext, args: Arguments, *, newer: bool) -> Iterator[Row]:
    qualifier = text(args["@procedure_qualifier"])
    database = context.engine.database(qualifier) if qualifier else context.database
    pattern = flag(args["@fUsePattern"]) is not False
    types = {found.user_type_id: found for found in database.state.user_types.values()}
    version = integer(args["@ODBCVer"]) or 2
    for module in sorted(database.modules.values(), key=lambda m: (m.schema, m.name)):
        if module.type not in {"P", "FN", "IF", "TF"} or not sees(context, database, module):
            continue
        if not _fits(module.name, text(args["@procedure_name"]), pattern=pattern):
            continue
        if not _fits(module.schema, text(args["@procedure_owner"]), pattern=pattern):
            continue
        place = (database.name, module.schema, f"{module.name};{int(module.type == 'P')}")
        for ordinal, name, kind, parameter in _sproc_parameters(database, module):
            if not _fits(name, text(args["@column_name"]), pattern=pattern):
                continue
            found = types.get(parameter.user_type_id) if parameter is not None else None
            sql_type = _RETURN_CODE if parameter is None else parameter.type
            row, ss_code = _sproc_type(sql_type, found, version, newer=newer, kind=kind)
            tail: Row = (ss_code,)
            if newer:
                typed = found is not None and found.is_table
                table = (database.name, found.schema) if found and typed else (None, None)
                tail = (*table, *(None,) * 6, ss_code)
            head, rest = row[:8], row[8:]
            yield (*place, name, kind, *head, *rest, ordinal, _IS_NULLABLE[kind], *tail)


_IS_NULLABLE: Final = {_IN: "YES", _INOUT: "YES", _RETURNED: "NO"}


def _sproc_parameters(
    database: Database, module: Module
) -> Iterator[tuple[int, str, int, ModuleParameter | None]]:
    """Ordinal, name, kind and parameter; first what comes back."""
    if module.type == "P":
        yield 0, "@RETURN_VALUE", _RETURNED, None
    if module.object_id not in database.state.parameters:
        return
    for number, parameter in _numbered(database, module):
        if number == 0:
            yield 0, "@RETURN_VALUE", _RETURNED, parameter
        else:
            kind = _INOUT if parameter.is_output else _IN
            yield number, parameter.name, kind, parameter


def _sproc_type(
    sql_type: SqlType | None, found: UserType | None, version: int, *, newer: bool, kind: int
) -> tuple[Row, int]:
    """DATA_TYPE to CHAR_OCTET_LENGTH, and SS_DATA_TYPE."""
    nullable = int(kind != _RETURNED)
    if sql_type is None:
        name = found.name if found is not None else "table"
        code = _TABLE_ODBC_CODE
        return (code, name, 0, 2147483647, None, None, 1, None, None, code, None, None), (
            _TABLE_SS_CODE
        )
    odbc: OdbcType = odbc_type(sql_type, bool(nullable), version)
    code = odbc.code if newer else legacy_code(sql_type, odbc.code)
    name = found.name if found is not None else sql_type.name
    return (
        *(code, name, odbc.precision, odbc.length, odbc.scale, odbc.radix, nullable, None, None),
        *(odbc.sql_code, odbc.datetime_sub, odbc.octets),
    ), odbc.ss_code


def _fits(name: str, wanted: str | None, *, pattern: bool) -> bool:
    if wanted is None:
        return True
    return matches(name, wanted) if pattern else name.casefold() == wanted.casefold()


@procedure("sp_sproc_columns_100", *_SPROC_PARAMETERS)
def _sproc_columns_100(context: SessionContext, args: Arguments) -> Iterator[Event]:
    yield from result_set(_SPROC_COLUMNS_100, _sproc_rows(context, args, newer=True))


@procedure("sp_sproc_columns_90", *_SPROC_PARAMETERS)
@procedure("sp_sproc_columns", *_SPROC_PARAMETERS)
def _sproc_columns(context: SessionContext, args: Arguments) -> Iterator[Event]:
    rows = _sproc_rows(context, args, newer=False)
    yield from result_set(_SPROC_COLUMNS + ", SS_DATA_TYPE tinyint", rows)
