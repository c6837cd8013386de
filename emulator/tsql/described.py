"""sp_describe_first_result_set: what the first query of a text would return, without running it.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-describe-first-result-set-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from emulator.catalog.registry import parse_columns
from emulator.catalog.type_facts import type_facts
from emulator.results import ColumnMeta, Event, ResultSet, ReturnStatus, Rows, StatementDone
from emulator.tsql.parser import parse_batch, parse_declarations
from emulator.tsql.statements import Declare, QueryStatement
from emulator.types import StorageValue

if TYPE_CHECKING:
    from emulator.tsql.frames import Frame
    from emulator.tsql.planner import Planner

_COLUMNS: Final = parse_columns(
    """is_hidden bit!, column_ordinal int!, name sysname, is_nullable bit!, system_type_id int!,
    system_type_name nvarchar(256), max_length smallint!, precision tinyint!, scale tinyint!,
    collation_name sysname, user_type_id int, user_type_database sysname, user_type_schema sysname,
    user_type_name sysname, assembly_qualified_type_name nvarchar(4000), xml_collection_id int,
    xml_collection_database sysname, xml_collection_schema sysname, xml_collection_name sysname,
    is_xml_document bit!, is_case_sensitive bit!, is_fixed_length_clr_type bit!,
    source_server sysname, source_database sysname, source_schema sysname, source_table sysname,
    source_column sysname, is_identity_column bit, is_part_of_unique_key bit, is_updateable bit,
    is_computed_column bit, is_sparse_column_set bit, ordinal_in_order_by_list smallint,
    order_by_list_length smallint, order_by_is_descending smallint, tds_type_id int!,
    tds_length int!, tds_collation_id int, tds_collation_sort_id tinyint"""
)
_TDS_TYPES: Final = {
    "bit": 104, "tinyint": 38, "smallint": 38, "int": 38, "bigint": 38, "decimal": 106,
    "numeric": 108, "money": 110, "smallmoney": 110, "float": 109, "real": 109, "char": 175,
    "varchar": 167, "nchar": 239, "nvarchar": 231, "text": 35, "ntext": 99, "xml": 241,
    "binary": 173, "varbinary": 165, "image": 34, "timestamp": 173, "date": 40, "time": 41,
    "datetime2": 42, "datetimeoffset": 43, "datetime": 111, "smalldatetime": 111,
    "uniqueidentifier": 36,
}  # fmt: skip
"""Type ids of MS-TDS, in their forms that may be NULL."""


def describe_first_result_set(
    planner: Planner, text: str, parameters: str, frame: Frame
) -> Iterator[Event]:
    """The events of the procedure.

    Args:
        planner: the session's.
        text: the batch.
        parameters: declarations of its parameters, or empty.
        frame: an empty frame, for its variables.

    Raises:
        SqlError: the text does not compile.
    """
    for declaration in parse_declarations(parameters):
        frame.declare(declaration.name, declaration.type)
    rows: list[tuple[StorageValue, ...]] = []
    for statement in parse_batch(text).statements:
        if isinstance(statement, Declare):
            for declared in statement.declarations:
                if declared.type is not None:
                    frame.declare(declared.name, declared.type)
        elif isinstance(statement, QueryStatement):
            plan = planner.select(statement, statement.query, frame)
            rows = [_row(position, meta) for position, meta in enumerate(plan.columns, 1)]
            break
    yield ResultSet(_COLUMNS)
    if rows:
        yield Rows(rows)
    yield StatementDone("select", len(rows))
    yield ReturnStatus(0)


def _row(position: int, meta: ColumnMeta) -> tuple[StorageValue, ...]:
    """What is said of one column; its source is not told (NULL, as without browse information)."""
    facts = type_facts(meta.type)
    collation = meta.type.collation if meta.type.is_character else None
    length = 65535 if facts.max_length == -1 else facts.max_length
    return (
        0, position, meta.name or None, int(meta.nullable), facts.system_type_id, str(meta.type),
        facts.max_length, facts.precision, facts.scale, collation, None, None, None, None, None,
        None, None, None, None, 0, int("_CS" in (collation or "")), 0, None, None, None, None, None,
        int(meta.identity), 0, int(not (meta.identity or meta.computed)), int(meta.computed), 0,
        None, None, None, _TDS_TYPES[meta.type.name], length, 13632521 if collation else None,
        52 if collation else None,
    )  # fmt: skip
