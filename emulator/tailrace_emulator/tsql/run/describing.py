"""sp_describe_undeclared_parameters and sp_describe_first_result_set: what drivers ask of a text.

A driver calls the first before it binds NULLs and arrays of parameters. It calls the second when
its user wants to know the columns before the execution. "tds" columns are the wire's own type and
length.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-describe-undeclared-parameters-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-describe-first-result-set-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.type_facts import type_facts
from tailrace_emulator.catalog.type_views import TABLE_SYSTEM_TYPE_ID
from tailrace_emulator.tsql.compile.user_types import find_type
from tailrace_emulator.tsql.syntax.type_names import NamedType
from tailrace_emulator.values.results import (
    ColumnMeta,
    Event,
    ResultSet,
    ReturnStatus,
    Rows,
    StatementDone,
)
from tailrace_emulator.values.tds_types import column_to_wire, to_wire
from tailrace_emulator.values.types import (
    BIT,
    INT,
    SMALLINT,
    SYSNAME,
    TINYINT,
    SqlType,
    StorageValue,
    nvarchar,
)
from tailrace_emulator.wire.types import DataType

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database

_TYPES: Final = {
    "int": INT,
    "smallint": SMALLINT,
    "tinyint": TINYINT,
    "bit": BIT,
    "sysname": SYSNAME,
    "nvarchar(256)": nvarchar(256),
    "nvarchar(4000)": nvarchar(4000),
}


def _columns(declarations: str) -> tuple[ColumnMeta, ...]:
    """Columns written as ``name type`` and, after those that are NOT NULL, an exclamation mark."""
    columns = []
    for declaration in declarations.split(","):
        name, kind = declaration.split()
        columns.append(ColumnMeta(name, _TYPES[kind.rstrip("!")], nullable=not kind.endswith("!")))
    return tuple(columns)


PARAMETER_COLUMNS: Final = _columns(
    "parameter_ordinal int!, name sysname!, suggested_system_type_id int!,"
    " suggested_system_type_name nvarchar(256), suggested_max_length smallint!,"
    " suggested_precision tinyint!, suggested_scale tinyint!, suggested_user_type_id int,"
    " suggested_user_type_database sysname, suggested_user_type_schema sysname,"
    " suggested_user_type_name sysname, suggested_assembly_qualified_type_name nvarchar(4000),"
    " suggested_xml_collection_id int, suggested_xml_collection_database sysname,"
    " suggested_xml_collection_schema sysname, suggested_xml_collection_name sysname,"
    " suggested_is_xml_document bit!, suggested_is_case_sensitive bit!,"
    " suggested_is_fixed_length_clr_type bit!, suggested_is_input bit!, suggested_is_output bit!,"
    " formal_parameter_name sysname, suggested_tds_type_id int!, suggested_tds_length int!"
)
RESULT_COLUMNS: Final = _columns(
    "is_hidden bit!, column_ordinal int!, name sysname, is_nullable bit!, system_type_id int!,"
    " system_type_name nvarchar(256), max_length smallint!, precision tinyint!, scale tinyint!,"
    " collation_name sysname, user_type_id int, user_type_database sysname,"
    " user_type_schema sysname, user_type_name sysname,"
    " assembly_qualified_type_name nvarchar(4000), xml_collection_id int,"
    " xml_collection_database sysname, xml_collection_schema sysname, xml_collection_name sysname,"
    " is_xml_document bit!, is_case_sensitive bit!, is_fixed_length_clr_type bit!,"
    " source_server sysname, source_database sysname, source_schema sysname, source_table sysname,"
    " source_column sysname, is_identity_column bit, is_part_of_unique_key bit,"
    " is_updateable bit, is_computed_column bit, is_sparse_column_set bit,"
    " ordinal_in_order_by_list smallint, order_by_list_length smallint,"
    " order_by_is_descending smallint, tds_type_id int!, tds_length int!, tds_collation_id int,"
    " tds_collation_sort_id tinyint"
)


def describe_parameters(
    parameters: Sequence[tuple[str, SqlType]], database: Database
) -> Iterator[Event]:
    """The result of sp_describe_undeclared_parameters for these names and types."""
    rows = [
        _parameter(i, name, kind, database) for i, (name, kind) in enumerate(parameters, start=1)
    ]
    yield from _result(PARAMETER_COLUMNS, rows)


def describe_result(columns: Sequence[ColumnMeta]) -> Iterator[Event]:
    """The result of sp_describe_first_result_set for these columns."""
    rows = [_result_column(i, column) for i, column in enumerate(columns, start=1)]
    yield from _result(RESULT_COLUMNS, rows)


def _result(
    columns: tuple[ColumnMeta, ...], rows: list[tuple[StorageValue, ...]]
) -> Iterator[Event]:
    yield ResultSet(columns)
    yield Rows(rows)
    yield StatementDone("select", len(rows))
    yield ReturnStatus(0)


def _parameter(
    ordinal: int, name: str, kind: SqlType, database: Database
) -> tuple[StorageValue, ...]:
    if isinstance(kind, NamedType):
        found = find_type(database, kind.parts)
        number = found.user_type_id if found is not None else None
        schema = found.schema if found is not None else None
        return (
            *(ordinal, name, TABLE_SYSTEM_TYPE_ID, "table type", -1, 0, 0),
            *(number, database.name, schema, kind.parts[-1]),
            *(None,) * 5,
            *(0, 0, 0, 1, 0, None, int(DataType.TVP), -1),
        )
    facts, info = type_facts(kind), to_wire(kind)
    return (
        *(ordinal, name, facts.system_type_id, str(kind)),
        *(facts.max_length, facts.precision, facts.scale),
        *(None,) * 9,  # no alias type, no assembly, no xml schema collection
        *(0, 0, 0),
        *(1, 0),  # input, not output
        None,
        *(int(info.token), info.length),
    )


def _result_column(ordinal: int, column: ColumnMeta) -> tuple[StorageValue, ...]:
    kind = column.type
    facts, info = type_facts(kind), column_to_wire(kind, nullable=column.nullable)
    is_plain = not (column.identity or column.computed)
    collation = info.collation
    return (
        *(0, ordinal, column.name or None, int(column.nullable), facts.system_type_id, str(kind)),
        *(facts.max_length, facts.precision, facts.scale, kind.collation),
        *(None,) * 9,  # no alias type, no assembly, no xml schema collection
        *(0, 0, 0),
        *(None,) * 5,  # the source, which is told in browse mode only
        *(int(column.identity), None, int(is_plain), int(column.computed), 0),
        *(None,) * 3,  # the ORDER BY list, which is told in browse mode only
        *(int(info.token), info.length),
        int.from_bytes(collation[:4], "little") if collation else None,
        collation[4] if collation else None,
    )
