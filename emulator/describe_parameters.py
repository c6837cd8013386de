"""The result of sp_describe_undeclared_parameters: what a driver asks before it binds NULLs.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-describe-undeclared-parameters-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from emulator.results import ColumnMeta, Event, ResultSet, ReturnStatus, Rows, StatementDone
from emulator.tds_types import to_wire
from emulator.types import (
    BIT,
    INT,
    MAX,
    SMALLINT,
    SYSNAME,
    TINYINT,
    SqlType,
    StorageValue,
    nvarchar,
)
from emulator.wire.types import PLP

SYSTEM_TYPE_IDS: Final = {
    "image": 34,
    "text": 35,
    "uniqueidentifier": 36,
    "date": 40,
    "time": 41,
    "datetime2": 42,
    "datetimeoffset": 43,
    "tinyint": 48,
    "smallint": 52,
    "int": 56,
    "smalldatetime": 58,
    "real": 59,
    "money": 60,
    "datetime": 61,
    "float": 62,
    "sql_variant": 98,
    "ntext": 99,
    "bit": 104,
    "decimal": 106,
    "numeric": 108,
    "smallmoney": 122,
    "bigint": 127,
    "varbinary": 165,
    "varchar": 167,
    "binary": 173,
    "char": 175,
    "timestamp": 189,
    "nvarchar": 231,
    "nchar": 239,
    "xml": 241,
}
"""sys.types.system_type_id."""

_FIXED_PRECISION: Final = {
    "bit": (1, 1, 0),
    "tinyint": (1, 3, 0),
    "smallint": (2, 5, 0),
    "int": (4, 10, 0),
    "bigint": (8, 19, 0),
    "real": (4, 24, 0),
    "float": (8, 53, 0),
    "money": (8, 19, 4),
    "smallmoney": (4, 10, 4),
    "date": (3, 10, 0),
    "datetime": (8, 23, 3),
    "smalldatetime": (4, 16, 0),
    "uniqueidentifier": (16, 0, 0),
    "timestamp": (8, 0, 0),
}

_NAMES: Final = (
    ("parameter_ordinal", INT, False),
    ("name", SYSNAME, False),
    ("suggested_system_type_id", INT, False),
    ("suggested_system_type_name", nvarchar(256), True),
    ("suggested_max_length", SMALLINT, False),
    ("suggested_precision", TINYINT, False),
    ("suggested_scale", TINYINT, False),
    ("suggested_user_type_id", INT, True),
    ("suggested_user_type_database", SYSNAME, True),
    ("suggested_user_type_schema", SYSNAME, True),
    ("suggested_user_type_name", SYSNAME, True),
    ("suggested_assembly_qualified_type_name", nvarchar(4000), True),
    ("suggested_xml_collection_id", INT, True),
    ("suggested_xml_collection_database", SYSNAME, True),
    ("suggested_xml_collection_schema", SYSNAME, True),
    ("suggested_xml_collection_name", SYSNAME, True),
    ("suggested_is_xml_document", BIT, False),
    ("suggested_is_case_sensitive", BIT, False),
    ("suggested_is_fixed_length_clr_type", BIT, False),
    ("suggested_is_input", BIT, False),
    ("suggested_is_output", BIT, False),
    ("formal_parameter_name", SYSNAME, True),
    ("suggested_tds_type_id", INT, False),
    ("suggested_tds_length", INT, False),
)
COLUMNS: Final = tuple(ColumnMeta(name, kind, nullable=null) for name, kind, null in _NAMES)


def describe_undeclared_parameters(parameters: Sequence[tuple[str, SqlType]]) -> Iterator[Event]:
    """The result set for these names and types."""
    rows = [_row(i, name, kind) for i, (name, kind) in enumerate(parameters, start=1)]
    yield ResultSet(COLUMNS)
    yield Rows(rows)
    yield StatementDone("select", len(rows))
    yield ReturnStatus(0)


def _row(ordinal: int, name: str, kind: SqlType) -> tuple[StorageValue, ...]:
    length, precision, scale = _FIXED_PRECISION.get(kind.name, (0, 0, 0))
    info = to_wire(kind)
    if kind.name in {"decimal", "numeric"}:
        length, precision, scale = info.length, kind.precision, kind.scale
    elif kind.name in {"time", "datetime2", "datetimeoffset"}:
        digits = {"time": 8, "datetime2": 19, "datetimeoffset": 26}[kind.name]
        length, scale = info.length, kind.scale
        precision = digits + (scale + 1 if scale else 0)
    elif length == 0:
        length = MAX if info.length == PLP else info.length
    return (
        ordinal,
        name,
        SYSTEM_TYPE_IDS[kind.name],
        str(kind),
        length,
        precision,
        scale,
        *(None,) * 9,
        0,
        0,
        0,
        1,
        0,
        None,
        int(info.token),
        info.length,
    )
